"""How well regions and words find each other: numbers to select a projection by, and to report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from semflip_train.projection_scenes import SceneRegions
from semflip_train.projection_vocabulary import Named

Array = NDArray[np.float32]

#: As in the benchmark: an object that covers this share of a picture counts as visible.
VISIBLE = 0.01


def auroc(positive: NDArray[np.floating], negative: NDArray[np.floating]) -> float:
    """P(a positive scores above a negative), ties half; NaN where either is empty."""
    if len(positive) == 0 or len(negative) == 0:
        return float("nan")
    ranked = np.sort(negative)
    below = np.searchsorted(ranked, positive, side="left")
    upto = np.searchsorted(ranked, positive, side="right")
    return float((below + upto).mean() / (2 * len(negative)))


def presence_auroc(
    scenes: Sequence[SceneRegions],
    vectors: Sequence[Array],
    words: Sequence[Named],
    phrase: Mapping[str, Array],
    reference: Array,
    categories: frozenset[str],
) -> float:
    """AUROC of "is there a NAME in this scene", over all names of some categories and scenes.

    The score is the best region's z-score against reference regions. Scenes where a word fits the
    thing only loosely are left out for it.

    Args:
        vectors: ``(n, dim)`` of each scene's regions.
        phrase: vector of each name.
        reference: ``(r, dim)`` regions of other scenes.
    """
    by_model = {w.model: w for w in words}
    names = sorted({n for w in words if w.category in categories for n in w.names})
    matrix = np.stack([phrase[n] for n in names])
    similarity = reference @ matrix.T
    mean, deviation = similarity.mean(axis=0), similarity.std(axis=0) + 1e-3
    yes: list[float] = []
    no: list[float] = []
    for scene, regions in zip(scenes, vectors, strict=True):
        z = ((regions @ matrix.T).max(axis=0) - mean) / deviation
        shown = [by_model.get(m) for m in scene.models]
        visible = scene.visible.max(axis=0) >= VISIBLE
        true = {n for w, v in zip(shown, visible, strict=True) if w and v for n in w.names}
        loose = {n for w in shown if w for n in (*w.words, *(m.lower() for m in w.names))}
        for column, name in enumerate(names):
            if name in true:
                yes.append(float(z[column]))
            elif name.lower() not in loose:
                no.append(float(z[column]))
    return auroc(np.array(yes), np.array(no))
