"""The sequence that the model reads, as tokens: a pure function of frames and question.

Layout: system text, prefix frames by time, recalled frames by time, question, and the start of the
assistant's turn, whose last token carries the embedding. Each frame is one image behind a short tag
of when and where. Text that comes from people is cut into tokens by the word model alone, past the
tokenizer's list of added tokens, so ``<|image_pad|>`` typed by a user is six ordinary words.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from semflip_core.errors import EncoderError, QuestionError
from semflip_core.frames import KeyframeRecord

VERSION = 1
SYSTEM = (
    "You are a mobile robot. The pictures are views that you saw, in order of time, each marked "
    "with when and where you saw it. Answer from these views only."
)
LOOKING_BACK = "Some views that may matter most:\n"
QUESTION = "Question: {question}\nAnswer in a few words, or say that you do not know."
TAG = "[{time} s{place}] "
PLACE = ", at {x:.1f} {y:.1f} m, facing {yaw} deg"
ELSEWHERE = ", map {number}"
#: Tags and fixed words are cut into tokens once.
KNOWN_TEXTS = 4096
#: Special tokens of the Qwen2.5 chat format.
TURN, END_OF_TURN = "<|im_start|>", "<|im_end|>"
VISION_START, IMAGE, VISION_END = "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the sequence that is read in one forward pass; see ``prefix_cache``.

    Args:
        key: hash of its tokens and, with a picture, of the picture's identity.
        ids: token ids.
        frame: index of the frame it shows, None for words only.
        grid: the picture's ``(rows, columns)`` of tokens.
        picture_at: index of the first picture token in ``ids``.
    """

    key: bytes
    ids: tuple[int, ...]
    frame: int | None = None
    grid: tuple[int, int] | None = None
    picture_at: int = 0


def prompt_digest() -> str:
    """Hash of the template; part of the fingerprint."""
    parts = (str(VERSION), SYSTEM, LOOKING_BACK, QUESTION, TAG, PLACE, ELSEWHERE)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def frame_tags(records: Sequence[KeyframeRecord]) -> list[str]:
    """When and where each frame was seen, in words.

    Time is counted from the first frame of the sequence, place is the base's pose in its map; maps
    are numbered as they appear. So a tag depends on the frames before it only, and appending a
    frame changes no earlier tag.
    """
    maps: list[tuple[int, str, str]] = []
    tags = []
    for record in records:
        place = ""
        if (pose := record.pose) is not None:
            yaw = round(math.degrees(pose.yaw) / 15.0) * 15 % 360
            x, y = (_no_minus_zero(value) for value in pose.position[:2])
            place = PLACE.format(x=x, y=y, yaw=yaw)
            where = (record.segment, record.map_id, pose.frame_id)
            if where not in maps:
                maps.append(where)
            if (number := maps.index(where)) > 0:
                place += ELSEWHERE.format(number=number + 1)
        seconds = round((record.stamp_ns - records[0].stamp_ns) * 1e-9)
        tags.append(TAG.format(time=seconds, place=place))
    return tags


def _no_minus_zero(metres: float) -> float:
    return round(metres, 1) + 0.0


class Prompt:
    """Builds segments with one checkpoint's tokenizer.

    Args:
        tokenizer: a transformers fast tokenizer with the Qwen2.5 chat tokens.
        image_token: id that the model replaces by picture tokens (its config's).
        max_question_tokens: longer questions are refused.

    Raises:
        EncoderError: a chat token is missing, or means another id than the model's config says.
    """

    def __init__(self, tokenizer: Any, image_token: int, max_question_tokens: int) -> None:
        self._words = tokenizer.backend_tokenizer
        self.plain = lru_cache(KNOWN_TEXTS)(self._plain)
        self._max_question_tokens = max_question_tokens
        self._turn, self._end = (self._special(name) for name in (TURN, END_OF_TURN))
        self._vision_start, self._image, self._vision_end = (
            self._special(name) for name in (VISION_START, IMAGE, VISION_END)
        )
        if self._image != image_token:
            raise EncoderError(
                f"the tokenizer's {IMAGE} is {self._image}, the model's config says {image_token}: "
                "tokenizer and weights are of different checkpoints"
            )
        self._head = self._segment([*self._message("system", SYSTEM), *self._open("user")])

    def _special(self, name: str) -> int:
        found = self._words.token_to_id(name)
        if found is None:
            raise EncoderError(f"the tokenizer has no {name}: it is none of Qwen2.5-VL")
        return int(found)

    def _plain(self, text: str) -> tuple[int, ...]:
        """``plain(text)``: token ids of text in which nothing has a special meaning."""
        words = self._words
        normal = words.normalizer.normalize_str(text) if words.normalizer else text
        pieces = words.pre_tokenizer.pre_tokenize_str(normal)
        return tuple(token.id for piece, _ in pieces for token in words.model.tokenize(piece))

    def _open(self, role: str) -> list[int]:
        return [self._turn, *self.plain(f"{role}\n")]

    def _message(self, role: str, text: str) -> list[int]:
        return [*self._open(role), *self.plain(text), self._end, *self.plain("\n")]

    def head(self) -> Segment:
        """System text and the start of the user's turn."""
        return self._head

    def frame(
        self, number: int, tag: str, grid: tuple[int, int], picture: bytes, *, looking_back: bool
    ) -> Segment:
        """One frame.

        Args:
            number: its index among the frames.
            tag: from :func:`frame_tags`.
            grid: ``(rows, columns)`` of its picture tokens.
            picture: identity of the picture, as ``encode_frame`` stored it.
            looking_back: it is the first recalled frame behind a prefix, and is announced.
        """
        before = self.plain((LOOKING_BACK if looking_back else "") + tag)
        tokens = [self._image] * (grid[0] * grid[1])
        ids = [*before, self._vision_start, *tokens, self._vision_end, *self.plain("\n")]
        return self._segment(ids, picture, number, grid, len(before) + 1)

    def question(self, question: str) -> Segment:
        """The question and the start of the answer.

        Raises:
            QuestionError: it has too many tokens.
        """
        ids = self.plain(QUESTION.format(question=question))
        if len(ids) > self._max_question_tokens:
            raise QuestionError(
                f"the question has {len(ids)} tokens; at most {self._max_question_tokens} are read"
            )
        return self._segment([*ids, self._end, *self.plain("\n"), *self._open("assistant")])

    def _segment(
        self,
        ids: list[int],
        picture: bytes = b"",
        number: int | None = None,
        grid: tuple[int, int] | None = None,
        at: int = 0,
    ) -> Segment:
        digest = hashlib.blake2b(picture, digest_size=16)
        digest.update(np.asarray(ids, np.int64).tobytes())
        return Segment(digest.digest(), tuple(ids), number, grid, at)
