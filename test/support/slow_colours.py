"""The colour encoder when it has to think hard, or hangs: for deadlines, queues and load."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from semflip_core.encoders.contract import JointEmbedding
from semflip_core.frames import MemoryFrame
from support.colours import ColourEncoder


class SlowColours(ColourEncoder):
    """``... for N seconds`` in the question multiplies matrices that long; ``hang`` never ends.

    Args:
        load_s: loading takes at least so long; seconds.
    """

    name = "slow_colours"

    def __init__(self, load_s: float = 0.0) -> None:
        import torch

        time.sleep(load_s)

        self._matrix = torch.rand(512, 512)

    def encode(self, question: str, frames: Sequence[MemoryFrame]) -> JointEmbedding:
        """Real CPU-bound work on torch's threads, then the colours' own answer."""
        if "hang" in question:
            while True:
                time.sleep(1.0)
        if found := re.search(r"for ([0-9.]+) seconds", question):
            matrix = self._matrix
            end = time.monotonic() + float(found[1])
            while time.monotonic() < end:
                matrix = matrix @ matrix
                matrix = matrix / matrix.norm()
        return super().encode(question, frames)

    def answer(
        self,
        question: str,
        frames: Sequence[MemoryFrame],
        *,
        max_tokens: int,
        on_text: Callable[[str], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> str:
        """Says where, one word after the other, telling the text so far as real encoders do."""
        words = ["over", "there", "on", "the", "wall"][:max_tokens]
        for count in range(1, len(words) + 1):
            if on_text is not None:
                on_text(" ".join(words[:count]))
        return " ".join(words)
