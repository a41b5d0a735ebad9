"""From recordings to a report with a tiny encoder: whole, resumable, and the same every time."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

pytest.importorskip("spacy")
pytest.importorskip("torch")

from semflip_core.agent import RefusalAgent
from semflip_core.errors import ConfigError, DatasetError
from semflip_core.gate import Gate
from semflip_core.recall import Recall
from semflip_train.engines import THREAD_VARIABLES, LocalEngine
from semflip_train.evaluate import evaluate_stage
from semflip_train.features import load_table
from semflip_train.pipeline import run_experiment
from semflip_train.run_directory import RunDirectory
from semflip_train.stages import OpenSequence
from semflip_train.stores import StoreError
from semflip_train.synthesis.samples import read_samples
from support.cli import with_support
from support.colour_runs import settings_for, stages
from support.units import thread_settings


def test_every_stage_leaves_its_files(finished):
    run, metrics = finished
    for name in ("report.html", "results.md", "results.tex", "gate.safetensors", "manifest.json",
                 "evaluation/metrics.json", "evaluation/predictions.jsonl", "synth/counts.json",
                 "features/train/index.parquet"):  # fmt: skip
        assert (run.root / name).stat().st_size > 0, name
    assert metrics["counts"] == {
        "questions": 8, "answerable": 6, "unanswerable": 2, "pairs": 2, "resampled_groups": 6,
    }  # fmt: skip
    for key in ("f1", "balanced_accuracy", "recall", "specificity", "auroc", "aurc",
                "pair_accuracy", "goal_success", "evidence_accuracy", "end_to_end",
                "per_category", "intervals", "controls"):  # fmt: skip
        assert key in metrics, key


def test_samples_are_labelled_and_erased_frames_are_stored_alone(finished):
    run, _ = finished
    samples = read_samples(run.synth / "samples_train.jsonl")
    kinds = {s.kind for s in samples}
    assert kinds == {"answerable", "qflip", "vflip", "sham"}
    assert all(s.label == (s.kind in ("qflip", "vflip")) for s in samples)
    assert len({s.id for s in samples}) == len(samples)
    for sample in samples:
        assert bool(sample.frames) == (sample.kind in ("vflip", "sham"))
        for frame in sample.frames:
            assert (run.synth / frame.file).is_file()
    stored = {f.file for s in read_samples(run.synth / "samples_train.jsonl") for f in s.frames}
    assert len(stored) < 0.9 * 12 * len([s for s in samples if s.frames])


def test_the_gate_sees_the_colour_not_the_words(finished):
    run, metrics = finished
    table = load_table(run.features / "train")
    assert table.fingerprint == Gate.load(run.gate).header.fingerprint
    assert table.layout == {}  # this encoder names no groups
    erased = [i for i, s in enumerate(table.samples) if s.kind == "vflip"]
    clean = [i for i, s in enumerate(table.samples) if s.kind == "answerable"]
    # The first feature is the best match of the colour: gone with the box.
    assert table.x[erased, 0].max() < table.x[clean, 0].min()
    assert metrics["auroc"] == 1.0
    assert metrics["evidence_accuracy"] == 1.0
    assert metrics["evidence_recall"] == 1.0
    assert metrics["controls"]["always refuse"]["recall"] == 1.0
    assert metrics["controls"]["blind gate"]["pair_accuracy"] <= 0.5


def test_an_erased_memory_gives_the_row_that_it_gives_when_indexed_anew(finished):
    run, _ = finished
    table = load_table(run.features / "train")
    row, sample = next((i, s) for i, s in enumerate(table.samples) if s.kind == "vflip")
    erased = {frame.index: (run.synth / frame.file).read_bytes() for frame in sample.frames}
    with (
        OpenSequence(run, run.dataset(), sample.sequence, None) as opened,
        opened.frames.with_erased(erased) as memory,
    ):
        alone = RefusalAgent(
            memory, opened.encoder, None, retriever=opened.retriever, recall=run.settings.recall
        )
        assert np.array_equal(alone.embed(sample.question).joint.vector, table.x[row])


def test_what_the_index_knew_of_an_erased_picture_is_not_taken_over(finished):
    run, _ = finished
    sample = next(s for s in read_samples(run.synth / "samples_train.jsonl") if s.kind == "vflip")
    erased = {frame.index: (run.synth / frame.file).read_bytes() for frame in sample.frames}
    with OpenSequence(run, run.dataset(), sample.sequence, None) as opened:
        frames = opened.frames
        known = Recall(frames.memory, opened.retriever or opened.encoder, run.settings.recall)
        known.refresh()
        with frames.with_erased(erased, (known.index_digest,)) as memory:
            taken = [
                memory.features(record.id, known.index_digest) is not None
                for record in memory.records()
            ]
    assert 0 < len(erased) < len(taken)
    assert taken == [index not in erased for index in range(len(taken))]


def test_the_report_is_one_file(finished):
    run, _ = finished
    page = (run.root / "report.html").read_text()
    assert "data:image/jpeg;base64," in page
    assert "<svg" in page
    for word in ("http://", "https://", "<script", 'src="/'):
        assert word not in page
    assert "blind gate" in (run.root / "results.md").read_text()
    assert r"\begin{tabular}" in (run.root / "results.tex").read_text()


def test_running_again_does_nothing_twice_and_changes_nothing(finished):
    run, metrics = finished
    again = run_experiment(RunDirectory.open(run.root), LocalEngine())
    assert again["f1"] == metrics["f1"]
    last = {name: notes[-1] for name, notes in stages(run).items()}
    assert last["synth"]["questions_made_now"] == 0
    assert last["features"]["pairs_embedded_now"] == 0
    assert last["features"]["frames_encoded_now"] == 0
    assert last["evaluate"]["questions_asked_now"] == 0
    assert len(stages(run)["train"]) == 1


def test_several_processes_give_the_same_gate(finished, dataset, tmp_path, monkeypatch):
    run, _ = finished
    other = RunDirectory.create(tmp_path / "run", settings_for(dataset))
    monkeypatch.setenv("PYTHONPATH", with_support()["PYTHONPATH"])
    run_experiment(other, LocalEngine(workers=2))
    assert Gate.load(other.gate).id == Gate.load(run.gate).id


@pytest.mark.parametrize("given", [None, "3"])
def test_workers_share_the_cores_where_nobody_says_otherwise(monkeypatch, given):
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    if given:
        monkeypatch.setenv(THREAD_VARIABLES[1], given)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setenv("PYTHONPATH", with_support()["PYTHONPATH"])
    told = LocalEngine(workers=2).map(thread_settings, "", ["a", "b"], None)
    asked = dict.fromkeys(THREAD_VARIABLES, None if given else "2")
    assert told == [asked | ({THREAD_VARIABLES[1]: given} if given else {})] * 2
    assert THREAD_VARIABLES[0] not in os.environ


def test_a_run_with_other_settings_is_not_mixed_in(finished, dataset):
    run, _ = finished
    changed = settings_for(dataset, recall={"recalled_frames": 7})
    with pytest.raises(ConfigError, match=r"other settings \(recall\)"):
        RunDirectory.create(run.root, changed)


def test_what_is_missing_is_named(dataset, tmp_path):
    with pytest.raises(StoreError, match="no run here"):
        RunDirectory.open(tmp_path)
    run = RunDirectory.create(tmp_path / "new", settings_for(dataset))
    with pytest.raises(StoreError, match="no features; make them with: semflip features"):
        load_table(run.features / "train")
    with pytest.raises(ConfigError, match="unknown split 'exam'; known: train"):
        evaluate_stage(run.settings, split="exam", out=tmp_path, gate_file=None, cache=tmp_path)


def test_a_damaged_erased_picture_is_noticed(finished, dataset, tmp_path):
    run, _ = finished
    sample = next(s for s in read_samples(run.synth / "samples_train.jsonl") if s.frames)
    file = run.synth / sample.frames[0].file
    kept = file.read_bytes()
    store = run.cache_root / f"embeddings-{sample.sequence}.sqlite"
    saved = store.read_bytes()
    try:
        file.write_bytes(kept[:-20])
        store.unlink()
        for side in store.parent.glob(store.name + "-*"):
            side.unlink()
        from semflip_train.stages import features_unit

        with pytest.raises(StoreError, match="not the picture that was erased"):
            features_unit(str(run.root), sample.sequence)
    finally:
        file.write_bytes(kept)
        store.write_bytes(saved)


def test_a_dataset_without_test_questions_is_named(dataset, tmp_path):
    import yaml

    broken = tmp_path / "broken"
    shutil.copytree(dataset, broken)
    info = yaml.safe_load((broken / "dataset.yaml").read_text())
    info["splits"]["test"] = []
    info["splits"]["calibration"].append("e")
    (broken / "dataset.yaml").write_text(yaml.safe_dump(info))
    run = RunDirectory.create(tmp_path / "new", settings_for(broken))
    with pytest.raises(DatasetError, match=r"splits\.test is empty"):
        evaluate_stage(run.settings, split="test", out=tmp_path, gate_file=None, cache=tmp_path)
