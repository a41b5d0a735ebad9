"""A scene: a plan, furnished, decorated and lit; and what of it the renderer draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from semflip_core.poses import Vector3
from semflip_train.simulation import surfaces
from semflip_train.simulation.catalogue import FurnitureCatalogue
from semflip_train.simulation.furnish import Furnisher, wall_is_clear, wall_yaw
from semflip_train.simulation.meshes import MeshPart, load_parts
from semflip_train.simulation.paint import draw_paint, painted
from semflip_train.simulation.placed import Box, Placed
from semflip_train.simulation.plan import (
    DOORWAY_HEIGHT,
    WALL_THICKNESS,
    Doorway,
    Plan,
    Room,
    make_plan,
)
from semflip_train.simulation.render import Light, Solid
from semflip_train.simulation.things import Thing

WHITE: surfaces.Colour = (238.0, 236.0, 232.0)


@dataclass(frozen=True, slots=True)
class Decoration:
    """A window, painting, rug or closed door: part of the building, no object of its own.

    Args:
        kind: ``window``, ``painting`` or ``rug``.
        side: wall, as in :func:`wall_yaw`; 0 for a rug.
        centre: on the wall or floor, metres.
        size: width and height in metres.
        seed: of its picture.
    """

    kind: str
    room: int
    side: int
    centre: Vector3
    size: tuple[float, float]
    seed: int


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything about one furnished place; made from a seed by :func:`make_scene`."""

    seed: int
    plan: Plan
    objects: tuple[Placed, ...]
    decorations: tuple[Decoration, ...]
    ambient: Vector3

    @property
    def lights(self) -> tuple[Light, ...]:
        """Two lamps a room below the ceiling."""
        lamps = []
        for room in self.plan.rooms:
            for x, y in _lamp_places(room):
                lamps.append(Light((x, y, room.height - 0.25), room.light))
        return tuple(lamps)

    def solids(
        self, catalogue: FurnitureCatalogue, without: frozenset[int] = frozenset()
    ) -> list[Solid]:
        """What to draw, in an order that starts with the building.

        Args:
            without: objects that never were there: their soft shadows are gone too.
        """
        shown = [item for label, item in enumerate(self.objects) if label not in without]
        solids = [Solid(tuple(self._building(shown)))]
        for label, item in enumerate(self.objects):
            if label not in without:
                parts = load_parts(catalogue, item.model)
                parts = painted(parts, item.paint) if item.paint else parts
                solids.append(Solid(parts, item.position, item.yaw, label))
        return solids

    def _building(self, shown: Sequence[Placed]) -> list[MeshPart]:
        parts: list[MeshPart] = []
        for index, room in enumerate(self.plan.rooms):
            rng = np.random.default_rng([self.seed, 7, index])
            here = [item for item in shown if item.room == index and item.on is None]
            parts += _floor_and_ceiling(rng, room, here)
            for side in range(4):
                parts += _wall(rng, self.plan, index, side, here)
        for door in self.plan.doorways:
            parts += _frame(door)
        for decoration in self.decorations:
            parts += _decoration_parts(decoration)
        return parts


def make_scene(
    seed: int,
    catalogue: FurnitureCatalogue,
    things: Iterable[Thing],
    allowed: frozenset[str],
    kinds: Sequence[str],
    density: float = 1.0,
    paint_share: float = 0.0,
) -> Scene:
    """Make a furnished place; the same arguments always give the same one.

    Args:
        allowed: models that may stand in it.
        kinds: of its rooms.
        density: 1 for normally full rooms.
        paint_share: of the things that come in any colour, so many are painted over.
    """
    things = tuple(things)
    rng = np.random.default_rng([seed, 1])
    plan = make_plan(rng, kinds)
    paint = draw_paint(np.random.default_rng([seed, 4]), things, paint_share)
    furnisher = Furnisher(rng, plan, things, catalogue.models, allowed, density, paint)
    objects = furnisher.furnish()
    decorations = tuple(_decorate(np.random.default_rng([seed, 2]), plan, objects))
    level = float(np.random.default_rng([seed, 3]).uniform(0.3, 0.42))
    return Scene(seed, plan, objects, decorations, (level, level, level))


def _lamp_places(room: Room) -> list[tuple[float, float]]:
    y = (room.y0 + room.y1) / 2
    return [(room.x0 + share * room.width, y) for share in (0.27, 0.73)]


