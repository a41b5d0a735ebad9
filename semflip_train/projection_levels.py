"""What names reach in places where there is such a thing, and in places where there is none.

A sofa is found with more certainty than a teapot is. On development rooms (names of known things,
likest regions) telling present from absent by one threshold for all names has an AUROC of 0.935
by the level of seven rooms, 0.963 by the middle between what each name reaches with and without
such a thing in 33; more rooms than 16 hardly add to it (``docs/benchmark.md``). Phrases take it
from the names that resemble them (:class:`~semflip_core.encoders.joint_space.Levels`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.joint_grounding import top_mean
from semflip_core.encoders.joint_space import Space
from semflip_train.simulation.settings import LabelSettings
from semflip_train.simulation.things import all_things

Array = NDArray[np.float32]

#: Places without a thing that a name's level rests on at least.
FEWEST_WITHOUT = 2
#: How an object must be seen to count as there: as answerable questions want it.
WELL_SEEN = LabelSettings()


@dataclass(frozen=True)
class Contents:
    """What a simulated place holds.

    Args:
        clear: names of things that are well seen; every one of them is there.
        possible: every word that something there might be called, lower case.
    """

    clear: frozenset[str]
    possible: frozenset[str]

    @classmethod
    def of(cls, scene: Mapping[str, Any]) -> Contents:
        """Of a sequence as ``scenes.json`` describes it."""
        things = {thing.name: thing for thing in all_things()}
        clear: set[str] = set()
        possible: set[str] = set()
        for item in scene["objects"]:
            thing = things[item["name"]]
            possible |= thing.words
            seen = item["frames"] >= WELL_SEEN.answerable_frames
            if seen and item["largest_share"] >= WELL_SEEN.answerable_share:
                clear |= set(thing.names)
        return cls(frozenset(clear), frozenset(possible))


def names_in(places: Sequence[Contents], unmet: Collection[str] = ()) -> list[str]:
    """Names of what some place clearly shows and enough others do not, without the ``unmet``."""
    hidden = {name.lower() for name in unmet}
    clear = sorted(set().union(*(place.clear for place in places)))
    return [
        name
        for name in clear
        if name.lower() not in hidden
        and sum(name.lower() not in place.possible for place in places) >= FEWEST_WITHOUT
    ]


def reached(frames: Sequence[Array], names: Array) -> Array:
    """``(n,)`` what names ``(n, dim)`` reach in a place: mean of their best frames' likest region.

    Args:
        frames: ``(regions, dim)`` of each keyframe.
    """
    best = np.stack([(regions @ names.T).max(axis=0) for regions in frames])
    return np.array([top_mean(column) for column in best.T], np.float32)


def levels(
    names: Sequence[str],
    places: Sequence[Contents],
    reached_there: Array,
    space: Space,
    vectors: Array,
    meanings: Array,
) -> tuple[Array, Array]:
    """``absent`` and ``present`` of :class:`~semflip_core.encoders.joint_space.Levels`.

    Args:
        reached_there: ``(places, n)`` from :func:`reached`.
        space: its rooms say what a phrase reaches where there is none.
        vectors, meanings: ``(n, dim)`` of the names in that space, and what they mean.
    """
    absent = np.empty(len(names), np.float32)
    present = np.empty(len(names), np.float32)
    for i, name in enumerate(names):
        there = np.array([name in place.clear for place in places])
        without = np.array([name.lower() not in place.possible for place in places])
        told, _ = space.places.reached(vectors[i][None], meanings[i][None])
        usual = float(reached_there[without, i].mean())
        absent[i] = usual - float(told[0])
        present[i] = float(reached_there[there, i].mean()) - usual
    return absent, present


def places_with(names: Sequence[str], places: Sequence[Contents]) -> Array:
    """``(n,)`` how many places clearly show each."""
    return np.array([sum(name in place.clear for place in places) for name in names], np.float32)
