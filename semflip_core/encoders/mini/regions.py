"""Regions of a picture: overlapping windows of grid cells at four sizes, and their averages."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Windows = NDArray[np.int64]

#: (window in cells, spacing in cells). Averages of 4 to 16 cells find things better than single
#: cells; the large ones see sofas and rooms. 128 regions on a 15x20 grid.
LEVELS = ((2, 2.0), (4, 2.9), (7, 4.5))
LAYOUT = "2@2-4@2.9-7@4.5-all"


@lru_cache(maxsize=64)
def windows(rows: int, columns: int) -> Windows:
    """``(regions, 4)`` cells ``row0, column0, row1, column1`` (end excluded) of a grid."""
    found = []
    for size, spacing in LEVELS:
        high, wide = min(size, rows), min(size, columns)
        for r in _starts(rows, high, spacing):
            found += [(r, c, r + high, c + wide) for c in _starts(columns, wide, spacing)]
    found.append((0, 0, rows, columns))
    result = np.array(found, dtype=np.int64)
    result.setflags(write=False)
    return result


def _starts(length: int, size: int, spacing: float) -> list[int]:
    count = max(1, round(length / spacing))
    return sorted({round(x) for x in np.linspace(0, length - size, count)})


def averages(grid: Array) -> Array:
    """``(regions, channels)`` averages of ``(rows, columns, channels)`` over the windows."""
    rows, columns, channels = grid.shape
    summed = np.zeros((rows + 1, columns + 1, channels), np.float64)
    summed[1:, 1:] = grid.cumsum(axis=0, dtype=np.float64).cumsum(axis=1)
    w = windows(rows, columns)
    r0, c0, r1, c1 = w.T
    total = summed[r1, c1] - summed[r0, c1] - summed[r1, c0] + summed[r0, c0]
    area = ((r1 - r0) * (c1 - c0))[:, None]
    mean: Array = (total / area).astype(np.float32)
    return mean


def boxes(rows: int, columns: int) -> Array:
    """``(regions, 4)`` boxes ``x0, y0, x1, y1`` in [0, 1] of the picture."""
    r0, c0, r1, c1 = windows(rows, columns).T.astype(np.float32)
    return np.stack([c0 / columns, r0 / rows, c1 / columns, r1 / rows], axis=1)
