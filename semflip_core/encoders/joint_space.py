"""Regions and phrases in one space, and what it takes to judge a similarity in it.

What any encoder with one space for both hands to :class:`~semflip_core.encoders.joint.JointModel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

#: Two texts more alike than this name the same thing; one does not compete with the other.
SYNONYM = 0.6
#: The best so manieth of all reference regions: what chance resemblance reaches.
CHANCE_SHARE = 0.01
#: Distractors that are always left to compete.
FEWEST_RIVALS = 3
#: Rooms that a phrase is judged by at least; some may show it then.
FEWEST_ROOMS = 2
#: How fast a name counts less the less it resembles the phrase (:class:`Levels`).
SHARPNESS = 20.0
#: Weights, in names, of knowing nothing: no correction, and the usual difference.
NO_CORRECTION, USUAL_DIFFERENCE = 0.1, 0.3


@dataclass(frozen=True)
class Rooms:
    """Whole places of which it is known what they show.

    Args:
        regions: ``(rooms, regions, dim)`` unit vectors of each room, those that words are drawn to.
        shown: ``(rooms, k)`` which ``names`` are there, -1 for no more.
        names: ``(n, dim)`` meanings, see :class:`PhraseView`.
    """

    regions: Array
    shown: NDArray[np.int64]
    names: Array

    def reached(self, phrases: Array, meanings: Array) -> tuple[Array, float]:
        """What phrases ``(p, dim)`` of one thing reach where there is no such thing.

        Other than :meth:`Space.chance` this is about places: a robot looks at many pictures, and
        the likest region of all of them is what an absent thing is judged by.

        Args:
            meanings: ``(p, dim)`` of the phrases, see :class:`PhraseView`.

        Returns:
            ``(p,)`` mean over the rooms of the best similarity, and the highest for the first.
        """
        best = (self.regions @ phrases.T).max(axis=1)
        alike = np.append((self.names @ meanings.T).max(axis=1) > SYNONYM, False)  # -1
        without = ~alike[self.shown].any(axis=1)
        if without.sum() < FEWEST_ROOMS:
            without = np.argsort(np.argsort(best[:, 0], kind="stable")) < FEWEST_ROOMS
        mean: Array = best[without].mean(axis=0)
        return mean, float(best[without, 0].max())


@dataclass(frozen=True)
class Levels:
    """What names were seen to reach in places without such a thing and in places with one.

    A sofa, where there is one, is found with more certainty than a teapot is, so one threshold for
    both would miss the teapot or take a bench for a sofa. What is to be expected of a phrase is
    the mean over the names that resemble it (Nadaraya 1964); of a phrase that resembles none,
    nothing beyond the usual.

    Args:
        names: ``(n, dim)`` unit vectors where their regions are, as phrases are.
        absent: ``(n,)`` what a name reaches where there is none, above what :class:`Rooms` say.
        present: ``(n,)`` how much more it reaches where there is one.
        places: ``(n,)`` in how many places there was one.
    """

    names: Array
    absent: Array
    present: Array
    places: Array

    def of(self, phrase: Array) -> tuple[float, float]:
        """``absent`` and ``present`` to be expected of a phrase ``(dim,)``."""
        alike = np.exp(SHARPNESS * (self.names @ phrase - 1.0))
        sure = alike * self.places
        absent = (alike @ self.absent) / (alike.sum() + NO_CORRECTION)
        prior = USUAL_DIFFERENCE * self._usual
        present = (sure @ self.present + prior) / (sure.sum() + USUAL_DIFFERENCE)
        return float(absent), float(present)

    @cached_property
    def _usual(self) -> float:
        return float(self.present @ self.places / self.places.sum())


@dataclass(frozen=True, slots=True)
class Beside:
    """What another model says of a question, beside the spaces.

    Args:
        vector: for the gate, always of one length.
        support: ``(frames,)`` how much more each frame shows the target than is usual; 0 where
            the model knows nothing.
    """

    vector: Array
    support: Array


@dataclass(frozen=True)
class Space:
    """A space that holds regions and phrases, with what it takes to judge a similarity.

    Args:
        reference: ``(pictures, regions, dim)`` unit vectors of regions of unrelated pictures.
        distractors: ``(d, dim)`` unit vectors of phrases for things one may meet.
        shown: ``(pictures, regions, k)`` which ``names`` each reference region shows; -1 nothing
            more, -2 unknown. Without it nothing is known of them.
        names: ``(n, dim)`` meanings of what they show.
        rooms: places to judge presence by; without them each reference picture is one.
        levels: what names reach in places; without it nothing is known of any name.
    """

    reference: Array
    distractors: Array
    shown: NDArray[np.int64] | None = None
    names: Array | None = None
    rooms: Rooms | None = None
    levels: Levels | None = None

    def standard(self, phrases: Array) -> tuple[Array, Array]:
        """Mean and deviation ``(p,)`` of each phrase's similarity to the reference regions."""
        similarity = self.reference.reshape(-1, phrases.shape[1]) @ phrases.T
        return similarity.mean(axis=0), similarity.std(axis=0) + np.float32(1e-3)

    def standard_of_best(self, phrase: Array) -> tuple[float, float]:
        """Mean and deviation of the best similarity in a picture that is about something else."""
        best = (self.reference @ phrase).max(axis=1)
        return float(np.median(best)), float(best.std()) + 1e-2

    def chance(self, phrase: Array, meaning: Array) -> float:
        """What the likest regions reach that show something else: resemblance, not presence.

        Mean similarity of the likest hundredth of the reference regions. Where it is known what
        they show, only those count that show nothing which the phrase might name.

        Args:
            phrase, meaning: ``(dim,)``, see :class:`PhraseView`.
        """
        similarity = self.reference.reshape(-1, len(phrase)) @ phrase
        if self.shown is not None and self.names is not None:
            shown = self.shown.reshape(len(similarity), -1)
            alike = np.append(self.names @ meaning > SYNONYM, [True, False])  # -2, -1
            similarity = similarity[~alike[shown].any(axis=1)]
        return _likest(similarity)

    def usual(self, phrase: Array) -> float:
        """What the likest regions reach of which nobody knows what they show.

        Those of photographs, where :attr:`shown` tells them: other than rendered rooms they are
        as cluttered as the world is. All of them, where nothing is told.
        """
        similarity = self.reference.reshape(-1, len(phrase)) @ phrase
        if self.shown is not None:
            unknown = (self.shown.reshape(len(similarity), -1) == -2).any(axis=1)
            similarity = similarity[unknown] if unknown.any() else similarity
        return _likest(similarity)

    @cached_property
    def places(self) -> Rooms:
        """The rooms, or the reference pictures in their place, of which nothing is known."""
        if self.rooms is not None:
            return self.rooms
        pictures, _, dim = self.reference.shape
        return Rooms(self.reference, np.full((pictures, 1), -1), np.zeros((0, dim), np.float32))

    def level(self, phrase: Array) -> tuple[float, float]:
        """What to expect of a phrase, see :meth:`Levels.of`; nothing where nothing is known."""
        return (0.0, 0.0) if self.levels is None else self.levels.of(phrase)

    @cached_property
    def distractor_standard(self) -> tuple[Array, Array]:
        """:meth:`standard` of the distractors."""
        return self.standard(self.distractors)

    def best_distractors(self, regions: Array) -> Array:
        """``(d,)`` best z-score of each distractor over one picture's regions ``(n, dim)``."""
        mean, deviation = self.distractor_standard
        best: Array = ((regions @ self.distractors.T).max(axis=0) - mean) / deviation
        return best

    def rivals(self, full: Array, head: Array) -> NDArray[np.bool_]:
        """``(d,)`` True for distractors that mean something else than phrase or naked noun."""
        alike = np.maximum(self.distractors @ full, self.distractors @ head)
        rivals: NDArray[np.bool_] = alike <= SYNONYM
        if rivals.sum() < FEWEST_RIVALS:
            rivals = np.argsort(np.argsort(alike)) < FEWEST_RIVALS
        return rivals


