"""Regions of a picture for a tower that reads squares: windows of patches, crops, the whole."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.mini.colours import CELL_PIXELS, colour_grid
from semflip_core.encoders.mini.regions import averages, boxes, windows
from semflip_core.encoders.siglip2.towers import Towers
from semflip_core.errors import EncoderError, MissingExtraError
from semflip_core.frames import Picture

Array = NDArray[np.float32]
Box = tuple[float, float, float, float]

RULE = "warped whole, two square crops, windows of pooled patches-1"
MAX_CELLS, MIN_CELLS = 12, 2
COLOUR_TERMS = 11
#: Largest ratio of the sides; a strip is no view of a room.
MAX_ASPECT = 10.0


def cells_for(dimension: int, patches: int, limit: int) -> int:
    """Cells along a side whose windows, as stored, stay below ``limit`` bytes.

    Raises:
        EncoderError: not even the fewest do.
    """
    for cells in range(min(MAX_CELLS, patches), MIN_CELLS - 1, -1):
        regions = len(windows(cells, cells)) + 2
        if regions * (dimension + 2 + COLOUR_TERMS) <= limit:
            return cells
    raise EncoderError(
        f"vectors of {dimension} numbers do not fit feature_bytes {limit} on a grid of "
        f"{patches}x{patches} patches"
    )


def crops(height: int, width: int) -> tuple[Box, Box]:
    """The two largest squares at the ends of a picture, ``x0, y0, x1, y1`` in [0, 1]."""
    if width >= height:
        share = height / width
        return (0.0, 0.0, share, 1.0), (1.0 - share, 0.0, 1.0, 1.0)
    share = width / height
    return (0.0, 0.0, 1.0, share), (0.0, 1.0 - share, 1.0, 1.0)


def region_boxes(cells: int, height: int, width: int) -> Array:
    """``(regions, 4)`` boxes in the order of :func:`region_vectors`; the whole is the last."""
    parts = boxes(cells, cells)
    return np.concatenate([parts[:-1], np.array(crops(height, width), np.float32), parts[-1:]])


def region_vectors(towers: Towers, rgb: Picture, cells: int) -> Array:
    """``(regions, dim)`` unit vectors: windows of pooled patches, two crops, the whole picture.

    The picture is warped to the tower's square, so nothing is cut off; crops are not warped. They
    and the whole use the pooled vector that the model was trained for.
    """
    height, width = rgb.shape[:2]
    parts = [rgb]
    for x0, y0, x1, y1 in crops(height, width):
        rows = slice(round(y0 * height), round(y1 * height))
        parts.append(rgb[rows, round(x0 * width) : round(x1 * width)])
    dense, pooled = towers.pictures([square(part, towers.side) for part in parts])
    inside = averages(_pool(dense[0], cells))[:-1]
    inside /= np.maximum(np.linalg.norm(inside, axis=1, keepdims=True), np.float32(1e-9))
    return np.concatenate([inside, pooled[1:], pooled[:1]]).astype(np.float32)


def region_colours(rgb: Picture, cells: int) -> Array:
    """``(regions, 11)`` share of each colour term in each region."""
    grid = colour_grid(square(rgb, cells * CELL_PIXELS))
    inside = averages(grid)
    ends = []
    for x0, y0, x1, y1 in crops(*rgb.shape[:2]):
        rows = slice(round(y0 * cells), max(round(y0 * cells) + 1, round(y1 * cells)))
        columns = slice(round(x0 * cells), max(round(x0 * cells) + 1, round(x1 * cells)))
        ends.append(grid[rows, columns].mean(axis=(0, 1)))
    return np.concatenate([inside[:-1], np.stack(ends), inside[-1:]]).astype(np.float32)


def square(rgb: Picture, side: int) -> Picture:
    """Warped to a square of ``side`` pixels."""
    try:
        import cv2
    except ImportError as error:
        raise MissingExtraError("cv2", "cpu", "scaling pictures for siglip2") from error
    shrinking = rgb.shape[0] * rgb.shape[1] > side * side
    mode = cv2.INTER_AREA if shrinking else cv2.INTER_LINEAR
    source = np.ascontiguousarray(rgb)
    return np.asarray(cv2.resize(source, (side, side), interpolation=mode), dtype=np.uint8)


def _pool(grid: Array, cells: int) -> Array:
    """``(cells, cells, dim)`` averages of a square grid whose side need not be a multiple."""
    edges = np.linspace(0, len(grid), cells + 1)
    starts, ends = np.floor(edges[:-1]).astype(int), np.ceil(edges[1:]).astype(int)
    bands = np.stack([grid[a:b].mean(axis=0) for a, b in zip(starts, ends, strict=True)])
    return np.stack([bands[:, a:b].mean(axis=1) for a, b in zip(starts, ends, strict=True)], axis=1)
