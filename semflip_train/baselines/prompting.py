"""Asking a model in words whether it can answer: the prompting baselines of the benchmarks.

Four ways: coarse (yes or no), fine (naming a category), chain of thought, and a tool call as in the
published "C2 (Tool)". Each ends in a verdict that is parsed strictly; what cannot be parsed counts
as an answer, for the model did not refuse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, Protocol

from pydantic import Field, field_validator

from semflip_core.errors import ConfigError
from semflip_core.frames import Picture
from semflip_core.settings import Settings
from semflip_train.stores import BlobStore, json_hash

MODES = ("coarse", "fine", "chain_of_thought", "tool")
CATEGORIES = ("absent", "ambiguous", "false premise", "unavailable", "subjective", "needs action")
_TASK = (
    "A robot drove through a place and took these pictures, numbered in the order of time. "
    'Somebody asks it: "{question}"\n'
)
REMINDER = "\nReply in exactly the form asked for."
PROMPTS = {
    "coarse": _TASK + "Do the pictures show what is needed to answer? "
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

    The question stands on one line, and control tokens typed into it are broken up.

    Raises:
        ConfigError: the mode is unknown.
    """
    if mode not in PROMPTS:
        raise ConfigError(f"unknown prompting mode '{mode}'; known: {', '.join(MODES)}")
    return PROMPTS[mode].format(question=" ".join(question.split()).replace("<|", "< |"))


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
    """A line of JSON as asked for, or a model's own ``<tool_call>`` with name and arguments."""
    bare = re.sub(r"^<tool_call>(.*)</tool_call>$", r"\1", text, flags=re.DOTALL)
    try:
        call = json.loads(bare.strip().strip("`").removeprefix("json").strip())
    except (json.JSONDecodeError, RecursionError):
        return None
    if not isinstance(call, dict):
        return None
    if isinstance(call.get("arguments"), dict):
        call = {"tool": call.get("name"), **call["arguments"]}
    if call.get("tool") == "drive_to" and isinstance(call.get("target"), str):
        return False, None
    if call.get("tool") == "abstain":
        reason = call.get("reason")
        return True, reason if isinstance(reason, str) else None
    return None


class PromptingSettings(Settings):
    """The model that is asked in words, and how."""

    model: str = Field(min_length=1, description="Directory, or hub id in the local cache.")
    sees: Literal["pictures", "words"] = Field(
        default="pictures", description="words: a language model that gets the question alone."
    )
    modes: tuple[str, ...] = Field(default=MODES, min_length=1)
    frames: int = Field(default=8, ge=1, description="Most pictures; those of best relevance.")
    device: str = "cpu"
    max_tokens: int = Field(default=256, ge=1)
    retries: int = Field(default=1, ge=0, description="For a reply that cannot be read.")

    @field_validator("modes")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for mode in value:
            if mode not in MODES:
                raise ValueError(f"unknown mode '{mode}'; known: {', '.join(MODES)}")
        return value


def row_name(mode: str, sees: str = "pictures") -> str:
    """What the table calls a mode."""
    name = f"prompting, {mode.replace('_', ' ')}"
    return name if sees == "pictures" else f"{name} (words alone)"


class Talker(Protocol):
    """Answers a prompt about pictures.

    ``identity`` tells one model from another: the hash of its weights.
    """

    identity: str

    def reply(self, text: str, pictures: Sequence[Picture]) -> str:
        """The model's words; greedy."""


class PromptingBaseline:
    """Refuses where the model says so; its score is 1 or 0.

    Args:
        mode: one of :data:`MODES`.
        retries: times that an unreadable reply is asked for again, with a reminder.
    """

    def __init__(self, talker: Talker, mode: str, retries: int = 1) -> None:
        prompt(mode, "")
        self._talker, self._mode, self._retries = talker, mode, retries

    def ask(self, question: str, pictures: Sequence[Picture]) -> Reply:
        """One question about these pictures, in order of time."""
        text = prompt(self._mode, question)
        reply = parse(self._mode, self._talker.reply(text, pictures))
        for _ in range(self._retries):
            if reply.parsed:
                break
            reply = parse(self._mode, self._talker.reply(text + REMINDER, pictures))
        return reply


class Prompter:
    """Asks one model in all modes, and keeps what it said.

    Args:
        talker: the model.
        cache: replies by content, so that a run that was killed goes on.
    """

    def __init__(self, settings: PromptingSettings, talker: Talker, cache: BlobStore) -> None:
        self.settings = settings
        self._talker = talker
        self._cache = cache
        self.asked_now = 0

    def ask(
        self, question: str, seen: str, load: Callable[[], Sequence[Picture]]
    ) -> dict[str, Reply]:
        """Replies by mode.

        Args:
            seen: identifies the pictures; part of the cache's key.
            load: the pictures in order of time; called at most once.
        """
        replies: dict[str, Reply] = {}
        pictures: Sequence[Picture] | None = None
        how = self.settings.model_dump(mode="json", exclude={"modes", "device"})
        for mode in self.settings.modes:
            key = json_hash([how, self._talker.identity, prompt(mode, question), REMINDER, seen])
            stored = self._cache.get(key)
            if stored is None:
                if pictures is None:
                    pictures = load() if self.settings.sees == "pictures" else ()
                baseline = PromptingBaseline(self._talker, mode, self.settings.retries)
                stored = json.dumps(asdict(baseline.ask(question, pictures))).encode()
                self._cache.put(key, stored)
                self.asked_now += 1
            replies[mode] = Reply(**json.loads(stored))
        return replies
