"""The synthesis stage: every answerable question of a split becomes labelled pairs.

One sequence is one unit of work; inside it each question is finished and written before the next
begins, so that a run that was killed goes on where it stopped.
"""

from __future__ import annotations

import json
import logging
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from semflip_core.encoders import Encoder
from semflip_core.settings import KeyframeSettings
from semflip_train.dataset import Query
from semflip_train.memories import SequenceFrames
from semflip_train.stores import content_hash, json_hash, write_whole
from semflip_train.synthesis.erasing import MemoryEraser, phrase_to_erase
from semflip_train.synthesis.filters import SAME_THING, Filters, SeenMemory, alike
from semflip_train.synthesis.phrases import noun_of, place_of
from semflip_train.synthesis.qflip import Request, Rewriter
from semflip_train.synthesis.samples import ErasedFrame, Sample, reason_for, stable_seed
from semflip_train.synthesis.settings import SynthesisSettings, load_rewriter
from semflip_train.synthesis.vflip import Erased

logger = logging.getLogger("semflip")


@dataclass(frozen=True, slots=True)
class QuestionPart:
    """What one answerable question became.

    Args:
        counts: ``made <kind or strategy>`` and ``dropped <strategy>: <reason>``.
    """

    samples: tuple[Sample, ...]
    counts: Counter[str]


