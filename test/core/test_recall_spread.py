"""Recalled frames make room for other places, headings and times."""

from __future__ import annotations

import math

import pytest

from semflip_core.coverage import view_cell
from semflip_core.frames import KeyframeRecord
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_core.recall_spread import nearness, spread
from semflip_core.settings import RecallSettings

SECOND = 10**9
TWO = RecallSettings(recalled_frames=2)


def at(number: int, x: float, yaw: float = 0.0, map_id: str = "m", frame: str = "map"):
    pose = Pose(frame, (x, 0.0, 0.0), quaternion_from_yaw(yaw))
    return KeyframeRecord(number, number * SECOND, pose, map_id, 0, 32, 24)


def footage(number: int, seconds: float, segment: int = 0) -> KeyframeRecord:
    return KeyframeRecord(number, round(seconds * SECOND), None, "m", segment, 32, 24)


def chosen(records, scores, settings: RecallSettings, ordinary: float = 0.0) -> list[int]:
    ranked = sorted(
        ((score, record.id) for score, record in zip(scores, records, strict=True)),
        key=lambda item: (-item[0], item[1]),
    )
    cells = {
        record.id: view_cell(record, settings.spread_m, settings.spread_s, settings.spread_headings)
        for record in records
    }
    return spread(ranked, ordinary, {record.id: record for record in records}, cells, settings)


def test_a_neighbour_in_another_cell_gives_way_to_a_frame_elsewhere():
    records = [at(1, 0.99), at(2, 1.01), at(3, 30.0)]
    assert chosen(records, [1.0, 0.99, 0.9], TWO) == [1, 3]


def test_but_not_to_one_that_hardly_matches():
    records = [at(1, 0.99), at(2, 1.01), at(3, 30.0)]
    assert chosen(records, [1.0, 0.99, 0.3], TWO) == [1, 2]


def test_looking_the_other_way_from_the_same_place_is_elsewhere():
    records = [at(1, 0.0), at(2, 0.1), at(3, 0.0, math.pi)]
    assert chosen(records, [1.0, 0.99, 0.9], TWO) == [1, 3]


def test_one_view_gives_its_few_and_then_others_go_first_however_weak():
    records = [at(n, 0.01 * n) for n in range(1, 8)] + [at(8, 30.0)]
    settings = RecallSettings(recalled_frames=5, per_view=3, spread_weight=0.0)
    scores = [1.0 - 0.01 * n for n in range(1, 8)] + [0.1]
    assert chosen(records, scores, settings) == [1, 2, 3, 8, 4]


@pytest.mark.parametrize(
    ("a", "b", "near"),
    [
        (at(1, 0.0), at(2, 0.0), 1.0),
        (at(1, 0.0), at(2, 5.0), 0.0),
        (at(1, 0.0), at(2, 0.0, math.pi), 0.0),
        (at(1, 0.0), at(2, 0.0, map_id="other"), 0.0),
        (at(1, 0.0), at(2, 0.0, frame="odom"), 0.0),
        (footage(1, 5.0), footage(2, 5.0), 1.0),
        (footage(1, 5.0), footage(2, 50.0), 0.0),
        (footage(1, 5.0), footage(2, 5.0, segment=1), 0.0),
    ],
)
def test_nearness_is_one_for_the_same_view_and_nothing_across_maps_and_segments(a, b, near):
    assert nearness(a, b, RecallSettings()) == pytest.approx(near, abs=1e-6)


def test_nothing_ranked_is_nothing_chosen():
    assert chosen([], [], TWO) == []
