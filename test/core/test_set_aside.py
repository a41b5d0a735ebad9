"""A picture that the encoder can never read costs itself; a broken encoder costs the answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import cv2
import numpy as np
import pytest

from semflip_core.agent import RefusalAgent
from semflip_core.decision import Reason, Verdict
from semflip_core.encoders.contract import Retriever
from semflip_core.errors import EncoderError
from semflip_core.frames import FrameFeatures
from semflip_core.memory import VideoMemory
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_core.settings import RecallSettings
from support.colours import ColourEncoder, colour_gate, room_picture

RECALL = RecallSettings(recalled_frames=8)
#: A picture this wide is one that :class:`Picky` cannot read.
STRIP = 960


def see(memory: VideoMemory, *colours: str, width: int = 96) -> int:
    number = len(memory)
    return memory.add(
        room_picture(*colours, width=width),
        stamp_ns=(number + 1) * 10**9,
        pose=Pose("map", (float(number), 0.0, 0.0), quaternion_from_yaw(0.0)),
        map_id="now",
    )


class Picky(ColourEncoder):
    """Fails on strips, with an error of its library's own."""

    def __init__(self) -> None:
        self.read: list[int] = []
        self.broken = False

    def encode_frame(self, rgb):
        self.read.append(rgb.shape[1])
        if self.broken or rgb.shape[1] == STRIP:
            cv2.resize(np.zeros((0, 0), np.uint8), (3, 3))  # cv2.error is no RuntimeError
        return super().encode_frame(rgb)


class OtherRegions(ColourEncoder):
    """A retriever that reads every picture, with features of its own."""

    def frame_fingerprint(self):
        return {"name": "other regions"}


@pytest.fixture
def memory() -> Iterator[VideoMemory]:
    with VideoMemory() as opened:
        yield opened


def agent_for(
    memory: VideoMemory, encoder: ColourEncoder, retriever: Retriever | None = None
) -> RefusalAgent:
    plain = RefusalAgent(memory, encoder, None, retriever=retriever, recall=RECALL)
    gate = colour_gate(plain.fingerprint())
    return RefusalAgent(memory, encoder, gate, retriever=retriever, recall=RECALL, map_id="now")


@pytest.mark.parametrize("unreadable", [0, 1, 3])
def test_questions_are_answered_from_the_others(memory, unreadable, caplog) -> None:
    """Wherever it stands in time, first or last."""
    for number, colour in enumerate(("blue", "red", "green", "blue")):
        see(memory, colour, width=STRIP if number == unreadable else 96)
    agent = agent_for(memory, Picky())
    with caplog.at_level(logging.ERROR, "semflip"):
        answered = agent.ask("Where is the green box?")
        agent.ask("Where is the green box?")
    assert answered.verdict is Verdict.ANSWER and answered.goal.position[0] == 2.0
    assert list(agent.set_aside) == [unreadable + 1]
    assert "resize" in agent.set_aside[unreadable + 1]
    assert [r.getMessage().split(",")[0] for r in caplog.records] == [
        f"keyframe {unreadable + 1} is set aside"
    ]


def test_what_only_the_picture_set_aside_shows_is_refused(memory) -> None:
    for colour in ("blue", "green", "blue"):
        see(memory, colour)
    see(memory, "red", width=STRIP)
    decision = agent_for(memory, Picky()).ask("Where is the red box?")
    assert decision.reason is Reason.ABSENT and not decision.goal
    assert 4 not in [item.keyframe_id for item in decision.evidence]


def test_it_is_not_read_again_for_each_question(memory) -> None:
    see(memory, "red")
    see(memory, "blue", width=STRIP)
    encoder = Picky()
    agent = agent_for(memory, encoder)
    agent.ask("Where is the red box?")
    read = len(encoder.read)
    for _ in range(3):
        assert agent.ask("Where is the red box?").verdict is Verdict.ANSWER
    assert len(encoder.read) == read


def test_an_encoder_that_reads_nothing_refuses_and_forgets_nothing(memory) -> None:
    encoder = Picky()
    agent = agent_for(memory, encoder)
    see(memory, "red")
    see(memory, "blue")
    agent.catch_up()
    encoder.broken = True
    see(memory, "green")
    decision = agent.ask("Where is the red box?")
    assert decision.reason is Reason.INTERNAL_ERROR
    assert "(EncoderError)" in decision.sentence
    assert not agent.set_aside
    encoder.broken = False
    assert agent.ask("Where is the green box?").goal.position[0] == 2.0


