"""A short answer in words, by greedy decoding behind what the model has just read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from semflip_core.questions import printable

if TYPE_CHECKING:
    import torch

#: Longest answer handed on, characters.
MAX_CHARS = 2000
UNFINISHED = "\ufffd"


class GreedyDecoder:
    """Takes the likeliest token each time; deterministic, no sampling, no repetition penalty.

    Args:
        head: projects a hidden state to vocabulary logits.
        tokenizer: turns ids into text.
        stop: ids that end an answer; so does any added token, and any id without a word.
    """

    def __init__(self, head: Any, tokenizer: Any, stop: Collection[int]) -> None:
        self._head = head
        self._tokenizer = tokenizer
        self._words = len(tokenizer)
        self._stop = frozenset(stop) | frozenset(tokenizer.get_added_vocab().values())

    def decode(
        self,
        hidden: torch.Tensor,
        step: Callable[[int], torch.Tensor],
        *,
        max_tokens: int,
        on_text: Callable[[str], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> str:
        """Decode until a stop token, ``max_tokens`` or a cancel.

        Args:
            hidden: ``(dim,)`` final hidden state of the last token read.
            step: reads one more token and returns its final hidden state.
            on_text: told the whole text so far whenever it grew by whole characters.
            cancelled: asked before each token.
        """
        ids: list[int] = []
        text = ""
        for _ in range(max_tokens):
            if cancelled is not None and cancelled():
                break
            token = int(self._head(hidden).argmax())
            if token in self._stop or token >= self._words:
                break
            ids.append(token)
            raw = self._tokenizer.decode(ids)
            if on_text is not None and not raw.endswith(UNFINISHED) and raw != text:
                text = raw
                on_text(_clean(raw))
            if len(ids) < max_tokens:
                hidden = step(token)
        return _clean(self._tokenizer.decode(ids))


def _clean(text: str) -> str:
    """One printable line, without the half of a character that was still to come."""
    return printable(text.rstrip(UNFINISHED).strip(), MAX_CHARS)
