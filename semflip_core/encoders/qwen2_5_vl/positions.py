"""Multimodal rotary positions (m-RoPE), counted onward segment by segment.

Every token has a temporal, a height and a width position. Words count up in all three alike; the
tokens of a still picture share one temporal position and spread over height and width; whatever
follows goes on behind the picture's longer side (Wang et al. 2024, Qwen2-VL, section 2.1). Because
the next position is carried along here, ``rope_deltas``, which transformers keeps as mutable state
on the model, is neither read nor written.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]


def words(start: int, count: int) -> Positions:
    """``(3, count)`` positions of words that begin at ``start``."""
    return np.broadcast_to(np.arange(start, start + count, dtype=np.int64), (3, count))


def picture(start: int, rows: int, columns: int) -> Positions:
    """``(3, rows * columns)`` positions of a picture's merged tokens, row by row."""
    height, width = np.divmod(np.arange(rows * columns, dtype=np.int64), columns)
    return np.stack([np.full_like(height, start), start + height, start + width])


def with_picture(
    start: int, count: int, at: int, grid: tuple[int, int] | None
) -> tuple[Positions, int]:
    """Positions of a segment and where the next one begins.

    Args:
        start: position of its first token.
        count: its tokens.
        at: index of the first picture token within it; no meaning without ``grid``.
        grid: the picture's ``(rows, columns)`` of tokens; None for words only.

    Returns:
        ``(3, count)`` positions, and the next free position.
    """
    if grid is None:
        return words(start, count), start + count
    rows, columns = grid
    behind = start + at + max(rows, columns)
    after = count - at - rows * columns
    parts = [words(start, at), picture(start + at, rows, columns), words(behind, after)]
    return np.concatenate(parts, axis=1), behind + after
