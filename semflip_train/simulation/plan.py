"""Floor plans with styles drawn by a seed: rooms in a row along x, or rooms off a corridor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from semflip_core.poses import Vector3
from semflip_train.simulation import surfaces

WALL_THICKNESS = 0.14
DOORWAY_HEIGHT = 2.05

#: kind -> smallest and largest width and depth in metres
ROOM_SIZES: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "living": ((5.2, 4.4), (6.4, 5.4)),
    "bedroom": ((4.2, 4.0), (5.2, 4.8)),
    "kitchen": ((4.2, 3.9), (5.2, 4.7)),
    "office": ((4.2, 4.0), (5.4, 4.8)),
    "bathroom": ((3.4, 3.2), (4.0, 3.8)),
    "kids": ((4.2, 3.9), (5.0, 4.6)),
    "gym": ((5.2, 4.6), (6.2, 5.4)),
    "workshop": ((4.6, 4.2), (5.6, 5.0)),
    "hall": ((4.8, 3.0), (6.2, 3.4)),
}
#: Width of a corridor in metres; it is as long as the rooms beside it.
CORRIDOR_WIDTH = (2.05, 2.4)
#: A corridor has in it what another kind of room has.
BELONGS_AS = {"corridor": "hall"}

FLOORS_OF = {
    "kitchen": ("tiles", "planks", "tiles"),
    "bathroom": ("tiles",),
    "workshop": ("concrete",),
    "office": ("carpet", "planks"),
    "bedroom": ("carpet", "planks", "parquet"),
    "gym": ("planks", "concrete", "carpet"),
}
WALLS_OF = {"bathroom": ("tiled",), "workshop": ("paint", "brick"), "kitchen": ("paint", "dado")}


@dataclass(frozen=True, slots=True)
class Room:
    """A rectangular room; metres in the map frame, floor at z = 0.

    Args:
        kind: one of :data:`ROOM_SIZES`, or ``corridor``.
        x0, y0, x1, y1: inner faces of its walls.
        height: of its ceiling.
        floor, wall: kinds of covering (:mod:`surfaces`).
        colour, second: paint of its walls.
        light: linear RGB of its lamps.
    """

    kind: str
    x0: float
    y0: float
    x1: float
    y1: float
    height: float
    floor: str
    wall: str
    colour: surfaces.Colour
    second: surfaces.Colour
    light: Vector3

    @property
    def width(self) -> float:
        """Along x, metres."""
        return self.x1 - self.x0

    @property
    def depth(self) -> float:
        """Along y, metres."""
        return self.y1 - self.y0

    def contains(self, x: float, y: float) -> bool:
        """Whether a point lies between its walls."""
        return self.x0 <= x <= self.x1 and self.y0 <= y <= self.y1


@dataclass(frozen=True, slots=True)
class Doorway:
    """An open passage through the wall between two rooms.

    Args:
        rooms: indices of the room to the west of the wall and of that to the east; where the wall
            runs along x, of that to the south and of that to the north.
        x, y: its middle, in the middle of the wall; metres.
        width: of the opening, metres.
        along_x: the wall runs along x.
    """

    rooms: tuple[int, int]
    x: float
    y: float
    width: float
    along_x: bool = False

    def side_in(self, room: int) -> int | None:
        """Which wall of a room it is in (:func:`furnish.wall_yaw`), or None."""
        if room not in self.rooms:
            return None
        first, second = (0, 2) if self.along_x else (1, 3)
        return first if room == self.rooms[0] else second

    def box(self, half: float, reach: float) -> tuple[float, float, float, float]:
        """``(x0, y0, x1, y1)`` of ``half`` along the wall and ``reach`` out of it, both ways."""
        x, y = (half, reach) if self.along_x else (reach, half)
        return (self.x - x, self.y - y, self.x + x, self.y + y)


@dataclass(frozen=True, slots=True)
class Plan:
    """Rooms, and the doorways between neighbours."""

    rooms: tuple[Room, ...]
    doorways: tuple[Doorway, ...]

    def room_at(self, x: float, y: float) -> int | None:
        """Index of the room that holds a point, or None."""
        for index, room in enumerate(self.rooms):
            if room.contains(x, y):
                return index
        return None

    def outer_sides(self, index: int) -> list[int]:
        """Walls of a room behind which there is no other room."""
        room = self.rooms[index]
        around = (
            (0, (room.x0, room.y1, room.x1, room.y1 + 2 * WALL_THICKNESS)),
            (2, (room.x0, room.y0 - 2 * WALL_THICKNESS, room.x1, room.y0)),
            (3, (room.x0 - 2 * WALL_THICKNESS, room.y0, room.x0, room.y1)),
            (1, (room.x1, room.y0, room.x1 + 2 * WALL_THICKNESS, room.y1)),
        )
        others = [other for other in self.rooms if other is not room]
        return [
            side
            for side, (x0, y0, x1, y1) in around
            if not any(o.x0 < x1 and x0 < o.x1 and o.y0 < y1 and y0 < o.y1 for o in others)
        ]


def make_plan(rng: np.random.Generator, kinds: Sequence[str]) -> Plan:
    """Lay rooms of these kinds in a row, or off a corridor if that is the first of them."""
    if kinds[0] == "corridor":
        return _corridor_plan(rng, kinds[1:])
    rooms: list[Room] = []
    doorways: list[Doorway] = []
    x = 0.0
    height = float(rng.uniform(2.45, 2.75))
    for kind in kinds:
        (w0, d0), (w1, d1) = ROOM_SIZES[kind]
        width, depth = float(rng.uniform(w0, w1)), float(rng.uniform(d0, d1))
        y = float(rng.uniform(-0.4, 0.4)) if rooms else 0.0
        room = _room(rng, kind, (x, y, x + width, y + depth), height)
        if rooms:
            low = max(rooms[-1].y0, room.y0) + 0.9
            high = min(rooms[-1].y1, room.y1) - 0.9
            centre = float(rng.uniform(low, high))
            opening = float(rng.uniform(0.95, 1.15))
            pair = (len(rooms) - 1, len(rooms))
            doorways.append(Doorway(pair, x - WALL_THICKNESS / 2, centre, opening))
        rooms.append(room)
        x += width + WALL_THICKNESS
    return Plan(tuple(rooms), tuple(doorways))


def _corridor_plan(rng: np.random.Generator, kinds: Sequence[str]) -> Plan:
    """A corridor along x with rooms to the north of it and, of three or more, one to the south.

    Rooms turn their shorter side to the corridor.
    """
    height = float(rng.uniform(2.45, 2.75))
    breadth = float(rng.uniform(*CORRIDOR_WIDTH))
    south = len(kinds) - 1 if len(kinds) > 2 else len(kinds)
    rooms: list[Room] = []
    doorways: list[Doorway] = []
    x = 0.0
    for number, kind in enumerate(kinds, start=1):
        (w0, d0), (w1, d1) = ROOM_SIZES[kind]
        depth, width = float(rng.uniform(w0, w1)), float(rng.uniform(d0, d1))
        if number > south:
            x = float(rng.uniform(0.0, max(rooms[-1].x1 - width, 0.0)))
            y = -WALL_THICKNESS - depth
        else:
            y = breadth + WALL_THICKNESS
        rooms.append(_room(rng, kind, (x, y, x + width, y + depth), height))
        opening = float(rng.uniform(0.95, 1.15))
        centre = float(rng.uniform(x + 0.9, x + width - 0.9))
        wall = -WALL_THICKNESS / 2 if number > south else breadth + WALL_THICKNESS / 2
        pair = (number, 0) if number > south else (0, number)
        doorways.append(Doorway(pair, centre, wall, opening, along_x=True))
        x += width + WALL_THICKNESS
    end = max(room.x1 for room in rooms)
    corridor = _room(rng, "corridor", (0.0, 0.0, end, breadth), height)
    return Plan((corridor, *rooms), tuple(doorways))


def _room(
    rng: np.random.Generator, kind: str, box: tuple[float, float, float, float], height: float
) -> Room:
    colour = surfaces.pick(rng, surfaces.WALL_COLOURS)
    change = np.array(colour) * rng.uniform(0.8, 0.94) + rng.normal(0, 6, 3)
    warmth = rng.uniform(-0.06, 0.06)
    brightness = rng.uniform(0.3, 0.46)
    walls, floors = WALLS_OF.get(kind, surfaces.WALLS), FLOORS_OF.get(kind, surfaces.FLOORS)
    return Room(
        kind,
        *box,
        height,
        floor=str(rng.choice(floors)),
        wall=str(rng.choice(walls)),
        colour=colour,
        second=(float(change[0]), float(change[1]), float(change[2])),
        light=(
            float(brightness * (1 + warmth)),
            float(brightness),
            float(brightness * (1 - warmth)),
        ),
    )
