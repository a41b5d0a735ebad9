"""The refusal agent on the Qwen encoder: what a question costs, and what it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
import pytest

from semflip_core.agent import RefusalAgent
from semflip_core.decision import Reason
from semflip_core.encoders import PreparingEncoder, load_retriever
from semflip_core.encoders.qwen2_5_vl.encoder import QwenEncoder
from semflip_core.feature_cache import FeatureCache
from semflip_core.frames import FrameFeatures
from semflip_core.memory import VideoMemory
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_core.settings import DecisionSettings, RecallSettings
from support.colours import room_picture
from support.gates import linear_gate
from support.tiny_qwen import tiny_qwen

COLOURS = ("red", "green", "blue", "yellow")
RECALL = RecallSettings(prefix_frames=3, recalled_frames=2)


@pytest.fixture
def encoder() -> Iterator[QwenEncoder]:
    with closing(tiny_qwen()) as made:
        yield made


@pytest.fixture
def memory() -> Iterator[VideoMemory]:
    with VideoMemory() as made:
        for number in range(6):
            drive(made, number)
        yield made


def drive(memory: VideoMemory, number: int) -> None:
    """One more keyframe, two metres on."""
    picture = room_picture(COLOURS[number % 4], COLOURS[number // 4], width=168, height=112)
    pose = Pose("map", (2.0 * number, 0.0, 0.0), quaternion_from_yaw(0.0))
    memory.add(picture, stamp_ns=(number + 1) * 10**9, pose=pose, map_id="house")


def agent_of(memory: VideoMemory, encoder: QwenEncoder) -> RefusalAgent:
    """An agent whose gate accepts everything."""
    retriever = load_retriever("support.colours:ColourEncoder")
    parts = {"retriever": retriever, "recall": RECALL, "map_id": "house"}
    fingerprint = RefusalAgent(memory, encoder, None, **parts).fingerprint()
    gate = linear_gate(np.zeros(encoder.dimension, np.float32), dict(fingerprint), tau=0.6)
    decision = DecisionSettings(min_peak=1.0, answer_tokens=6)
    return RefusalAgent(memory, encoder, gate, decision=decision, **parts)


class Passes:
    """Counts forward passes of decoder and vision tower."""

    def __init__(self, encoder: QwenEncoder) -> None:
        self.decoder = self.tower = 0
        encoder._decoder.register_forward_hook(self._read)
        encoder._model.model.visual.register_forward_hook(self._looked)

    def _read(self, *_: object) -> None:
        self.decoder += 1

    def _looked(self, *_: object) -> None:
        self.tower += 1


def test_it_is_a_preparing_encoder(encoder: QwenEncoder) -> None:
    assert isinstance(encoder, PreparingEncoder)


def test_a_goal_with_an_answer_in_words(memory: VideoMemory, encoder: QwenEncoder) -> None:
    told: list[str] = []
    decision = agent_of(memory, encoder).ask("Where is the red thing?", on_progress=told.append)
    assert decision.reason is None and decision.goal is not None
    assert decision.answer and told[-1] == decision.answer


def test_a_repeated_question_reads_its_own_words_only(
    memory: VideoMemory, encoder: QwenEncoder
) -> None:
    agent = agent_of(memory, encoder)
    agent.ask("Where is the red thing?")
    passes = Passes(encoder)
    agent.embed("Where is the red thing?")
    assert (passes.decoder, passes.tower) == (1, 0)


def test_another_question_reads_its_recalled_frames(
    memory: VideoMemory, encoder: QwenEncoder
) -> None:
    agent = agent_of(memory, encoder)
    first = agent.embed("Where is the red thing?")
    passes = Passes(encoder)
    second = agent.embed("Where is the blue thing?")
    assert [f.record.id for f in first.frames[:3]] == [f.record.id for f in second.frames[:3]]
    assert 2 <= passes.decoder <= 3 and passes.tower == 0


def test_while_nobody_asks_the_prefix_is_read(memory: VideoMemory, encoder: QwenEncoder) -> None:
    agent = agent_of(memory, encoder)
    agent.catch_up()
    agent.read_ahead()
    assert encoder._cache.segments == 1 + 3
    passes = Passes(encoder)
    agent.embed("Where is the red thing?")
    assert passes.decoder <= 2 + 1  # recalled frames and the question


def test_after_an_eviction_the_prefix_is_read_again_in_the_background(
    memory: VideoMemory, encoder: QwenEncoder
) -> None:
    agent = agent_of(memory, encoder)
    agent.catch_up()
    agent.read_ahead()
    memory.remove([memory.records()[0].id])
    agent.read_ahead()
    passes = Passes(encoder)
    grown = agent.embed("Where is the red thing?").joint
    assert passes.decoder <= 2 + 1
    fresh = tiny_qwen()
    anew = agent_of(memory, fresh).embed("Where is the red thing?").joint
    np.testing.assert_array_equal(grown.vector, anew.vector)


def test_a_memory_that_shrinks_and_grows_gives_what_a_fresh_robot_sees(
    memory: VideoMemory, encoder: QwenEncoder
) -> None:
    agent = agent_of(memory, encoder)
    for number in range(6, 10):
        agent.ask(f"Where is the {COLOURS[number % 4]} thing?")
        drive(memory, number)
        memory.remove([memory.records()[number % 3].id])
        agent.read_ahead()
    fresh = tiny_qwen()
    ours = agent.embed("Where is the green thing?").joint
    theirs = agent_of(memory, fresh).embed("Where is the green thing?").joint
    np.testing.assert_array_equal(ours.vector, theirs.vector)
    np.testing.assert_array_equal(ours.relevance, theirs.relevance)


def after(calls: int) -> Callable[[], bool]:
    left = iter(range(calls))
    return lambda: next(left, None) is None


@pytest.mark.parametrize("calls", [1, 2, 4])
def test_a_cancel_while_frames_are_read(
    memory: VideoMemory, encoder: QwenEncoder, calls: int
) -> None:
    agent = agent_of(memory, encoder)
    agent.catch_up()
    decision = agent.ask("Where is the red thing?", cancelled=after(calls))
    assert decision.reason is Reason.CANCELLED
    assert encoder._cache.segments <= calls
    assert agent.ask("Where is the red thing?").reason is None


def test_out_of_memory_twice_is_a_refusal_and_the_next_question_works(
    memory: VideoMemory, encoder: QwenEncoder
) -> None:
    import torch

    agent = agent_of(memory, encoder)
    agent.catch_up()

    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with encoder._decoder.layers[1].register_forward_hook(fail):
        assert agent.ask("Where is the red thing?").reason is Reason.INTERNAL_ERROR
    assert agent.ask("Where is the red thing?").reason is None


def test_a_question_of_too_many_tokens_is_no_fault_of_the_robot(memory: VideoMemory) -> None:
    encoder = tiny_qwen(max_question_tokens=40)
    decision = agent_of(memory, encoder).ask("Where is " + "the red thing and " * 20 + "it?")
    assert decision.reason is Reason.INVALID_QUESTION and "at most 40" in decision.sentence


def test_kept_features_are_bounded_and_the_last_used_stay() -> None:
    kept = FeatureCache(limit_bytes=250)

    def features() -> FrameFeatures:
        return FrameFeatures({"a": np.zeros(100, np.uint8)})

    first = kept.put(1, features())
    kept.put(2, features())
    assert kept.get(1) is first
    kept.put(3, features())
    assert kept.get(2) is None and kept.get(1) is first
    kept.put(1, features())
    assert kept.nbytes == 200
    kept.put(4, FrameFeatures({"a": np.zeros(1000, np.uint8)}))
    assert kept.get(4) is not None and kept.nbytes == 1000