def _floor_and_ceiling(
    rng: np.random.Generator, room: Room, here: Sequence[Placed]
) -> list[MeshPart]:
    picture = surfaces.floor(rng, room.floor, room.width, room.depth)
    outlines = [item.outline(0.02) for item in here if item.position[2] < 0.3]
    picture = surfaces.shade_floor(picture, outlines, (room.x0, room.y0))
    along, across = (room.width, 0.0, 0.0), (0.0, room.depth, 0.0)
    parts = [
        surfaces.panel((room.x0, room.y0, 0.0), along, across, picture),
        replace(
            surfaces.panel(
                (room.x0, room.y1, room.height), along, (0.0, -room.depth, 0.0), None, WHITE
            ),
            glow=0.4,
        ),
    ]
    for x, y in _lamp_places(room):
        centre = (x, y, room.height - 0.04)
        parts.append(surfaces.block(centre, (0.34, 0.34, 0.06), WHITE, glow=0.9))
    return parts


def _corner(room: Room, side: int) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Lower left corner of a wall seen from inside, its direction, and its length."""
    return (
        ((room.x0, room.y1), (1.0, 0.0), room.width),
        ((room.x1, room.y1), (0.0, -1.0), room.depth),
        ((room.x1, room.y0), (-1.0, 0.0), room.width),
        ((room.x0, room.y0), (0.0, 1.0), room.depth),
    )[side]


def _wall(
    rng: np.random.Generator, plan: Plan, index: int, side: int, here: Sequence[Placed]
) -> list[MeshPart]:
    room = plan.rooms[index]
    start, direction, length = _corner(room, side)
    shaded = []
    for item in here:
        along = [
            (x - start[0]) * direction[0] + (y - start[1]) * direction[1] for x, y in item.outline()
        ]
        out = min(
            abs((x - start[0]) * direction[1] - (y - start[1]) * direction[0])
            for x, y in item.outline()
        )
        if out < 0.2:
            low = item.position[2]
            shaded.append((min(along), max(along), low, low + item.size[2]))
    picture = surfaces.wall(rng, room.wall, room.colour, room.second, length, room.height, shaded)
    openings = []
    for door in plan.doorways:
        if door.side_in(index) == side:
            middle = (door.x - start[0]) * direction[0] + (door.y - start[1]) * direction[1]
            openings.append((middle - door.width / 2, middle + door.width / 2))
    openings.sort()
    lefts, rights = [0.0, *(end for _, end in openings)], [*(at for at, _ in openings), length]
    pieces = [(left, right, 0.0, room.height) for left, right in zip(lefts, rights, strict=True)]
    pieces += [(left, right, DOORWAY_HEIGHT, room.height) for left, right in openings]
    parts = []
    for left, right, low, high in pieces:
        corner = (start[0] + direction[0] * left, start[1] + direction[1] * left, low)
        along_wall = (direction[0] * (right - left), direction[1] * (right - left), 0.0)
        window = (left / length, low / room.height, right / length, high / room.height)
        # a wall is seen from the side that along x up points to: the room's inside
        parts.append(
            surfaces.panel(corner, along_wall, (0.0, 0.0, high - low), picture, window=window)
        )
    return parts


def _frame(door: Doorway) -> list[MeshPart]:
    thick = WALL_THICKNESS + 0.03
    half = door.width / 2

    def size(out: float, along: float, tall: float) -> Vector3:
        return (along, out, tall) if door.along_x else (out, along, tall)

    jambs = []
    for sign in (-1.0, 1.0):
        x, y, _ = size(0.0, sign * (half - 0.02), 0.0)
        centre = (door.x + x, door.y + y, DOORWAY_HEIGHT / 2)
        jambs.append(surfaces.block(centre, size(thick, 0.09, DOORWAY_HEIGHT), WHITE))
    lintel = surfaces.block(
        (door.x, door.y, DOORWAY_HEIGHT), size(thick, door.width + 0.05, 0.09), WHITE
    )
    x0, y0, x1, y1 = door.box(half, WALL_THICKNESS / 2)
    sill = surfaces.panel(
        (x0, y0, 0.0), (x1 - x0, 0.0, 0.0), (0.0, y1 - y0, 0.0), None, (120.0, 110.0, 100.0)
    )
    return [*jambs, lintel, sill]


def _decorate(
    rng: np.random.Generator, plan: Plan, objects: Sequence[Placed]
) -> Iterable[Decoration]:
    hung: list[tuple[int, Box]] = []
    for index, room in enumerate(plan.rooms):
        outer = plan.outer_sides(index)
        wanted = [("window", (float(rng.uniform(1.0, 1.7)), 1.2), 1.5)] * int(rng.integers(1, 3))
        doors = (2, 5) if room.kind == "corridor" else (0, 2)
        wanted += [("door", (0.9, 2.04), 1.02)] * int(rng.integers(*doors))
        wanted += [("painting", (float(rng.uniform(0.5, 0.9)), 0.55), 1.6)] * int(
            rng.integers(1, 4)
        )
        for kind, size, height in wanted:
            for _ in range(25):
                side = int(rng.choice(outer)) if kind == "window" else int(rng.integers(4))
                start, direction, length = _corner(room, side)
                along = float(rng.uniform(size[0] / 2 + 0.15, length - size[0] / 2 - 0.15))
                x, y = start[0] + direction[0] * along, start[1] + direction[1] * along
                half_x = abs(direction[0]) * size[0] / 2 + 0.06
                half_y = abs(direction[1]) * size[0] / 2 + 0.06
                box = (x - half_x, y - half_y, x + half_x, y + half_y)
                clear = wall_is_clear(plan, objects, index, box, height - size[1] / 2)
                near = any(room_ == index and _touch(box, other) for room_, other in hung)
                if clear and not near:
                    hung.append((index, box))
                    seed = int(rng.integers(1 << 30))
                    yield Decoration(kind, index, side, (x, y, height), size, seed)
                    break


def _touch(a: Box, b: Box) -> bool:
    gap = 0.08
    return a[0] < b[2] + gap and b[0] < a[2] + gap and a[1] < b[3] + gap and b[1] < a[3] + gap


def _decoration_parts(decoration: Decoration) -> list[MeshPart]:
    rng = np.random.default_rng(decoration.seed)
    yaw = wall_yaw(decoration.side)
    width, height = decoration.size
    if decoration.kind == "door":
        parts = _door(rng, width, height)
    elif decoration.kind == "window":
        parts = _window(rng, width, height)
    else:
        frame = surfaces.pick(rng, (*surfaces.WOODS, (30, 30, 32), WHITE))
        parts = [
            surfaces.block((0, -0.01, 0), (width, 0.03, height), frame),
            _facing(surfaces.painting(rng), width - 0.08, height - 0.08, 0.03),
        ]
    return [_moved(part, decoration.centre, yaw) for part in parts]


def _facing(picture: Any, width: float, height: float, out: float) -> MeshPart:
    """A picture in the wall's frame, looking at -y, ``out`` metres before the wall."""
    return surfaces.panel((-width / 2, -out, -height / 2), (width, 0, 0), (0, 0, height), picture)


