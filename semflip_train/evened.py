"""Weights that keep what a question names from telling the answer.

Every attribute that Q-Flip changes names a colour, every flipped relation a place, while most
questions name neither. Unweighted, a gate learns from that to refuse whoever names a colour. So
among the questions that name one, and among those that name none, answerable and unanswerable ones
weigh the same in training. (The same for places ranked worse on the development rooms of
``docs/benchmark.md``.) The threshold can be evened so for both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.mini.colours import COLOUR_WORDS

_WORD = re.compile(r"[a-z]+")
_PLACE = re.compile(
    r"\b(?:next to|beside|near|on top of|on|in|by|under|behind) (?:the|a|an|my|our)\b"
)


def names_colour(question: str) -> bool:
    """Whether a word of a question is a colour."""
    return any(word in COLOUR_WORDS for word in _WORD.findall(question.lower()))


def names_place(question: str) -> bool:
    """Whether a question places what it asks for by something else."""
    return _PLACE.search(question.lower()) is not None


def names(question: str) -> tuple[bool, bool]:
    """Whether a question names a colour, and a place."""
    return names_colour(question), names_place(question)


def even_weights(
    questions: Sequence[str],
    y: NDArray[np.integer],
    shape: Callable[[str], Hashable] = names_colour,
    importance: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """``(n,)`` weights of rows; answerable ones keep 1.

    With them, and class weights inverse to frequency, each class weighs the same among the
    questions of each shape. What only refusals name gets no weight.

    Args:
        shape: what of a question must not tell its answer.
        importance: ``(n,)`` weights of the refusals among themselves; None weighs all the same.
    """
    shapes = [shape(question) for question in questions]
    weighs = np.ones(len(y), np.float32) if importance is None else importance
    answered = Counter(s for s, label in zip(shapes, y, strict=True) if label == 0)
    refused: dict[Hashable, float] = {}
    for s, label, weight in zip(shapes, y, weighs, strict=True):
        if label == 1:
            refused[s] = refused.get(s, 0.0) + float(weight)
    scale = float((y == 1).sum()) / max(answered.total(), 1)
    return np.array(
        [
            1.0 if label == 0 else weight * scale * answered[s] / refused[s]
            for s, label, weight in zip(shapes, y, weighs, strict=True)
        ],
        np.float32,
    )
