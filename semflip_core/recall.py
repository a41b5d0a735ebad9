"""Which frames of a long memory the encoder sees for a question.

Coarse to fine: the region index proposes a shortlist, all regions of the shortlisted frames then
decide, and frames of the same place and time make way for others. The choice is a pure function of
what the memory holds and of the question.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from semflip_core.coverage import ViewCell, coverage, finest_cell, view_cell
from semflip_core.encoders.contract import (
    Fingerprint,
    NamingRetriever,
    Retriever,
    Vector,
    fingerprint_digest,
)
from semflip_core.errors import EncoderError
from semflip_core.frames import FrameFeatures, KeyframeRecord
from semflip_core.memory import VideoMemory
from semflip_core.recall_index import RegionIndex, Rows, standing_for, subspace
from semflip_core.recall_names import NAMES
from semflip_core.recall_spread import spread
from semflip_core.settings import RecallSettings

POLICY = "regions, coarse to fine, spread"
VERSION = 1


@dataclass(frozen=True, slots=True)
class RecallChoice:
    """Chosen keyframes; both parts in time order, and disjoint.

    Args:
        prefix: frames that cover the memory, the same for every question.
        recalled: frames for this question.
    """

    prefix: tuple[int, ...]
    recalled: tuple[int, ...]


class Recall:
    """Chooses frames of one memory.

    Args:
        memory: may be written by others meanwhile.
        retriever: turns pictures into region vectors and questions into phrase vectors.
        settings: how many frames, and how they are chosen.

    Attributes:
        digest: under which the memory holds the retriever's features.
        index_digest: under which it holds what stands for each frame in the index.
    """

    def __init__(
        self, memory: VideoMemory, retriever: Retriever, settings: RecallSettings | None = None
    ) -> None:
        self.settings = settings or RecallSettings()
        self._memory = memory
        self._retriever = retriever
        self.digest = fingerprint_digest(retriever.frame_fingerprint())
        self.index_digest = fingerprint_digest(
            {
                **retriever.fingerprint(),  # the names' vectors shape the index too
                "index": VERSION,
                "index_vectors": self.settings.index_vectors,
                "index_dimensions": self.settings.index_dimensions,
            }
        )
        self._basis: Vector | None = None
        self._index: RegionIndex | None = None
        self._records: dict[int, KeyframeRecord] = {}
        self._cells: dict[int, ViewCell] = {}
        self._finest: dict[int, ViewCell] = {}
        self._prefix: tuple[int, ...] = ()
        self._state: tuple[int, frozenset[int]] | None = None

    def fingerprint(self) -> Fingerprint:
        """Name and numbers of the policy."""
        names = hashlib.sha256("\n".join(NAMES).encode()).hexdigest()[:8]
        fields: dict[str, str | int | float | bool | None] = {
            "policy": POLICY,
            "version": VERSION,
            "names": names,
        }
        return fields | self.settings.model_dump()

    @property
    def nbytes(self) -> int:
        """RAM that the index takes."""
        return self._index.nbytes if self._index else 0

    @property
    def prefix(self) -> tuple[int, ...]:
        """Frames that every question sees, by time, as of the last :meth:`refresh`."""
        return self._by_time(self._prefix)

    def refresh(self, unread: Callable[[], Collection[int]] = tuple) -> None:
        """Index what is new in the memory and forget what is gone.

        Args:
            unread: names keyframes to leave out; asked after the memory is listed, so that one
                that comes meanwhile is not taken for read.

        Raises:
            EncoderError: the retriever failed.
        """
        revision, listed = self._memory.revision, self._memory.records()
        left_out = frozenset(unread())
        if self._state == (revision, left_out):
            return
        records = {record.id: record for record in listed if record.id not in left_out}
        for keyframe_id in [i for i in self._records if i not in records]:
            self._forget(keyframe_id)
        for keyframe_id, record in records.items():
            if keyframe_id not in self._records:
                self._index_frame(record)
        if self.settings.prefix_frames:
            ids = sorted(self._records)
            finest = [self._finest[keyframe_id] for keyframe_id in ids]
            self._prefix = coverage(ids, finest, self.settings.prefix_frames)
        self._state = revision, left_out

    def choose(self, question: str) -> RecallChoice:
        """Frames for a question, out of what was there at the last :meth:`refresh`.

        Raises:
            EncoderError: the retriever gave no phrase vectors.
        """
        if not self._records:
            return RecallChoice((), ())
        phrases = self._phrases(question)
        shortlist, ordinary = self._search(phrases)
        ranked = self._rank(shortlist, phrases)
        chosen = spread(ranked, ordinary, self._records, self._cells, self.settings)
        return RecallChoice(self._by_time(self._prefix), self._by_time(chosen))

    def shortlist(self, question: str) -> list[int]:
        """The coarse half of :meth:`choose`: frames whose every region would be compared."""
        return self._search(self._phrases(question))[0] if self._records else []

    def _phrases(self, question: str) -> Vector:
        phrases = np.asarray(self._retriever.phrase_vectors(question), np.float32)
        if phrases.ndim != 2 or not len(phrases) or not np.isfinite(phrases).all():
            raise EncoderError(
                f"retriever '{self._retriever.name}' gave unusable phrase vectors of shape "
                f"{phrases.shape}"
            )
        return phrases

    def _forget(self, keyframe_id: int) -> None:
        del self._records[keyframe_id], self._cells[keyframe_id], self._finest[keyframe_id]
        if self._index is not None:
            self._index.remove(keyframe_id)

    def _index_frame(self, record: KeyframeRecord) -> None:
        try:
            rows = self._rows(record.id)
        except KeyError:
            return  # evicted meanwhile; the next refresh sees that too
        if self._index is None:
            self._index = RegionIndex(self._search_basis(), self.settings.index_vectors)
        self._index.add(record.id, rows)
        self._records[record.id] = record
        self._finest[record.id] = finest_cell(record)
        settings = self.settings
        self._cells[record.id] = view_cell(
            record, settings.spread_m, settings.spread_s, settings.spread_headings
        )

    def search_like(self, other: Recall) -> None:
        """Take the searched subspace from a recall by the same retriever, instead of anew."""
        if other.index_digest == self.index_digest:
            self._basis = other._search_basis()

    def _search_basis(self) -> Vector:
        """The subspace that is searched; a function of the retriever alone."""
        if self._basis is None:
            if isinstance(self._retriever, NamingRetriever):
                names = self._retriever.name_vectors(NAMES)
            else:
                names = np.stack([self._retriever.phrase_vectors(name)[0] for name in NAMES])
            self._basis = subspace(names, self.settings.index_dimensions)
        return self._basis

    def _rows(self, keyframe_id: int) -> Rows:
        stored = self._memory.features(keyframe_id, self.index_digest)
        if stored is not None and "rows" in stored.arrays:
            return np.asarray(stored.arrays["rows"], np.int8)
        regions = self._regions(keyframe_id)
        rows = standing_for(regions, self._search_basis(), self.settings.index_vectors)
        self._memory.put_features(keyframe_id, self.index_digest, FrameFeatures({"rows": rows}))
        return rows

    def _regions(self, keyframe_id: int) -> Vector:
        """All region vectors of a keyframe; made again from its picture where evicted."""
        features = self._memory.features(keyframe_id, self.digest)
        if features is None:
            features = self._retriever.encode_frame(self._memory.picture(keyframe_id))
        return self.regions_of(features)

    def regions_of(self, features: FrameFeatures) -> Vector:
        """``(regions, dim)`` vectors of one picture, from the retriever's features of it.

        Raises:
            EncoderError: there are none, or they are not finite.
        """
        regions = np.asarray(self._retriever.region_vectors(features), np.float32)
        if regions.ndim != 2 or not len(regions) or not np.isfinite(regions).all():
            raise EncoderError(
                f"retriever '{self._retriever.name}' gave unusable region vectors of shape "
                f"{regions.shape}"
            )
        return regions

    def _combined(self, scores: Vector) -> Vector:
        """``(frames,)`` from ``(frames, phrases)``: the target counts most, the rest together."""
        target = scores[:, 0]
        if scores.shape[1] == 1:
            return target
        share = np.float32(self.settings.context_share)
        context = scores[:, 1:].sum(axis=1) / np.float32(scores.shape[1] - 1)
        return np.asarray((1 - share) * target + share * context, np.float32)

    def _search(self, phrases: Vector) -> tuple[list[int], float]:
        """The best frames by the index, not too many of one view first; and an ordinary score."""
        assert self._index is not None
        ids, scores = self._index.scores(phrases)
        combined = self._combined(scores)
        length = self.settings.shortlist
        prefix = set(self._prefix)
        reach = min(len(ids), 8 * length + len(prefix))
        least = np.partition(combined, len(ids) - reach)[len(ids) - reach]
        near = combined >= least
        order = ids[near][np.lexsort((ids[near], -combined[near]))].tolist()
        order = [keyframe_id for keyframe_id in order if keyframe_id not in prefix]
        first, rest = self._uncrowded(order)
        return (first + rest)[:length], float(np.median(combined))

    def _uncrowded(self, order: Sequence[int]) -> tuple[list[int], list[int]]:
        """The first few of each view, and the rest, both in the order given."""
        crowd: Counter[ViewCell] = Counter()
        first: list[int] = []
        rest: list[int] = []
        for keyframe_id in order:
            cell = self._cells[keyframe_id]
            crowd[cell] += 1
            (first if crowd[cell] <= self.settings.per_view else rest).append(keyframe_id)
        return first, rest

    def _rank(self, shortlist: Sequence[int], phrases: Vector) -> list[tuple[float, int]]:
        """Scores by all regions of each frame, best first, ties by id."""
        ranked = []
        for keyframe_id in shortlist:
            try:
                regions = self._regions(keyframe_id)
            except KeyError:
                continue  # evicted meanwhile
            best = (regions @ phrases.T).max(axis=0)[None]
            ranked.append((round(float(self._combined(best)[0]), 6), keyframe_id))
        return sorted(ranked, key=lambda item: (-item[0], item[1]))

    def _by_time(self, ids: Sequence[int]) -> tuple[int, ...]:
        def key(keyframe_id: int) -> tuple[int, int, int]:
            record = self._records[keyframe_id]
            return (record.segment, record.stamp_ns, record.id)

        return tuple(sorted(ids, key=key))


def evidence_recall(
    recalled: Mapping[str, Sequence[int]],
    visible: Mapping[str, Sequence[tuple[int, int]]],
) -> float:
    """Share of answerable questions with a visible frame among those recalled.

    Args:
        recalled: question id -> header stamps of the recalled frames, nanoseconds.
        visible: question id -> ``(start_ns, end_ns)`` in which the referent is seen; questions
            without any are not answerable and are left out.

    Returns:
        Between 0 and 1; NaN where no question is answerable.
    """
    answerable = [question for question, spans in visible.items() if spans]
    if not answerable:
        return math.nan
    found = sum(
        any(start <= stamp <= end for stamp in recalled.get(question, ()) for start, end in spans)
        for question, spans in ((question, visible[question]) for question in answerable)
    )
    return found / len(answerable)