class SequenceSynthesis:
    """Synthesises one sequence.

    Args:
        frames: of the sequence's memory.
        queries: answerable questions about it.
        others: answerable questions about other sequences.
        folder: of this sequence's parts and erased pictures.
        root: that sample files are relative to.
    """

    def __init__(
        self,
        frames: SequenceFrames,
        queries: Sequence[Query],
        others: Sequence[Query],
        settings: SynthesisSettings,
        keyframes: KeyframeSettings,
        folder: Path,
        root: Path,
    ) -> None:
        self._queries = list(queries)
        self._settings = settings
        self._folder = folder
        self._root = root
        self._others = others
        self.eraser = MemoryEraser(frames, self._queries, settings, keyframes)
        self._rewriter = load_rewriter(settings) if settings.qflip else None
        self._elsewhere: list[Query] | None = None
        self.made_now = 0

    def run(self, progress: Callable[[int, int], None] | None = None) -> list[QuestionPart]:
        """All parts, in the order of the questions; those already on disk are not made again."""
        parts = []
        for number, query in enumerate(self._queries, start=1):
            file = self._folder / f"{content_hash(query.id)[:16]}.json"
            if file.exists():
                part = _read_part(file)
            else:
                part = self._question(query)
                _write_part(file, part)
                self.made_now += 1
            parts.append(part)
            if progress is not None:
                progress(number, len(self._queries))
        return parts

    @property
    def seen(self) -> SeenMemory:
        """The memory as the detector sees it."""
        return self.eraser.seen

    @property
    def elsewhere(self) -> list[Query]:
        """Other sequences' questions whose referents nobody asks about here."""
        if self._elsewhere is None:
            here = [noun_of(q.referent) for q in self._queries if q.referent]
            self._elsewhere = [
                query
                for query in self._others
                if query.referent
                and all(alike(noun_of(query.referent), known) <= SAME_THING for known in here)
            ]
        return self._elsewhere

    def _question(self, query: Query) -> QuestionPart:
        counts: Counter[str] = Counter({"made answerable": 1})
        base = Sample(
            id=f"{query.id}/answerable",
            source=query.id,
            sequence=query.sequence,
            question=query.question,
            label=0,
            kind="answerable",
            referent=query.referent or "",
        )
        samples = [base]
        if self._rewriter is not None:
            samples += self._qflips(query, self._rewriter, counts)
        rng = random.Random(stable_seed(self._settings.seed, query.id, "vflip"))
        if self._settings.vflip and rng.random() < self._settings.vflip_share:
            samples += self._vflips(query, base, counts, rng)
        return QuestionPart(tuple(samples), counts)

    def _qflips(self, query: Query, rewriter: Rewriter, counts: Counter[str]) -> list[Sample]:
        here = tuple(sorted({noun_of(q.referent) for q in self._queries if q.referent}))
        places = tuple(sorted({place_of(q.referent) for q in self._queries if q.referent}))
        requests = [
            Request(query, strategy, self.elsewhere, number, here, places)
            for strategy in self._settings.strategies
            for number in range(self._settings.samples_per_pair)
        ]
        filters = Filters(
            self.seen,
            frozenset(q.question for q in self._queries),
            tuple(noun_of(q.referent) for q in self._queries if q.referent),
        )
        samples: list[Sample] = []
        taken: set[str] = set()
        for request, proposals in zip(requests, rewriter.propose(requests), strict=True):
            strategy = request.strategy
            chosen = None
            for proposal in proposals:
                problem = filters.reject(query.question, proposal)
                if problem is None and proposal.question in taken:
                    problem = "made already"
                if problem is None:
                    chosen = proposal
                    break
                counts[f"rejected {strategy}: {problem}"] += 1
            if chosen is None:
                counts[f"dropped {strategy}: no candidate left"] += 1
                continue
            taken.add(chosen.question)
            several = strategy == "referential" and self.seen.several(noun_of(query.referent or ""))
            counts[f"made {strategy}"] += 1
            samples.append(
                Sample(
                    id=f"{query.id}/{strategy}/{request.number}",
                    source=query.id,
                    sequence=query.sequence,
                    question=chosen.question,
                    label=1,
                    kind="qflip",
                    strategy=strategy,
                    reason=reason_for("qflip", strategy, several),
                    referent=chosen.referent,
                )
            )
        return samples

    def _vflips(
        self, query: Query, base: Sample, counts: Counter[str], rng: random.Random
    ) -> list[Sample]:
        phrase = phrase_to_erase(query)
        if not phrase:
            counts["dropped vflip: no referent"] += 1
            return []
        erased, problem = self.eraser.erase(phrase)
        if problem is not None:
            counts[f"dropped vflip: {problem}"] += 1
            return []
        counts["made vflip"] += 1
        samples = [
            base.model_copy(
                update={
                    "id": f"{query.id}/vflip",
                    "label": 1,
                    "kind": "vflip",
                    "reason": reason_for("vflip", ""),
                    "frames": self._store("vflip", query, erased),
                }
            )
        ]
        if self._settings.sham:
            sham, problem = self.eraser.sham(query, phrase, erased, rng)
            if problem is not None:
                counts[f"dropped sham: {problem}"] += 1
                return samples
            counts["made sham"] += 1
            frames = self._store("sham", query, sham)
            changes = {"id": f"{query.id}/sham", "kind": "sham", "frames": frames}
            samples.append(base.model_copy(update=changes))
        return samples

    def _store(self, kind: str, query: Query, erased: Sequence[Erased]) -> tuple[ErasedFrame, ...]:
        """Write the changed frames, and what the contact sheet shows of them."""
        from semflip_train.pictures import mask_png

        stored = []
        for item in erased:
            stem = self._folder / f"{content_hash(query.id)[:16]}_{kind}_{item.index}"
            write_whole(stem.with_suffix(".jpg"), item.jpeg)
            write_whole(stem.with_suffix(".png"), mask_png(item.mask))
            stored.append(
                ErasedFrame(
                    index=item.index,
                    file=stem.with_suffix(".jpg").relative_to(self._root).as_posix(),
                    sha256=content_hash(item.jpeg),
                )
            )
        return tuple(sorted(stored, key=lambda frame: frame.index))


def synthesis_key(
    settings: SynthesisSettings, queries: Sequence[Query], content: str, encoder: Encoder
) -> str:
    """Names the folder of a sequence's parts: anything that changes them changes it."""
    return json_hash(
        {
            "settings": settings.model_dump(mode="json"),
            "queries": [q.model_dump(mode="json") for q in queries],
            "memory": content,
            "encoder": dict(encoder.frame_fingerprint()),
        }
    )[:12]


def _read_part(file: Path) -> QuestionPart:
    values = json.loads(file.read_text(encoding="utf-8"))
    return QuestionPart(
        tuple(Sample.model_validate_json(json.dumps(s)) for s in values["samples"]),
        Counter(values["counts"]),
    )


def _write_part(file: Path, part: QuestionPart) -> None:
    values = {
        "samples": [s.model_dump(mode="json") for s in part.samples],
        "counts": dict(part.counts),
    }
    write_whole(file, json.dumps(values, ensure_ascii=False))
