"""Checks of rewritten questions; each rejection is counted by its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from semflip_core.frames import FrameFeatures
from semflip_train.synthesis.detect import Array, Detector, View, distinct_count
from semflip_train.synthesis.qflip import Proposal

if TYPE_CHECKING:
    from semflip_core.encoders.mini.text import TextEncoder

UNCHANGED = "unchanged"
MALFORMED = "malformed"
PARAPHRASE = "paraphrase"
ANSWERABLE_HERE = "same as an answerable question"
KNOWN_HERE = "referent known in this memory"
FOUND = "new referent found in the memory"
COLOUR_FOUND = "the referent has that colour"

#: Texts more alike than this name the same thing (sofa and couch 0.86, sofa and chair 0.6).
SAME_THING = 0.7
#: How many of a phrase's best frames are looked at for its colour.
COLOUR_FRAMES = 3


@dataclass(slots=True)
class SeenMemory:
    """What a detector finds in one memory; strengths are computed once a phrase.

    Args:
        views: of every keyframe.
        detector: finds phrases.
        present: strength from which on something is taken to be there; None for the detector's.
    """

    views: Sequence[View]
    detector: Detector
    present: float | None = None
    _strengths: dict[str, Array] = field(default_factory=dict)

    def strengths(self, phrase: str) -> Array:
        """``(frames,)`` best strength of the phrase in each frame."""
        if phrase not in self._strengths:
            self._strengths[phrase] = self.detector.strengths(phrase, self.views)
        return self._strengths[phrase]

    def found(self, phrase: str) -> bool:
        """Whether the phrase is taken to be somewhere in the memory."""
        return bool(self.strengths(phrase).max(initial=0.0) >= self.limit)

    @property
    def limit(self) -> float:
        """Strength from which on something is taken to be there."""
        return self.detector.present if self.present is None else self.present

    def several(self, phrase: str) -> bool:
        """Whether one frame shows two or more separate ones."""
        best = int(np.argmax(self.strengths(phrase)))
        detections = self.detector.detect(phrase, [self.views[best]])[0]
        return distinct_count(detections, self.limit) >= 2

    def colour_share(self, phrase: str, colour: str) -> float | None:
        """Largest share of a colour where the phrase is seen best; None if frames carry none."""
        from semflip_core.encoders.mini.colours import COLOURS

        if colour not in COLOURS:
            return None
        order = np.argsort(-self.strengths(phrase))[:COLOUR_FRAMES]
        shares = []
        for index in order:
            features = self.views[index].features
            if features is None or "colours" not in features.arrays:
                return None
            detections = self.detector.detect(phrase, [self.views[index]])[0]
            if detections:
                shares.append(_share(features, detections[0].box, COLOURS.index(colour)))
        return max(shares, default=None)


def _share(features: FrameFeatures, box: tuple[float, ...], colour: int) -> float:
    """Share of a colour in the region with this box."""
    from semflip_core.encoders.mini.regions import boxes

    high, wide = (int(v) for v in features.arrays["grid"])
    index = int(np.argmin(np.abs(boxes(high, wide) - np.array(box)).sum(axis=1)))
    return float(features.arrays["colours"][index, colour]) / 255.0


@dataclass(frozen=True, slots=True)
class Filters:
    """Decides whether a rewrite may be a label-1 sample.

    Args:
        memory: the memory that must not support the rewrite.
        questions_here: answerable questions about it.
        referents_here: what they ask about.
        colour_limit: share of a colour from which on the referent has it.
    """

    memory: SeenMemory
    questions_here: frozenset[str]
    referents_here: tuple[str, ...]
    colour_limit: float = 0.08

    def reject(self, original: str, proposal: Proposal) -> str | None:
        """The reason to drop it, or None."""
        new = normal(proposal.question)
        if new == normal(original):
            return UNCHANGED
        if not well_formed(proposal.question):
            return MALFORMED
        if new in {normal(text) for text in self.questions_here}:
            return ANSWERABLE_HERE
        if alike(proposal.replaced_words, proposal.new_words) > SAME_THING:
            return PARAPHRASE
        absent = proposal.must_be_absent
        if absent:
            if any(alike(absent, known) > SAME_THING for known in self.referents_here):
                return KNOWN_HERE
            if self.memory.found(absent):
                return FOUND
        if proposal.colour:
            head = proposal.referent.removeprefix(proposal.colour).strip()
            share = self.memory.colour_share(head, proposal.colour)
            if share is not None and share >= self.colour_limit:
                return COLOUR_FOUND
        return None


def normal(question: str) -> str:
    """A question without case, punctuation and spare spaces; for comparing."""
    kept = "".join(c if c.isalnum() or c in " '-" else " " for c in question.lower())
    return " ".join(kept.split())


def well_formed(question: str) -> bool:
    """One short line of words with no leftovers of a template or prompt."""
    words = question.split()
    return (
        2 <= len(words) <= 40
        and question == " ".join(words)
        and not any(char in question for char in "{}[]<>|\n")
        and not any(a.lower() == b.lower() for a, b in pairwise(words))
    )


def alike(a: str, b: str) -> float:
    """Cosine of two texts' vectors; 0 where one is empty."""
    if not a or not b:
        return 0.0
    first, second = _text_encoder().vectors([a.lower(), b.lower()])
    return float(first @ second)


@lru_cache(maxsize=1)
def _text_encoder() -> TextEncoder:
    from semflip_core.encoders.mini.text import TextEncoder

    return TextEncoder()
