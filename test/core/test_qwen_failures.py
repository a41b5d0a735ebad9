"""Cancelled, failed or out of memory in the middle: the kept states stay right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import torch

from semflip_core.encoders.qwen2_5_vl.encoder import QwenEncoder
from semflip_core.errors import EncoderError
from semflip_core.frames import MemoryFrame
from support.plain_qwen import seen
from support.tiny_qwen import tiny_qwen

QUESTION = "Where is the red fire extinguisher?"
OTHER = "Which chair?"


@pytest.fixture
def encoder() -> Iterator[QwenEncoder]:
    with closing(tiny_qwen()) as made:
        yield made


@pytest.fixture
def frames(encoder: QwenEncoder) -> list[MemoryFrame]:
    return [seen(encoder, n) for n in range(5)]


@pytest.fixture
def truth(frames: list[MemoryFrame]) -> Any:
    fresh = tiny_qwen()
    return fresh.encode(QUESTION, frames).vector


class Failing:
    """Makes one decoder layer fail in its n-th pass from now."""

    def __init__(self, encoder: QwenEncoder, layer: int, passes: int, error: Exception) -> None:
        self.passes, self.error, self.times = passes, error, 1
        self.seen = 0
        module = encoder._decoder.layers[layer].mlp
        self.handle = module.register_forward_hook(self._hook)

    def _hook(self, *_: Any) -> None:
        self.seen += 1
        if self.passes <= self.seen < self.passes + self.times:
            raise self.error


# Head, five frames, question: seven passes; each of them may fail, in an early or a late layer.
@pytest.mark.parametrize("layer", [0, 3])
@pytest.mark.parametrize("passes", [1, 3, 6, 7])
def test_a_failure_in_the_middle(
    encoder: QwenEncoder, frames: list[MemoryFrame], truth: Any, layer: int, passes: int
) -> None:
    failing = Failing(encoder, layer, passes, ValueError("the kernel failed"))
    with pytest.raises(ValueError, match="the kernel failed"):
        encoder.encode(QUESTION, frames)
    failing.handle.remove()
    assert encoder._cache.segments == min(passes - 1, 6)
    np.testing.assert_array_equal(encoder.encode(QUESTION, frames).vector, truth)


def test_a_failure_while_answering(
    encoder: QwenEncoder, frames: list[MemoryFrame], truth: Any
) -> None:
    encoder.encode(OTHER, frames)
    failing = Failing(encoder, 2, 3, ValueError("the kernel failed"))
    with pytest.raises(ValueError, match="the kernel failed"):
        encoder.answer(OTHER, frames, max_tokens=8)
    failing.handle.remove()
    np.testing.assert_array_equal(encoder.encode(QUESTION, frames).vector, truth)


def after(calls: int) -> Callable[[], bool]:
    """False so many times, then True."""
    left = iter(range(calls))
    return lambda: next(left, None) is None


@pytest.mark.parametrize("calls", [0, 1, 3, 5])
def test_cancelled_while_reading(
    encoder: QwenEncoder, frames: list[MemoryFrame], truth: Any, calls: int
) -> None:
    assert not encoder.prepare(frames, cancelled=after(calls))
    assert encoder._cache.segments == calls
    np.testing.assert_array_equal(encoder.encode(QUESTION, frames).vector, truth)


def test_cancelled_while_answering(
    encoder: QwenEncoder, frames: list[MemoryFrame], truth: Any
) -> None:
    whole = encoder.answer(OTHER, frames, max_tokens=8)
    part = encoder.answer(OTHER, frames, max_tokens=8, cancelled=after(3))
    assert whole.startswith(part) and len(part) < len(whole)
    np.testing.assert_array_equal(encoder.encode(QUESTION, frames).vector, truth)


def test_prepared_frames_are_read_once(encoder: QwenEncoder, frames: list[MemoryFrame]) -> None:
    assert encoder.prepare(frames)
    passes = Failing(encoder, 0, 10**6, ValueError())
    encoder.encode(QUESTION, frames)
    assert passes.seen == 1  # the question alone
    encoder.encode(OTHER, [*frames, seen(encoder, 9)])
    assert passes.seen == 3  # the new frame and the question


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate"),
        MemoryError(),
    ],
)
def test_out_of_memory_once_gives_up_the_kept_states_and_succeeds(
    encoder: QwenEncoder, frames: list[MemoryFrame], truth: Any, error: Exception
) -> None:
    encoder.encode(OTHER, frames)
    failing = Failing(encoder, 1, 1, error)
    np.testing.assert_array_equal(encoder.encode(QUESTION, frames).vector, truth)
    assert failing.seen == 1 + 7  # the failed pass, then everything anew


class SmallDevice:
    """Runs out of memory, as torch says it, while more than so many bytes of states are on it."""

    def __init__(self, encoder: QwenEncoder, limit: int) -> None:
        self.failed = 0
        self._encoder, self._limit = encoder, limit
        self.handle = encoder._decoder.layers[2].mlp.register_forward_hook(self._hook)

    def _hook(self, *_: Any) -> None:
        if self._encoder.cached_on_device_bytes > self._limit:
            self.failed += 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 24.00 MiB")


def test_where_frames_do_not_fit_they_wait_in_host_memory_and_none_is_left_out(
    encoder: QwenEncoder, frames: list[MemoryFrame], truth: Any
) -> None:
    first = encoder.encode(OTHER, frames)
    device = SmallDevice(encoder, encoder.cached_on_device_bytes // 2)
    joint = encoder.encode(QUESTION, frames)
    assert device.failed == 2  # with the kept states, and without them
    np.testing.assert_array_equal(joint.vector, truth)
    assert joint.relevance.shape == (len(frames),)
    assert encoder._cache.segments == 1 + len(frames)
    assert encoder.cached_bytes > 0 == encoder.cached_on_device_bytes
    np.testing.assert_array_equal(encoder.encode(OTHER, frames).vector, first.vector)
    assert device.failed == 2  # it stays so, and the frames stay read


def test_an_answer_is_the_same_from_host_memory(
    encoder: QwenEncoder, frames: list[MemoryFrame]
) -> None:
    usual = encoder.answer(QUESTION, frames, max_tokens=6)
    SmallDevice(encoder, 0)
    assert encoder.answer(QUESTION, frames, max_tokens=6) == usual
    assert encoder.cached_on_device_bytes == 0


def test_a_picture_too_large_for_the_device_is_an_error(encoder: QwenEncoder) -> None:
    def fail(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    with (
        encoder._model.model.visual.register_forward_hook(fail),
        pytest.raises(EncoderError, match="fewer frames or pixels"),
    ):
        seen(encoder, 1)
    assert seen(encoder, 1).features.arrays["tokens"].size


def test_out_of_memory_whatever_is_given_back_is_an_error_and_the_encoder_goes_on(
    encoder: QwenEncoder, frames: list[MemoryFrame], truth: Any
) -> None:
    failing = Failing(encoder, 1, 1, torch.OutOfMemoryError("CUDA out of memory"))
    failing.times = 3
    with pytest.raises(EncoderError, match="fewer frames or pixels"):
        encoder.encode(QUESTION, frames)
    assert encoder.cached_bytes == 0
    failing.handle.remove()
    np.testing.assert_array_equal(encoder.encode(QUESTION, frames).vector, truth)


def test_nan_is_an_error_and_is_not_kept(
    encoder: QwenEncoder, frames: list[MemoryFrame], truth: Any
) -> None:
    norm = encoder._decoder.norm.weight
    good = norm.detach().clone()
    norm.fill_(float("nan"))
    with pytest.raises(EncoderError, match="NaN or infinity in float32"):
        encoder.encode(QUESTION, frames)
    norm.copy_(good)
    assert encoder.cached_tokens == 0
    np.testing.assert_array_equal(encoder.encode(QUESTION, frames).vector, truth)


def test_nan_of_the_vision_tower_is_never_stored(encoder: QwenEncoder) -> None:
    encoder._model.model.visual.merger.ln_q.weight.fill_(float("nan"))
    with pytest.raises(EncoderError, match="vision tower gave NaN"):
        seen(encoder, 1)


def test_kept_states_take_room_for_what_is_held(
    encoder: QwenEncoder, frames: list[MemoryFrame]
) -> None:
    encoder.encode(QUESTION, frames)
    states = 4 * 2 * 2 * 16 * 4  # layers, keys and values, key heads, their width, float32
    assert encoder.cached_tokens * states <= encoder.cached_bytes <= 2048 * states
