"""Which camera frames become keyframes: rate, then motion, then looks, cheapest first."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from semflip_core.errors import ImageError, MissingExtraError
from semflip_core.poses import Pose, angle_between
from semflip_core.settings import KeyframeSettings

Looks = NDArray[np.uint8]
"""A picture's coarse appearance, ``(LOOKS_ROWS, LOOKS_COLUMNS, 3)``."""

LOOKS_ROWS, LOOKS_COLUMNS = 6, 8
LOOKS_BYTES = LOOKS_ROWS * LOOKS_COLUMNS * 3


def looks_of(encoded: bytes) -> Looks:
    """Coarse colours of a compressed picture, for novelty and redundancy.

    It is decoded at an eighth of its size where the format allows that, so it costs about a
    millisecond.

    Raises:
        ImageError: the picture cannot be decoded.
        MissingExtraError: OpenCV is not installed.
    """
    try:
        import cv2
    except ImportError as error:
        raise MissingExtraError("cv2", "cpu", "comparing pictures") from error
    flags = cv2.IMREAD_REDUCED_COLOR_8 | cv2.IMREAD_IGNORE_ORIENTATION
    small = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags) if encoded else None
    if small is None:
        raise ImageError("damaged", f"stored picture of {len(encoded)} bytes cannot be decoded")
    looks = cv2.resize(small, (LOOKS_COLUMNS, LOOKS_ROWS), interpolation=cv2.INTER_AREA)
    return np.asarray(looks, np.uint8)


def novelty(a: Looks, b: Looks) -> float:
    """How differently two pictures look: mean absolute difference of coarse colours, 0 to 1.

    Consecutive frames of a still camera are around 0.005, different views of a room around 0.1.
    """
    return float(np.abs(a.astype(np.int16) - b.astype(np.int16)).mean()) / 255.0


class KeyframeChoice:
    """Remembers the last keyframe and decides about the next.

    The rate is counted from the last *candidate*, not from the last keyframe: candidates then
    depend on picture stamps alone, so the result is the same however late poses arrive.
    """

    def __init__(self, settings: KeyframeSettings) -> None:
        self.settings = settings
        self._min_interval = round(settings.min_interval_s * 1e9)
        self._max_interval = round(settings.max_interval_s * 1e9)
        self._min_rotation = math.radians(settings.min_rotation_deg)
        self._candidate: int | None = None
        self._stamp: int | None = None
        self._pose: Pose | None = None
        self._looks: Looks | None = None

    def due(self, stamp_ns: int) -> bool:
        """Whether enough time has passed since the last candidate."""
        return self._candidate is None or stamp_ns - self._candidate >= self._min_interval

    def consider(self, stamp_ns: int) -> None:
        """Make the frame of this stamp the last candidate."""
        self._candidate = stamp_ns

    def moved(self, stamp_ns: int, pose: Pose | None) -> bool:
        """Whether the robot moved or turned enough, or the last keyframe is too old.

        Without a pose on either side motion is unknown and does not hold a frame back.
        """
        last = self._pose
        if self._overdue(stamp_ns) or pose is None or last is None:
            return True
        if pose.frame_id != last.frame_id:
            return True
        return (
            math.dist(pose.position, last.position) >= self.settings.min_translation_m
            or angle_between(pose.orientation, last.orientation) >= self._min_rotation
        )

    def still(self, stamp_ns: int, before: Pose, after: Pose) -> bool:
        """Whether :meth:`moved` would say no for every pose between two; a few microseconds.

        Balls of positions, and of rotations up to a quarter turn, are convex: what lies between
        two poses near the last keyframe is near it as well.
        """
        last = self._pose
        if self._overdue(stamp_ns) or last is None or self._min_rotation > math.pi / 2:
            return False
        metres, radians = self.settings.min_translation_m - 1e-9, self._min_rotation - 1e-9
        return all(
            pose.frame_id == last.frame_id
            and math.dist(pose.position, last.position) < metres
            and angle_between(pose.orientation, last.orientation) < radians
            for pose in (before, after)
        )

    def looks_new(self, stamp_ns: int, encoded: bytes) -> bool:
        """Whether the picture differs enough from the last keyframe; costs nothing when off."""
        if self.settings.min_novelty <= 0.0:
            return True
        looks = looks_of(encoded)
        new = (
            self._looks is None
            or self._overdue(stamp_ns)
            or novelty(looks, self._looks) >= self.settings.min_novelty
        )
        if new:
            self._looks = looks
        return new

    def keep(self, stamp_ns: int, pose: Pose | None) -> None:
        """Make this frame the last keyframe."""
        self._stamp, self._pose = stamp_ns, pose

    def _overdue(self, stamp_ns: int) -> bool:
        return self._stamp is None or stamp_ns - self._stamp >= self._max_interval
