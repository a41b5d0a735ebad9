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
from importlib import import_module
from pathlib import Path

import numpy as np
from pydantic import Field, field_validator

from semflip_core.encoders import Encoder
from semflip_core.errors import ConfigError
from semflip_core.settings import KeyframeSettings, Settings
from semflip_train.dataset import Query
from semflip_train.memories import SequenceFrames
from semflip_train.stores import content_hash, json_hash, write_whole
from semflip_train.synthesis.detect import Detector
from semflip_train.synthesis.filters import SAME_THING, Filters, SeenMemory, alike
from semflip_train.synthesis.inpaint import load_inpainter
from semflip_train.synthesis.phrases import find_referent, noun_of
from semflip_train.synthesis.qflip import Request, Rewriter
from semflip_train.synthesis.samples import (
    PUBLISHED,
    STRATEGIES,
    ErasedFrame,
    Sample,
    reason_for,
    stable_seed,
)
from semflip_train.synthesis.vflip import Erased, Eraser, EraseSettings

logger = logging.getLogger("semflip")


class SynthesisSettings(Settings):
    """What is synthesised, and with what."""

    strategies: tuple[str, ...] = Field(default=PUBLISHED, description="Of Q-Flip.")
    samples_per_pair: int = Field(
        default=1, ge=1, description="Rewrites for each question and strategy."
    )
    rewriter: str = Field(default="slot_fill", description="slot_fill or instruct.")
    rewriter_model: str | None = Field(
        default=None, description="Chat model of the instruct rewriter: directory or hub id."
    )
    lexicon_share: float = Field(default=0.15, ge=0.0, le=1.0)
    detector: str = Field(default="mini", description="mini, grounding_dino, module:Class.")
    detector_model: str | None = None
    present: float | None = Field(
        default=None,
        gt=0.0,
        description="Strength from which on a thing counts as detected; None: see next.",
    )
    present_quantile: float = Field(
        default=0.5,
        ge=0.0,
        le=1.0,
        description="Without it: this quantile of what a memory's known referents reach.",
    )
    inpainter: str = Field(default="patchmatch")
    inpainter_model: str | None = Field(default=None, description="LaMa's TorchScript file.")
    vflip: bool = True
    vflip_share: float = Field(
        default=1.0, ge=0.0, le=1.0, description="Share of the questions that are erased."
    )
    sham: bool = True
    qflip: bool = True
    erase: EraseSettings = EraseSettings()
    seed: int = 0

    @field_validator("strategies")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in STRATEGIES:
                raise ValueError(f"unknown strategy '{name}'; known: {', '.join(STRATEGIES)}")
        return value


def load_detector(settings: SynthesisSettings) -> Detector:
    """The detector that the settings name.

    Raises:
        ConfigError: the name is unknown.
    """
    if settings.detector == "mini":
        from semflip_train.synthesis.detect import MiniDetector

        return MiniDetector() if settings.present is None else MiniDetector(settings.present)
    if settings.detector == "grounding_dino":
        from semflip_train.synthesis.grounding_dino import GroundingDino

        model = settings.detector_model
        return (
            GroundingDino(model)
            if settings.present is None
            else GroundingDino(model, settings.present)
        )
    if ":" in settings.detector:
        module, _, name = settings.detector.partition(":")
        try:
            made: Detector = getattr(import_module(module), name)()
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"detector '{settings.detector}': {error}") from error
        return made
    raise ConfigError(
        f"unknown detector '{settings.detector}'; known: mini, grounding_dino, or your own as "
        "'module:Class'"
    )


def load_rewriter(settings: SynthesisSettings) -> Rewriter:
    """The rewriter that the settings name.

    Raises:
        ConfigError: the name is unknown.
    """
    if settings.rewriter == "slot_fill":
        from semflip_train.synthesis.lexicon import load_lexicon
        from semflip_train.synthesis.qflip import SlotFill

        return SlotFill(load_lexicon(), lexicon_share=settings.lexicon_share, seed=settings.seed)
    if settings.rewriter == "instruct":
        from semflip_train.synthesis.instruct import Instruct

        return Instruct(settings.rewriter_model, seed=settings.seed)
    raise ConfigError(f"unknown rewriter '{settings.rewriter}'; known: slot_fill, instruct")


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
        self._frames = frames
        self._others = others
        self._keyframes = keyframes
        self._detector = load_detector(settings)
        self._rewriter = load_rewriter(settings) if settings.qflip else None
        self._seen: SeenMemory | None = None
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
        """The memory as the detector sees it; pictures are decoded on first use."""
        if self._seen is None:
            self._seen = SeenMemory(self._frames.views(), self._detector, self._settings.present)
            known = [q.referent for q in self._queries if q.referent]
            if self._settings.present is None and known:
                reached = [self._seen.strengths(noun_of(name)).max() for name in known]
                self._seen.present = float(np.quantile(reached, self._settings.present_quantile))
        return self._seen

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
        requests = [
            Request(query, strategy, self.elsewhere, number, here)
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
        phrase = noun_of(query.referent or "")
        if not phrase:
            referent = find_referent(query.question)
            phrase = referent.core.of(query.question) if referent else ""
        if not phrase:
            counts["dropped vflip: no referent"] += 1
            return []
        eraser = Eraser(
            self._detector,
            load_inpainter(
                self._settings.inpainter,
                **({"model": self._settings.inpainter_model}
                   if self._settings.inpainter_model else {}),
            ),
            self._frames.encode_derived,
            self._keyframes,
            self._settings.erase,
            self.seen.limit,
        )  # fmt: skip
        views = self.seen.views
        erased, problem = eraser.erase(phrase, views)
        if problem is not None:
            counts[f"dropped vflip: {problem}"] += 1
            return []
        counts["made vflip"] += 1
        made = base.model_copy(
            update={
                "id": f"{query.id}/vflip",
                "label": 1,
                "kind": "vflip",
                "reason": reason_for("vflip", ""),
                "frames": self._store("vflip", query, erased),
            }
        )
        samples = [made]
        if self._settings.sham:
            others = [
                noun
                for q in self._queries
                if (noun := noun_of(q.referent or ""))
                and noun.lower() not in query.question.lower()
                and alike(noun, phrase) <= SAME_THING
            ]
            rng.shuffle(others)
            for other in others[:8]:
                sham, problem = eraser.sham(erased, other, views, phrase)
                if problem is None:
                    counts["made sham"] += 1
                    samples.append(
                        base.model_copy(
                            update={
                                "id": f"{query.id}/sham",
                                "kind": "sham",
                                "frames": self._store("sham", query, sham),
                            }
                        )
                    )
                    break
            else:
                counts["dropped sham: no other object to erase"] += 1
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
