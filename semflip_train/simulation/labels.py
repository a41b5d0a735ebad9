"""Exact labels of a drive: how much of each frame each object fills, and the best view of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from semflip_core.poses import Vector3, wrap_angle
from semflip_train.simulation.path import TimedPose
from semflip_train.simulation.settings import LabelSettings


@dataclass(frozen=True, slots=True)
class FrameCover:
    """What one frame shows.

    Args:
        share: ``(objects,)`` float32, share of the picture's pixels.
        offset: ``(objects,)`` float32, how far its middle is from the picture's, sideways, in
            [-1, 1]; 0 where it is not seen.
    """

    share: NDArray[np.float32]
    offset: NDArray[np.float32]


def measure(labels: NDArray[np.int16], objects: int) -> FrameCover:
    """Count the pixels of each object in a frame's ``(height, width)`` labels."""
    height, width = labels.shape
    flat = labels.ravel().astype(np.int64) + 1
    columns = np.tile(np.linspace(-1.0, 1.0, width), height)
    count = np.bincount(flat, minlength=objects + 1)[1:]
    sideways = np.bincount(flat, weights=columns, minlength=objects + 1)[1:]
    return FrameCover(
        (count / labels.size).astype(np.float32),
        (sideways / np.maximum(count, 1)).astype(np.float32),
    )


@dataclass(frozen=True, slots=True)
class BestView:
    """Pose of the base in the frame that shows an object best; metres, radians, map frame."""

    position: Vector3
    yaw: float
    stamp_ns: int


class DriveLabels:
    """Labels of a whole drive.

    Args:
        poses: of the base when each picture was taken.
        stamps: header stamps of the pictures, nanoseconds.
        covers: what each picture shows.
    """

    def __init__(
        self,
        poses: Sequence[TimedPose],
        stamps: Sequence[int],
        covers: Sequence[FrameCover],
        settings: LabelSettings,
    ) -> None:
        self._poses = tuple(poses)
        self._stamps = tuple(stamps)
        self._settings = settings
        #: ``(frames, objects)`` share of the picture
        self.share = np.stack([cover.share for cover in covers])
        self._offset = np.stack([cover.offset for cover in covers])

    def is_answerable(self, label: int) -> bool:
        """It fills enough of the picture in enough frames."""
        enough = self.share[:, label] >= self._settings.answerable_share
        return bool(enough.sum() >= self._settings.answerable_frames)

    def was_seen(self, label: int) -> bool:
        """At least one pixel of it is in some frame."""
        return bool(self.share[:, label].max() > 0.0)

    def visible(self, label: int) -> tuple[tuple[int, int], ...]:
        """Spans of stamps in which it is visible, first and last frame included."""
        spans: list[tuple[int, int]] = []
        start: int | None = None
        for index, shown in enumerate(self.share[:, label] >= self._settings.visible_share):
            if shown and start is None:
                start = index
            if not shown and start is not None:
                spans.append((self._stamps[start], self._stamps[index - 1]))
                start = None
        if start is not None:
            spans.append((self._stamps[start], self._stamps[-1]))
        return tuple(spans)

    def best_view(self, label: int, centre: Vector3) -> BestView:
        """The frame that shows most of it near the picture's middle.

        Args:
            centre: of the object in the map. Frames that show but an edge of it, while its middle
                is more than :attr:`LabelSettings.facing_deg` off the heading, do not count,
                unless there are no others.
        """
        bearings = [math.atan2(centre[1] - pose.y, centre[0] - pose.x) for pose in self._poses]
        off = [abs(wrap_angle(b - pose.yaw)) for b, pose in zip(bearings, self._poses, strict=True)]
        facing = np.array(off) <= math.radians(self._settings.facing_deg)
        worth = self.share[:, label] * (1.0 - 0.6 * np.abs(self._offset[:, label]))
        index = int(np.argmax(worth * np.where(facing, 1.0, 1e-6)))
        pose = self._poses[index]
        return BestView((pose.x, pose.y, 0.0), pose.yaw, self._stamps[index])
