"""The frames that cover a memory: spread out, and slow to change."""

from __future__ import annotations

import math

import numpy as np
import pytest

from semflip_core import coverage as covering
from semflip_core.frames import KeyframeRecord
from semflip_core.poses import Pose, quaternion_from_yaw
from support.driving import SECOND


def at(number: int, x: float, y: float = 0.0, yaw: float = 0.0, map_id: str = "m"):
    pose = Pose("map", (x, y, 0.0), quaternion_from_yaw(yaw))
    return KeyframeRecord(number, number * SECOND, pose, map_id, 0, 32, 24)


def footage(number: int, seconds: float) -> KeyframeRecord:
    return KeyframeRecord(number, round(seconds * SECOND), None, "m", 0, 32, 24)


def coverage(records: list[KeyframeRecord], count: int) -> tuple[int, ...]:
    cells = [covering.finest_cell(record) for record in records]
    return covering.coverage([record.id for record in records], cells, count)


def wander(count: int, seed: int = 0) -> list[KeyframeRecord]:
    rng = np.random.default_rng(seed)
    return [
        at(k + 1, *rng.uniform(0, 20, 2), float(rng.uniform(-math.pi, math.pi)))
        for k in range(count)
    ]


@pytest.mark.parametrize("count", [1, 3, 8, 20])
def test_it_gives_as_many_as_asked_for_out_of_what_there_is(count):
    records = wander(500)
    chosen = coverage(records, count)
    assert len(chosen) == count and list(chosen) == sorted(set(chosen))
    assert set(chosen) <= {r.id for r in records}
    assert coverage(records[:2], count) == tuple(r.id for r in records[: min(2, count)])
    assert coverage([], count) == () and coverage(records, 0) == ()


def test_every_place_is_near_a_chosen_frame():
    records = wander(800)
    chosen = {r.id: r for r in records}
    places = np.array([chosen[i].pose.position for i in coverage(records, 16)])
    everywhere = np.array([r.pose.position for r in records])
    nearest = np.linalg.norm(everywhere[:, None] - places[None], axis=2).min(axis=1)
    assert nearest.max() < 15.0 and nearest.mean() < 6.0


def test_it_changes_seldom_as_a_memory_grows():
    records = wander(1000)
    changes = 0
    before = coverage(records[:100], 12)
    for length in range(101, 1001, 3):
        now = coverage(records[:length], 12)
        changes += now != before
        before = now
    assert changes <= 15


def test_footage_is_covered_in_time():
    records = [footage(k + 1, 1 + k * 0.5) for k in range(400)]
    stamps = [records[i - 1].stamp_ns / SECOND for i in coverage(records, 10)]
    assert len(stamps) == 10
    assert max(np.diff([0.0, *stamps, 201.0])) <= 70


def test_maps_are_not_mixed():
    records = [at(k + 1, 0.0, map_id=f"map{k % 3}") for k in range(30)]
    assert coverage(records, 3) == (1, 2, 3)
