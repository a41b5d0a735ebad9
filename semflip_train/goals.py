"""Whether a goal is right: near where the referent was seen from, and turned towards it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from semflip_core.frames import KeyframeRecord
from semflip_core.poses import Pose, wrap_angle
from semflip_train.dataset import Answer


@dataclass(frozen=True, slots=True)
class GoalCheck:
    """What a goal is measured by.

    Args:
        distance_m: to the nearest base pose from which the referent was visible.
        bearing_deg: between the goal's heading and the referent; NaN where its place is unknown.
        success: both within limits.
    """

    distance_m: float
    bearing_deg: float
    success: bool


def visible_positions(
    answer: Answer, records: Iterable[KeyframeRecord]
) -> list[tuple[float, float]]:
    """Places (x, y) in metres from which the referent was visible: labelled view and keyframes."""
    places = []
    if answer.position is not None:
        places.append(answer.position[:2])
    for record in records:
        if record.pose is not None and is_visible(answer, record.stamp_ns):
            places.append(record.pose.position[:2])
    return places


def is_visible(answer: Answer, stamp_ns: int) -> bool:
    """Whether a stamp lies in one of the answer's spans."""
    return any(start <= stamp_ns <= end for start, end in answer.visible or ())


def check_goal(
    goal: Pose,
    answer: Answer,
    places: Sequence[tuple[float, float]],
    *,
    distance_m: float = 2.0,
    bearing_deg: float = 45.0,
) -> GoalCheck:
    """Measure a goal against the truth.

    Args:
        places: of :func:`visible_positions`; at least one.
        distance_m, bearing_deg: limits of success.
    """
    x, y, _ = goal.position
    nearest = min(math.dist((x, y), place) for place in places)
    bearing = float("nan")
    turned = True
    if answer.object_position is not None:
        ox, oy, _ = answer.object_position
        bearing = abs(math.degrees(wrap_angle(math.atan2(oy - y, ox - x) - goal.yaw)))
        turned = bearing <= bearing_deg
    return GoalCheck(nearest, bearing, nearest <= distance_m and turned)