def test_an_encoder_broken_from_the_start_sets_nothing_aside(memory) -> None:
    encoder = Picky()
    encoder.broken = True
    for colour in ("red", "blue", "green"):
        see(memory, colour)
    agent = agent_for(memory, encoder)
    with pytest.raises(EncoderError, match="'colours' cannot read a picture: error"):
        agent.catch_up()
    assert not agent.set_aside
    encoder.broken = False
    assert agent.catch_up() == 3


def test_a_hiccup_costs_no_picture(memory, monkeypatch) -> None:
    see(memory, "red")
    encoder = Picky()
    agent = agent_for(memory, encoder)
    agent.catch_up()
    see(memory, "green")
    see(memory, "blue")
    healthy, calls = ColourEncoder.encode_frame, iter([True])

    def once(self, rgb):
        if next(calls, False):
            raise MemoryError("no room for a moment")
        return healthy(self, rgb)

    monkeypatch.setattr(ColourEncoder, "encode_frame", once)
    assert agent.ask("Where is the green box?").verdict is Verdict.ANSWER
    assert not agent.set_aside


def test_only_unreadable_pictures_are_an_error_not_an_empty_room(memory) -> None:
    see(memory, "red", width=STRIP)
    good = see(memory, "green")
    agent = agent_for(memory, Picky())
    agent.catch_up()
    memory.remove([good])
    decision = agent.ask("Where is the red box?")
    assert decision.reason is Reason.INTERNAL_ERROR
    assert list(agent.set_aside) == [1]


def test_a_keyframe_that_is_gone_is_not_counted(memory) -> None:
    see(memory, "red")
    strip = see(memory, "blue", width=STRIP)
    see(memory)
    agent = agent_for(memory, Picky())
    agent.catch_up()
    assert list(agent.set_aside) == [strip]
    memory.remove([strip])
    assert agent.ask("Where is the red box?").verdict is Verdict.ANSWER
    assert not agent.set_aside


def test_what_the_retriever_reads_and_the_encoder_does_not_is_not_recalled(memory) -> None:
    see(memory, "red", width=STRIP)
    see(memory, "red")
    see(memory, "blue")
    agent = agent_for(memory, Picky(), OtherRegions())
    decision = agent.ask("Where is the red box?")
    assert decision.verdict is Verdict.ANSWER and decision.goal.position[0] == 1.0
    assert list(agent.set_aside) == [1]


def spoilt(change: Callable[[FrameFeatures], FrameFeatures | None]) -> ColourEncoder:
    """An encoder whose features of strips break the contract without an error."""

    class Spoilt(ColourEncoder):
        def encode_frame(self, rgb):
            made = super().encode_frame(rgb)
            return change(made) if rgb.shape[1] == STRIP else made

    return Spoilt()


@pytest.mark.parametrize(
    "change",
    [
        lambda made: None,
        lambda made: FrameFeatures({}),
        lambda made: FrameFeatures({"regions": made.arrays["regions"] * np.nan}),
        lambda made: FrameFeatures({"regions": made.arrays["regions"][:0]}),
        lambda made: FrameFeatures({"something": made.arrays["regions"]}),
    ],
)
def test_features_that_cannot_be_used_are_no_features(memory, change) -> None:
    see(memory, "red", width=STRIP)
    see(memory, "green")
    see(memory)
    agent = agent_for(memory, spoilt(change))
    assert agent.ask("Where is the green box?").verdict is Verdict.ANSWER
    assert list(agent.set_aside) == [1]


def test_one_that_comes_while_a_question_is_read_waits_for_the_next(memory, monkeypatch) -> None:
    see(memory, "red")
    see(memory)
    agent = agent_for(memory, Picky())
    refresh = agent.recall.refresh

    def meanwhile(unread):
        if len(memory) == 2:
            see(memory, "green", width=STRIP)
        refresh(unread)

    monkeypatch.setattr(agent.recall, "refresh", meanwhile)
    assert agent.ask("Where is the red box?").verdict is Verdict.ANSWER
    assert not agent.set_aside
    assert agent.ask("Where is the red box?").verdict is Verdict.ANSWER
    assert list(agent.set_aside) == [3]


def test_the_next_start_tries_it_again(memory) -> None:
    see(memory, "red")
    see(memory, "green", width=STRIP)
    see(memory)
    first = agent_for(memory, Picky())
    first.catch_up()
    assert list(first.set_aside) == [2]
    agent = agent_for(memory, ColourEncoder())  # one that reads it
    assert agent.ask("Where is the green box?").goal.position[0] == 1.0