def _window(rng: np.random.Generator, width: float, height: float) -> list[MeshPart]:
    pane = replace(_facing(surfaces.outdoors(rng), width, height, 0.004), glow=0.55)
    bars = [
        surfaces.block((0, -0.015, z), (width + 0.1, 0.05, 0.07), WHITE)
        for z in (-height / 2, height / 2)
    ]
    bars += [
        surfaces.block((x, -0.015, 0), (0.07, 0.05, height), WHITE)
        for x in (-width / 2, 0.0, width / 2)
    ]
    bars.append(surfaces.block((0, -0.06, -height / 2 - 0.05), (width + 0.16, 0.14, 0.03), WHITE))
    return [pane, *bars]


def _door(rng: np.random.Generator, width: float, height: float) -> list[MeshPart]:
    leaf = surfaces.pick(rng, (*surfaces.WOODS[:4], WHITE, WHITE))
    darker = (leaf[0] * 0.9, leaf[1] * 0.9, leaf[2] * 0.9)
    parts = [surfaces.block((0, -0.012, 0), (width, 0.024, height), leaf)]
    for x in (-width / 2, width / 2):
        parts.append(surfaces.block((x, -0.02, 0), (0.08, 0.05, height), WHITE))
    parts.append(surfaces.block((0, -0.02, height / 2), (width + 0.08, 0.05, 0.08), WHITE))
    for z, tall in ((0.45, 0.75), (-0.48, 0.75)):
        parts.append(surfaces.block((0, -0.026, z), (width * 0.62, 0.012, tall), darker))
    parts.append(surfaces.block((width * 0.38, -0.06, 0.0), (0.12, 0.03, 0.025), (150, 150, 150)))
    return parts


def _moved(part: MeshPart, to: Vector3, yaw: float) -> MeshPart:
    cos, sin = math.cos(yaw), math.sin(yaw)
    turn = np.array([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]], np.float32)
    normals = None if part.normals is None else part.normals @ turn
    moved = part.vertices @ turn + np.array(to, np.float32)
    return replace(part, vertices=moved.astype(np.float32), normals=normals)
