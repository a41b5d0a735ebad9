"""ConSE: an image region as the probability-weighted mean of the words of its likely classes.

Norouzi et al. 2014, "Zero-shot learning by convex combination of semantic embeddings". Both sides
are centred on the mean of the label vectors, since sentence vectors share a large common part.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

#: Classes kept for a region; 10 numbers stand for a vector of 384.
TOP_CLASSES = 10


def unit(x: NDArray[np.floating]) -> Array:
    """Rows of unit length; a zero row stays zero."""
    norm = np.linalg.norm(x, axis=-1, keepdims=True)
    result: Array = (x / np.maximum(norm, 1e-9)).astype(np.float32)
    return result


def top_classes(logits: Array) -> tuple[NDArray[np.uint16], NDArray[np.float16]]:
    """The likeliest classes of each row of ``(n, 1000)`` logits, and their probabilities.

    Returns:
        classes ``(n, 10)`` and probabilities ``(n, 10)``, likeliest first; ties to the lower class.
    """
    order = np.argsort(-logits, axis=1, kind="stable")[:, :TOP_CLASSES]
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = np.take_along_axis(shifted, order, axis=1) / shifted.sum(axis=1, keepdims=True)
    return order.astype(np.uint16), probabilities.astype(np.float16)


def conse_vectors(
    classes: NDArray[np.uint16], probabilities: NDArray[np.float16], labels: Array
) -> Array:
    """``(n, dim)`` unit vectors from the classes that :func:`top_classes` kept.

    Args:
        labels: ``(1000, dim)`` centred vectors of the class names.
    """
    weights = probabilities.astype(np.float32)
    return unit(np.einsum("nk,nkd->nd", weights, labels[classes.astype(np.int64)]))
