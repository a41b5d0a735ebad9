"""Furnishing: which things stand in a room and where, without collisions, like at home."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from semflip_train.simulation.catalogue import CatalogueModel
from semflip_train.simulation.placed import Box, Placed, overlap
from semflip_train.simulation.plan import BELONGS_AS, Plan, Room
from semflip_train.simulation.things import Thing

#: What a room of a kind nearly always has, the first things first.
CORE: dict[str, tuple[str, ...]] = {
    "living": ("sofa", "TV stand", "coffee table", "bookcase", "armchair", "TV"),
    "bedroom": ("bed", "wardrobe", "bedside table", "chest of drawers"),
    "kitchen": (
        "fridge", "kitchen sink", "stove", "kitchen cabinet", "kitchen cabinet", "round table",
    ),
    "office": ("desk", "bookcase", "office chair", "desk", "whiteboard"),
    "bathroom": ("bathtub", "toilet", "washbasin", "washing machine"),
    "kids": ("bunk bed", "desk", "cupboard", "shelf unit"),
    "gym": ("treadmill", "bench", "pinball machine", "chest of drawers"),
    "workshop": ("workbench", "chest freezer", "wooden crate", "desk"),
    "hall": ("bench", "chest of drawers", "potted plant"),
    "corridor": ("bench", "clothes rack", "fire extinguisher", "potted plant", "umbrella"),
}  # fmt: skip
SEATS_AT = {
    "dining table": "chair",
    "round table": "chair",
    "glass table": "chair",
    "table with a checked tablecloth": "chair",
    "desk": "office chair",
}
#: A sequence about new things tries so many of them in each room.
NEW_SHARE = 0.32
#: Places of things that stand on others.
ON_FURNITURE = ("table", "shelf")
FRONT_CLEARANCE = 0.35
DOORWAY_CLEARANCE = 1.1
#: Half of the width that stays free along a corridor, and how far from its ends; metres.
LANE, LANE_END = 0.4, 0.8


class Furnisher:
    """Fills the rooms of a plan.

    Args:
        things: what may be used.
        models: size and surface height of each model.
        allowed: keys of the models that this sequence may use.
        density: 1 for a normally full room.
        paint: model key -> the colour that it is painted over with here.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        plan: Plan,
        things: Iterable[Thing],
        models: Mapping[str, CatalogueModel],
        allowed: frozenset[str],
        density: float = 1.0,
        paint: Mapping[str, str] | None = None,
    ) -> None:
        self._rng = rng
        self._paint = paint or {}
        self._plan = plan
        self._models = models
        self._things = {thing.name: thing for thing in things}
        self._usable = {
            thing.name: tuple(key for key in thing.models if key in allowed and key in models)
            for thing in self._things.values()
        }
        self._density = density
        self._taken: list[list[Box]] = [
            [*_doorway_boxes(plan, index), *_lanes(room)] for index, room in enumerate(plan.rooms)
        ]
        self._count: Counter[str] = Counter()
        self._used: set[str] = set()
        self.objects: list[Placed] = []

    def furnish(self) -> tuple[Placed, ...]:
        """Furnish all rooms; the order of the result is the objects' label."""
        for index in range(len(self._plan.rooms)):
            self._furnish_room(index)
        return tuple(self.objects)

    def _furnish_room(self, index: int) -> None:
        room = self._plan.rooms[index]
        area = room.width * room.depth
        for thing in self._things.values():
            wanted = thing.held_out and self._usable[thing.name] and not self._count[thing.name]
            if wanted and thing.place not in ON_FURNITURE and self._rng.random() < NEW_SHARE:
                self._put(thing, index)
        for name in CORE.get(room.kind, ()):
            if name in self._things and self._rng.random() < 0.88:
                self._put(self._things[name], index)
        share = self._density * area / 20.0
        for place, count in (("middle", 0.7), ("wall", 2.4), ("floor", 4.5), ("hang", 0.8)):
            for thing in self._choices(room.kind, place, self._rng.poisson(count * share)):
                self._put(thing, index)
        for support in [i for i, item in enumerate(self.objects) if item.room == index]:
            self._fill_surface(support)

    def _choices(self, kind: str, place: str, count: int) -> Iterator[Thing]:
        """Things for a place, each name once more than the rest only now and then."""
        places = ON_FURNITURE if place == "table+shelf" else (place,)
        kind = BELONGS_AS.get(kind, kind)
        fitting = [
            thing
            for thing in self._things.values()
            if thing.place in places
            and self._usable[thing.name]
            and (kind in thing.rooms or "any" in thing.rooms or thing.held_out)
        ]
        order = self._rng.permutation(len(fitting))
        again = self._rng.random(len(fitting)) < 0.12
        fresh = [fitting[i] for i in order if self._count[fitting[i].name] == 0 or again[i]]
        if any(thing.held_out for thing in fresh):
            first = self._rng.random() < 0.6
            fresh.sort(key=lambda thing: thing.held_out != first)
        yield from fresh[:count]

    def _model(self, thing: Thing) -> str | None:
        keys = [key for key in self._usable[thing.name] if key not in self._used]
        return str(self._rng.choice(keys)) if keys else None

    def _put(self, thing: Thing, room: int) -> None:
        key = self._model(thing)
        if key is None:
            return
        placed = None
        if thing.place == "wall":
            placed = self._by_wall(thing, key, room, gap=0.02)
        elif thing.place in ("floor", "seat"):
            placed = self._by_wall(thing, key, room, gap=0.05, jitter=0.3)
        elif thing.place == "middle":
            placed = self._in_middle(thing, key, room)
        elif thing.place == "hang":
            placed = self._on_wall(thing, key, room)
        elif thing.place in ON_FURNITURE:
            supports = [i for i, item in enumerate(self.objects) if item.room == room]
            for support in supports:
                if self._stand_on(support, [thing]):
                    return
        if placed is not None:
            self._keep(placed)
            if thing.name in SEATS_AT and thing.place in ("wall", "middle"):
                self._seats(len(self.objects) - 1)

    def _keep(self, placed: Placed, *, blocks: bool = True) -> None:
        placed = replace(placed, paint=self._paint.get(placed.model, ""))
        self.objects.append(placed)
        self._count[placed.thing.name] += 1
        self._used.add(placed.model)
        if blocks:
            self._taken[placed.room].append(placed.box)

    def _free(self, room: int, box: Box, margin: float) -> bool:
        inner = self._plan.rooms[room]
        slack = 1e-6
        if box[0] < inner.x0 - slack or box[2] > inner.x1 + slack:
            return False
        if box[1] < inner.y0 - slack or box[3] > inner.y1 + slack:
            return False
        return not any(overlap(box, other, margin) for other in self._taken[room])

    def _by_wall(
        self, thing: Thing, key: str, index: int, *, gap: float, jitter: float = 0.0
    ) -> Placed | None:
        room, size = self._plan.rooms[index], self._models[key].size
        lengthwise = thing.place == "floor" and size[1] > 1.5 * size[0]
        for _ in range(60):
            side = int(self._rng.integers(4))
            yaw = wall_yaw(side) + (math.pi / 2 if lengthwise else 0.0)
            yaw += float(self._rng.uniform(-jitter, jitter)) if jitter else 0.0
            probe = Placed(thing, key, (0.0, 0.0, 0.0), yaw, size, index)
            x0, y0, x1, y1 = probe.box
            half_x, half_y = (x1 - x0) / 2, (y1 - y0) / 2
            x, y = _against(room, side, half_x + gap, half_y + gap, float(self._rng.random()))
            placed = Placed(thing, key, (x, y, self._models[key].elevation), yaw, size, index)
            wide = room.kind != "corridor"  # there the lane stays free instead
            front = FRONT_CLEARANCE if thing.place == "wall" and wide else 0.0
            box = _grown_to_front(placed.box, side, front)
            if self._free(index, placed.box, 0.05) and self._free(index, box, 0.0):
                return placed
        return None

    def _in_middle(self, thing: Thing, key: str, index: int) -> Placed | None:
        room, size = self._plan.rooms[index], self._models[key].size
        aisle = 0.75
        for _ in range(60):
            yaw = float(self._rng.integers(4)) * math.pi / 2
            x = float(self._rng.uniform(room.x0 + 0.3 * room.width, room.x0 + 0.7 * room.width))
            y = float(self._rng.uniform(room.y0 + 0.3 * room.depth, room.y0 + 0.7 * room.depth))
            placed = Placed(thing, key, (x, y, 0.0), yaw, size, index)
            if self._free(index, placed.box, aisle):
                return placed
        return None

    def _on_wall(self, thing: Thing, key: str, index: int) -> Placed | None:
        room, model = self._plan.rooms[index], self._models[key]
        for _ in range(40):
            side = int(self._rng.integers(4))
            half = model.size[0] / 2
            x, y = _against(room, side, *_halves(side, half, model.size[1] / 2), self._rng.random())
            z = max(model.elevation, 1.15)
            placed = Placed(thing, key, (x, y, z), wall_yaw(side), model.size, index)
            if wall_is_clear(self._plan, self.objects, index, placed.box, z - 0.1):
                return placed
        return None

    def _seats(self, table: int) -> None:
        item = self.objects[table]
        thing = self._things.get(SEATS_AT[item.thing.name])
        key = self._model(thing) if thing is not None else None
        if thing is None or key is None:
            return
        size = self._models[key].size
        sides = [0] if item.thing.place == "wall" else [int(s) for s in self._rng.permutation(4)]
        for side in sides[: 1 if len(sides) == 1 else int(self._rng.integers(1, 4))]:
            turn = item.yaw + side * math.pi / 2
            reach = item.size[1] / 2 if side % 2 == 0 else item.size[0] / 2
            away = reach + size[1] / 2 - 0.18 + float(self._rng.uniform(0.0, 0.15))
            x = item.position[0] + math.sin(turn) * away
            y = item.position[1] - math.cos(turn) * away
            yaw = turn + math.pi + float(self._rng.uniform(-0.25, 0.25))
            placed = Placed(thing, key, (x, y, 0.0), yaw, size, item.room)
            others = [box for box in self._taken[item.room] if box != item.box]
            room = self._plan.rooms[item.room]
            inside = room.contains(*placed.box[:2]) and room.contains(*placed.box[2:])
            if inside and not any(overlap(placed.box, box, 0.03) for box in others):
                self._keep(placed)

    def _fill_surface(self, support: int) -> None:
        item = self.objects[support]
        kind = self._plan.rooms[item.room].kind
        place = "table" if item.thing.place == "middle" else "table+shelf"
        count = int(self._rng.integers(1, 4)) if item.size[0] > 0.7 else 1
        self._stand_on(support, list(self._choices(kind, place, 2 * count))[: count + 1])

    def _stand_on(self, support: int, things: list[Thing]) -> bool:
        """Put things in a row on a surface that holds none yet; True if one stands there."""
        item = self.objects[support]
        model = self._models[item.model]
        taken = any(other.on == support for other in self.objects)
        if not item.thing.surface or item.model in item.thing.bare or model.top is None or taken:
            return False
        left, room_for = -item.size[0] / 2 + 0.04, item.size[0] - 0.08
        row: list[tuple[Thing, str, float]] = []
        for thing in things:
            if thing.place == "shelf" and item.thing.place == "middle":
                continue
            key = self._model(thing)
            if key is None or key in {entry[1] for entry in row}:
                continue
            width, depth, _ = self._models[key].size
            if width <= room_for and depth <= item.size[1]:
                row.append((thing, key, width))
                room_for -= width + 0.05
        for position, (thing, key, width) in enumerate(row):
            spare = room_for * float(self._rng.random()) if room_for > 0 else 0.0
            across = left + width / 2 + spare
            room_for -= spare
            left = across + width / 2 + 0.05
            slack = (item.size[1] - self._models[key].size[1]) / 2
            back = float(self._rng.uniform(-0.6, 0.2)) * slack
            cos, sin = math.cos(item.yaw), math.sin(item.yaw)
            x = item.position[0] + cos * across - sin * back
            y = item.position[1] + sin * across + cos * back
            yaw = item.yaw + float(self._rng.uniform(-0.2, 0.2))
            z = item.position[2] + model.top + 0.002 * (position + 1)
            size = self._models[key].size
            self._keep(Placed(thing, key, (x, y, z), yaw, size, item.room, support), blocks=False)
        return bool(row)


