"""An object in its place, and the space that it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from semflip_core.poses import Vector3
from semflip_train.simulation.things import Thing

Box = tuple[float, float, float, float]
"""``(x0, y0, x1, y1)`` in metres."""


@dataclass(frozen=True, slots=True)
class Placed:
    """An object in its place.

    Args:
        thing: what it is.
        model: key of the catalogue model.
        position: of the middle of its underside in the map, metres.
        yaw: about z, radians; at 0 its front faces -y.
        size: ``(width, depth, height)`` in its own frame, metres.
        room: index of the room.
        on: index of the object it stands on, or None.
        paint: colour it is painted over with, or empty.
    """

    thing: Thing
    model: str
    position: Vector3
    yaw: float
    size: Vector3
    room: int
    on: int | None = None
    paint: str = ""

    @property
    def look(self) -> str:
        """Its colour or look in words, or an empty string."""
        return self.paint or self.thing.models[self.model].split("|")[0]

    @property
    def colours(self) -> tuple[str, ...]:
        """All colours it shows, ``*`` for many; empty where none is plain."""
        looks = tuple(filter(None, self.thing.models[self.model].split("|")))
        return (self.paint, *looks[1:]) if self.paint else looks

    @property
    def any_colour(self) -> bool:
        """Whether it might as well have another colour."""
        return self.thing.paintable(self.model)

    @property
    def centre(self) -> Vector3:
        """Middle of its volume in the map, metres."""
        x, y, z = self.position
        return (x, y, z + self.size[2] / 2.0)

    def outline(self, margin: float = 0.0) -> NDArray[np.float64]:
        """Corners of its footprint, ``(4, 2)`` in metres."""
        half_w, half_d = self.size[0] / 2.0 + margin, self.size[1] / 2.0 + margin
        corners = np.array(
            [[-half_w, -half_d], [half_w, -half_d], [half_w, half_d], [-half_w, half_d]]
        )
        cos, sin = math.cos(self.yaw), math.sin(self.yaw)
        turned = corners @ np.array([[cos, sin], [-sin, cos]])
        return np.asarray(turned + np.array(self.position[:2]), np.float64)

    @property
    def box(self) -> Box:
        """Axis-aligned bounds of its footprint."""
        outline = self.outline()
        (x0, y0), (x1, y1) = outline.min(axis=0), outline.max(axis=0)
        return (float(x0), float(y0), float(x1), float(y1))


def overlap(a: Box, b: Box, margin: float) -> bool:
    """Whether two boxes are nearer to each other than ``margin`` metres along both axes."""
    return (
        a[0] < b[2] + margin
        and b[0] < a[2] + margin
        and a[1] < b[3] + margin
        and b[1] < a[3] + margin
    )
