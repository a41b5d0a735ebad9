"""Frames that cover a memory, the same for every question.

The choice is a pure function of the records and changes seldom as a memory grows, so that what an
encoder cached for these frames stays valid: views are put into cells of place and heading (without
poses: of time) whose size doubles when there are more cells than frames to choose, and the oldest
view of each cell stands for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from semflip_core.frames import KeyframeRecord

Slots = NDArray[np.intp]

#: Side of the finest cell, metres, and its length where there are no poses, seconds.
FINEST_M = 0.5
FINEST_S = 2.0
HEADINGS = 4
_LEVELS = 32

ViewCell = tuple[str, str, int, int, int, int]


def view_cell(record: KeyframeRecord, size_m: float, size_s: float, headings: int) -> ViewCell:
    """The cell a view lies in: frame, map, segment, column and row or time, heading."""
    pose = record.pose
    if pose is None:
        moment = math.floor(record.stamp_ns * 1e-9 / size_s)
        return ("", record.map_id, record.segment, moment, 0, 0)
    x, y, _ = pose.position
    turn = math.floor(pose.yaw / (2.0 * math.pi) * headings + 0.5) % headings
    return (pose.frame_id, record.map_id, 0, math.floor(x / size_m), math.floor(y / size_m), turn)


def finest_cell(record: KeyframeRecord) -> ViewCell:
    """The cell that :func:`coverage` starts from."""
    return view_cell(record, FINEST_M, FINEST_S, HEADINGS)


def coverage(ids: Sequence[int], cells: Sequence[ViewCell], count: int) -> tuple[int, ...]:
    """At most ``count`` keyframes that cover the memory: the oldest view of each cell.

    Args:
        ids: of all keyframes, rising.
        cells: their finest cells, in the same order.
    """
    if count <= 0 or not ids:
        return ()
    groups: dict[tuple[str, str, int], int] = {}
    rows = [(groups.setdefault(cell[:3], len(groups)), *cell[3:]) for cell in cells]
    numbers = np.array(rows, np.int64)
    chosen: Slots = np.zeros(0, np.intp)
    finer: Slots = chosen
    for level in range(_LEVELS):
        chosen = _oldest_of_each_cell(numbers, level)
        if len(chosen) <= count:
            break
        finer = chosen
    taken = chosen[:count]
    spare = finer[~np.isin(finer, taken)][: count - len(taken)]
    return tuple(ids[slot] for slot in np.sort(np.concatenate([taken, spare])).tolist())


def _oldest_of_each_cell(numbers: NDArray[np.int64], level: int) -> Slots:
    """Slots of the first record in each cell, cells ``2 ** level`` times the finest; rising."""
    coarse = numbers.copy()
    coarse[:, 1:] >>= level
    _, first = np.unique(coarse, axis=0, return_index=True)
    return np.sort(first)
