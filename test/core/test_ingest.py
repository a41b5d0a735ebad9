"""Messages become keyframes: by their stamps alone, whatever cameras, odometry and bags do."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semflip_core.errors import ImageError
from semflip_core.frames import CameraMount
from semflip_core.images import decode_raw, store_raw
from semflip_core.ingest import COUNTED, Ingest
from semflip_core.poses import Pose
from semflip_core.settings import KeyframeSettings
from support.driving import SECOND, along, drive, feed, ingest, small_picture
from support.pictures import room_picture


def stored(made: Ingest) -> list[tuple]:
    return [(r.stamp_ns, r.pose, r.segment, r.map_id) for r in made.memory.records()]


def test_a_drive_is_kept_with_the_pose_of_each_instant():
    made = ingest(settings=KeyframeSettings(min_interval_s=0.1))
    feed(made, drive(length_s=20))
    made.finish()
    records = made.memory.records()
    assert 30 <= len(records) <= 45  # 10 m at 0.25 m each
    for record in records:
        true = along(record.stamp_ns / SECOND)
        assert record.pose.position == pytest.approx(true.position, abs=1e-3)
        assert record.pose.yaw == pytest.approx(true.yaw, abs=1e-3)
        assert (record.width, record.height) == (32, 24)
    assert made.counters["kept"] == len(records)


@settings(max_examples=25, deadline=None)
@given(pose_late=st.floats(0, 0.9), picture_late=st.floats(0, 0.9))
def test_lateness_changes_nothing(pose_late, picture_late):
    on_time = ingest(settings=KeyframeSettings())
    feed(on_time, drive())
    on_time.finish()
    late = ingest(settings=KeyframeSettings())
    feed(late, drive(pose_late_s=pose_late, picture_late_s=picture_late))
    late.finish()
    assert stored(late) == stored(on_time)
    assert late.counters == on_time.counters


def test_the_wall_clock_does_not_matter(monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: 10**20)
    first, second = ingest(), ingest()
    feed(first, drive(start_s=1.0))
    feed(second, drive(start_s=1.0))
    assert stored(first) == stored(second)


def test_pictures_ahead_of_the_poses_wait_and_are_not_lost():
    made = ingest()
    for k in range(1, 4):
        assert made.offer(k * SECOND, lambda k=k: small_picture(k)) == []
    assert made.waiting == 3
    assert made.add_pose(SECOND - 1, along(1)) == []
    assert made.add_pose(SECOND + 1, along(1)) == [1]
    assert made.waiting == 2


def test_a_picture_is_loaded_only_when_it_is_kept():
    made = ingest(settings=KeyframeSettings())
    loads = []
    made.add_pose(SECOND - 1, along(1))
    for k in range(100):
        stamp = SECOND + k * SECOND // 30
        made.offer(stamp, lambda k=k: (loads.append(k), small_picture(k))[1])
        made.add_pose(stamp + 1, along(1))
    assert loads == [0]
    assert made.counters == {"kept": 1, "still": 16, "rate": 83}


def test_each_picture_is_counted_exactly_once():
    made = ingest(settings=KeyframeSettings(min_novelty=0.02))
    messages = drive(length_s=8)
    feed(made, messages)
    made.finish()
    pictures = sum(m.pose is None for m in messages)
    assert sum(made.counters.values()) == pictures
    assert set(made.counters) <= set(COUNTED)


def test_offer_alone_counts_like_wants_and_offer():
    asked, unasked = ingest(settings=KeyframeSettings()), ingest(settings=KeyframeSettings())
    feed(asked, drive())
    for m in drive():
        if m.pose is not None:
            unasked.add_pose(m.stamp_ns, m.pose)
        else:
            unasked.offer(m.stamp_ns, lambda m=m: small_picture(m.stamp_ns // 10**6))
    assert asked.counters == unasked.counters
    assert stored(asked) == stored(unasked)


def test_asking_twice_about_one_picture_counts_once():
    made = ingest()
    assert made.wants(SECOND) and made.wants(SECOND)
    assert made.offer(SECOND, lambda: small_picture(1)) == []
    assert made.waiting == 1
    assert not made.wants(SECOND)
    assert made.counters == {"out_of_order": 1}


# Poses that do not come.


def test_without_poses_nothing_is_kept_and_it_says_so():
    made = ingest()
    for k in range(1, 200):
        made.offer(k * SECOND, lambda k=k: small_picture(k))
    assert made.waiting == made.settings.max_waiting_frames
    assert made.finish() == []
    assert len(made.memory) == 0
    assert made.counters == {"no_later_pose": 64, "waiting_full": 135}


def test_a_camera_that_starts_long_before_the_odometry_does_not_block_what_follows():
    made = ingest()
    for k in range(1, 30):
        made.offer(k * SECOND, lambda k=k: small_picture(k))
    feed(made, drive(start_s=31, length_s=3))
    assert made.counters["no_earlier_pose"] == 29
    assert len(made.memory) > 20


def test_pictures_far_behind_the_poses_are_kept_as_if_they_were_not():
    """A stall of some seconds in a fast replay: poses overtake pictures by a minute."""
    messages = list(drive(length_s=60))
    together, apart = ingest(), ingest()
    feed(together, messages)
    feed(apart, [m for m in messages if m.pose is not None])
    feed(apart, [m for m in messages if m.pose is None])
    assert stored(apart) == stored(together)
    assert apart.counters["no_earlier_pose"] == 0


def test_poses_of_a_new_round_wait_for_pictures_that_are_still_in_the_old_one():
    messages = list(drive(length_s=60))
    early, late = messages[: len(messages) * 3 // 4], messages[len(messages) * 3 // 4 :]
    made = ingest()
    feed(made, messages)
    feed(
        made, [m for m in early if m.pose is not None]
    )  # the bag loops, poses most of a round ahead
    feed(made, [m for m in early if m.pose is None])
    feed(made, late)
    rounds = [record.segment for record in made.memory.records()]
    assert rounds.count(rounds[0]) == rounds.count(rounds[-1]) > 20
    assert made.counters["no_earlier_pose"] == 0


def test_odometry_that_pauses_loses_the_gap_only():
    made = ingest()
    messages = [m for m in drive(length_s=6) if m.pose is None or not 3 < m.stamp_ns / SECOND < 5]
    feed(made, messages)
    made.finish()
    stamps = [r.stamp_ns / SECOND for r in made.memory.records()]
    assert not [s for s in stamps if 3.05 < s < 4.95]
    assert made.counters["pose_gap"] >= 18
    assert min(stamps) < 1.1 and max(stamps) > 6.8


def test_expire_gives_up_on_frames_whose_pose_does_not_come():
    made = ingest(settings=KeyframeSettings(max_pose_wait_s=0.5))
    made.offer(SECOND, lambda: small_picture(1))
    assert made.expire(SECOND + SECOND // 3) == []
    assert made.waiting == 1
    assert made.expire(2 * SECOND) == []
    assert made.waiting == 0 and made.counters["no_later_pose"] == 1


def test_footage_without_poses_is_kept_where_none_are_needed():
    made = ingest(needs_pose=False)
    for k in range(1, 5):
        assert made.offer(k * SECOND, lambda k=k: small_picture(k)) == [k]
    assert [r.pose for r in made.memory.records()] == [None] * 4


def test_footage_with_poses_still_gets_them():
    made = ingest(needs_pose=False)
    feed(made, drive(length_s=2))
    made.offer(30 * SECOND, lambda: small_picture(1))
    made.finish()
    poses = [r.pose for r in made.memory.records()]
    assert poses[-1] is None and None not in poses[1:-1]


def test_poses_of_two_frames_are_not_mixed():
    made = ingest()
    made.add_pose(SECOND, along(1))
    made.add_pose(SECOND + 100, Pose("odom", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)))
    made.offer(SECOND + 50, lambda: small_picture(1))
    assert made.counters == {"pose_frame_changed": 1}


# Pictures that cannot be used.


def test_a_bad_picture_is_counted_by_its_reason_and_the_next_is_kept():
    made = ingest()
    keep = KeyframeSettings()

    def broken():
        return store_raw(decode_raw("rgb8", 20, 16, 60, False, b"short"), keep)

    made.add_pose(SECOND - 1, along(1))
    made.add_pose(9 * SECOND, along(1))
    wide = KeyframeSettings(min_interval_s=0.1, max_pose_gap_s=20)
    made = ingest(settings=wide)
    made.add_pose(SECOND - 1, along(1))
    made.add_pose(9 * SECOND, along(1))
    assert made.offer(SECOND, broken) == []
    assert made.offer(2 * SECOND, lambda: store_raw(room_picture(64, 48, 1), keep)) == [1]
    assert made.counters == {"image_data_too_short": 1, "kept": 1}


def test_errors_other_than_of_the_picture_are_not_swallowed():
    made = ingest(needs_pose=False)
    with pytest.raises(ZeroDivisionError):
        made.offer(SECOND, lambda: 1 / 0)


def test_map_mount_and_segment_are_stored_with_each_frame():
    mount = CameraMount((0.1, 0.0, 0.4), (0.5, -0.5, 0.5, -0.5), "camera_optical")
    made = ingest(mount=mount, map_id="floor-2")
    feed(made, drive(length_s=1))
    assert {(r.mount, r.map_id) for r in made.memory.records()} == {(mount, "floor-2")}


def test_image_error_is_what_loaders_raise():
    made = ingest(needs_pose=False)

    def refused():
        raise ImageError("depth_image", "depth")

    assert made.offer(SECOND, refused) == []
    assert made.counters["image_depth_image"] == 1
