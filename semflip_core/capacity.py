"""Which keyframe a full memory can spare: the one that another stands for best, not the oldest.

Two views are as different as they are apart in space, in view direction and in looks (without
poses: in time and in looks). When a keyframe goes, the one most like it stands for it from then on,
and for all that it stood for; its reach says how different the most different of those is. The
keyframe whose going makes the least reach goes first. So what remains stays spread out over
everything ever seen, and a room visited once outlives the hundredth view of a corridor. Without the
reach, views at the edge of what was explored would push each other out for ever. This is the online
form of the k-centre problem (Gonzalez 1985; Charikar, Chekuri, Feder and Motwani 1997).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from semflip_core.frames import KeyframeRecord
from semflip_core.settings import MemorySettings
from semflip_core.views import Numbers, Slots, Views

#: Only views within so many ``redundant_distance_m`` are compared; farther ones are not alike.
REACH = 2.0
#: Views of a map that the robot is no longer on can never become goals; they thin out first.
OLD_MAP_WEIGHT = 0.5
#: Wider than any building; views farther apart are not compared.
WIDEST_M = 100_000.0
#: Views of one cell that are compared with their surroundings at once; bounds the memory it takes.
AT_ONCE = 256

Cell = tuple[str, str, int, int]
View = tuple[KeyframeRecord, bytes, float]
"""A record, its looks, and how different the views are that it already stands for."""


class Redundancy:
    """Keeps, for each keyframe, its most alike other one; of equally alike ones the oldest.

    Adding and removing compare a keyframe with those around it only.

    Args:
        settings: what counts as different, ``redundant_*``.
        views: keyframes to begin with.
    """

    def __init__(self, settings: MemorySettings, views: Iterable[View] = ()) -> None:
        self._cell_m = REACH * settings.redundant_distance_m
        self._cell_s = REACH * settings.redundant_time_s
        self._views = Views(settings)
        self._slot_of: dict[int, int] = {}
        self._free: list[int] = []
        self._cells: dict[Cell, set[int]] = {}
        self._cell_of: dict[int, Cell] = {}
        self._ids: NDArray[np.int64] = np.zeros(0, np.int64)
        self._nearest: Numbers = np.zeros(0)
        self._partner: Slots = np.zeros(0, np.intp)
        self._reach: Numbers = np.zeros(0)
        self._maps: dict[str, int] = {}
        self._map: NDArray[np.int32] = np.zeros(0, np.int32)
        for record, looks, reach in views:
            self._insert(record, looks, reach)
        self._find_all_partners()

    def _grow(self, size: int) -> None:
        old = len(self._ids)
        more = size - old
        self._views.grow(size)
        self._ids = np.concatenate([self._ids, np.zeros(more, np.int64)])
        self._nearest = np.concatenate([self._nearest, np.full(more, np.inf)])
        self._partner = np.concatenate([self._partner, np.zeros(more, np.intp)])
        self._reach = np.concatenate([self._reach, np.zeros(more)])
        self._map = np.concatenate([self._map, np.zeros(more, np.int32)])
        self._free += range(size - 1, old - 1, -1)

    def __len__(self) -> int:
        return len(self._slot_of)

    def add(self, record: KeyframeRecord, looks: bytes) -> None:
        """Take a new keyframe into account."""
        slot = self._insert(record, looks, 0.0)
        others, differences = self._find_partner(slot)
        closer = differences < self._nearest[others]
        self._nearest[others[closer]] = differences[closer]
        self._partner[others[closer]] = slot

    def _insert(self, record: KeyframeRecord, looks: bytes, reach: float) -> int:
        if not self._free:
            self._grow(max(64, 2 * len(self._ids)))
        slot = self._free.pop()
        self._slot_of[record.id] = slot
        self._ids[slot] = record.id
        self._views.put(slot, record, looks)
        self._map[slot] = self._maps.setdefault(record.map_id, len(self._maps))
        self._reach[slot] = reach
        cell = self._cell(record)
        self._cell_of[slot] = cell
        self._cells.setdefault(cell, set()).add(slot)
        return slot

    def remove(self, keyframe_id: int) -> None:
        """Forget a keyframe."""
        slot = self._slot_of.pop(keyframe_id)
        cell = self._cell_of.pop(slot)
        self._cells[cell].discard(slot)
        if not self._cells[cell]:
            del self._cells[cell]
        self._nearest[slot] = np.inf
        self._free.append(slot)
        around = self._around(cell)
        for orphan in around[self._partner[around] == slot]:
            self._find_partner(int(orphan))

    def spare_one(
        self,
        current_map: str,
        keep: int | None = None,
        among: Collection[int] | None = None,
    ) -> tuple[int, int | None, float]:
        """The keyframe that is missed least, and which one stands for it from now on.

        Args:
            current_map: the map that the robot is on; views of others thin out first.
            keep: a keyframe that must stay, the newest.
            among: only these may go; None for all.

        Returns:
            The id of the one to go; the id of the one that stands for it, None if nothing is
            comparable; and the reach of that one from now on. Call :meth:`remove` for the first.
        """
        old_map = self._map != self._maps.get(current_map, -1)
        closed = set() if keep is None else {self._slot_of[keep]}
        if among is not None:
            open_to_go = set(among)
            closed |= {slot for i, slot in self._slot_of.items() if i not in open_to_go}
        slot = self._cheapest(old_map, closed)
        while slot is None and self._cell_m < WIDEST_M:
            self._widen()
            slot = self._cheapest(old_map, closed)
        if slot is None:
            # Nothing can be compared, as with one view of each of many maps.
            slots = [slot for slot in self._slot_of.values() if slot not in closed]
            return min((not old_map[s], int(self._ids[s])) for s in slots)[1], None, 0.0
        heir = int(self._partner[slot])
        self._reach[heir] = max(self._reach[heir], self._nearest[slot] + self._reach[slot])
        return int(self._ids[slot]), int(self._ids[heir]), float(self._reach[heir])

    def _cheapest(self, old_map: NDArray[np.bool_], closed: set[int]) -> int | None:
        """The slot whose going makes the least reach, of equal ones the oldest; None if none."""
        cost = self._nearest + self._reach
        cost[old_map] *= OLD_MAP_WEIGHT
        cost[list(closed)] = np.inf
        least = float(cost.min())
        if not math.isfinite(least):
            return None
        slots = np.flatnonzero(cost == least)
        return int(slots[self._ids[slots].argmin()])

    def _widen(self) -> None:
        """Compare over twice the distance, because nothing is within reach any more."""
        self._cell_m *= 2.0
        self._cell_s *= 2.0
        self._cells.clear()
        for slot, (map_id, frame_id, column, row) in self._cell_of.items():
            cell = (map_id, frame_id, column // 2, row // 2 if frame_id else row)
            self._cell_of[slot] = cell
            self._cells.setdefault(cell, set()).add(slot)
        self._find_all_partners()

    def _find_all_partners(self) -> None:
        for cell, members in self._cells.items():
            around = self._around(cell)
            slots = np.array(sorted(members), np.intp)
            for start in range(0, len(slots), AT_ONCE):
                some = slots[start : start + AT_ONCE]
                differences = self._views.differences(some, around)
                differences[some[:, None] == around[None]] = np.inf
                best = differences.argmin(axis=1)
                self._nearest[some] = differences[np.arange(len(some)), best]
                self._partner[some] = around[best]

    def _find_partner(self, slot: int) -> tuple[Slots, Numbers]:
        """Compare a keyframe with those around it; they and their differences."""
        around = self._around(self._cell_of[slot])
        around = around[around != slot]
        self._nearest[slot], self._partner[slot] = np.inf, slot
        if around.size == 0:
            return around, np.zeros(0)
        differences = self._views.differences(np.array([slot]), around)[0]
        best = int(differences.argmin())
        self._nearest[slot], self._partner[slot] = differences[best], around[best]
        return around, differences

    def _cell(self, record: KeyframeRecord) -> Cell:
        if record.pose is None:
            span = math.floor(record.stamp_ns * 1e-9 / self._cell_s)
            return (record.map_id, "", span, record.segment)
        x, y, _ = record.pose.position
        column, row = math.floor(x / self._cell_m), math.floor(y / self._cell_m)
        return (record.map_id, record.pose.frame_id, column, row)

    def _around(self, cell: Cell) -> Slots:
        """Slots in a cell and those next to it, oldest keyframe first."""
        map_id, frame_id, column, row = cell
        rows = (0,) if not frame_id else (-1, 0, 1)
        found: list[int] = []
        for i in (-1, 0, 1):
            for j in rows:
                found += self._cells.get((map_id, frame_id, column + i, row + j), ())
        slots = np.array(found, np.intp)
        return slots[np.argsort(self._ids[slots])]
