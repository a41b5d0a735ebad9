"""Referring expressions: how people point at an object, and of which objects one is true.

A phrase is a noun, perhaps a look ("red") and perhaps a relation ("on the desk", "in the kitchen").
Truth is judged by words: an object *is* what its names say, and *might be called* by any of its
words; what might be called so is never asked as absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from semflip_train.simulation.placed import Placed
from semflip_train.simulation.plan import Plan

ROOM_NAMES = {
    "living": "living room",
    "bedroom": "bedroom",
    "kitchen": "kitchen",
    "office": "office",
    "bathroom": "bathroom",
    "kids": "children's room",
    "gym": "games room",
    "workshop": "workshop",
    "hall": "hallway",
    "corridor": "corridor",
}
#: Rooms that go by another name as well.
ALSO_CALLED = {"corridor": ("hallway",)}
#: Colours that nobody confuses with those of another group.
FAMILIES: tuple[frozenset[str], ...] = (
    frozenset({"red", "pink", "orange", "reddish"}),
    frozenset({"purple", "pink"}),
    frozenset({"blue", "turquoise", "purple"}),
    frozenset({"green", "turquoise"}),
    frozenset({"yellow", "gold", "golden", "orange", "cream", "beige"}),
    frozenset({"white", "cream", "beige", "grey", "silver"}),
    frozenset({"grey", "silver", "black", "iron"}),
    frozenset({"brown", "wooden", "reddish", "antique", "orange", "golden", "beige", "red"}),
    frozenset({"black", "dark", "navy"}),
)
PLAIN = ("red", "blue", "green", "yellow", "black", "white", "orange", "purple", "pink")
#: Words too broad to tell two needs apart.
BROAD = frozenset(
    {
        "furniture", "appliance", "toy", "game", "tool", "food", "machine", "instrument", "plant",
        "box", "bag", "animal", "pet", "vehicle", "light", "seat", "table", "cabinet", "bottle",
    }
)  # fmt: skip
PLURAL_MASS = frozenset({"bread", "milk", "firewood", "table football", "salad"})
NEXT_TO_M = 0.55


@dataclass(frozen=True, slots=True)
class Phrase:
    """A referring expression.

    Args:
        noun: for example ``teddy bear``.
        look: a colour or other look, or empty.
        relation: for example ``on the desk``, or empty.
        kind: which words it was made from: ``name``, ``look``, ``on``, ``room``, ``beside``.
    """

    noun: str
    look: str = ""
    relation: str = ""
    kind: str = "name"

    @property
    def words(self) -> str:
        """Without an article: ``red teddy bear on the desk``."""
        return " ".join(part for part in (self.look, self.noun, self.relation) if part)

    @property
    def the(self) -> str:
        """With the definite article."""
        return f"the {self.words}"

    @property
    def plural(self) -> bool:
        """Whether the head noun is a plural (``sneakers``, but not ``vase of tulips``)."""
        head = self.noun.split(" of ")[0].split(" with ")[0]
        return head.endswith("s") and not head.endswith("ss")

    @property
    def some(self) -> str:
        """With the indefinite article, or ``some``."""
        if self.plural or self.noun in PLURAL_MASS:
            return f"some {self.words}"
        vowel = self.words[0].lower() in "aeiou" or self.words.startswith("L-")
        return f"{'an' if vowel else 'a'} {self.words}"


def alike(look: str, other: str) -> bool:
    """Whether two looks might describe the same thing."""
    a, b = set(look.lower().split()), set(other.lower().split())
    return bool(a & b) or any(a & family and b & family for family in FAMILIES)


def might_be(noun: str, item: Placed) -> bool:
    """Whether somebody might call an object by this noun."""
    return noun.lower() in item.thing.words


def might_be_room(name: str, kind: str) -> bool:
    """Whether somebody might call a room of a kind so."""
    told = (ROOM_NAMES[kind], *ALSO_CALLED.get(kind, ()))
    return name in told or (kind == "hall" and name == ROOM_NAMES["corridor"])


def support_of(item: Placed, objects: Sequence[Placed]) -> Placed | None:
    """What an object stands on, if not the floor."""
    return objects[item.on] if item.on is not None else None


def look_fits(look: str, item: Placed) -> bool:
    """Whether a look might be said of an object; objects without a plain look take any."""
    colours = item.colours
    return not colours or "*" in colours or any(alike(look, colour) for colour in colours)


def relation_fits(relation: str, item: Placed, objects: Sequence[Placed], plan: Plan) -> bool:
    """Whether a relation might be said of an object (``on the ...``, ``in the ...``)."""
    if relation.startswith("in the "):
        return might_be_room(relation.removeprefix("in the "), plan.rooms[item.room].kind)
    if relation.startswith("on the "):
        support = support_of(item, objects)
        return support is not None and might_be(relation.removeprefix("on the "), support)
    noun = relation.removeprefix("next to the ")
    return any(might_be(noun, other) for other in beside(item, objects, NEXT_TO_M * 2))


def candidates(phrase: Phrase, objects: Sequence[Placed], plan: Plan) -> list[int]:
    """Labels of all objects of which a phrase might be true."""
    return [
        label
        for label, item in enumerate(objects)
        if might_be(phrase.noun, item)
        and (not phrase.look or look_fits(phrase.look, item))
        and (not phrase.relation or relation_fits(phrase.relation, item, objects, plan))
    ]


def beside(item: Placed, objects: Sequence[Placed], within_m: float) -> list[Placed]:
    """Objects on the same floor or surface whose footprints are this near."""
    x0, y0, x1, y1 = item.box
    near = []
    for other in objects:
        if other is item or other.room != item.room or other.on != item.on:
            continue
        a0, b0, a1, b1 = other.box
        gap = max(a0 - x1, x0 - a1, b0 - y1, y0 - b1)
        if gap <= within_m:
            near.append(other)
    return near


def phrases_of(label: int, objects: Sequence[Placed], plan: Plan) -> Iterator[Phrase]:
    """All phrases that are true of an object, unique or not."""
    item = objects[label]
    support = support_of(item, objects)
    rooms = [room.kind for room in plan.rooms]
    for noun in item.thing.names:
        yield Phrase(noun)
        if item.look and item.look.split()[0] not in noun.split():
            yield Phrase(noun, item.look, kind="look")
        if support is not None:
            yield Phrase(noun, relation=f"on the {support.thing.name}", kind="on")
        if len(set(rooms)) == len(rooms) and len(rooms) > 1:
            kind = rooms[item.room]
            for room in (ROOM_NAMES[kind], *ALSO_CALLED.get(kind, ())):
                yield Phrase(noun, relation=f"in the {room}", kind="room")
        if support is None:
            for other in beside(item, objects, NEXT_TO_M)[:2]:
                if other.thing.name != item.thing.name:
                    yield Phrase(noun, relation=f"next to the {other.thing.name}", kind="beside")
