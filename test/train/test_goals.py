"""Goals are judged by where the referent was seen from and by where the robot would look."""

from __future__ import annotations

import math

import pytest

from semflip_core.frames import KeyframeRecord
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_train.dataset import Answer
from semflip_train.goals import check_goal, is_visible, visible_positions

ANSWER = Answer(position=(1.0, 0.0, 0.0), object_position=(3.0, 0.0, 0.5), visible=((10, 20),))


def record(number: int, stamp_ns: int, x: float) -> KeyframeRecord:
    pose = Pose("map", (x, 5.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    return KeyframeRecord(number, stamp_ns, pose, "m", 0, 64, 48)


def goal(x: float, y: float, yaw: float) -> Pose:
    return Pose("map", (x, y, 0.0), quaternion_from_yaw(yaw))


def test_places_are_the_labelled_view_and_visible_keyframes():
    records = [record(1, 5, 0.0), record(2, 10, 1.0), record(3, 20, 2.0), record(4, 21, 3.0)]
    assert visible_positions(ANSWER, records) == [(1.0, 0.0), (1.0, 5.0), (2.0, 5.0)]
    assert is_visible(ANSWER, 20) and not is_visible(ANSWER, 21)
    assert not is_visible(Answer(), 20)


@pytest.mark.parametrize(
    ("pose", "success"),
    [
        (goal(1.0, 0.0, 0.0), True),
        (goal(1.0, 1.9, math.atan2(-1.9, 2.0)), True),
        (goal(1.0, 2.1, math.atan2(-2.1, 2.0)), False),  # too far
        (goal(1.0, 0.0, math.radians(44)), True),
        (goal(1.0, 0.0, math.radians(46)), False),  # looks away
        (goal(1.0, 0.0, math.pi), False),
    ],
)
def test_within_two_metres_and_forty_five_degrees(pose, success):
    assert check_goal(pose, ANSWER, visible_positions(ANSWER, [])).success is success


def test_any_visible_place_counts_not_only_the_best():
    places = visible_positions(ANSWER, [record(1, 15, 9.0)])
    found = check_goal(goal(9.0, 5.0, math.atan2(-5.0, -6.0)), ANSWER, places)
    assert found.success
    assert found.distance_m == 0.0


def test_bearing_across_the_seam_is_short():
    behind = Answer(object_position=(-5.0, 0.01, 0.0), visible=((0, 1),))
    found = check_goal(goal(0.0, 0.0, -math.pi + 0.01), behind, [(0.0, 0.0)])
    assert found.bearing_deg < 2.0


def test_an_unknown_object_place_leaves_the_bearing_out():
    found = check_goal(goal(1.0, 0.0, 3.0), Answer(position=(1.0, 0.0, 0.0)), [(1.0, 0.0)])
    assert found.success
    assert math.isnan(found.bearing_deg)
