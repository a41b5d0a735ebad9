"""V-Flip on one sequence's memory: what to erase, by what, and which sham goes with it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from semflip_core.settings import KeyframeSettings
from semflip_train.dataset import Query
from semflip_train.memories import SequenceFrames
from semflip_train.synthesis.filters import SAME_THING, SeenMemory, alike
from semflip_train.synthesis.inpaint import load_inpainter
from semflip_train.synthesis.phrases import find_referent, noun_of
from semflip_train.synthesis.settings import SynthesisSettings, load_detector
from semflip_train.synthesis.vflip import NO_SHAM, Erased, Eraser

#: Other objects tried for one sham.
SHAM_TRIES = 8


def phrase_to_erase(query: Query) -> str:
    """The words of what a question asks about; empty where none is found."""
    phrase = noun_of(query.referent or "")
    if phrase:
        return phrase
    referent = find_referent(query.question)
    return referent.core.of(query.question) if referent else ""


class MemoryEraser:
    """Erases referents from one memory with the backends that the settings name.

    Args:
        frames: of the sequence's memory.
        queries: answerable questions about it.
    """

    def __init__(
        self,
        frames: SequenceFrames,
        queries: Sequence[Query],
        settings: SynthesisSettings,
        keyframes: KeyframeSettings,
    ) -> None:
        self._frames = frames
        self._queries = queries
        self._settings = settings
        self._keyframes = keyframes
        self._detector = load_detector(settings)

    @cached_property
    def seen(self) -> SeenMemory:
        """The memory as the detector sees it; pictures are decoded on first use."""
        seen = SeenMemory(self._frames.views(), self._detector, self._settings.present)
        known = [q.referent for q in self._queries if q.referent]
        if self._settings.present is None and known:
            reached = [seen.strengths(noun_of(name)).max() for name in known]
            seen.present = float(np.quantile(reached, self._settings.present_quantile))
        return seen

    @cached_property
    def _eraser(self) -> Eraser:
        model = self._settings.inpainter_model
        options = {"model": model} if model else {}
        return Eraser(
            self._detector,
            load_inpainter(self._settings.inpainter, **options),
            self._frames.encode_derived,
            self._keyframes,
            self._settings.erase,
            self.seen.limit,
        )

    def erase(self, phrase: str) -> tuple[list[Erased], str | None]:
        """See :meth:`.vflip.Eraser.erase`."""
        return self._eraser.erase(phrase, self.seen.views)

    def sham(
        self, query: Query, phrase: str, erased: Sequence[Erased], rng: random.Random
    ) -> tuple[list[Erased], str | None]:
        """Erase something that the question does not mention, as much of it; see :mod:`.vflip`."""
        others = [
            noun
            for q in self._queries
            if (noun := noun_of(q.referent or ""))
            and noun.lower() not in query.question.lower()
            and alike(noun, phrase) <= SAME_THING
        ]
        rng.shuffle(others)
        for other in others[:SHAM_TRIES]:
            made, problem = self._eraser.sham(erased, other, self.seen.views, phrase)
            if problem is None:
                return made, None
        return [], NO_SHAM