def wall_yaw(side: int) -> float:
    """Yaw of something with its back to the north (0), east (1), south (2) or west (3) wall."""
    return (0.0, -math.pi / 2, math.pi, math.pi / 2)[side]


def wall_is_clear(plan: Plan, objects: Iterable[Placed], room: int, box: Box, above: float) -> bool:
    """Whether nothing taller than ``above`` metres, and no doorway, is at this piece of wall."""
    for item in objects:
        high = item.position[2] + item.size[2] > above
        if item.room == room and high and overlap(box, item.box, 0.12):
            return False
    return not any(overlap(box, door, 0.0) for door in _doorway_boxes(plan, room))


def _halves(side: int, along: float, out: float) -> tuple[float, float]:
    return (along, out + 0.005) if side in (0, 2) else (out + 0.005, along)


def _against(
    room: Room, side: int, half_x: float, half_y: float, share: float
) -> tuple[float, float]:
    """Middle of something whose back touches a wall, ``share`` of the way along it."""
    x = room.x0 + half_x + share * max(room.width - 2 * half_x, 0.0)
    y = room.y0 + half_y + share * max(room.depth - 2 * half_y, 0.0)
    return (
        (x, room.y1 - half_y),
        (room.x1 - half_x, y),
        (x, room.y0 + half_y),
        (room.x0 + half_x, y),
    )[side]


def _grown_to_front(box: Box, side: int, by: float) -> Box:
    x0, y0, x1, y1 = box
    return (
        (x0, y0 - by, x1, y1),
        (x0 - by, y0, x1, y1),
        (x0, y0, x1, y1 + by),
        (x0, y0, x1 + by, y1),
    )[side]


def _doorway_boxes(plan: Plan, room: int) -> list[Box]:
    return [
        door.box(door.width / 2 + 0.15, DOORWAY_CLEARANCE)
        for door in plan.doorways
        if room in door.rooms
    ]


def _lanes(room: Room) -> list[Box]:
    """What stays free along a corridor, so that the robot can pass everything in it."""
    if room.kind != "corridor":
        return []
    middle = (room.y0 + room.y1) / 2
    return [(room.x0 + LANE_END, middle - LANE, room.x1 - LANE_END, middle + LANE)]
