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
from semflip_core.keyframes import LOOKS_BYTES
from semflip_core.settings import MemorySettings

#: Only views within so many ``redundant_distance_m`` are compared; farther ones are not alike.
REACH = 3.0
#: Views of a map that the robot is no longer on can never become goals; they thin out first.
OLD_MAP_WEIGHT = 0.5
#: Wider than any building; views farther apart are not compared.
WIDEST_M = 100_000.0

Cell = tuple[str, str, int, int]
Numbers = NDArray[np.float64]
Slots = NDArray[np.intp]


class Redundancy:
    """Keeps, for each keyframe, its most alike other one.

    Adding and removing compare a keyframe with those around it only. Differences are in units of
    the settings' ``redundant_*``: one unit is a view worth keeping beside the other.
    """

    def __init__(self, settings: MemorySettings) -> None:
        self._settings = settings
        self._cell_m = REACH * settings.redundant_distance_m
        self._cell_s = REACH * settings.redundant_time_s
        self._slot_of: dict[int, int] = {}
        self._free: list[int] = []
        self._cells: dict[Cell, set[int]] = {}
        self._cell_of: dict[int, Cell] = {}
        self._ids: NDArray[np.int64] = np.zeros(0, np.int64)
        self._place: Numbers = np.zeros((0, 3))  # metres; seconds where there is no pose
        self._turn: Numbers = np.zeros((0, 4))
        self._looks: NDArray[np.uint8] = np.zeros((0, LOOKS_BYTES), np.uint8)
        self._nearest: Numbers = np.zeros(0)
        self._partner: Slots = np.zeros(0, np.intp)
        self._reach: Numbers = np.zeros(0)
        self._old_map: NDArray[np.bool_] = np.zeros(0, np.bool_)

    def _grow(self, size: int) -> None:
        old = len(self._ids)
        more = size - old
        self._ids = np.concatenate([self._ids, np.zeros(more, np.int64)])
        self._place = np.concatenate([self._place, np.zeros((more, 3))])
        self._turn = np.concatenate([self._turn, np.zeros((more, 4))])
        self._looks = np.concatenate([self._looks, np.zeros((more, LOOKS_BYTES), np.uint8)])
        self._nearest = np.concatenate([self._nearest, np.full(more, np.inf)])
        self._partner = np.concatenate([self._partner, np.zeros(more, np.intp)])
        self._reach = np.concatenate([self._reach, np.zeros(more)])
        self._old_map = np.concatenate([self._old_map, np.zeros(more, np.bool_)])
        self._free += range(size - 1, old - 1, -1)

    def __len__(self) -> int:
        return len(self._slot_of)

    def add(self, record: KeyframeRecord, looks: bytes, reach: float = 0.0) -> None:
        """Take a keyframe into account.

        Args:
            looks: its coarse colours.
            reach: how different the views are that it already stands for.
        """
        if not self._free:
            self._grow(max(64, 2 * len(self._ids)))
        slot = self._free.pop()
        self._slot_of[record.id] = slot
        self._ids[slot] = record.id
        self._looks[slot] = np.frombuffer(looks, np.uint8)
        if record.pose is None:
            self._place[slot] = (record.stamp_ns * 1e-9, 0.0, 0.0)
            self._turn[slot] = (0.0, 0.0, 0.0, 1.0)
        else:
            self._place[slot] = record.pose.position
            self._turn[slot] = record.pose.orientation
        self._old_map[slot] = False
        self._reach[slot] = reach
        self._put_into_cell(slot, self._cell(record))

    def _put_into_cell(self, slot: int, cell: Cell) -> None:
        self._cell_of[slot] = cell
        self._cells.setdefault(cell, set()).add(slot)
        others, distances = self._find_partner(slot)
        closer = distances < self._nearest[others]
        self._nearest[others[closer]] = distances[closer]
        self._partner[others[closer]] = slot

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

    def set_current_map(self, records: Iterable[KeyframeRecord], map_id: str) -> None:
        """Say which map the robot is on; views of the others thin out first."""
        for record in records:
            self._old_map[self._slot_of[record.id]] = record.map_id != map_id

    def spare_one(
        self, keep: int | None = None, among: Collection[int] | None = None
    ) -> tuple[int, int | None, float]:
        """The keyframe that is missed least, and which one stands for it from now on.

        Args:
            keep: a keyframe that must stay, the newest.
            among: only these may go; None for all.

        Returns:
            The id of the one to go; the id of the one that stands for it, None if nothing is
            comparable; and the reach of that one from now on. Call :meth:`remove` for the first.
        """
        closed = set() if keep is None else {self._slot_of[keep]}
        if among is not None:
            open_to_go = set(among)
            closed |= {slot for i, slot in self._slot_of.items() if i not in open_to_go}
        slot = self._cheapest(closed)
        while slot is None and self._cell_m < WIDEST_M:
            self._widen()
            slot = self._cheapest(closed)
        if slot is None:
            # Nothing can be compared, as with one view of each of many maps.
            slots = [slot for slot in self._slot_of.values() if slot not in closed]
            return min((not self._old_map[s], int(self._ids[s])) for s in slots)[1], None, 0.0
        heir = int(self._partner[slot])
        self._reach[heir] = max(self._reach[heir], self._nearest[slot] + self._reach[slot])
        return int(self._ids[slot]), int(self._ids[heir]), float(self._reach[heir])

    def _cheapest(self, closed: set[int]) -> int | None:
        """The slot whose going makes the least reach, of equal ones the oldest; None if none."""
        cost = self._nearest + self._reach
        cost[self._old_map] *= OLD_MAP_WEIGHT
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
        cells = {
            slot: (cell[0], cell[1], cell[2] // 2, cell[3] // 2 if cell[1] else cell[3])
            for slot, cell in self._cell_of.items()
        }
        self._cells.clear()
        self._nearest[:] = np.inf
        for slot, cell in cells.items():
            self._put_into_cell(slot, cell)

    def _find_partner(self, slot: int) -> tuple[Slots, Numbers]:
        """Compare a keyframe with those around it; they and their differences."""
        around = self._around(self._cell_of[slot])
        around = around[around != slot]
        distances = self._distances(slot, around)
        self._nearest[slot], self._partner[slot] = np.inf, slot
        if around.size:
            best = int(distances.argmin())
            self._nearest[slot], self._partner[slot] = distances[best], around[best]
        return around, distances

    def _cell(self, record: KeyframeRecord) -> Cell:
        if record.pose is None:
            span = math.floor(record.stamp_ns * 1e-9 / self._cell_s)
            return (record.map_id, "", span, record.segment)
        x, y, _ = record.pose.position
        return (
            record.map_id,
            record.pose.frame_id,
            math.floor(x / self._cell_m),
            math.floor(y / self._cell_m),
        )

    def _around(self, cell: Cell) -> Slots:
        map_id, frame_id, column, row = cell
        rows = (0,) if not frame_id else (-1, 0, 1)
        found: list[int] = []
        for i in (-1, 0, 1):
            for j in rows:
                found += self._cells.get((map_id, frame_id, column + i, row + j), ())
        return np.array(sorted(found), np.intp)

    def _distances(self, slot: int, others: Slots) -> Numbers:
        """Difference of one keyframe from others; ``(others,)``."""
        settings = self._settings
        reach = (
            settings.redundant_distance_m if self._cell_of[slot][1] else settings.redundant_time_s
        )
        apart = self._place[others] - self._place[slot]
        place = (apart * apart).sum(axis=1) / reach**2
        alike = np.abs(self._turn[others] @ self._turn[slot])
        angle = 2.0 * np.arccos(np.minimum(alike, 1.0)) / math.radians(settings.redundant_angle_deg)
        looks = np.abs(self._looks[others].astype(np.int16) - self._looks[slot].astype(np.int16))
        looks_unit = looks.mean(axis=1) / (255.0 * settings.redundant_looks)
        return np.asarray(np.sqrt(place + angle * angle + looks_unit * looks_unit))
