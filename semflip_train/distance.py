"""How far an embedding is from the training data, and beyond which distance it is unlike it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from semflip_core.errors import MissingExtraError
from semflip_core.gate import Gate
from semflip_train.features import FeatureTable, Matrix


def distance_tensors(x: Matrix, rank: int) -> dict[str, Matrix]:
    """Training mean and Ledoit-Wolf covariance as leading directions plus an isotropic rest.

    Directions are those of greatest variance; the rest gets the mean variance of what is left
    (Ledoit and Wolf 2004; Lee et al. 2018 for the distance).
    """
    try:
        from sklearn.covariance import ledoit_wolf  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("sklearn", "train", "the distance limit") from error
    mean = x.mean(axis=0, dtype=np.float64)
    covariance, _ = ledoit_wolf(x.astype(np.float64) - mean, assume_centered=True)
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    rank = min(rank, len(values))
    rest = values[rank:].mean() if rank < len(values) else values[-1]
    smallest = max(float(values[0]) * 1e-8, 1e-12)
    return {
        "distance.mean": mean.astype(np.float32),
        "distance.basis": np.ascontiguousarray(vectors[:, :rank].T).astype(np.float32),
        "distance.variance": np.maximum(values[:rank], smallest).astype(np.float32),
        "distance.floor": np.array([max(float(rest), smallest)], np.float32),
    }


def distance_limit(
    gate: Gate, table: FeatureTable, rank: int, quantile: float, slack: float
) -> float:
    """The distance beyond which an embedding is unlike the training data.

    Measured on held-out sequences against the statistics of the others, so that a new place is
    not taken for an outlier only because it is new.

    Args:
        rank: leading directions of the covariance.
        quantile: of held-out distances; the limit is ``slack`` times the largest.
    """
    names = sorted(set(table.sequences.tolist()))
    distances = [np.asarray(gate.distance(table.x))]
    for held_out in _folds(names):
        rows = np.isin(table.sequences, held_out)
        if rows.all() or not rows.any():
            continue
        tensors = gate.tensors() | distance_tensors(table.x[~rows], rank)
        distances.append(np.asarray(Gate(gate.header, tensors).distance(table.x[rows])))
    return slack * max(float(np.quantile(d, quantile)) for d in distances)


def _folds(names: Sequence[str], most: int = 5) -> list[list[str]]:
    count = min(most, len(names))
    return [list(names[i::count]) for i in range(count)] if count > 1 else []
