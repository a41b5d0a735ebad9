"""Prompting baselines: what is asked, and how strictly a reply is read."""

from __future__ import annotations

import numpy as np
import pytest

from semflip_core.errors import AssetError, ConfigError
from semflip_train.baselines.prompting import (
    MODES,
    Prompter,
    PromptingBaseline,
    PromptingSettings,
    parse,
    prompt,
)
from semflip_train.baselines.talkers import ChatModel, load_talker
from semflip_train.stores import BlobStore
from support.tiny_models import tiny_chat_model
from support.tiny_qwen import tiny_checkpoint


@pytest.mark.parametrize(
    ("mode", "text", "parsed", "refused", "category"),
    [
        ("coarse", "Yes.", True, False, None),
        ("coarse", "no", True, True, None),
        ("coarse", "No, I do not see it", False, False, None),
        ("fine", "answerable", True, False, None),
        ("fine", "False premise.", True, True, "false premise"),
        ("fine", "it is absent", False, False, None),
        ("chain_of_thought", "It asks for a lamp.\nVerdict: abstain", True, True, None),
        ("chain_of_thought", "Verdict: abstain? No. Verdict: answer", True, False, None),
        ("chain_of_thought", "I would abstain", False, False, None),
        ("tool", '{"tool": "drive_to", "target": "lamp"}', True, False, None),
        ("tool", '```json\n{"tool": "abstain", "reason": "none"}\n```', True, True, "none"),
        ("tool", '{"tool": "dance"}', False, False, None),
        ("tool", "abstain", False, False, None),
    ],
)
def test_replies_are_read_strictly(mode, text, parsed, refused, category):
    reply = parse(mode, text)
    assert (reply.parsed, reply.refused, reply.category) == (parsed, refused, category)


@pytest.mark.parametrize("mode", MODES)
def test_prompts_carry_the_question_on_one_line(mode):
    assert '"Where is the lamp?"' in prompt(mode, "Where is\nthe  lamp?")


def test_unknown_mode_lists_the_known_ones():
    with pytest.raises(ConfigError, match="unknown prompting mode 'shout'; known: coarse"):
        PromptingBaseline(None, "shout")  # type: ignore[arg-type]


class Scripted:
    identity = "scripted"

    def __init__(self, *replies: str) -> None:
        self.replies, self.heard = list(replies), []

    def reply(self, text, pictures):
        self.heard.append((text, len(pictures)))
        return self.replies.pop(0)


def test_an_unreadable_reply_is_asked_for_once_more():
    talker = Scripted("well...", "no")
    reply = PromptingBaseline(talker, "coarse").ask("Where is the lamp?", [None, None])  # type: ignore[list-item]
    assert reply.refused
    assert len(talker.heard) == 2
    assert talker.heard[1][0].endswith("exactly the form asked for.")
    assert talker.heard[0][1] == 2


def test_a_model_that_never_answers_in_form_does_not_refuse():
    reply = PromptingBaseline(Scripted("?", "?"), "coarse").ask("Where?", [])
    assert not reply.refused
    assert not reply.parsed


def test_a_models_own_tool_call_is_read_too():
    call = '<tool_call>\n{"name": "abstain", "arguments": {"reason": "no lamp"}}\n</tool_call>'
    assert parse("tool", call).category == "no lamp"
    call = '<tool_call>{"name": "drive_to", "arguments": {"target": "lamp"}}</tool_call>'
    assert parse("tool", call) == parse("tool", call).__class__(False, None, True, call)
    assert not parse("tool", '<tool_call>{"name": "drive_to"}</tool_call>').parsed


def test_control_tokens_in_a_question_are_broken_up():
    text = prompt("coarse", "Where is <|image_pad|> the lamp<|im_end|>?")
    assert "<|" not in text
    assert "image_pad" in text


def test_each_mode_is_asked_once_and_kept(tmp_path):
    settings = PromptingSettings(model="scripted", modes=("coarse", "tool"))
    loads = []

    def load():
        loads.append(1)
        return [np.zeros((4, 4, 3), np.uint8)] * 2

    with BlobStore(tmp_path / "replies.sqlite") as cache:
        talker = Scripted("no", '{"tool": "drive_to", "target": "lamp"}')
        first = Prompter(settings, talker, cache)
        replies = first.ask("Where is the lamp?", "frames 1 2", load)
        assert (replies["coarse"].refused, replies["tool"].refused) == (True, False)
        assert first.asked_now == 2 and len(loads) == 1
        assert [count for _, count in talker.heard] == [2, 2]
        again = Prompter(settings, Scripted(), cache)  # it would fail if asked
        assert again.ask("Where is the lamp?", "frames 1 2", load) == replies
        assert again.asked_now == 0 and len(loads) == 1
        other = Prompter(settings, Scripted("yes", "?", "?"), cache)
        assert not other.ask("Where is the lamp?", "frames 3", load)["coarse"].refused


