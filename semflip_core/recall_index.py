"""Region vectors of every keyframe, searched exactly the same way on every machine.

A single vector a frame loses small things: they drown in the average. So each frame is stood for by
a few of its region vectors, chosen to be as unlike each other as possible (farthest-point choice,
Gonzalez 1985): what stands out is kept as it is, what is everywhere is kept once.

Vectors are rounded to whole multiples of 1/2047 and kept as float32 whole numbers. Every product
and partial sum is then a whole number under 2^24, which float32 holds exactly, so scores do not
depend on the order of rows, the BLAS or the number of threads. As float16 on disk they are exact
as well. (float16 products would be ten times slower on this kind of CPU.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.contract import Vector

SCALE = 2047
BLOCK_FRAMES = 2048

Halves = NDArray[np.float16]
Ids = NDArray[np.int64]


def quantised(vectors: Vector) -> Vector:
    """Unit vectors as whole numbers, ``SCALE`` for one."""
    return np.rint(np.asarray(vectors, np.float32) * SCALE).astype(np.float32)


def standing_for(regions: Vector, count: int) -> Halves:
    """``(count, dim)`` whole-number float16: the regions that stand for a frame.

    Args:
        regions: ``(regions, dim)`` unit vectors. The first choice is the one nearest their mean;
            frames with fewer regions repeat it.
    """
    whole = quantised(regions)
    products = (whole @ whole.T).astype(np.float64)
    centre = whole.sum(axis=0, dtype=np.float64)
    chosen = [int((whole.astype(np.float64) @ centre).argmax())]
    nearest = products[chosen[0]].copy()
    while len(chosen) < min(count, len(whole)):
        chosen.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, products[chosen[-1]])
    chosen += [chosen[0]] * (count - len(chosen))
    return whole[chosen].astype(np.float16)


class RegionIndex:
    """Searchable rows, one a keyframe.

    Args:
        dimension: of a region vector.
        vectors: that stand for each keyframe.
    """

    def __init__(self, dimension: int, vectors: int) -> None:
        self._dimension = dimension
        self._vectors = vectors
        self._blocks: list[Vector] = []
        self._slot_of: dict[int, int] = {}
        self._free: list[int] = []
        self._ids: Ids = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, keyframe_id: int) -> bool:
        return keyframe_id in self._slot_of

    @property
    def ids(self) -> list[int]:
        """Keyframes in the index."""
        return list(self._slot_of)

    @property
    def nbytes(self) -> int:
        """RAM that the rows take."""
        return sum(block.nbytes for block in self._blocks)

    def add(self, keyframe_id: int, rows: Halves) -> None:
        """Add a keyframe by what :func:`standing_for` chose."""
        if not self._free:
            start = len(self._ids)
            block = np.zeros((BLOCK_FRAMES * self._vectors, self._dimension), np.float32)
            self._blocks.append(block)
            self._ids = np.concatenate([self._ids, np.zeros(BLOCK_FRAMES, np.int64)])
            self._free = list(range(start + BLOCK_FRAMES - 1, start - 1, -1))
        slot = self._free.pop()
        self._slot_of[keyframe_id] = slot
        self._ids[slot] = keyframe_id
        block_number, row = divmod(slot, BLOCK_FRAMES)
        first = row * self._vectors
        self._blocks[block_number][first : first + self._vectors] = rows

    def remove(self, keyframe_id: int) -> None:
        """Forget a keyframe."""
        slot = self._slot_of.pop(keyframe_id)
        self._ids[slot] = 0
        self._free.append(slot)

    def scores(self, phrases: Vector) -> tuple[Ids, Vector]:
        """How well each keyframe's best region matches each phrase.

        Args:
            phrases: ``(phrases, dim)`` unit vectors.

        Returns:
            Ids ``(frames,)`` in no order, and cosines ``(frames, phrases)``.
        """
        queries = np.ascontiguousarray(quantised(phrases).T)
        found = np.empty((len(self._ids), queries.shape[1]), np.float32)
        for number, block in enumerate(self._blocks):
            products = (block @ queries).reshape(BLOCK_FRAMES, self._vectors, -1)
            start = number * BLOCK_FRAMES
            np.max(products, axis=1, out=found[start : start + BLOCK_FRAMES])
        used = self._ids > 0
        return self._ids[used], found[used] / np.float32(SCALE * SCALE)
