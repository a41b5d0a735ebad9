"""Answers in words: what transformers' own greedy search says, from the kept states."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
import torch

from semflip_core.encoders import AnsweringEncoder
from semflip_core.encoders.qwen2_5_vl.encoder import QwenEncoder
from semflip_core.frames import MemoryFrame
from support.plain_qwen import PlainQwen, seen
from support.tiny_qwen import tiny_checkpoint, tiny_qwen

QUESTIONS = ("Where is the sofa?", "Which chair?", "Is there a piano in the kitchen?")


@pytest.fixture(scope="module")
def encoder() -> Iterator[QwenEncoder]:
    with closing(tiny_qwen()) as made:
        yield made


@pytest.fixture(scope="module")
def frames(encoder: QwenEncoder) -> list[MemoryFrame]:
    return [seen(encoder, 1), seen(encoder, 2, (200, 90)), seen(encoder, 0, prefix=False)]


def test_it_is_an_answering_encoder(encoder: QwenEncoder) -> None:
    assert isinstance(encoder, AnsweringEncoder)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_answer_is_that_of_transformers_greedy_search(
    encoder: QwenEncoder, frames: list[MemoryFrame], question: str
) -> None:
    plain = PlainQwen(tiny_checkpoint())
    inputs = plain.inputs(question, frames)
    with torch.inference_mode():
        output = plain.model.generate(**inputs, max_new_tokens=12, do_sample=False)
    ids = output[0, inputs["input_ids"].shape[1] :]
    wanted = plain.tokenizer.decode(ids, skip_special_tokens=True).strip()
    assert len(wanted.split()) > 1
    assert encoder.answer(question, frames, max_tokens=12) == wanted


def test_text_grows_while_it_is_decoded(encoder: QwenEncoder, frames: list[MemoryFrame]) -> None:
    told: list[str] = []
    answer = encoder.answer(QUESTIONS[0], frames, max_tokens=12, on_text=told.append)
    assert len(told) > 1 and told[-1] == answer
    assert [len(text) for text in told] == sorted(len(text) for text in told)


def test_length_is_bounded(encoder: QwenEncoder, frames: list[MemoryFrame]) -> None:
    assert encoder.answer(QUESTIONS[0], frames, max_tokens=0) == ""
    short = encoder.answer(QUESTIONS[0], frames, max_tokens=3)
    assert encoder.answer(QUESTIONS[0], frames, max_tokens=12).startswith(short)


@pytest.mark.parametrize("name", ["<|im_end|>", "<|endoftext|>", "<|image_pad|>", "<tool_call>"])
def test_a_model_that_ends_its_turn_or_wants_a_picture_says_no_more(
    encoder: QwenEncoder, frames: list[MemoryFrame], name: str
) -> None:
    token = encoder._answers._tokenizer.convert_tokens_to_ids(name)
    words = iter(range(3))

    def prefer(_: object, __: object, logits: torch.Tensor) -> torch.Tensor:
        if next(words, None) is None:
            logits[token] = logits.max() + 1
        return logits

    whole = encoder.answer(QUESTIONS[0], frames, max_tokens=8)
    with encoder._model.lm_head.register_forward_hook(prefer):
        said = encoder.answer(QUESTIONS[0], frames, max_tokens=8)
    assert said == encoder.answer(QUESTIONS[0], frames, max_tokens=3) != whole
