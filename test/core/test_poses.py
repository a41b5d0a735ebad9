"""Poses refuse what is no pose, and interpolate like rigid bodies."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semflip_core.errors import PoseError
from semflip_core.poses import Pose, angle_between, interpolate, quaternion_from_yaw, wrap_angle

ANGLE = st.floats(-3.1, 3.1)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_no_pose(bad: float) -> None:
    with pytest.raises(PoseError, match="position"):
        Pose("map", (0.0, bad, 0.0), (0.0, 0.0, 0.0, 1.0))
    with pytest.raises(PoseError, match="orientation"):
        Pose("map", (0.0, 0.0, 0.0), (0.0, 0.0, bad, 1.0))


@pytest.mark.parametrize("q", [(0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.9), (1.0, 1.0, 0.0, 0.0)])
def test_a_quaternion_that_is_no_rotation_is_refused(q) -> None:
    with pytest.raises(PoseError, match="norm"):
        Pose("map", (0.0, 0.0, 0.0), q)


@pytest.mark.parametrize("far", [1e9, -1e308])
def test_a_place_that_is_not_on_earth_is_refused(far: float) -> None:
    """Finite, but the way between two such places is not: interpolating would break."""
    with pytest.raises(PoseError, match="farther"):
        Pose("map", (0.0, far, 0.0), (0.0, 0.0, 0.0, 1.0))


def test_an_empty_frame_is_refused() -> None:
    with pytest.raises(PoseError, match="frame_id"):
        Pose("", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))


@given(ANGLE)
def test_yaw_survives_the_quaternion(yaw: float) -> None:
    pose = Pose("map", (0.0, 0.0, 0.0), quaternion_from_yaw(yaw))
    assert pose.yaw == pytest.approx(yaw, abs=1e-9)


@given(ANGLE, st.floats(-3.0, 3.0), st.floats(0.0, 1.0))
def test_interpolation_turns_the_short_way_at_constant_rate(
    a: float, turn: float, f: float
) -> None:
    start = Pose("map", (0.0, 0.0, 0.0), quaternion_from_yaw(a))
    end = Pose("map", (2.0, -4.0, 6.0), quaternion_from_yaw(a + turn))
    middle = interpolate(start, end, f)
    assert middle.position == pytest.approx((2.0 * f, -4.0 * f, 6.0 * f))
    assert wrap_angle(middle.yaw - (a + f * turn)) == pytest.approx(0.0, abs=1e-3)
    flipped = tuple(-v for v in end.orientation)
    other = interpolate(start, Pose("map", end.position, flipped), f)
    assert angle_between(middle.orientation, other.orientation) == pytest.approx(0.0, abs=1e-6)


def test_frames_are_not_mixed() -> None:
    a = Pose("map", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    with pytest.raises(PoseError, match="'map' and 'odom'"):
        interpolate(a, Pose("odom", a.position, a.orientation), 0.5)
