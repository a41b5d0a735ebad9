"""Floor plans: a row of rooms along x, joined by doorways, with styles drawn by a seed."""

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
        kind: one of :data:`ROOM_SIZES`.
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
    """An open passage between room ``left`` and the next one, at ``x`` (middle of the wall)."""

    left: int
    x: float
    y: float
    width: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Rooms from left to right and the doorways between neighbours."""

    rooms: tuple[Room, ...]
    doorways: tuple[Doorway, ...]

    def room_at(self, x: float, y: float) -> int | None:
        """Index of the room that holds a point, or None."""
        for index, room in enumerate(self.rooms):
            if room.contains(x, y):
                return index
        return None


def make_plan(rng: np.random.Generator, kinds: Sequence[str]) -> Plan:
    """Lay rooms of these kinds in a row."""
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
            doorways.append(Doorway(len(rooms) - 1, x - WALL_THICKNESS / 2, centre, opening))
        rooms.append(room)
        x += width + WALL_THICKNESS
    return Plan(tuple(rooms), tuple(doorways))


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
