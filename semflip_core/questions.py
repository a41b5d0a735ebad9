"""Questions as people and speech nodes send them, made safe to read, log and encode."""

from __future__ import annotations

import unicodedata

from semflip_core.errors import QuestionError

_DROPPED = {
    "Cc",
    "Cf",
    "Cs",
    "Co",
    "Cn",
}  # control, format (bidi, zero width), surrogates, unassigned


def clean_question(text: str, max_chars: int) -> str:
    """Normalise a question (NFKC, one line, no control or invisible characters).

    Args:
        text: as received; may hold anything that the middleware lets through.
        max_chars: longest question allowed, after cleaning.

    Raises:
        QuestionError: no letter is left, or it is too long; the message says which.
    """
    if len(text) > 20 * max_chars:
        raise QuestionError(
            f"the question has {len(text)} characters; at most {max_chars} are read"
        )
    joined = "".join(
        " " if char.isspace() else "" if unicodedata.category(char) in _DROPPED else char
        for char in text
    )
    normal = " ".join(unicodedata.normalize("NFKC", joined).split())
    if len(normal) > max_chars:
        raise QuestionError(
            f"the question has {len(normal)} characters; at most {max_chars} are read"
        )
    if not any(char.isalpha() for char in normal):
        raise QuestionError("the question holds no word" if normal else "the question is empty")
    return normal


def printable(text: str, max_chars: int = 200) -> str:
    """The text as one safe line for logs: nothing that moves a cursor or hides, and not endless."""
    shown = "".join(
        " " if char.isspace() else char if unicodedata.category(char) not in _DROPPED else "\ufffd"
        for char in text[: max_chars + 1]
    )
    return shown if len(shown) <= max_chars else shown[:max_chars] + "…"
