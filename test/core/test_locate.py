"""Goals come from recorded poses on the current map, or not at all."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semflip_core.encoders.contract import JointEmbedding
from semflip_core.frames import KeyframeRecord
from semflip_core.locate import choose_goal, has_peak, rank_evidence
from semflip_core.poses import Pose, quaternion_from_yaw


def record(number: int, pose: Pose | None, map_id: str = "now") -> KeyframeRecord:
    return KeyframeRecord(number, number * 10, pose, map_id, 0, 64, 48)


def at(x: float, yaw: float = 0.0, frame: str = "map") -> Pose:
    return Pose(frame, (x, 0.0, 0.3), quaternion_from_yaw(yaw))


def joint(*relevance: float) -> JointEmbedding:
    return JointEmbedding(np.ones(2, np.float32), np.array(relevance, np.float32))


def goal_of(records: list[KeyframeRecord], *relevance: float):
    ranked = rank_evidence(records, joint(*relevance), len(records))
    return choose_goal(ranked, records, global_frame="map", map_id="now", stand_in=0.9)


@pytest.mark.parametrize(
    ("relevance", "peak"),
    [
        ([1.0, 1.0, 1.0], False),
        ([1.0, 1.04, 1.0], False),
        ([1.0, 1.06, 1.0], True),
        ([1.0] * 8 + [0.5] * 8, True),
        ([1.0] * 14 + [0.5] * 2, True),
        ([1.0] * 15 + [0.5], False),
        ([0.0, 0.0, 0.0], False),
        ([0.0, 0.1, 0.0], True),
        ([np.nan, 2.0, 1.0], False),
        ([np.inf, 2.0, 1.0], False),
        ([0.4], True),
        ([0.0], False),
        ([], False),
    ],
)
def test_a_peak_must_stand_out(relevance: list[float], peak: bool) -> None:
    assert has_peak(np.array(relevance, np.float32), 1.05) is peak


@given(
    level=st.floats(1e-6, 1e6),
    noise=st.lists(st.floats(1.0, 1.04), min_size=2, max_size=64),
)
def test_frames_that_are_alike_have_no_peak(level: float, noise: list[float]) -> None:
    assert not has_peak((level * np.array(noise)).astype(np.float32), 1.05)


@given(
    frames=st.integers(2, 64),
    plain=st.floats(0.0, 0.88),
    times=st.floats(1.1, 1e3),
    order=st.randoms(use_true_random=False),
)
def test_a_thing_plain_in_most_frames_stands_out_all_the_same(
    frames: int, plain: float, times: float, order: random.Random
) -> None:
    shown = max(1, min(int(plain * frames), frames - 1))
    relevance = [times] * shown + [1.0] * (frames - shown)
    order.shuffle(relevance)
    assert has_peak(np.array(relevance, np.float32), 1.05)


@given(
    relevance=st.lists(st.floats(0.0, 100.0, width=32), min_size=1, max_size=32),
    place=st.integers(0, 32),
    bad=st.sampled_from([math.nan, math.inf, -math.inf]),
)
def test_relevance_that_is_no_number_has_no_peak(
    relevance: list[float], place: int, bad: float
) -> None:
    relevance.insert(min(place, len(relevance)), bad)
    assert not has_peak(np.array(relevance, np.float32), 1.05)


def test_the_goal_is_the_flattened_pose_of_the_best_frame() -> None:
    tilted = Pose("map", (2.0, 1.0, 0.4), (0.1, 0.0, 0.5, math.sqrt(1 - 0.26)))
    place = goal_of([record(1, at(1)), record(2, tilted), record(3, at(3))], 0.1, 0.9, 0.2)
    assert place.goal is not None
    assert place.goal.position == (2.0, 1.0, 0.0)
    assert place.goal.orientation[:2] == (0.0, 0.0)
    assert place.goal.yaw == pytest.approx(tilted.yaw)


def test_the_later_frame_wins_a_tie() -> None:
    ranked = rank_evidence([record(1, at(1)), record(2, at(2))], joint(0.5, 0.5), 2)
    assert [item.keyframe_id for item in ranked] == [2, 1]


def test_regions_are_clipped_and_missing_ones_stay_missing() -> None:
    both = JointEmbedding(
        np.ones(2, np.float32),
        np.array([0.2, 0.8], np.float32),
        np.array([[np.nan] * 4, [-0.1, 0.2, 0.5, 1.2]], np.float32),
    )
    ranked = rank_evidence([record(1, at(1)), record(2, at(2))], both, 2)
    assert ranked[0].region == pytest.approx((0.0, 0.2, 0.5, 1.0))
    assert ranked[1].region is None


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (record(2, at(2), "yesterday"), "another map"),
        (record(2, at(2, frame="odom")), "frame 'odom'"),
        (record(2, None), "pose was not known"),
    ],
)
def test_a_frame_from_elsewhere_is_evidence_only(bad: KeyframeRecord, word: str) -> None:
    place = goal_of([record(1, at(1)), bad], 0.5, 0.9)
    assert place.goal is None
    assert word in place.problem


def test_a_frame_nearly_as_good_may_stand_in() -> None:
    place = goal_of([record(1, at(1)), record(2, at(2), "yesterday")], 0.85, 0.9)
    assert place.goal is not None
    assert place.goal.position[0] == 1.0
