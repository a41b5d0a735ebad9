"""The stages from recordings to features; one sequence is one unit of work.

A unit is a plain function of a run directory and a sequence, so that it runs here or on a Ray
worker with the same result; what it has done is on disk, so that it can be run again.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from semflip_core.encoders import Encoder, Retriever
from semflip_core.loading import load_backends
from semflip_core.settings import RecallSettings
from semflip_train.cross_fit import CrossFit
from semflip_train.dataset import Dataset, Split
from semflip_train.engines import Engine
from semflip_train.features import FeatureTable, SampleEmbedder, layout_of, save_table
from semflip_train.memories import SequenceFrames, sequence_memory
from semflip_train.run_directory import RunDirectory
from semflip_train.stores import BlobStore, write_json, write_whole
from semflip_train.synthesis.samples import Sample, read_samples, write_samples
from semflip_train.synthesis.stage import SequenceSynthesis, synthesis_key

logger = logging.getLogger("semflip")
Progress = Callable[[str, int, int], None]
#: Splits that are synthesised; the test split keeps its own questions.
#: Names the tables of the control that sees one frame.
SINGLE = "single"
SYNTHESISED: tuple[Split, ...] = ("train", "calibration")


@lru_cache(maxsize=2)
def _backends(name: str, retriever: str | None, options: str) -> tuple[Encoder, Retriever | None]:
    return load_backends(name, retriever, json.loads(options))


@lru_cache(maxsize=1)
def _folds(folder: str, name: str, retriever: str | None, options: str) -> CrossFit:
    encoder, _ = _backends(name, retriever, options)
    return CrossFit.load(Path(folder), encoder)


def backends(run: RunDirectory) -> tuple[Encoder, Retriever | None]:
    """Encoder and retriever of a run, loaded once in a process."""
    return _backends(*_named(run))


def _named(run: RunDirectory) -> tuple[str, str | None, str]:
    s = run.settings
    return s.encoder, s.retriever, json.dumps(s.encoder_options, sort_keys=True)


def _step(progress: Progress | None, name: str) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(name, done, total)


class OpenSequence:
    """A sequence's memory with its encoder and caches; a context manager."""

    def __init__(
        self, run: RunDirectory, dataset: Dataset, sequence: str, progress: Progress | None
    ):
        self.encoder, self.retriever = backends(run)
        self._progress = progress
        self._sequence = sequence
        self.memory = sequence_memory(
            dataset, sequence, run.settings.keyframes, run.memories, _step(progress, sequence)
        )
        self.cache = BlobStore(run.cache_root / f"derived-{sequence}.sqlite")
        self.frames = SequenceFrames(self.memory, self.encoder, self.cache)
        fitted = run.settings.cross_fit
        self.folds = None if fitted is None else _folds(fitted, *_named(run))

    def views(self, samples: Sequence[Sample]) -> list[tuple[SequenceFrames, list[int]]]:
        """Who sees which samples: the run's encoder all of them, or each fold those it should."""
        if self.folds is None:
            return [(self.frames, list(range(len(samples))))]
        rows: list[list[int]] = [[] for _ in self.folds.encoders]
        for number, sample in enumerate(samples):
            for fold in self.folds.chosen(sample.question):
                rows[fold].append(number)
        return [
            (SequenceFrames(self.memory, encoder, self.cache, self.folds.encoders), chosen)
            for encoder, chosen in zip(self.folds.encoders, rows, strict=True)
        ]

    def embedder(
        self,
        run: RunDirectory,
        cache: BlobStore,
        recall: RecallSettings,
        frames: SequenceFrames | None = None,
    ) -> SampleEmbedder:
        """Embeds this sequence's samples, with the encoder of ``frames`` where they are given."""
        chosen = frames or self.frames
        return SampleEmbedder(
            chosen,
            self.frames.content(),
            run.synth,
            cache,
            encoder=chosen.encoder,
            retriever=self.retriever,
            recall=recall,
        )

    def __enter__(self) -> OpenSequence:
        progress = _step(self._progress, f"{self._sequence} frames")
        if self.folds is None:
            self.frames.encode_missing(progress)
        else:
            self.frames.encoded += self.folds.encode_missing(self.memory, self.encoder, progress)
        return self

    def __exit__(self, *_: object) -> None:
        self.memory.close()
        self.cache.close()


def synthesise_unit(root: str, sequence: str, progress: Progress | None = None) -> dict[str, Any]:
    """Synthesise one sequence; returns counts, and how much was done now."""
    run = RunDirectory.open(Path(root))
    dataset = run.dataset()
    answerable = [
        q for split in SYNTHESISED if dataset.info.splits.get(split) for q in dataset.split(split)
    ]
    answerable = [q for q in answerable if q.answerable]
    here = [q for q in answerable if q.sequence == sequence]
    others = [q for q in answerable if q.sequence != sequence]
    with OpenSequence(run, dataset, sequence, progress) as opened:
        key = synthesis_key(
            run.settings.synthesis, [*here, *others], opened.frames.content(), opened.encoder
        )
        work = SequenceSynthesis(
            opened.frames,
            here,
            others,
            run.settings.synthesis,
            run.settings.keyframes,
            run.synth / "parts" / f"{sequence}-{key}",
            run.synth,
        )
        parts = work.run(_step(progress, f"{sequence} flips"))
        counts: Counter[str] = Counter()
        for part in parts:
            counts.update(part.counts)
        samples = [sample for part in parts for sample in part.samples]
        write_samples(run.synth / f"{sequence}.jsonl", samples)
        return {
            "sequence": sequence,
            "counts": dict(counts),
            "questions_made_now": work.made_now,
            "frames_encoded_now": opened.frames.encoded,
        }


