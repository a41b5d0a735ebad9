"""The feature stage: one joint embedding for each unique (question, memory), cached and resumable.

Embeddings come from ``RefusalAgent.embed``, the same call that the robot makes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semflip_core.agent import RefusalAgent
from semflip_core.encoders import Encoder, Fingerprint, JointEmbedding, Retriever
from semflip_core.errors import MissingExtraError
from semflip_core.memory import VideoMemory
from semflip_core.questions import clean_question
from semflip_core.settings import DecisionSettings, RecallSettings
from semflip_train.memories import SequenceFrames
from semflip_train.stores import BlobStore, StoreError, content_hash, json_hash, write_whole
from semflip_train.synthesis.samples import Sample

Matrix = NDArray[np.float32]
#: Groups of a joint vector, by name.
Layout = Mapping[str, slice]


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """Embeddings with what training needs to know of each.

    Args:
        x: ``(n, dim)`` float32.
        samples: one for each row.
        fingerprint: of the pipeline that made them.
        relevance: ``(n,)`` best relevance over the frames; None where it was not kept.
        layout: groups of the embedding's dimensions, where the encoder names them; else none.
    """

    x: Matrix
    samples: tuple[Sample, ...]
    fingerprint: Fingerprint
    relevance: Matrix | None = None
    layout: Layout = field(default_factory=dict)

    @property
    def y(self) -> NDArray[np.int64]:
        """``(n,)`` labels, 1 is unanswerable."""
        return np.array([s.label for s in self.samples], np.int64)

    @property
    def sequences(self) -> NDArray[np.str_]:
        """``(n,)`` sequence of each row."""
        return np.array([s.sequence for s in self.samples], dtype=np.str_)

    def where(self, keep: Callable[[Sample], bool]) -> FeatureTable:
        """The rows whose sample passes."""
        chosen = [i for i, s in enumerate(self.samples) if keep(s)]
        return replace(
            self,
            x=self.x[chosen],
            samples=tuple(self.samples[i] for i in chosen),
            relevance=None if self.relevance is None else self.relevance[chosen],
        )

    def data_hash(self) -> str:
        """Hash of rows and labels."""
        rows = [s.model_dump_json() for s in self.samples]
        return content_hash(self.x.tobytes(), *rows)


def layout_of(encoder: Encoder) -> Layout:
    """Groups of the joint vector, where the encoder names them; else none."""
    layout: Layout = getattr(encoder, "layout", {})
    return layout


class SampleEmbedder:
    """Embeds the samples of one sequence.

    Args:
        frames: of the sequence's memory.
        content: hash of what the memory shows.
        root: that erased files are relative to.
        cache: embeddings by content; shared by all runs that use the same cache folder.
    """

    def __init__(
        self,
        frames: SequenceFrames,
        content: str,
        root: Path,
        cache: BlobStore,
        *,
        encoder: Encoder,
        retriever: Retriever | None,
        recall: RecallSettings,
    ) -> None:
        self._frames = frames
        self._content = content
        self._root = root
        self._cache = cache
        self._retriever = retriever
        self._encoder = encoder
        self._recall = recall
        self._plain = self._agent(frames.memory)
        self.fingerprint = self._plain.fingerprint()
        self._key = json_hash(dict(self.fingerprint))
        self.computed = 0

    def _agent(self, memory: VideoMemory) -> RefusalAgent:
        return RefusalAgent(
            memory, self._encoder, None, retriever=self._retriever, recall=self._recall
        )

    def embed(
        self, samples: Sequence[Sample], progress: Callable[[int, int], None] | None = None
    ) -> tuple[Matrix, Matrix]:
        """``(samples, dim)`` embeddings and ``(samples,)`` best relevances over the frames.

        Each is on disk before the next begins.
        """
        rows = []
        for done, sample in enumerate(samples, start=1):
            rows.append(self._row(sample))
            if progress is not None:
                progress(done, len(samples))
        table = np.stack(rows) if rows else np.zeros((0, self._encoder.dimension + 1), np.float32)
        return table[:, :-1], table[:, -1]

    def _row(self, sample: Sample) -> NDArray[np.float32]:
        """The embedding, and the best relevance behind it."""
        question = clean_question(sample.question, DecisionSettings().max_question_chars)
        changed = json.dumps([(f.index, f.sha256) for f in sample.frames])
        key = content_hash("with relevance", self._key, self._content, changed, question)
        stored = self._cache.get(key)
        if stored is not None:
            return np.frombuffer(stored, np.float32)
        joint = self._compute(sample, question)
        row = np.append(joint.vector, joint.relevance.max()).astype(np.float32)
        self._cache.put(key, row.tobytes())
        self.computed += 1
        return row

    def _compute(self, sample: Sample, question: str) -> JointEmbedding:
        if not sample.frames:
            return self._plain.embed(question).joint
        erased = {}
        for frame in sample.frames:
            data = (self._root / frame.file).read_bytes()
            if content_hash(data) != frame.sha256:
                raise StoreError(
                    f"{self._root / frame.file}: not the picture that was erased; delete the run's "
                    "synth folder and start again"
                )
            erased[frame.index] = data
        known = self._plain.recall
        known.refresh()
        with self._frames.with_erased(erased, (known.index_digest,)) as memory:
            agent = self._agent(memory)
            agent.recall.search_like(known)
            return agent.embed(question).joint


def save_table(table: FeatureTable, folder: Path, shard_rows: int = 4096) -> None:
    """Write shards (safetensors) and an index (parquet); the index comes last."""
    from safetensors.numpy import save

    folder.mkdir(parents=True, exist_ok=True)
    shards = []
    for start in range(0, len(table.samples), shard_rows):
        name = f"shard-{start // shard_rows:05d}.safetensors"
        rows = np.ascontiguousarray(table.x[start : start + shard_rows])
        write_whole(folder / name, bytes(save({"x": rows})))
        shards += [(name, i) for i in range(len(rows))]
    columns: dict[str, list[Any]] = {
        "shard": [name for name, _ in shards],
        "row": [row for _, row in shards],
        "sample": [s.model_dump_json() for s in table.samples],
        "id": [s.id for s in table.samples],
        "sequence": [s.sequence for s in table.samples],
        "label": [s.label for s in table.samples],
        "kind": [s.kind for s in table.samples],
        "strategy": [s.strategy for s in table.samples],
    }
    if table.relevance is not None:
        columns["relevance"] = [float(value) for value in table.relevance]
    metadata = {
        "fingerprint": dict(table.fingerprint),
        "layout": {name: [where.start, where.stop] for name, where in table.layout.items()},
    }
    _write_parquet(folder / "index.parquet", columns, metadata)


def _write_parquet(path: Path, columns: dict[str, list[Any]], metadata: dict[str, Any]) -> None:
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("pyarrow", "train", "the index of features") from error
    made = pyarrow.table(columns).replace_schema_metadata(
        {name: json.dumps(value, sort_keys=True) for name, value in metadata.items()}
    )
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(made, sink)
    write_whole(path, sink.getvalue().to_pybytes())


def load_table(folder: Path) -> FeatureTable:
    """Read what :func:`save_table` wrote.

    Raises:
        StoreError: a file is missing or damaged.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "train", "the index of features") from error
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    index = folder / "index.parquet"
    if not index.is_file():
        raise StoreError(f"{index}: no features; make them with: semflip features")
    try:
        read = pyarrow.parquet.read_table(index)
        metadata = {name: json.loads(text) for name, text in (read.schema.metadata or {}).items()}
        fingerprint = metadata[b"fingerprint"]
        shards = {
            name: load_file(folder / name)["x"] for name in sorted(set(read["shard"].to_pylist()))
        }
    except (pyarrow.ArrowException, SafetensorError, OSError, KeyError) as error:
        raise StoreError(f"{folder}: features are damaged: {error}; make them again") from error
    rows = [
        shards[name][row]
        for name, row in zip(read["shard"].to_pylist(), read["row"].to_pylist(), strict=True)
    ]
    samples = tuple(Sample.model_validate_json(text) for text in read["sample"].to_pylist())
    kept = "relevance" in read.column_names
    relevance = np.array(read["relevance"].to_pylist(), np.float32) if kept else None
    layout = {name: slice(*ends) for name, ends in metadata.get(b"layout", {}).items()}
    return FeatureTable(np.stack(rows), samples, fingerprint, relevance, layout)
