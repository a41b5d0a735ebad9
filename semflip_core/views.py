"""How different views are: apart in space, in view direction and in looks."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from semflip_core.frames import KeyframeRecord
from semflip_core.keyframes import LOOKS_BYTES
from semflip_core.settings import MemorySettings

Numbers = NDArray[np.float64]
Slots = NDArray[np.intp]


class Views:
    """Columns of many views, by slot; a difference of 1 is a view worth keeping beside the other.

    Differences are the same to the last bit however many are computed at once: products of looks
    are whole numbers that float32 holds exactly, the rest is summed in a fixed order.
    """

    def __init__(self, settings: MemorySettings) -> None:
        self._place_unit = settings.redundant_distance_m
        self._time_unit = settings.redundant_time_s
        self._angle_unit = math.radians(settings.redundant_angle_deg)
        self._looks_unit = 255.0 * settings.redundant_looks
        self._place: Numbers = np.zeros((0, 3))  # in units; time where there is no pose
        self._turn: Numbers = np.zeros((0, 4))
        self._looks: NDArray[np.uint8] = np.zeros((0, LOOKS_BYTES), np.uint8)

    def __len__(self) -> int:
        return len(self._place)

    def grow(self, size: int) -> None:
        """Make room for so many slots."""
        more = size - len(self)
        self._place = np.concatenate([self._place, np.zeros((more, 3))])
        self._turn = np.concatenate([self._turn, np.zeros((more, 4))])
        self._looks = np.concatenate([self._looks, np.zeros((more, LOOKS_BYTES), np.uint8)])

    def put(self, slot: int, record: KeyframeRecord, looks: bytes) -> None:
        """Fill a slot."""
        self._looks[slot] = np.frombuffer(looks, np.uint8)
        if record.pose is None:
            self._place[slot] = (record.stamp_ns * 1e-9 / self._time_unit, 0.0, 0.0)
            self._turn[slot] = (0.0, 0.0, 0.0, 1.0)
        else:
            self._place[slot] = np.array(record.pose.position) / self._place_unit
            self._turn[slot] = record.pose.orientation

    def differences(self, some: Slots, others: Slots) -> Numbers:
        """``(some, others)``: root of the squares of place, angle and root-mean-square looks.

        Compare views with poses of one frame, or views without, not one with the other.
        """
        squares = np.zeros((len(some), len(others)))
        for axis in range(3):
            apart = self._place[some, axis][:, None] - self._place[others, axis][None]
            squares += apart * apart
        alike = np.zeros_like(squares)
        for axis in range(4):
            alike += self._turn[some, axis][:, None] * self._turn[others, axis][None]
        angle = 2.0 * np.arccos(np.minimum(np.abs(alike), 1.0)) / self._angle_unit
        squares += angle * angle
        squares += self._looks_squared(some, others) / (LOOKS_BYTES * self._looks_unit**2)
        return np.sqrt(squares)

    def _looks_squared(self, some: Slots, others: Slots) -> Numbers:
        """Sums of squared differences of 144 bytes: at most 9.4 million, exact in float32."""
        a = self._looks[some].astype(np.float32)
        b = self._looks[others].astype(np.float32)
        products = (a @ b.T).astype(np.float64)
        lengths_a = (a * a).sum(axis=1, dtype=np.float64)
        lengths_b = (b * b).sum(axis=1, dtype=np.float64)
        return np.asarray(lengths_a[:, None] + lengths_b[None] - 2.0 * products)
