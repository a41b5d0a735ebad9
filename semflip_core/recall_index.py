"""What each keyframe shows, small enough to search 100,000 of them for every question.

A single vector a frame loses small things: they drown in the average. So a frame is stood for by
the centres of its region vectors (spherical k-means, Dhillon and Modha 2001, begun with the regions
most unlike each other), in the subspace that names of things span, as whole numbers of 1/127. On
rendered rooms and ``mini``, 24 centres in 64 of 384 dimensions put 96 % of the best five frames
among the first 64 of 432; as many bytes of whole vectors put 81 % there.

Numbers are whole, so that scores are exact: every product and partial sum stays under 2^24, which
float32 holds without rounding. Scores therefore do not depend on the order of rows, the BLAS or
the number of threads. Blocks are widened to float32 in the cache, because products of int8 or
float16 are ten times slower in numpy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.contract import Vector

ROW_SCALE = 127
QUERY_SCALE = 4095
BASIS_STEP = 4096
BLOCK_FRAMES = 128
KMEANS_ROUNDS = 4

Rows = NDArray[np.int8]
Ids = NDArray[np.int64]


def subspace(names: Vector, dimensions: int) -> Vector:
    """``(dimensions, dim)`` orthonormal rows that span what names of things differ in.

    Args:
        names: ``(names, dim)`` unit vectors. With no more dimensions than asked for, or fewer
            names, everything is kept as it is.
    """
    dim = names.shape[1]
    if dim <= dimensions or len(names) < dimensions:
        return np.eye(dim, dtype=np.float32)
    _, _, directions = np.linalg.svd(names.astype(np.float64), full_matrices=False)
    # Rounded, so that the last bits of a LAPACK do not show.
    steps = np.rint(directions[:dimensions] * BASIS_STEP) / BASIS_STEP
    return np.asarray(steps, np.float32)


def standing_for(regions: Vector, basis: Vector, count: int) -> Rows:
    """``(count, dimensions)`` int8: what stands for a frame in the index.

    Args:
        regions: ``(regions, dim)`` unit vectors.
        basis: from :func:`subspace`.
        count: centres; frames with fewer regions repeat the first.
    """
    seeds = _unlike(regions, min(count, len(regions)))
    centres = regions[seeds]
    for _ in range(KMEANS_ROUNDS):
        nearest = (regions @ centres.T).argmax(axis=1)
        members = np.zeros((len(centres), len(regions)), np.float32)
        members[nearest, np.arange(len(regions))] = 1.0
        totals = members @ regions
        lengths = np.linalg.norm(totals, axis=1)
        filled = lengths > 1e-6
        centres[filled] = totals[filled] / lengths[filled, None]
    projected = np.rint(centres @ basis.T * ROW_SCALE).clip(-ROW_SCALE, ROW_SCALE)
    rows = np.empty((count, len(basis)), np.int8)
    rows[: len(projected)] = projected
    rows[len(projected) :] = projected[0]
    return rows


def _unlike(regions: Vector, count: int) -> list[int]:
    """Indices of regions as unlike each other as possible, the most ordinary one first."""
    products = regions @ regions.T
    chosen = [int((regions @ regions.sum(axis=0)).argmax())]
    nearest = products[chosen[0]].copy()
    while len(chosen) < count:
        chosen.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, products[chosen[-1]])
    return chosen


class RegionIndex:
    """Searchable rows, a few a keyframe.

    Args:
        basis: from :func:`subspace`.
        count: rows that stand for each keyframe.
    """

    def __init__(self, basis: Vector, count: int) -> None:
        self._basis = basis
        self._count = count
        self._blocks: list[Rows] = []  # (count, BLOCK_FRAMES, dimensions) each
        self._slot_of: dict[int, int] = {}
        self._free: list[int] = []
        self._ids: Ids = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._slot_of)

    @property
    def nbytes(self) -> int:
        """RAM that the rows take."""
        return sum(block.nbytes for block in self._blocks)

    def add(self, keyframe_id: int, rows: Rows) -> None:
        """Add a keyframe by what :func:`standing_for` gave."""
        if not self._free:
            self._grow()
        slot = self._free.pop()
        self._slot_of[keyframe_id] = slot
        self._ids[slot] = keyframe_id
        block, place = divmod(slot, BLOCK_FRAMES)
        self._blocks[block][:, place] = rows

    def _grow(self) -> None:
        """Room for one more block; ids double, so that growing stays cheap."""
        start = BLOCK_FRAMES * len(self._blocks)
        shape = (self._count, BLOCK_FRAMES, len(self._basis))
        self._blocks.append(np.zeros(shape, np.int8))
        if start == len(self._ids):
            more = np.zeros(max(BLOCK_FRAMES, start), np.int64)
            self._ids = np.concatenate([self._ids, more])
        self._free = list(range(start + BLOCK_FRAMES - 1, start - 1, -1))

    def remove(self, keyframe_id: int) -> None:
        """Forget a keyframe."""
        slot = self._slot_of.pop(keyframe_id)
        self._ids[slot] = 0
        self._free.append(slot)

    def scores(self, phrases: Vector) -> tuple[Ids, Vector]:
        """How well the best of each keyframe's rows matches each phrase.

        Args:
            phrases: ``(phrases, dim)`` unit vectors.

        Returns:
            Ids ``(frames,)``, rising, and cosines ``(frames, phrases)``.
        """
        queries = np.rint(self._basis @ phrases.T * QUERY_SCALE).astype(np.float32)
        frames = BLOCK_FRAMES * len(self._blocks)
        found = np.empty((frames, queries.shape[1]), np.float32)
        wide = np.empty((self._count, BLOCK_FRAMES, len(self._basis)), np.float32)
        for number, block in enumerate(self._blocks):
            np.copyto(wide, block)
            products = wide.reshape(-1, len(self._basis)) @ queries
            start = number * BLOCK_FRAMES
            products.reshape(self._count, BLOCK_FRAMES, -1).max(
                axis=0, out=found[start : start + BLOCK_FRAMES]
            )
        ids = self._ids[:frames]
        used = np.flatnonzero(ids)
        used = used[np.argsort(ids[used], kind="stable")]
        return ids[used], found[used] / np.float32(ROW_SCALE * QUERY_SCALE)
