"""A question reads what it chose, while the robot drives on through a memory that is full."""

from __future__ import annotations

import pytest

from semflip_core.agent import RefusalAgent
from semflip_core.decision import Reason, Verdict
from semflip_core.memory import VideoMemory
from semflip_core.poses import Pose
from semflip_core.settings import MemorySettings, RecallSettings
from support.colours import ColourEncoder, colour_gate, room_picture

FULL = 20


class DrivingOn(ColourEncoder):
    """New keyframes come between what a question chooses and what it reads."""

    def __init__(self, memory: VideoMemory, frames: int) -> None:
        self.memory = memory
        self.frames = frames

    def phrase_vectors(self, question: str):
        if question.startswith("Where"):
            see(self.memory, self.frames)
        return super().phrase_vectors(question)


def see(memory: VideoMemory, frames: int) -> None:
    start = memory.records()[-1].stamp_ns if len(memory) else 0
    for n in range(1, frames + 1):
        stamp = start + n * 1_000_000_000
        picture = room_picture("red" if n % 7 == 1 else "blue")
        memory.add(picture, stamp_ns=stamp, pose=Pose("map", (0, 0, 0), (0, 0, 0, 1)), map_id="m")


@pytest.fixture
def memory():
    with VideoMemory(None, MemorySettings(max_keyframes=FULL)) as opened:
        see(opened, FULL)
        yield opened


def agent_for(memory: VideoMemory, encoder: ColourEncoder) -> RefusalAgent:
    recall = RecallSettings(recalled_frames=8)
    gate = colour_gate(RefusalAgent(memory, encoder, None, recall=recall).fingerprint())
    return RefusalAgent(memory, encoder, gate, recall=recall, map_id="m")


def ask(memory: VideoMemory, frames: int):
    return agent_for(memory, DrivingOn(memory, frames)).ask("Where is the red thing?")


@pytest.mark.parametrize("frames", [1, 40])
def test_a_question_reads_what_it_chose_while_the_robot_drives_on(memory, frames: int) -> None:
    decision = ask(memory, frames)
    assert decision.verdict is Verdict.ANSWER
    assert len(memory) == FULL


def test_a_question_does_not_let_the_memory_grow_without_bound(memory, caplog) -> None:
    decision = ask(memory, 120)
    assert decision.reason is Reason.INTERNAL_ERROR
    assert "evicted faster" in caplog.text
    assert len(memory) == FULL


def test_what_comes_while_a_question_reads_has_a_limit(memory) -> None:
    with memory.steady(), memory.steady():
        see(memory, 120)
        assert FULL < len(memory) < 5 * FULL
    assert len(memory) == FULL


def test_features_of_what_is_gone_are_let_go(memory) -> None:
    agent = agent_for(memory, ColourEncoder())
    for _ in range(5):
        agent.ask("Where is the red thing?")
        see(memory, FULL)
    agent.ask("Where is the red thing?")
    assert len(agent._reader._kept_features) <= FULL
