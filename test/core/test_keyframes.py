"""Rate, motion and looks: what makes a frame worth keeping."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semflip_core.errors import ImageError
from semflip_core.images import store_raw
from semflip_core.keyframes import KeyframeChoice, looks_of, novelty
from semflip_core.poses import Pose, interpolate, quaternion_from_yaw
from semflip_core.settings import KeyframeSettings
from support.pictures import room_picture

SECOND = 10**9


def at(x: float = 0.0, degrees: float = 0.0, frame: str = "map") -> Pose:
    return Pose(frame, (x, 0.0, 0.0), quaternion_from_yaw(math.radians(degrees)))


def choice(**values: float) -> KeyframeChoice:
    made = KeyframeChoice(KeyframeSettings(**values))
    made.consider(SECOND)
    made.keep(SECOND, at())
    return made


@pytest.mark.parametrize(
    ("pose", "moved"),
    [
        (at(0.24), False),
        (at(0.26), True),
        (at(-0.26), True),
        (at(0, 14), False),
        (at(0, 16), True),
        (at(0, -16), True),
        (at(0, 359), False),
        (at(0.0, 0.0, "odom"), True),
        (None, True),
    ],
)
def test_motion_decides_in_metres_and_degrees(pose, moved):
    assert choice().moved(2 * SECOND, pose) is moved


@settings(max_examples=200, deadline=None)
@given(
    places=st.tuples(*[st.floats(-0.4, 0.4)] * 2),
    turns=st.tuples(*[st.floats(-30, 30)] * 2),
    fraction=st.floats(0, 1),
)
def test_the_quick_no_agrees_with_the_exact_one(places, turns, fraction):
    before, after = (at(x, degrees) for x, degrees in zip(places, turns, strict=True))
    made = choice()
    if made.still(2 * SECOND, before, after):
        assert not made.moved(2 * SECOND, interpolate(before, after, fraction))
    if all(not made.moved(2 * SECOND, pose) for pose in (before, after)):
        near = max(map(abs, places)) < 0.249 and max(map(abs, turns)) < 14.9
        assert made.still(2 * SECOND, before, after) or not near


def test_the_quick_no_leaves_what_is_overdue_or_unknown_to_the_exact_one():
    assert not choice().still(32 * SECOND, at(), at())
    assert not choice().still(2 * SECOND, at(), at(0, 0, "odom"))
    assert not choice(min_rotation_deg=120.0).still(2 * SECOND, at(), at())
    assert not KeyframeChoice(KeyframeSettings()).still(2 * SECOND, at(), at())


def test_slow_motion_adds_up_until_it_is_enough():
    slow = choice()
    kept = []
    for step in range(1, 101):
        if slow.moved((1 + step) * SECOND // 10 + SECOND, at(step * 0.01)):
            slow.keep((1 + step) * SECOND // 10 + SECOND, at(step * 0.01))
            kept.append(step)
    assert kept == [25, 50, 75, 100]


def test_a_robot_that_stands_still_keeps_a_frame_every_max_interval():
    still = choice(max_interval_s=30.0)
    assert not still.moved(30 * SECOND, at())
    assert still.moved(31 * SECOND, at())


def test_rate_counts_from_the_last_candidate():
    made = choice(min_interval_s=0.2)
    assert not made.due(SECOND + SECOND // 10)
    assert made.due(SECOND + SECOND // 5)


def test_novelty_is_small_for_the_same_view_and_large_for_another():
    plain = KeyframeSettings()
    a = store_raw(room_picture(320, 240, 1), plain).data
    grainy = room_picture(320, 240, 1)
    grainy[::2, ::2] //= 2
    b = store_raw(grainy, KeyframeSettings(jpeg_quality=60)).data
    c = store_raw(room_picture(320, 240, 2), plain).data
    assert novelty(looks_of(a), looks_of(a)) == 0.0
    assert novelty(looks_of(a), looks_of(c)) > 0.05
    assert novelty(looks_of(a), looks_of(b)) < novelty(looks_of(a), looks_of(c))


def test_novelty_holds_back_a_view_that_looks_the_same_until_it_is_overdue():
    picture = store_raw(room_picture(320, 240, 1), KeyframeSettings()).data
    other = store_raw(room_picture(320, 240, 2), KeyframeSettings()).data
    made = KeyframeChoice(KeyframeSettings(min_novelty=0.03, max_interval_s=30.0))
    assert made.looks_new(SECOND, picture)
    made.keep(SECOND, at())
    assert not made.looks_new(2 * SECOND, picture)
    assert made.looks_new(3 * SECOND, other)
    made.keep(3 * SECOND, at())
    assert not made.looks_new(4 * SECOND, other)
    assert made.looks_new(34 * SECOND, other)


@pytest.mark.parametrize("data", [b"", b"not a picture"])
def test_looks_of_what_is_no_picture_is_an_error(data):
    with pytest.raises(ImageError):
        looks_of(data)
