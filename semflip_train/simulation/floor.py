"""Grids of a scene's floor: where the robot fits, what blocks its view, where it could stand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from semflip_train.simulation.placed import Placed
from semflip_train.simulation.plan import Plan
from semflip_train.simulation.settings import DriveSettings

#: Side of a cell, metres.
CELL = 0.05

Point = tuple[float, float]


class Floor:
    """Grids of a scene's floor: where the robot fits, and what blocks its view.

    Args:
        margin: how far the robot's middle keeps from everything, metres.
    """

    def __init__(self, plan: Plan, objects: Sequence[Placed], margin: float) -> None:
        self.origin = (
            min(room.x0 for room in plan.rooms) - 0.3,
            min(room.y0 for room in plan.rooms) - 0.3,
        )
        width = max(room.x1 for room in plan.rooms) - self.origin[0] + 0.3
        depth = max(room.y1 for room in plan.rooms) - self.origin[1] + 0.3
        self.shape = (math.ceil(depth / CELL), math.ceil(width / CELL))
        self.free = self._drawn(plan, objects, margin, low=True)
        self.clear = self._drawn(plan, objects, 0.0, low=False)

    def _drawn(
        self, plan: Plan, objects: Sequence[Placed], margin: float, *, low: bool
    ) -> NDArray[np.bool_]:
        picture = Image.new("1", (self.shape[1], self.shape[0]), 0)
        draw = ImageDraw.Draw(picture)
        for room in plan.rooms:
            box = (room.x0 + margin, room.y0 + margin, room.x1 - margin, room.y1 - margin)
            draw.rectangle((*self._pixel(box[:2]), *self._pixel(box[2:])), fill=1)
        for door in plan.doorways:
            box = door.box(max(door.width / 2 - margin, CELL), margin + 0.15)
            draw.rectangle((*self._pixel(box[:2]), *self._pixel(box[2:])), fill=1)
        for item in objects:
            blocks = item.position[2] < 0.9 if low else item.position[2] + item.size[2] > 1.15
            if blocks and item.on is None:
                outline = [self._pixel((x, y)) for x, y in item.outline(margin)]
                draw.polygon(outline, fill=0, outline=0)
        return np.array(picture, bool)

    def _pixel(self, point: Sequence[float]) -> tuple[float, float]:
        return ((point[0] - self.origin[0]) / CELL, (point[1] - self.origin[1]) / CELL)

    def cell(self, point: Point) -> tuple[int, int]:
        """Row and column of a place."""
        x, y = self._pixel(point)
        return (int(y), int(x))

    def place(self, cell: tuple[int, int]) -> Point:
        """Middle of a cell in metres."""
        row, column = cell
        return (self.origin[0] + (column + 0.5) * CELL, self.origin[1] + (row + 0.5) * CELL)

    def line_is_free(self, grid: NDArray[np.bool_], a: Point, b: Point) -> bool:
        """Whether a straight line stays on true cells."""
        steps = max(2, int(math.dist(a, b) / (CELL / 2)))
        x = np.linspace(a[0], b[0], steps)
        y = np.linspace(a[1], b[1], steps)
        rows = ((y - self.origin[1]) / CELL).astype(int)
        columns = ((x - self.origin[0]) / CELL).astype(int)
        return bool(grid[rows, columns].all())

    def reachable(self, start: tuple[int, int]) -> NDArray[np.bool_]:
        """Cells connected to ``start`` over free ones."""
        seen = np.zeros(self.shape, bool)
        stack = [start]
        while stack:
            row, column = stack.pop()
            if self.free[row, column] and not seen[row, column]:
                seen[row, column] = True
                stack += [
                    (row + 1, column),
                    (row - 1, column),
                    (row, column + 1),
                    (row, column - 1),
                ]
        return seen


def candidates(plan: Plan, floor: Floor, settings: DriveSettings) -> list[Point]:
    """Free places on a grid that belong to the largest connected piece of floor."""
    best = np.zeros(floor.shape, bool)
    left = floor.free.copy()
    while left.any():
        start = np.argwhere(left)[0]
        piece = floor.reachable((int(start[0]), int(start[1])))
        left &= ~piece
        if piece.sum() > best.sum():
            best = piece
    step = max(1, round(settings.grid_m / CELL))
    cells = [
        (row, column)
        for row in range(0, floor.shape[0], step)
        for column in range(0, floor.shape[1], step)
        if best[row, column]
    ]
    return [place for place in map(floor.place, cells) if plan.room_at(*place) is not None]
