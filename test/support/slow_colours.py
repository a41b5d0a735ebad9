"""The colour encoder when it has to think hard, or hangs: for deadlines, queues and load."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

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