def features_unit(root: str, sequence: str, progress: Progress | None = None) -> dict[str, Any]:
    """Embed one sequence's samples into ``features/<sequence>.npy``."""
    run = RunDirectory.open(Path(root))
    dataset = run.dataset()
    samples = read_samples(run.synth / f"{sequence}.jsonl")
    with (
        OpenSequence(run, dataset, sequence, progress) as opened,
        BlobStore(run.cache_root / f"embeddings-{sequence}.sqlite") as cache,
    ):
        recalls = {sequence: run.settings.recall}
        if run.single_frame_recall is not None:
            recalls[f"{sequence}.{SINGLE}"] = run.single_frame_recall
        views = opened.views(samples)
        computed = 0
        for name, recall in recalls.items():
            embedder = opened.embedder(run, cache, recall)
            parts = []
            for frames, rows in views:
                seen_by = opened.embedder(run, cache, recall, frames)
                here = [samples[row] for row in rows]
                parts.append(seen_by.embed(here, _step(progress, f"{name} features")))
                computed += seen_by.computed
            tensors = {
                "x": np.concatenate([x for x, _ in parts]),
                "relevance": np.concatenate([best for _, best in parts]),
                "sample": np.concatenate([np.array(rows, np.int64) for _, rows in views]),
            }
            file = run.features / f"{name}.safetensors"
            _save_rows(file, tensors, dict(embedder.fingerprint))
        return {
            "sequence": sequence,
            "pairs": len(samples),
            "pairs_embedded_now": computed,
            "frames_encoded_now": opened.frames.encoded,
        }


def _save_rows(path: Path, rows: dict[str, Any], fingerprint: dict[str, Any]) -> None:
    from safetensors.numpy import save

    metadata = {"fingerprint": json.dumps(fingerprint, sort_keys=True)}
    tensors = {name: np.ascontiguousarray(value) for name, value in rows.items()}
    write_whole(path, bytes(save(tensors, metadata=metadata)))


def _load_rows(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as opened:
        fingerprint = json.loads(opened.metadata()["fingerprint"])
        return {name: opened.get_tensor(name) for name in opened.keys()}, fingerprint  # noqa: SIM118


def synthesise(run: RunDirectory, engine: Engine, progress: Progress | None = None) -> Counter[str]:
    """The synthesis stage for all its sequences; returns the counts of all."""
    dataset = run.dataset()
    sequences = [s for split in SYNTHESISED for s in dataset.info.splits.get(split, ())]
    with run.stage("synth") as notes:
        results = engine.map(synthesise_unit, str(run.root), sequences, progress)
        counts: Counter[str] = Counter()
        for result in results:
            counts.update(result["counts"])
        notes |= _sums(results, "questions_made_now", "frames_encoded_now")
        notes["counts"] = dict(sorted(counts.items()))
    for split in SYNTHESISED:
        names = dataset.info.splits.get(split, ())
        merged = [s for name in names for s in read_samples(run.synth / f"{name}.jsonl")]
        write_samples(run.synth / f"samples_{split}.jsonl", merged)
    write_json(run.synth / "counts.json", dict(sorted(counts.items())))
    from semflip_train.synthesis.contact_sheet import write_contact_sheet

    write_contact_sheet(run.synth, run.memories)
    return counts


def embed(run: RunDirectory, engine: Engine, progress: Progress | None = None) -> None:
    """The feature stage for all synthesised sequences; writes a table a split."""
    dataset = run.dataset()
    sequences = [s for split in SYNTHESISED for s in dataset.info.splits.get(split, ())]
    with run.stage("features") as notes:
        results = engine.map(features_unit, str(run.root), sequences, progress)
        notes |= _sums(results, "pairs", "pairs_embedded_now", "frames_encoded_now")
    for split in SYNTHESISED:
        names = dataset.info.splits.get(split, ())
        if names:
            save_table(_table(run, names, ""), run.features / split)
            if run.single_frame_recall is not None:
                single = _table(run, names, f".{SINGLE}")
                save_table(single, run.features / f"{split}_{SINGLE}")


def _table(run: RunDirectory, sequences: Sequence[str], ending: str) -> FeatureTable:
    rows, best, samples = [], [], list[Sample]()
    fingerprint: dict[str, Any] = {}
    for sequence in sequences:
        tensors, fingerprint = _load_rows(run.features / f"{sequence}{ending}.safetensors")
        rows.append(tensors["x"])
        best.append(tensors["relevance"])
        here = read_samples(run.synth / f"{sequence}.jsonl")
        samples += [here[number] for number in tensors["sample"]]
    return FeatureTable(
        np.concatenate(rows),
        tuple(samples),
        fingerprint,
        np.concatenate(best),
        layout_of(backends(run)[0]),
    )


def _sums(results: Sequence[dict[str, Any]], *names: str) -> dict[str, int]:
    return {name: sum(int(result[name]) for result in results) for name in names}
