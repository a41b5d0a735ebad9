"""Frames that cover a memory, the same for every question.

The choice is a pure function of the records and changes seldom as a memory grows, so that what an
encoder cached for these frames stays valid: views are put into cells of place and heading (without
poses: of time) whose size doubles when there are more cells than frames to choose, and the oldest
view of each cell stands for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from semflip_core.frames import KeyframeRecord

#: Side of the finest cell, metres, and its length where there are no poses, seconds.
FINEST_M = 0.5
FINEST_S = 2.0
HEADINGS = 4
_LEVELS = 32

ViewCell = tuple[str, str, int, int, int]


def view_cell(record: KeyframeRecord, size_m: float, size_s: float, headings: int) -> ViewCell:
    """The cell of place and heading, or of time, that a view lies in."""
    pose = record.pose
    if pose is None:
        return ("", record.map_id, record.segment, math.floor(record.stamp_ns * 1e-9 / size_s), 0)
    x, y, _ = pose.position
    turn = math.floor(pose.yaw / (2.0 * math.pi) * headings + 0.5) % headings
    return (
        pose.frame_id,
        record.map_id,
        math.floor(x / size_m),
        math.floor(y / size_m),
        turn,
    )


def coverage(records: Sequence[KeyframeRecord], count: int) -> tuple[int, ...]:
    """Ids of at most ``count`` frames that cover the memory, oldest view of each cell.

    Args:
        records: by id.
    """
    if count <= 0 or not records:
        return ()
    chosen: list[int] = []
    finer: list[int] = []
    for level in range(_LEVELS):
        chosen = _oldest_of_each_cell(records, level)
        if len(chosen) <= count:
            break
        finer = chosen
    else:
        return tuple(chosen[:count])
    taken = set(chosen)
    spare = [keyframe_id for keyframe_id in finer if keyframe_id not in taken]
    return tuple(sorted(chosen + spare[: count - len(chosen)]))


def _oldest_of_each_cell(records: Sequence[KeyframeRecord], level: int) -> list[int]:
    scale = 2.0**level
    headings = max(1, HEADINGS >> level)
    seen: dict[ViewCell, int] = {}
    for record in records:
        cell = view_cell(record, FINEST_M * scale, FINEST_S * scale, headings)
        seen.setdefault(cell, record.id)
    return list(seen.values())
