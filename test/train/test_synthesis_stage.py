"""The synthesis stage: how many samples it makes, why it made no more, and what it shows."""

from __future__ import annotations

from collections import Counter

import cv2
import numpy as np
import pytest

pytest.importorskip("spacy")
pytest.importorskip("tokenizers")

from semflip_train.run_directory import RunDirectory
from semflip_train.stages import synthesise_unit
from semflip_train.synthesis import filters, stage
from semflip_train.synthesis.contact_sheet import write_contact_sheet
from semflip_train.synthesis.qflip import Proposal
from semflip_train.synthesis.samples import read_samples
from support.colour_runs import settings_for

WIDTH = 220
QUESTIONS = 6


def run_with(dataset, folder, **synthesis: object) -> RunDirectory:
    values = settings_for(dataset).synthesis.model_dump(mode="json") | synthesis
    return RunDirectory.create(folder, settings_for(dataset, synthesis=values))


def test_samples_per_pair_scales_the_pool_and_repeats_nothing(dataset, tmp_path):
    strategies = ("object", "subjective")
    made = {}
    for number in (1, 3):
        run = run_with(
            dataset, tmp_path / str(number), strategies=strategies, vflip=False,
            samples_per_pair=number,
        )  # fmt: skip
        counts = synthesise_unit(str(run.root), "a")["counts"]
        samples = [s for s in read_samples(run.synth / "a.jsonl") if s.kind == "qflip"]
        of_pair = Counter((s.source, s.strategy) for s in samples)
        assert max(of_pair.values()) == number
        assert len({(s.source, s.question) for s in samples}) == len(samples)
        for strategy in strategies:
            asked = QUESTIONS * number
            dropped = counts.get(f"dropped {strategy}: no candidate left", 0)
            assert counts[f"made {strategy}"] + dropped == asked
        made[number] = len(samples)
    assert made[1] == 2 * QUESTIONS
    assert made[3] > 2 * made[1]


def test_every_rejection_is_counted_by_its_reason(dataset, tmp_path, monkeypatch):
    proposals = [
        Proposal("where is the RED box", "red box"),
        Proposal("Where is the the toolbox?", "toolbox"),
        Proposal("take me to the green box", "green box"),
        Proposal("Where is the settee?", "settee", replaced_words="couch", new_words="sofa"),
        Proposal("Where is the crimson box?", "red box", "red box"),
        Proposal("Where is the red umbrella?", "umbrella", "red umbrella"),
        Proposal("Where is the accordion?", "accordion", "accordion"),
        Proposal("Where is the piano?", "piano", "piano"),
    ]

    class Fixed:
        name = "fixed"

        def fingerprint(self) -> dict[str, str]:
            return {"name": self.name}

        def propose(self, requests):
            return [proposals if r.query.id == "a00" else [] for r in requests]

    monkeypatch.setattr(stage, "load_rewriter", lambda settings: Fixed())
    run = run_with(dataset, tmp_path, strategies=("object",), samples_per_pair=2, vflip=False)
    counts = synthesise_unit(str(run.root), "a")["counts"]
    rejected = {k: v for k, v in counts.items() if k.startswith("rejected")}
    reasons = (
        filters.UNCHANGED, filters.MALFORMED, filters.ANSWERABLE_HERE, filters.PARAPHRASE,
        filters.KNOWN_HERE, filters.FOUND,
    )  # fmt: skip
    # Two samples were wanted of the one question, so each candidate was looked at twice.
    expected = {f"rejected object: {reason}": 2 for reason in reasons}
    assert rejected == expected | {"rejected object: made already": 1}
    assert counts["made object"] == 2
    assert counts["dropped object: no candidate left"] == 2 * (QUESTIONS - 1)
    kept = [s.question for s in read_samples(run.synth / "a.jsonl") if s.kind == "qflip"]
    assert kept == ["Where is the accordion?", "Where is the piano?"]


def test_the_contact_sheet_shows_before_mask_and_after(dataset, tmp_path):
    run = run_with(dataset, tmp_path, qflip=False)
    synthesise_unit(str(run.root), "a")
    samples = read_samples(run.synth / "a.jsonl")
    erased = [s for s in samples if s.frames]
    (run.synth / "a.jsonl").rename(run.synth / "samples_train.jsonl")
    file = write_contact_sheet(run.synth, run.memories, rows=2, width=WIDTH)
    assert file is not None and erased
    sheet = cv2.imread(str(file)).astype(int)
    high = 20 + round(72 * WIDTH / 96)  # a title over pictures of 96 x 72
    assert sheet.shape == (2 * high, 3 * WIDTH, 3)
    first = sheet[20:high]
    before, masked, after = (first[:, i * WIDTH : (i + 1) * WIDTH] for i in range(3))
    tinted = np.abs(masked - before).max(axis=2) > 60
    changed = np.abs(after - before).max(axis=2) > 60
    assert 0.01 < tinted.mean() < 0.6
    # What changed lies within the mask, apart from the blur of a thumbnail's JPEG.
    assert changed.any()
    assert (changed & tinted).sum() > 0.8 * changed.sum()


def test_without_erased_frames_there_is_no_sheet(tmp_path):
    (tmp_path / "samples_train.jsonl").write_text("")
    assert write_contact_sheet(tmp_path, tmp_path) is None
