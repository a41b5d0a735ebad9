"""Regions of a picture: overlapping windows of grid cells at four sizes, and their averages."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Windows = NDArray[np.int64]

#: (window in cells, spacing in cells). Averages of a tenth to a fifth of the picture's width find
#: things better than single cells; the large ones see sofas and rooms.
LEVELS = ((2, 2.0), (4, 2.9), (7, 4.5))
#: The same windows on a grid with 1.4 times as many cells a side: 128 of them on 21x28 cells as on
#: 15x20.
FINE_LEVELS = ((3, 2.8), (6, 4.06), (10, 6.3))
#: Grids of more cells are fine ones.
FINE_CELLS = 400
LAYOUT = "2@2-4@2.9-7@4.5-all/400/3@2.8-6@4.06-10@6.3-all"


@lru_cache(maxsize=64)
def windows(rows: int, columns: int) -> Windows:
    """``(regions, 4)`` cells ``row0, column0, row1, column1`` (end excluded) of a grid."""
    found = []
    for size, spacing in FINE_LEVELS if rows * columns > FINE_CELLS else LEVELS:
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
    cells = np.ascontiguousarray(grid, np.float32).reshape(rows * columns, channels)
    mean: Array = _shares(rows, columns) @ cells
    return mean


@lru_cache(maxsize=8)
def _shares(rows: int, columns: int) -> Array:
    """``(regions, cells)`` share of each cell in each region's average."""
    found = windows(rows, columns)
    shares = np.zeros((len(found), rows, columns), np.float32)
    for share, (r0, c0, r1, c1) in zip(shares, found, strict=True):
        share[r0:r1, c0:c1] = 1.0 / ((r1 - r0) * (c1 - c0))
    result = shares.reshape(len(found), rows * columns)
    result.setflags(write=False)
    return result


def boxes(rows: int, columns: int) -> Array:
    """``(regions, 4)`` boxes ``x0, y0, x1, y1`` in [0, 1] of the picture."""
    r0, c0, r1, c1 = windows(rows, columns).T.astype(np.float32)
    return np.stack([c0 / columns, r0 / rows, c1 / columns, r1 / rows], axis=1)
