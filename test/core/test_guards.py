"""Each guard of a goal alone (DESIGN section 5.2): all the others hold, this one does not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from semflip_core.agent import RefusalAgent
from semflip_core.decision import Decision, Reason, Verdict
from semflip_core.encoders.contract import JointEmbedding
from semflip_core.errors import GateMismatchError
from semflip_core.memory import VideoMemory
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_core.settings import RecallSettings
from support.colours import ColourEncoder, colour_gate, room_picture

QUESTION = "Where is the red thing?"


@pytest.fixture
def agent() -> Iterator[RefusalAgent]:
    """An agent that answers the question, until something is spoilt."""
    with VideoMemory() as memory:
        for index, colours in enumerate(((), ("red",), ())):
            memory.add(
                room_picture(*colours),
                stamp_ns=index + 1,
                pose=Pose("map", (float(index), 0.0, 0.0), quaternion_from_yaw(0.0)),
                map_id="now",
            )
        recall = RecallSettings(recalled_frames=8)
        encoder = ColourEncoder()
        fingerprint = RefusalAgent(memory, encoder, None, recall=recall).fingerprint()
        made = RefusalAgent(memory, encoder, colour_gate(fingerprint), recall=recall, map_id="now")
        assert made.ask(QUESTION).verdict is Verdict.ANSWER
        yield made


def refused(agent: RefusalAgent, reason: Reason) -> Decision:
    decision = agent.ask(QUESTION)
    assert decision.verdict is Verdict.REFUSE
    assert decision.goal is None
    assert decision.reason is reason
    return decision


@pytest.mark.parametrize("tau", [math.nan, math.inf, 1.0, -0.1])
def test_a_threshold_that_became_impossible(agent, tau) -> None:
    agent.gate.header = agent.gate.header.model_copy(update={"tau": tau})
    assert refused(agent, Reason.INTERNAL_ERROR).gate_verdict is Verdict.REFUSE


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, 1.5, -0.5])
def test_one_member_that_gives_no_probability(agent, score, monkeypatch) -> None:
    members = np.array([0.0, 0.0, score, 0.0, 0.0], np.float32)
    monkeypatch.setattr(agent.gate, "member_scores", lambda _: members)
    assert refused(agent, Reason.INTERNAL_ERROR).gate_verdict is None


def test_a_score_above_the_threshold(agent, monkeypatch) -> None:
    members = np.full(5, 0.51, np.float32)
    monkeypatch.setattr(agent.gate, "member_scores", lambda _: members)
    assert refused(agent, Reason.ABSENT).gate_verdict is Verdict.REFUSE
    monkeypatch.setattr(agent.gate, "member_scores", lambda _: members - 0.01)
    assert agent.ask(QUESTION).verdict is Verdict.ANSWER


def test_a_gate_that_found_no_threshold(agent) -> None:
    agent.gate.header = agent.gate.header.model_copy(update={"refuse_all": True})
    assert refused(agent, Reason.ABSENT).gate_verdict is Verdict.REFUSE


@pytest.mark.parametrize("distance", [math.nan, math.inf, 100.1])
def test_an_embedding_too_far_away(agent, distance, monkeypatch) -> None:
    monkeypatch.setattr(agent.gate, "distance", lambda _: distance)
    assert refused(agent, Reason.OUT_OF_DISTRIBUTION).goal is None


def test_an_encoder_that_changed_while_it_ran(agent, monkeypatch) -> None:
    monkeypatch.setattr(agent.encoder, "fingerprint", lambda: {"name": "colours", "grid": 4})
    assert refused(agent, Reason.INTERNAL_ERROR).gate_verdict is None


def test_an_encoder_that_is_another_at_load(agent) -> None:
    class Other(ColourEncoder):
        def fingerprint(self):
            return {"name": "other"}

    with pytest.raises(GateMismatchError, match=r"encoder\.name"):
        RefusalAgent(agent.memory, Other(), agent.gate, recall=agent.recall.settings)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ({"vector": np.full(3, np.nan, np.float32)}, Reason.INTERNAL_ERROR),
        ({"vector": np.zeros(3, np.float32)}, Reason.INTERNAL_ERROR),
        ({"vector": np.ones(4, np.float32)}, Reason.INTERNAL_ERROR),
        ({"relevance": np.array([1, np.nan, 1], np.float32)}, Reason.INTERNAL_ERROR),
        ({"relevance": np.array([1, 9, -1], np.float32)}, Reason.INTERNAL_ERROR),
        ({"relevance": np.ones(3, np.float32)}, Reason.ABSENT),
    ],
)
def test_an_embedding_that_breaks_its_contract(agent, spoil, reason, monkeypatch, caplog) -> None:
    """The contract is held where the encoder returns, not by luck in what comes after."""
    whole = agent.encoder.encode

    def broken(question, frames) -> JointEmbedding:
        return replace(whole(question, frames), **spoil)

    monkeypatch.setattr(agent.encoder, "encode", broken)
    refused(agent, reason)
    if reason is Reason.INTERNAL_ERROR:
        assert "EncoderError" in caplog.text


@pytest.mark.parametrize(
    ("frame", "map_id", "word"),
    [(None, "now", "not known"), ("odom", "now", "frame"), ("map", "old", "map")],
)
def test_a_place_that_is_none_on_this_map(agent, frame, map_id, word) -> None:
    agent.memory.clear()
    pose = Pose(frame, (0.0, 0.0, 0.0), quaternion_from_yaw(0.0)) if frame else None
    agent.memory.add(room_picture("red"), stamp_ns=9, pose=pose, map_id=map_id)
    assert word in refused(agent, Reason.NO_POSE).sentence