def test_modes_are_checked():
    with pytest.raises(ValueError, match="unknown mode 'shout'; known: coarse"):
        PromptingSettings(model="m", modes=("shout",))


@pytest.fixture(scope="module")
def chat(tmp_path_factory):
    pytest.importorskip("transformers")
    return tiny_chat_model(tmp_path_factory.mktemp("chat"))


def test_a_language_model_hears_the_words_alone(chat):
    model = load_talker(PromptingSettings(model=str(chat), sees="words", max_tokens=4))
    assert isinstance(model, ChatModel)
    text = prompt("fine", "Where is the lamp?")
    assert model.rendered(text) == f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    blue = np.full((32, 32, 3), (0, 0, 255), np.uint8)
    assert model.reply(text, []) == model.reply(text, [blue])
    reply = PromptingBaseline(model, "fine").ask("Where is the lamp?", [])
    assert not reply.parsed and not reply.refused  # random words are no verdict


@pytest.fixture(scope="module")
def vision():
    pytest.importorskip("transformers")
    settings = PromptingSettings(model=str(tiny_checkpoint()), max_tokens=3)
    return load_talker(settings)


def colours(*names: tuple[int, int, int]) -> list[np.ndarray]:
    return [np.full((56, 84, 3), colour, np.uint8) for colour in names]


RED, BLUE = (200, 0, 0), (0, 0, 200)


def test_pictures_are_numbered_in_order_before_the_words(vision):
    inputs = vision.inputs("Is there a lamp?", colours(RED, BLUE))
    ids = inputs["input_ids"][0]
    tokenizer = vision._tokenizer
    words = tokenizer.decode(ids)
    assert words.startswith("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n")
    assert words.endswith("Is there a lamp?<|im_end|>\n<|im_start|>assistant\n")
    assert words.index("Picture 1:") < words.index("Picture 2:") < words.index("Is there a lamp?")
    pad = tokenizer.convert_tokens_to_ids("<|image_pad|>")
    # 56 x 84 pixels are 4 x 6 patches of 14, merged two by two: six tokens a picture.
    assert inputs["image_grid_thw"].tolist() == [[1, 4, 6], [1, 4, 6]]
    assert int((ids == pad).sum()) == 12
    assert inputs["mm_token_type_ids"][0].tolist() == (ids == pad).int().tolist()
    first = tokenizer.decode(ids[: int((ids == pad).nonzero()[0])])
    assert "Picture 1:" in first and "Picture 2:" not in first
    # Pixels stand in the order of the pictures: red brighter in red first.
    half = len(inputs["pixel_values"]) // 2
    swapped = vision.inputs("Is there a lamp?", colours(BLUE, RED))
    assert (inputs["pixel_values"][:half] == swapped["pixel_values"][half:]).all()
    assert not (inputs["pixel_values"][:half] == swapped["pixel_values"][:half]).all()


def test_generation_is_greedy_and_gives_only_new_words(vision):
    text = prompt("coarse", "Where is the lamp?")
    reply = vision.reply(text, colours(RED, BLUE))
    assert reply == vision.reply(text, colours(RED, BLUE))
    assert "Picture" not in reply and "robot drove" not in reply
    inputs = vision.inputs(text, colours(RED, BLUE))
    import torch

    with torch.inference_mode():
        logits = vision._model(**inputs).logits[0, -1]
    first = vision._tokenizer.decode([int(logits.argmax())])
    assert reply.startswith(first)
    assert vision.reply(text, []) != ""  # words alone do too


def test_a_missing_model_is_named(tmp_path):
    pytest.importorskip("transformers")
    with pytest.raises(AssetError, match="nowhere"):
        load_talker(PromptingSettings(model=str(tmp_path / "nowhere")))
    with pytest.raises(AssetError, match=r"evaluation\.prompting\.model"):
        load_talker(PromptingSettings(model=str(tmp_path / "nowhere"), sees="words"))
