"""A full memory drops what it can spare, and no room is forgotten for being old."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import pytest

from semflip_core.images import StoredPicture, store_raw
from semflip_core.memory import VideoMemory
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_core.settings import KeyframeSettings, MemorySettings
from support.driving import SECOND, small_picture

ROOMS = 40
FRAMES = 4000
ROOM_M = 4.0


@dataclass(frozen=True)
class View:
    """One keyframe of the synthetic day, and the object it shows, if any."""

    stamp_ns: int
    pose: Pose
    picture: StoredPicture
    shows: int | None


def view(number: int, room: int, heading: float, rng: np.random.Generator) -> View:
    """A look around from about the middle of a room; its object is in sight within 30 degrees."""
    x, y = (room % 10) * (ROOM_M + 1), (room // 10) * (ROOM_M + 3)
    x, y = x + rng.uniform(-0.8, 0.8), y + rng.uniform(-0.8, 0.8)
    bearing = room * 2.4
    seen = abs(math.remainder(bearing - heading, 2 * math.pi)) < math.radians(30)
    looks = np.random.default_rng([room, round(heading / (math.pi / 4)) % 8])
    rgb = np.repeat(np.repeat(looks.integers(0, 256, (6, 8, 3)), 4, 0), 4, 1)
    rgb = np.clip(rgb + rng.normal(0, 6, rgb.shape), 0, 255).astype(np.uint8)
    return View(
        (number + 1) * SECOND,
        Pose("map", (x, y, 0.0), quaternion_from_yaw(heading)),
        store_raw(rgb, KeyframeSettings()),
        room if seen else None,
    )


def day(seed: int = 0) -> list[View]:
    """Each room is looked at once in the morning; then the robot works in three of them all day."""
    rng = np.random.default_rng(seed)
    around = [k * math.radians(15) for k in range(24)]
    plan = [(room, heading) for room in range(ROOMS) for heading in around]
    while len(plan) < FRAMES:
        plan.append((int(rng.choice([1, 2, 3])), float(rng.uniform(-math.pi, math.pi))))
    return [view(number, *where, rng) for number, where in enumerate(plan)]


def objects(views: list[View]) -> set[int]:
    return {v.shows for v in views if v.shows is not None}


@pytest.mark.parametrize("seed", [0, 1])
def test_a_day_over_many_rooms_keeps_a_view_of_every_object(seed):
    views = day(seed)
    assert objects(views) == set(range(ROOMS))
    capacity = FRAMES // 10
    started = time.perf_counter()
    with VideoMemory(settings=MemorySettings(max_keyframes=capacity)) as memory:
        by_id = {
            memory.add(v.picture, stamp_ns=v.stamp_ns, pose=v.pose, map_id="m"): v for v in views
        }
        kept = objects([by_id[record.id] for record in memory.records()])
        assert len(memory) == capacity
    each = (time.perf_counter() - started) / FRAMES * 1e3
    first_in_first_out = objects(views[-capacity:])
    print(
        f"{FRAMES} keyframes of {ROOMS} rooms at 10 % capacity: views of {len(kept)} objects kept, "
        f"first-in-first-out keeps {len(first_in_first_out)}; {each:.2f} ms a keyframe"
    )
    assert kept == set(range(ROOMS))
    assert len(first_in_first_out) < ROOMS / 2


def add(memory: VideoMemory, x: float, *, yaw: float = 0.0, looks: int = 0, map_id: str = "m"):
    pose = Pose("map", (x, 0.0, 0.0), quaternion_from_yaw(yaw))
    return memory.add(
        small_picture(looks), stamp_ns=(memory.revision + 1) * SECOND, pose=pose, map_id=map_id
    )


def full(capacity: int) -> VideoMemory:
    return VideoMemory(settings=MemorySettings(max_keyframes=capacity))


def ids(memory: VideoMemory) -> list[int]:
    return [record.id for record in memory.records()]


def test_of_two_alike_views_the_older_goes():
    memory = full(3)
    for x in (0.0, 5.0, 10.0):
        add(memory, x)
    add(memory, 5.1)
    assert ids(memory) == [1, 3, 4]


def test_the_newest_view_is_never_the_one_to_go():
    memory = full(3)
    for x in (0.0, 0.2, 5.0):
        add(memory, x)
    newest = add(memory, 0.1)
    assert newest in ids(memory) and len(memory) == 3


@pytest.mark.parametrize("other", [{"yaw": 2.0}, {"looks": 7}])
def test_a_view_in_another_direction_or_of_something_else_is_not_redundant(other):
    memory = full(3)
    add(memory, 0.0, **other)
    add(memory, 0.0)
    add(memory, 0.6)
    add(memory, 20.0)
    assert ids(memory) == [1, 3, 4], "of views 2 and 3, which are alike, the older went"


def test_views_of_maps_the_robot_has_left_thin_out_first():
    memory = full(8)
    for x in range(4):
        add(memory, x * 1.0, map_id="yesterday")
    for x in range(4):
        add(memory, x * 0.6, map_id="today")
    add(memory, 20.0, map_id="today")
    add(memory, 30.0, map_id="today")
    maps = [record.map_id for record in memory.records()]
    assert maps.count("yesterday") == 2 and maps.count("today") == 6


def test_far_apart_views_still_make_room_for_each_other():
    """Nothing lies within reach of anything; the closest pair is found all the same."""
    memory = full(4)
    for x in (0.0, 100.0, 130.0, 1000.0):
        add(memory, x)
    add(memory, 5000.0)
    assert len(memory) == 4 and {1, 4, 5} <= set(ids(memory))


def test_one_view_of_each_of_many_maps_drops_the_oldest():
    memory = full(3)
    for number in range(5):
        add(memory, 0.0, map_id=f"map-{number}")
    assert ids(memory) == [3, 4, 5]


def test_footage_without_poses_is_thinned_evenly_in_time():
    memory = full(20)
    for number in range(200):
        memory.add(small_picture(0), stamp_ns=(number + 1) * SECOND, pose=None, map_id="m")
    stamps = [record.stamp_ns / SECOND for record in memory.records()]
    gaps = np.diff([0.0, *stamps, 201.0])
    assert gaps.max() <= 35, stamps


def test_what_a_restart_decides_is_what_would_have_been_decided(tmp_path):
    views = day()[:1500]
    whole = full(100)
    for v in views:
        whole.add(v.picture, stamp_ns=v.stamp_ns, pose=v.pose, map_id="m")
    path, settings = tmp_path / "m.sqlite", MemorySettings(max_keyframes=100)
    for part in (views[:700], views[700:]):
        with VideoMemory(path, settings) as memory:
            for v in part:
                memory.add(v.picture, stamp_ns=v.stamp_ns, pose=v.pose, map_id="m")
            left = ids(memory)
    assert left == ids(whole)
