"""Keyframes when stamps are wrong, jump back or loop: nothing is lost, no pose mixed up."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semflip_core.errors import ImageError
from semflip_core.memory import VideoMemory
from semflip_core.poses import Pose
from semflip_core.settings import KeyframeSettings
from support.driving import FAST, SECOND, Message, along, drive, feed, ingest, small_picture

NOT_OF_PICTURES = {"time_jumps", "pose_bad_stamp", "pose_out_of_order"}


@pytest.mark.parametrize("stamp", [0, -1, -(10**18)])
def test_stamps_of_zero_or_less_are_dropped_and_counted(stamp):
    made = ingest()
    assert not made.wants(stamp)
    assert made.offer(stamp, lambda: small_picture(1)) == []
    assert made.counters == {"bad_stamp": 2}
    made.add_pose(stamp, along(1))
    assert made.counters["pose_bad_stamp"] == 1


def test_disorder_within_a_second_is_dropped_not_a_new_segment():
    made = ingest()
    feed(made, drive(length_s=2))
    before = made.segment
    assert not made.wants(2 * SECOND)
    made.add_pose(2 * SECOND + SECOND // 2, along(1))
    assert made.segment == before
    assert made.counters["out_of_order"] == 1 and made.counters["pose_out_of_order"] == 1


@pytest.mark.parametrize("late", [{}, {"pose_late_s": 0.3}, {"picture_late_s": 0.3}])
def test_a_looping_bag_starts_a_segment_and_keeps_what_was_stored(late):
    """Whichever of the two streams jumps first, each loop keeps about as many frames."""
    made = ingest(settings=KeyframeSettings())
    loops = []
    messages = []
    for loop in range(3):
        shift = loop * 6 * SECOND
        messages += [
            Message(m.stamp_ns, m.arrives_ns + shift, m.pose) for m in drive(length_s=6, **late)
        ]
    messages.sort(key=lambda m: (m.arrives_ns, m.pose is None))
    feed(made, messages)
    made.finish()
    records = made.memory.records()
    segments = sorted({r.segment for r in records})
    for segment in segments:
        stamps = [r.stamp_ns for r in records if r.segment == segment]
        assert stamps == sorted(set(stamps)), "stamps rise within one segment"
        loops.append(len(stamps))
    assert len(loops) == 3
    assert min(loops) >= 0.8 * max(loops)
    for record in records:
        true = along(record.stamp_ns / SECOND)
        assert record.pose.position == pytest.approx(true.position, abs=1e-3)


LOOP_S = 4.0


def rounds(late_pose_s: list[float], late_picture_s: list[float]) -> list[Message]:
    """A drive of 4 s over and over, each 100 m further; how late its messages come, each round."""
    messages = []
    for number, (pose_s, picture_s) in enumerate(zip(late_pose_s, late_picture_s, strict=True)):
        for m in drive(length_s=LOOP_S, pose_late_s=pose_s, picture_late_s=picture_s):
            begins_ns = round(number * (LOOP_S + 0.1) * SECOND)
            pose = m.pose and Pose(
                "map", (m.pose.position[0] + 100.0 * number, 0.0, 0.0), m.pose.orientation
            )
            messages.append(Message(m.stamp_ns, m.arrives_ns + begins_ns, pose))
    # One stream's messages come in their order, however late each round is.
    for of_poses in (True, False):
        latest = 0
        for i, m in enumerate(messages):
            if (m.pose is not None) is of_poses:
                latest = max(latest + 1, m.arrives_ns)
                messages[i] = Message(m.stamp_ns, latest, m.pose)
    return sorted(messages, key=lambda m: (m.arrives_ns, m.pose is None))


LATENESS = st.lists(st.floats(0, 0.65 * LOOP_S), min_size=4, max_size=4)


@settings(max_examples=30, deadline=None)
@given(poses=LATENESS, pictures=LATENESS)
def test_every_round_of_a_loop_is_kept_however_far_one_stream_is_ahead(poses, pictures):
    """Faster than real time, poses or pictures of the next round come long before the other."""
    made = ingest()
    feed(made, rounds(poses, pictures))
    made.finish()
    count = Counter(record.segment for record in made.memory.records())
    assert sorted(count) == [0, 1, 2, 3]
    assert min(count.values()) >= 0.9 * LOOP_S * 10
    for record in made.memory.records():
        x = along(record.stamp_ns / SECOND).position[0]
        assert record.pose.position[0] == pytest.approx(x + 100.0 * record.segment, abs=1e-3)
    assert made.counters["time_jumps"] == 3


def test_after_a_jump_no_pose_from_before_it_is_used():
    """A simulation is reset: the same stamps come again, the robot stands elsewhere."""
    made = ingest()
    feed(made, drive(start_s=1, length_s=3))
    elsewhere = Pose("map", (100.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    made.offer(SECOND, lambda: small_picture(1))  # the camera jumps first
    made.offer(2 * SECOND, lambda: small_picture(2))
    made.add_pose(SECOND // 2, elsewhere)
    made.add_pose(SECOND, elsewhere)
    made.add_pose(2 * SECOND - 10, elsewhere)
    made.add_pose(2 * SECOND + 10, elsewhere)
    late = [r for r in made.memory.records() if r.segment == made.segment]
    assert [r.stamp_ns for r in late] == [SECOND, 2 * SECOND]
    assert all(r.pose.position[0] == 100.0 for r in late)


def test_a_time_jump_can_begin_a_new_map():
    maps = []

    def jumped(segment: int) -> str:
        maps.append(f"map-{segment}")
        return maps[-1]

    made = ingest(on_time_jump=jumped)
    feed(made, drive(start_s=10, length_s=3))
    feed(made, drive(start_s=1, length_s=3))
    made.finish()
    assert maps == ["map-1"]
    by_segment = {r.segment: r.map_id for r in made.memory.records()}
    assert by_segment == {0: "today", 1: "map-1"}


def test_a_camera_clock_that_was_wrong_for_a_while_costs_only_that_while():
    """Pictures jump back, poses never do: they must not wait for each other for ever."""
    made = ingest()
    feed(made, drive(start_s=10, length_s=1))
    made.offer(2 * SECOND, lambda: small_picture(1))
    made.offer(3 * SECOND, lambda: small_picture(2))
    before = len(made.memory)
    feed(made, drive(start_s=11.2, length_s=1))
    made.finish()
    assert len(made.memory) >= before + 9
    assert made.counters["no_earlier_pose"] == 2


def test_one_wild_stamp_does_not_end_the_recording():
    made = ingest()
    feed(made, drive(start_s=1, length_s=2))
    made.offer(2**61, lambda: small_picture(0))
    before = len(made.memory)
    feed(made, drive(start_s=3.2, length_s=2))
    made.finish()
    assert len(made.memory) >= before + 15


@pytest.mark.parametrize("wild_s", [0.001, 5, 10**9])
def test_one_pose_of_another_time_costs_no_more_than_its_neighbours(wild_s):
    made = ingest()
    feed(made, drive(start_s=100, length_s=2))
    made.add_pose(round(wild_s * SECOND), along(0.0))
    feed(made, drive(start_s=102.2, length_s=2))
    made.finish()
    assert made.waiting == 0
    assert len(made.memory) >= 2 * 20 - 2
    for record in made.memory.records():
        assert record.pose.position == pytest.approx(
            along(record.stamp_ns / SECOND).position, abs=1e-3
        )


def test_a_camera_that_is_off_for_a_round_is_in_step_again_afterwards():
    """Its jump back is never seen: it comes back later in the next round than it left."""
    made = ingest()
    first = [m for m in drive(start_s=1, length_s=4) if m.pose or m.stamp_ns < 2 * SECOND]
    second = [m for m in drive(start_s=1, length_s=4) if m.pose or m.stamp_ns > 3 * SECOND]
    feed(made, first)
    feed(made, second)
    before = len(made.memory)
    for _ in range(2):
        feed(made, drive(start_s=1, length_s=4))
    made.finish()
    assert len(made.memory) >= before + 78


STAMPS = st.one_of(st.integers(1, 80).map(lambda k: k * SECOND // 4), st.integers(-1, 2**62))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.booleans(), STAMPS), max_size=60))
def test_whatever_stamps_come_each_picture_is_counted_once(stream):
    made = ingest(settings=FAST.model_copy(update={"max_waiting_frames": 5}))
    for is_pose, stamp_ns in stream:
        if is_pose:
            made.add_pose(stamp_ns, along(1.0))
        elif made.wants(stamp_ns):
            made.offer(stamp_ns, lambda: small_picture(1))
        assert made.waiting <= 5
    made.finish()
    assert made.waiting == 0
    of_pictures = sum(n for why, n in made.counters.items() if why not in NOT_OF_PICTURES)
    assert of_pictures == sum(not is_pose for is_pose, _ in stream)


def test_a_new_recording_into_an_old_memory_is_a_new_segment():
    memory = VideoMemory()
    feed(ingest(memory), drive(length_s=2))
    again = ingest(memory)
    assert again.segment == 1
    feed(again, drive(length_s=2))
    assert {r.segment for r in memory.records()} == {0, 1}


@pytest.mark.parametrize("seconds", [1, 10_000])
def test_time_does_not_jump_for_a_picture_that_is_broken(seconds):
    """A header in front of garbage must not end the map for everything seen so far."""
    made = ingest(needs_pose=False)

    def broken():
        raise ImageError("malformed", "no picture at all")

    for second in (100, 101):
        assert made.wants(second * SECOND, lambda: small_picture(1))
        made.offer(second * SECOND, lambda: small_picture(1))
    assert not made.wants(seconds * SECOND, broken)
    assert made.wants(102 * SECOND, lambda: small_picture(2))
    assert made.counters["image_malformed"] == 1
    assert made.counters["time_jumps"] == 0
    assert made.segment == 0


def test_one_picture_of_an_hour_ago_does_not_hold_up_those_after_it():
    made = ingest()

    def show(second: float, x: float) -> None:
        made.add_pose(round((second - 0.1) * SECOND), along(x))
        made.offer(round(second * SECOND), lambda: small_picture(1))
        made.add_pose(round((second + 0.1) * SECOND), along(x))

    show(5000, 1.0)
    made.offer(1400 * SECOND, lambda: small_picture(2))
    for second in (5001, 5002, 5003):
        show(second, 1.0)
    assert [r.stamp_ns // SECOND for r in made.memory.records()] == [5000, 5001, 5002, 5003]
    assert made.waiting == 0
