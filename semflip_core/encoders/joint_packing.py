"""Unit vectors in few bytes: what encoders keep of each region."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def pack(vectors: Array) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Unit vectors as int8 with a scale for each, 1/128 of its largest entry."""
    scale = (np.abs(vectors).max(axis=1) / 127).astype(np.float16)
    safe = np.maximum(scale.astype(np.float32), 1e-6)[:, None]
    return np.clip(np.round(vectors / safe), -127, 127).astype(np.int8), scale


def unpack(packed: NDArray[np.generic], scale: NDArray[np.generic]) -> Array:
    """Unit vectors from :func:`pack`."""
    rows = packed.astype(np.float32) * scale.astype(np.float32)[:, None]
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    result: Array = rows / np.maximum(norm, np.float32(1e-9))
    return result
