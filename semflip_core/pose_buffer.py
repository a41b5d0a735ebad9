"""Poses by time: what the robot's pose was at the instant a picture was taken."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from enum import Enum

from semflip_core.poses import Pose, angle_between, interpolate


class PoseAnswer(Enum):
    """What a buffer knows of an instant."""

    KNOWN = "known"
    LATER = "no_later_pose"  # a pose after the instant has not come yet
    BEFORE = "no_earlier_pose"  # the instant lies before the first pose
    GAP = "pose_gap"  # the poses around it are too far apart in time
    FRAMES_DIFFER = "pose_frame_changed"  # the poses around it are in different frames
    JUMP = "pose_jump"  # the poses around it are too far apart in place or heading


@dataclass(frozen=True, slots=True)
class PoseAt:
    """Answer of :meth:`PoseBuffer.at`; ``pose`` is set exactly when the answer is KNOWN."""

    answer: PoseAnswer
    pose: Pose | None = None


class PoseBuffer:
    """The latest stretch of a pose stream.

    Args:
        max_gap_ns: interpolate only between samples no further apart, nanoseconds.
        span_ns: how much of the past is kept, nanoseconds.
        most_ns: and how much where more is still needed; None: no more.
        max_jump_m: and no further apart in place: a localiser that corrects itself jumps, and
            between the two the robot never stood; metres.
        max_turn_rad: and turned no further apart; radians.
    """

    def __init__(
        self,
        max_gap_ns: int,
        span_ns: int,
        *,
        most_ns: int | None = None,
        max_jump_m: float = math.inf,
        max_turn_rad: float = math.inf,
    ) -> None:
        self._max_gap = max_gap_ns
        self._span = span_ns
        self._most = span_ns if most_ns is None else max(span_ns, most_ns)
        self._max_jump = max_jump_m
        self._max_turn = max_turn_rad
        self._stamps: list[int] = []
        self._poses: list[Pose] = []

    def __len__(self) -> int:
        return len(self._stamps)

    @property
    def latest_ns(self) -> int | None:
        """Stamp of the latest pose."""
        return self._stamps[-1] if self._stamps else None

    @property
    def earliest_ns(self) -> int | None:
        """Stamp of the earliest pose still kept."""
        return self._stamps[0] if self._stamps else None

    def add(self, stamp_ns: int, pose: Pose, *, needed_ns: int | None = None) -> None:
        """Insert a pose; one with a stamp already there replaces it.

        Args:
            needed_ns: nobody will ask for instants before this one; None: not known.
        """
        index = bisect_left(self._stamps, stamp_ns)
        if index < len(self._stamps) and self._stamps[index] == stamp_ns:
            self._poses[index] = pose
            return
        self._stamps.insert(index, stamp_ns)
        self._poses.insert(index, pose)
        latest = self._stamps[-1]
        if latest - self._stamps[0] <= 2 * self._span:
            return
        start = latest - self._span
        if needed_ns is not None:
            start = max(min(start, needed_ns), latest - self._most)
        keep = max(bisect_left(self._stamps, start) - 1, 0)
        # Trim seldom: deleting from the front of a list moves the rest.
        if 2 * keep >= len(self._stamps):
            del self._stamps[:keep], self._poses[:keep]

    def clear(self) -> None:
        """Forget everything, as after a jump in time."""
        self._stamps.clear()
        self._poses.clear()

    def around(self, stamp_ns: int) -> tuple[Pose, Pose] | None:
        """The poses before and after an instant, where :meth:`at` would know one between them."""
        index = bisect_left(self._stamps, stamp_ns)
        if index == 0 or index == len(self._stamps):
            return None
        before, after = self._poses[index - 1], self._poses[index]
        gap = self._stamps[index] - self._stamps[index - 1]
        return None if self._apart(gap, before, after) else (before, after)

    def _apart(self, gap_ns: int, before: Pose, after: Pose) -> PoseAnswer | None:
        """Why nothing may be said of the time between two poses."""
        if gap_ns > self._max_gap:
            return PoseAnswer.GAP
        if before.frame_id != after.frame_id:
            return PoseAnswer.FRAMES_DIFFER
        if math.dist(before.position, after.position) > self._max_jump:
            return PoseAnswer.JUMP
        if angle_between(before.orientation, after.orientation) > self._max_turn:
            return PoseAnswer.JUMP
        return None

    def at(self, stamp_ns: int) -> PoseAt:
        """The pose at an instant: linear in position, slerp in orientation, never extrapolated."""
        index = bisect_left(self._stamps, stamp_ns)
        if index == len(self._stamps):
            return PoseAt(PoseAnswer.LATER)
        after_ns, after = self._stamps[index], self._poses[index]
        if after_ns == stamp_ns:
            return PoseAt(PoseAnswer.KNOWN, after)
        if index == 0:
            return PoseAt(PoseAnswer.BEFORE)
        before_ns, before = self._stamps[index - 1], self._poses[index - 1]
        apart = self._apart(after_ns - before_ns, before, after)
        if apart is not None:
            return PoseAt(apart)
        fraction = (stamp_ns - before_ns) / (after_ns - before_ns)
        return PoseAt(PoseAnswer.KNOWN, interpolate(before, after, fraction))
