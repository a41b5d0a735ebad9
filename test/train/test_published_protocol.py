"""The experiment of the paper, whole, on a stand-in release with tiny checkpoints.

The production adapters run as they would on the real data: Qwen2.5-VL embeds, a chat model
rewrites, Grounding DINO looks and LaMa fills. What is tiny is the data and the weights.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("spacy")
pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

from semflip_core.gate import Gate
from semflip_train.run_directory import read_experiment
from semflip_train.synthesis.samples import read_samples
from support.cli import semflip
from support.colour_bag import write_drive
from support.tiny_models import speaking_chat_model, tiny_grounding_dino, tiny_lama
from support.tiny_qwen import tiny_checkpoint

CONFIG = Path(__file__).parents[2] / "config" / "experiments" / "spacereject.yaml"
REPLY = '{"question": "Which box is the prettiest?", "asks_about": "box"}'
MAPPING = {
    "queries": "annotations/queries.jsonl",
    "recordings": "sequences",
    "licence": "stand-in",
    "fields": {
        "id": "uid", "sequence": "scene", "question": "text", "answerable": "label",
        "category": "kind",
    },
    "answerable_values": ["answerable"],
    "categories": {"object_absence": "absent", "not_visually_available": "unavailable"},
    "splits": {"train": ["0", "1", "2"], "test": ["3", "4", "5"]},
}  # fmt: skip
UNANSWERABLE = (
    ("Where is the piano?", "object_absence"),
    ("How warm is the box?", "not_visually_available"),
)


def write_release(root: Path) -> Path:
    """A release in the layout of the mapping: six drives, three to train and three to test."""
    rows = []
    for name in "012345":
        write_drive(root / "sequences" / name, frames=6, hz=1.0, speed=1.0 + int(name) / 100)
        for colour in ("red", "green"):
            text = f"Where is the {colour} box?"
            rows.append({"scene": name, "text": text, "label": "answerable"})
        if name in "345":
            for text, kind in UNANSWERABLE:
                rows.append({"scene": name, "text": text, "label": "no", "kind": kind})
    lines = [json.dumps({"uid": f"u{i}"} | row) for i, row in enumerate(rows)]
    (root / "annotations").mkdir()
    (root / "annotations" / "queries.jsonl").write_text("\n".join(lines) + "\n")
    return root


def experiment(folder: Path, dataset: Path) -> Path:
    """The shipped experiment with other places for data and models, and fewer draws."""
    import yaml

    values = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    values["dataset"] = str(dataset)
    values["encoder_options"] = {"model": str(tiny_checkpoint()), "device": "cpu"}
    values["synthesis"] |= {
        "rewriter_model": str(speaking_chat_model(folder / "chat", REPLY)),
        "detector_model": str(tiny_grounding_dino(folder / "dino")),
        "inpainter_model": str(tiny_lama(folder / "lama.pt")),
    }
    values["evaluation"] = {"bootstrap_draws": 20}
    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    return file


@pytest.mark.slow  # most of a minute on one core: make slow
@pytest.mark.timeout(300)
def test_the_experiment_of_the_paper_runs_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("CI", "1")
    release = write_release(tmp_path / "release")
    (tmp_path / "mapping.yaml").write_text(json.dumps(MAPPING))
    dataset, out = tmp_path / "data", tmp_path / "run"
    mapping = tmp_path / "mapping.yaml"
    imported = semflip("import", "spacereject", release, "--mapping", mapping, "--out", dataset)
    assert imported.returncode == 0, imported.stderr
    config = experiment(tmp_path, dataset)
    assert read_experiment(config).training.seeds == (0, 1, 2, 3, 4)
    done = semflip("run", config, "--out", out)
    assert done.returncode == 0, done.stderr

    samples = read_samples(out / "synth" / "samples_train.jsonl")
    assert {s.sequence for s in samples} == {"0", "1", "2"}
    rewritten = [s for s in samples if s.kind == "qflip"]
    assert {s.question for s in rewritten} == {"Which box is the prettiest?"}
    assert {s.source for s in rewritten} == {s.source for s in samples}
    counts = json.loads((out / "synth" / "counts.json").read_text())
    looked = [n for n in counts if n.startswith(("made vflip", "dropped vflip"))]
    assert sum(counts[name] for name in looked) == 6

    gate = Gate.load(out / "gate.safetensors")
    assert gate.header.tau == 0.5
    assert gate.header.members == 5
    assert gate.header.fingerprint["encoder.name"] == "qwen2_5_vl"
    metrics = json.loads((out / "evaluation" / "metrics.json").read_text())
    assert metrics["counts"]["answerable"] == metrics["counts"]["unanswerable"] == 6
    assert set(metrics["per_category"]) >= {"absent", "unavailable"}
    assert (out / "report.html").stat().st_size > 10_000