def _likest(similarity: Array) -> float:
    """Mean of the likest hundredth; 0 of nothing."""
    count = max(3, round(CHANCE_SHARE * len(similarity)))
    return float(np.sort(similarity)[-count:].mean()) if len(similarity) else 0.0


@dataclass(frozen=True, slots=True)
class FrameView:
    """One frame as the joint embedding needs it.

    Args:
        key: rises with time; frames with neighbouring keys were taken one after the other.
        regions: for each space ``(n, dim)`` unit vectors.
        distractors: for each space ``(d,)`` best z-scores (:meth:`Space.best_distractors`).
        boxes: ``(n, 4)`` x0, y0, x1, y1 in [0, 1].
        colours: ``(n, 11)`` share of each colour term; the last region is the whole picture.
    """

    key: int
    regions: Sequence[Array]
    distractors: Sequence[Array]
    boxes: Array
    colours: Array


@dataclass(frozen=True, slots=True)
class PhraseView:
    """One phrase of the question; the first is what it asks for.

    Args:
        full: for each space the ``(dim,)`` unit vector of the phrase with its attributes.
        head: the same for its naked noun.
        meanings: ``(2, dim)`` unit vectors of phrase and naked noun by which texts are compared
            with each other: what is more alike than :data:`SYNONYM` names the same thing.
        rivals: ``(d,)`` True for distractors that mean something else.
        colour: index of the colour asked for, or None.
        repainted: for each space ``(k, dim)`` vectors of the phrase with other colours in its
            colour's place; empty without a colour.
        attributes: how many other describing words it has.
        noun: False for a verb phrase.
    """

    full: Sequence[Array]
    head: Sequence[Array]
    meanings: Array
    rivals: NDArray[np.bool_]
    colour: int | None = None
    repainted: Sequence[Array] = ()
    attributes: int = 0
    noun: bool = True
