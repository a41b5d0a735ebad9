"""Which objects of a sequence can be asked about, in which words, and what it does not support."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from semflip_train.simulation.labels import DriveLabels
from semflip_train.simulation.phrases import (
    BROAD,
    ROOM_NAMES,
    Phrase,
    candidates,
    might_be,
    might_be_room,
    phrases_of,
    support_of,
)
from semflip_train.simulation.placed import Placed
from semflip_train.simulation.plan import BELONGS_AS, Plan


@dataclass(frozen=True, slots=True)
class Seen:
    """What question writing knows of a sequence.

    Args:
        name: of the sequence.
        split: ``train``, ``calibration`` or ``test``.
        slice: ``known``, or ``new`` for sequences about things never trained on.
    """

    name: str
    split: str
    slice: str
    objects: tuple[Placed, ...]
    plan: Plan
    labels: DriveLabels


@dataclass(frozen=True, slots=True)
class Referent:
    """A way to point at one object of a sequence.

    Args:
        phrase: its words; the usual name where ``need`` is set.
        need: asked for by a need instead, or empty.
    """

    label: int
    phrase: Phrase
    need: str = ""

    @property
    def kind(self) -> str:
        """Key of :data:`KIND_WEIGHTS`."""
        return "need" if self.need else self.phrase.kind


def referents(seen: Seen, *, needs: bool = True) -> Iterator[Referent]:
    """All ways to point at exactly one object that is well visible."""
    recoloured = any(item.paint for item in seen.objects)
    for label, item in enumerate(seen.objects):
        if not seen.labels.is_answerable(label):
            continue
        if seen.slice == "new" and not item.thing.held_out:
            continue
        for phrase in phrases_of(label, seen.objects, seen.plan):
            if recoloured and phrase.look and not item.any_colour:
                continue  # a look that its kind always has gives the answer away
            if candidates(phrase, seen.objects, seen.plan) == [label]:
                yield Referent(label, phrase)
        if needs and item.thing.need and not _serves(item, seen, label):
            yield Referent(label, Phrase(item.thing.name), item.thing.need)


def _serves(item: Placed, seen: Seen, but: int = -1) -> bool:
    """Whether something else of the sequence might serve the same need."""
    words = item.thing.words - BROAD
    return any(
        words & (other.thing.words - BROAD)
        for label, other in enumerate(seen.objects)
        if label != but
    )


def unsupported(item: Referent, seen: Seen) -> str | None:
    """Why a sequence does not support words of another one, or None where it might."""
    if item.need:
        thing_words = {item.phrase.noun.lower()}
        absent = not any(thing_words & other.thing.words for other in seen.objects)
        alike = any(
            other.thing.need == item.need or other.thing.words & _need_words(item)
            for other in seen.objects
        )
        return "absent" if absent and not alike else None
    if candidates(item.phrase, seen.objects, seen.plan):
        return None
    same = [i for i, other in enumerate(seen.objects) if might_be(item.phrase.noun, other)]
    if not same:
        return "absent" if item.phrase.kind in ("name", "look") else None
    if not any(seen.labels.is_answerable(label) for label in same):
        return None
    return "near_miss" if _anchor_is_here(item.phrase, seen) else None


def _need_words(item: Referent) -> frozenset[str]:
    return frozenset({item.phrase.noun.lower()})


def _anchor_is_here(phrase: Phrase, seen: Seen) -> bool:
    """Whether what a relation names (the desk, the kitchen) is in the sequence at all."""
    if not phrase.relation:
        return True
    _, _, anchor = phrase.relation.partition(" the ")
    if phrase.kind == "room":
        return any(might_be_room(anchor, room.kind) for room in seen.plan.rooms)
    return any(might_be(anchor, item) for item in seen.objects)


def might_be_in(item: Placed, plan: Plan) -> set[str]:
    """Names of the rooms of a plan in which such a thing is nothing special."""
    kinds = {room.kind for room in plan.rooms}
    return {
        ROOM_NAMES[kind]
        for kind in kinds
        if BELONGS_AS.get(kind, kind) in item.thing.rooms
        or "any" in item.thing.rooms
        or item.thing.held_out
    }


def near_misses(seen: Seen, looks: Sequence[str], *, plausible: bool) -> Iterator[Phrase]:
    """Phrases with the noun of a well visible object and a look or relation that fits nothing.

    Args:
        looks: that may be claimed of it; where things come in any colour, of those only.
        plausible: name only rooms in which such a thing would be nothing special.
    """
    recoloured = any(item.paint for item in seen.objects)
    supports = sorted({item.thing.name for item in seen.objects if item.thing.surface})
    all_rooms = {ROOM_NAMES[room.kind] for room in seen.plan.rooms}
    for label, item in enumerate(seen.objects):
        if not seen.labels.is_answerable(label):
            continue
        if seen.slice == "new" and not item.thing.held_out:
            continue
        told = () if recoloured and not item.any_colour else looks
        wrong = [Phrase(noun, look, kind="look") for noun in item.thing.names for look in told]
        on = support_of(item, seen.objects)
        rooms = sorted(might_be_in(item, seen.plan) if plausible else all_rooms)
        for noun in item.thing.names:
            if on is not None:
                wrong += [Phrase(noun, relation=f"on the {s}", kind="on") for s in supports]
            if len(rooms) > 1:
                wrong += [Phrase(noun, relation=f"in the {r}", kind="room") for r in rooms]
        for phrase in wrong:
            if not candidates(phrase, seen.objects, seen.plan):
                yield phrase


def ambiguous_nouns(seen: Seen) -> set[str]:
    """Names shared by several well visible objects at least 1.5 m apart."""
    nouns: set[str] = set()
    for label, item in enumerate(seen.objects):
        for noun in item.thing.names:
            twins = [
                other
                for index, other in enumerate(seen.objects)
                if index != label and might_be(noun, other) and seen.labels.is_answerable(index)
            ]
            far = any(
                np.hypot(*(np.array(other.centre[:2]) - item.centre[:2])) > 1.5 for other in twins
            )
            if far and seen.labels.is_answerable(label):
                nouns.add(noun)
    return nouns


def describe(item: Placed, seen: Seen) -> str:
    """The answer in words."""
    support = support_of(item, seen.objects)
    where = f"on the {support.thing.name} " if support is not None else ""
    phrase = Phrase(item.thing.name, item.look if item.look not in item.thing.name else "")
    verb = "are" if phrase.plural else "is"
    room = ROOM_NAMES[seen.plan.rooms[item.room].kind]
    return f"The {phrase.words} {verb} {where}in the {room}."
