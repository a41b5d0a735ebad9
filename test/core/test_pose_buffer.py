"""The pose at the instant of a picture: interpolated, never guessed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semflip_core.pose_buffer import PoseAnswer, PoseBuffer
from semflip_core.poses import Pose, quaternion_from_yaw

SECOND = 10**9


def pose(x: float, yaw: float = 0.0, frame: str = "map") -> Pose:
    return Pose(frame, (x, 0.0, 0.0), quaternion_from_yaw(yaw))


def buffer(*samples: tuple[float, Pose], gap: float = 1.0, span: float = 10.0) -> PoseBuffer:
    made = PoseBuffer(round(gap * SECOND), round(span * SECOND))
    for seconds, value in samples:
        made.add(round(seconds * SECOND), value)
    return made


@given(fraction=st.floats(0, 1), turn=st.floats(-3, 3))
def test_between_two_poses_position_is_linear_and_heading_is_slerp(fraction, turn):
    poses = buffer((1, pose(2.0)), (2, pose(6.0, turn)))
    found = poses.at(SECOND + round(fraction * SECOND))
    assert found.answer is PoseAnswer.KNOWN
    assert found.pose.position[0] == pytest.approx(2.0 + 4.0 * fraction, abs=1e-6)
    assert found.pose.yaw == pytest.approx(turn * fraction, abs=1e-6)


def test_heading_turns_the_short_way_through_half_a_turn():
    poses = buffer((1, pose(0, math.pi - 0.1)), (2, pose(0, -math.pi + 0.1)))
    assert abs(poses.at(round(1.5 * SECOND)).pose.yaw) == pytest.approx(math.pi)


def test_a_pose_at_the_very_instant_is_taken_as_it_is():
    exact = pose(3.0, 0.3)
    poses = buffer((1, exact), (9, pose(0)))
    assert poses.at(SECOND).pose is exact


@pytest.mark.parametrize(
    ("seconds", "answer"),
    [(0.5, PoseAnswer.BEFORE), (3.5, PoseAnswer.LATER), (2.9, PoseAnswer.GAP)],
)
def test_it_never_extrapolates_and_never_bridges_a_gap(seconds, answer):
    poses = buffer((1, pose(0)), (1.8, pose(1)), (3.2, pose(2)), gap=1.0)
    assert poses.at(round(seconds * SECOND)).answer is answer
    assert poses.at(round(seconds * SECOND)).pose is None


def test_poses_of_two_frames_are_not_mixed():
    poses = buffer((1, pose(0)), (1.5, pose(0, frame="odom")))
    assert poses.at(round(1.2 * SECOND)).answer is PoseAnswer.FRAMES_DIFFER


def test_the_past_is_forgotten_but_the_span_is_kept():
    poses = buffer(*((i * 0.1, pose(i)) for i in range(1, 2000)), span=10.0)
    assert len(poses) <= 202
    assert poses.latest_ns - poses.earliest_ns >= 10 * SECOND


def test_an_empty_buffer_waits():
    assert buffer().at(SECOND).answer is PoseAnswer.LATER


@pytest.mark.parametrize("after", [pose(50.0), pose(0.1, 3.0)])
def test_between_two_poses_that_jump_nothing_is_known(after):
    poses = PoseBuffer(SECOND, 10 * SECOND, max_jump_m=2.0, max_turn_rad=1.5)
    poses.add(SECOND, pose(0.0))
    poses.add(2 * SECOND, after)
    assert poses.at(round(1.5 * SECOND)).answer is PoseAnswer.JUMP
    assert poses.around(round(1.5 * SECOND)) is None
    assert poses.at(2 * SECOND).pose == after


def test_what_is_still_needed_is_kept_but_not_for_ever():
    poses = PoseBuffer(SECOND, 10 * SECOND, most_ns=60 * SECOND)
    for second in range(1, 50):
        poses.add(second * SECOND, pose(0.0), needed_ns=5 * SECOND)
    assert poses.at(5 * SECOND + 1).answer is PoseAnswer.KNOWN
    for second in range(50, 1000):
        poses.add(second * SECOND, pose(0.0), needed_ns=5 * SECOND)
    assert len(poses) <= 122
    for second in range(1000, 1100):  # pictures keep up again
        poses.add(second * SECOND, pose(0.0), needed_ns=second * SECOND)
    assert len(poses) <= 42
