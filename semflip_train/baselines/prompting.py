"""Asking a model in words whether it can answer: the prompting baselines of the benchmarks.

Four ways: coarse (yes or no), fine (naming a category), chain of thought, and a tool call as in the
published "C2 (Tool)". Each ends in a verdict that is parsed strictly; what cannot be parsed counts
as an answer, for the model did not refuse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from semflip_core.checkpoints import find_folder, load_model, load_text_model, require
from semflip_core.errors import AssetError, ConfigError
from semflip_core.frames import Picture

MODES = ("coarse", "fine", "chain_of_thought", "tool")
CATEGORIES = ("absent", "ambiguous", "false premise", "unavailable", "subjective", "needs action")
_TASK = 'A robot drove through a place and took these pictures. Somebody asks it: "{question}"\n'
PROMPTS = {
    "coarse": _TASK + "Do the pictures show what is needed to answer, that is, where to drive to? "
    "Reply with one word: yes or no.",
    "fine": _TASK
    + "If the pictures show what is needed to answer, reply: answerable. Otherwise reply with the "
    "reason alone, one of: " + ", ".join(CATEGORIES) + ".",
    "chain_of_thought": _TASK
    + "Think step by step about what the question takes for granted and whether the pictures show "
    "it. End with a line that says either 'Verdict: answer' or 'Verdict: abstain'.",
    "tool": _TASK + "Call exactly one tool, as one line of JSON and nothing else:\n"
    '{{"tool": "drive_to", "target": "<what to drive to>"}} if the pictures show it, or\n'
    '{{"tool": "abstain", "reason": "<why>"}} if they do not.',
}


@dataclass(frozen=True, slots=True)
class Reply:
    """A parsed reply: whether the model refuses, its category where it names one, its words."""

    refused: bool
    category: str | None
    parsed: bool
    text: str


def prompt(mode: str, question: str) -> str:
    """The words that are put to the model.

    Raises:
        ConfigError: the mode is unknown.
    """
    if mode not in PROMPTS:
        raise ConfigError(f"unknown prompting mode '{mode}'; known: {', '.join(MODES)}")
    return PROMPTS[mode].format(question=" ".join(question.split()))


def parse(mode: str, text: str) -> Reply:
    """Read a reply strictly; unreadable ones do not refuse."""
    readers: dict[str, Callable[[str], tuple[bool, str | None] | None]] = {
        "coarse": _coarse,
        "fine": _fine,
        "chain_of_thought": _verdict,
        "tool": _tool,
    }
    found = readers[mode](text.strip())
    if found is None:
        return Reply(False, None, False, text)
    return Reply(found[0], found[1], True, text)


def _coarse(text: str) -> tuple[bool, str | None] | None:
    word = text.lower().strip(" .!\"'")
    return {"yes": (False, None), "no": (True, None)}.get(word)


def _fine(text: str) -> tuple[bool, str | None] | None:
    word = text.lower().strip(" .!\"'").replace("_", " ")
    if word == "answerable":
        return False, None
    return (True, word) if word in CATEGORIES else None


def _verdict(text: str) -> tuple[bool, str | None] | None:
    found = re.findall(r"verdict:\s*(answer|abstain)\b", text.lower())
    return (found[-1] == "abstain", None) if found else None


def _tool(text: str) -> tuple[bool, str | None] | None:
    try:
        call = json.loads(text.strip("`").removeprefix("json").strip())
    except (json.JSONDecodeError, RecursionError):
        return None
    if not isinstance(call, dict):
        return None
    if call.get("tool") == "drive_to" and isinstance(call.get("target"), str):
        return False, None
    if call.get("tool") == "abstain":
        reason = call.get("reason")
        return True, reason if isinstance(reason, str) else None
    return None


class Talker(Protocol):
    """Answers a prompt about pictures."""

    def reply(self, text: str, pictures: Sequence[Picture]) -> str:
        """The model's words; greedy."""


class ChatModel:
    """A language model of transformers; it reads no pictures: the blind control of prompting.

    Args:
        model: directory or hub id; hub ids are read from the local cache only.
    """

    def __init__(self, model: str | Path, device: str = "cpu", max_tokens: int = 256) -> None:
        require(("torch", "transformers"), "train", "prompting baselines")
        from transformers import AutoModelForCausalLM

        self._device, self._max_tokens = device, max_tokens
        loaded = load_text_model(AutoModelForCausalLM, str(model))
        self._tokenizer = loaded.tokenizer
        self._model = loaded.model.to(device)

    def reply(self, text: str, pictures: Sequence[Picture]) -> str:
        """See :class:`Talker`; pictures are left out."""
        rendered = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
        )
        inputs = self._tokenizer(rendered, return_tensors="pt", add_special_tokens=False)
        output = self._model.generate(
            **inputs.to(self._device),
            max_new_tokens=self._max_tokens,
            do_sample=False,
            pad_token_id=self._tokenizer.eos_token_id,
        )
        new = output[0, inputs["input_ids"].shape[1] :]
        return str(self._tokenizer.decode(new, skip_special_tokens=True))


class VisionChatModel:
    """A vision-language model of transformers (Qwen2.5-VL and others with a chat template)."""

    def __init__(self, model: str | Path, device: str = "cpu", max_tokens: int = 256) -> None:
        require(("torch", "transformers"), "train", "prompting baselines")
        from transformers import AutoModelForImageTextToText, AutoProcessor

        folder = find_folder(str(model))
        processor_class: Any = AutoProcessor
        self._device, self._max_tokens = device, max_tokens
        try:
            self._processor: Any = processor_class.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError) as error:
            raise AssetError(f"{folder}: the processor cannot be loaded: {error}") from error
        self._model = load_model(AutoModelForImageTextToText, folder).to(device)

    def reply(self, text: str, pictures: Sequence[Picture]) -> str:
        """See :class:`Talker`."""
        content: list[dict[str, Any]] = [{"type": "image"} for _ in pictures]
        content.append({"type": "text", "text": text})
        rendered = self._processor.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        inputs = self._processor(
            text=[rendered], images=list(pictures) or None, return_tensors="pt"
        ).to(self._device)
        output = self._model.generate(**inputs, max_new_tokens=self._max_tokens, do_sample=False)
        new = output[:, inputs["input_ids"].shape[1] :]
        return str(self._processor.batch_decode(new, skip_special_tokens=True)[0])


class PromptingBaseline:
    """Refuses where the model says so; its score is 1 or 0.

    Args:
        mode: one of :data:`MODES`.
        retries: times that an unreadable reply is asked for again, with a reminder.
    """

    def __init__(self, talker: Talker, mode: str, retries: int = 1) -> None:
        prompt(mode, "")
        self.name = f"prompting, {mode.replace('_', ' ')}"
        self._talker, self._mode, self._retries = talker, mode, retries

    def ask(self, question: str, pictures: Sequence[Picture]) -> Reply:
        """One question about these pictures."""
        text = prompt(self._mode, question)
        reply = parse(self._mode, self._talker.reply(text, pictures))
        for _ in range(self._retries):
            if reply.parsed:
                break
            reminder = text + "\nReply in exactly the form asked for."
            reply = parse(self._mode, self._talker.reply(reminder, pictures))
        return reply
