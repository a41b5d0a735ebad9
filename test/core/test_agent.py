"""A question becomes exactly one decision, and a goal only when everything holds."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from semflip_core.agent import RefusalAgent
from semflip_core.decision import Decision, Reason, Verdict
from semflip_core.errors import ConfigError, GateMismatchError
from semflip_core.frames import MemoryFrame
from semflip_core.memory import VideoMemory
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_core.settings import RecallSettings
from support.colours import ColourEncoder, colour_gate, room_picture

RECALL = RecallSettings(recalled_frames=8)


def pose(x: float, frame: str = "map") -> Pose:
    return Pose(frame, (x, 1.0, 0.2), quaternion_from_yaw(0.5))


def drive(memory: VideoMemory, *rooms: tuple[str, ...], map_id: str = "now") -> None:
    for index, colours in enumerate(rooms):
        memory.add(
            room_picture(*colours), stamp_ns=(index + 1) * 10**9, pose=pose(index), map_id=map_id
        )


@pytest.fixture
def memory():
    with VideoMemory() as opened:
        drive(opened, (), ("red",), (), ("green", "blue"), ())
        yield opened


def agent_for(memory: VideoMemory, encoder: ColourEncoder | None = None, **rest) -> RefusalAgent:
    encoder = encoder or ColourEncoder()
    plain = RefusalAgent(memory, encoder, None, recall=RECALL)
    gate = rest.pop("gate", None) or colour_gate(plain.fingerprint(), **rest.pop("header", {}))
    return RefusalAgent(memory, encoder, gate, recall=RECALL, map_id="now", **rest)


def check(decision: Decision) -> None:
    assert (decision.verdict is Verdict.ANSWER) == (decision.goal is not None)
    assert (decision.verdict is Verdict.REFUSE) == (decision.reason is not None)
    assert decision.statement == ("I do not know" if decision.reason else "")
    json.dumps(decision.to_json(), allow_nan=False)


def test_what_it_saw_becomes_the_pose_it_stood_at(memory: VideoMemory) -> None:
    decision = agent_for(memory).ask("Where is the red box?", query_id="q1")
    check(decision)
    assert decision.goal is not None
    assert (decision.goal.frame_id, decision.goal.position) == ("map", (1.0, 1.0, 0.0))
    assert decision.goal.orientation == pytest.approx(quaternion_from_yaw(0.5))
    assert decision.evidence[0].stamp_ns == 2 * 10**9
    assert decision.evidence[0].region == pytest.approx((0.0, 1 / 3, 1 / 3, 2 / 3))
    assert decision.score <= decision.threshold
    assert decision.query_id == "q1"
    assert {"features", "recall", "encode", "gate", "total"} <= set(decision.timings_ms)


def test_what_it_did_not_see_is_refused(memory: VideoMemory) -> None:
    decision = agent_for(memory).ask("Where is the yellow box?")
    check(decision)
    assert decision.reason is Reason.ABSENT
    assert decision.gate_verdict is Verdict.REFUSE
    assert decision.score > decision.threshold
    assert len(decision.member_scores) == 5


def test_the_same_question_gives_the_same_decision(memory: VideoMemory) -> None:
    first, again = (agent_for(memory).ask("Where is the blue box?") for _ in range(2))
    assert replace(first, timings_ms={}) == replace(again, timings_ms={})


def test_an_empty_memory_is_refused() -> None:
    with VideoMemory() as empty:
        decision = agent_for(empty).ask("Where is the red box?")
    check(decision)
    assert decision.reason is Reason.EMPTY_MEMORY
    assert decision.gate_verdict is None
    assert math.isnan(decision.score)


@pytest.mark.parametrize("question", ["", "\x00", "🧯", "x" * 100_000])
def test_what_is_no_question_is_refused(memory: VideoMemory, question: str) -> None:
    decision = agent_for(memory).ask(question)
    check(decision)
    assert decision.reason is Reason.INVALID_QUESTION
    assert len(decision.question) <= 501


@pytest.mark.parametrize(
    ("map_id", "frame", "word"),
    [("yesterday", "map", "another map"), ("now", "odom", "frame 'odom'")],
)
def test_another_map_or_frame_never_becomes_a_goal(map_id: str, frame: str, word: str) -> None:
    with VideoMemory() as memory:
        memory.add(room_picture("red"), stamp_ns=1, pose=pose(0, frame), map_id=map_id)
        memory.add(room_picture(), stamp_ns=2, pose=pose(1), map_id="now")
        decision = agent_for(memory).ask("Where is the red box?")
    check(decision)
    assert decision.reason is Reason.NO_POSE
    assert decision.gate_verdict is Verdict.ANSWER
    assert word in decision.sentence
    assert decision.evidence[0].stamp_ns == 1


def test_footage_without_poses_shows_what_it_saw() -> None:
    with VideoMemory() as memory:
        for stamp in (1, 2):
            memory.add(room_picture("red"), stamp_ns=stamp, pose=None, map_id="video")
        memory.add(room_picture(), stamp_ns=3, pose=None, map_id="video")
        decision = agent_for(memory).ask("Where is the red box?")
    check(decision)
    assert decision.reason is Reason.NO_POSE
    assert decision.gate_verdict is Verdict.ANSWER
    assert decision.evidence


def test_frames_that_support_it_all_alike_are_no_evidence() -> None:
    with VideoMemory() as memory:
        for stamp in range(1, 6):
            memory.add(room_picture("red"), stamp_ns=stamp, pose=pose(stamp), map_id="now")
        decision = agent_for(memory).ask("Where is the red box?")
    check(decision)
    assert decision.reason is Reason.ABSENT
    assert "stands out" in decision.sentence
    assert decision.gate_verdict is Verdict.ANSWER


def test_a_thing_plain_in_most_frames_is_answered() -> None:
    with VideoMemory() as memory:
        for stamp in range(1, 6):
            memory.add(room_picture("red"), stamp_ns=stamp, pose=pose(stamp), map_id="now")
        memory.add(room_picture("blue"), stamp_ns=6, pose=pose(6), map_id="now")
        decision = agent_for(memory).ask("Where is the red box?")
    check(decision)
    assert decision.verdict is Verdict.ANSWER
    assert decision.evidence[0].stamp_ns != 6


def test_beyond_the_distance_limit_is_out_of_distribution(memory: VideoMemory) -> None:
    decision = agent_for(memory, header={"distance_limit": 0.5}).ask("Where is the red box?")
    check(decision)
    assert decision.reason is Reason.OUT_OF_DISTRIBUTION


def test_a_gate_that_must_refuse_all_does(memory: VideoMemory) -> None:
    decision = agent_for(memory, header={"refuse_all": True}).ask("Where is the red box?")
    check(decision)
    assert decision.verdict is Verdict.REFUSE
    assert decision.gate_verdict is Verdict.REFUSE


def test_a_gate_for_another_pipeline_is_not_taken(memory: VideoMemory) -> None:
    with pytest.raises(GateMismatchError, match=r"encoder\.name"):
        agent_for(memory, gate=colour_gate({"encoder.name": "other"}))
    gate = agent_for(memory).gate
    with pytest.raises(GateMismatchError, match="recall") as caught:
        RefusalAgent(
            memory, ColourEncoder(), gate, recall=RecallSettings(recalled_frames=7), map_id="now"
        )
    assert all(field.startswith("recall.") for field in caught.value.differences)


@pytest.mark.parametrize("tau", [-0.1, 1.0, math.nan, math.inf])
def test_an_impossible_threshold_is_an_error(memory: VideoMemory, tau: float) -> None:
    with pytest.raises(ConfigError, match="threshold"):
        agent_for(memory, threshold=tau)


def test_goals_without_a_frame_are_an_error_at_start(memory: VideoMemory) -> None:
    with pytest.raises(ConfigError, match="global_frame is empty"):
        RefusalAgent(memory, ColourEncoder(), None, recall=RECALL, global_frame="")


def test_a_threshold_by_hand_is_marked_and_logged(memory: VideoMemory, caplog) -> None:
    with caplog.at_level(logging.WARNING, "semflip"):
        agent = agent_for(memory, threshold=0.999)
    assert "calibration statement" in caplog.text
    decision = agent.ask("Where is the yellow box?")
    assert decision.threshold_overridden
    assert decision.threshold == 0.999


class Broken(ColourEncoder):
    """Breaks its contract in one chosen way during ``encode``."""

    def __init__(self, spoil: Callable) -> None:
        self.spoil = spoil

    def encode(self, question, frames: tuple[MemoryFrame, ...]):
        return self.spoil(super().encode(question, frames))


def raising(error: BaseException) -> Callable:
    def spoil(_: object) -> object:
        raise error

    return spoil


FAULTS: dict[str, Callable] = {
    "exception": raising(RuntimeError("CUDA error")),
    "out of memory": raising(MemoryError()),
    "nan": lambda j: replace(j, vector=j.vector * np.nan),
    "inf": lambda j: replace(j, vector=j.vector + np.inf),
    "zeros": lambda j: replace(j, vector=j.vector * 0),
    "short vector": lambda j: replace(j, vector=j.vector[:2]),
    "matrix": lambda j: replace(j, vector=j.vector[None]),
    "nan relevance": lambda j: replace(j, relevance=j.relevance * np.nan),
    "negative relevance": lambda j: replace(j, relevance=-j.relevance),
    "short relevance": lambda j: replace(j, relevance=j.relevance[:-1]),
    "misshapen regions": lambda j: replace(j, regions=j.regions[:, :3]),
    "nothing": lambda j: None,
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_broken_encoder_is_a_refusal_logged_once(memory: VideoMemory, fault: str, caplog) -> None:
    agent = agent_for(memory, Broken(FAULTS[fault]))
    with caplog.at_level(logging.ERROR, "semflip"):
        decision = agent.ask("Where is the red box?")
    check(decision)
    assert decision.reason is Reason.INTERNAL_ERROR
    assert len(caplog.records) == 1
    assert agent_for(memory).ask("Where is the red box?").verdict is Verdict.ANSWER


def test_cancelling_between_steps_ends_the_query(memory: VideoMemory) -> None:
    steps: list[str] = []
    for allowed in range(3):
        calls = iter([False] * allowed + [True] * 10)
        decision = agent_for(memory).ask(
            "Where is the red box?", cancelled=lambda c=calls: next(c), on_progress=steps.append
        )
        check(decision)
        expected = Reason.CANCELLED if allowed < 2 else None
        assert decision.reason is expected
    assert steps == ["encode", "encode", "decide"]


def test_features_are_made_once_and_again_for_another_encoder(memory: VideoMemory) -> None:
    agent = agent_for(memory)
    assert agent.catch_up(limit=2) == 2
    assert agent.catch_up() == 3
    assert agent.catch_up() == 0

    class Other(ColourEncoder):
        def fingerprint(self):
            return {"name": "other"}

    assert agent_for(memory, Other()).catch_up() == 5


def test_without_a_gate_nothing_is_answered(memory: VideoMemory) -> None:
    decision = RefusalAgent(memory, ColourEncoder(), None, recall=RECALL).ask("Where is red?")
    check(decision)
    assert decision.reason is Reason.NOT_ACTIVE
