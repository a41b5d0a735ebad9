"""Controls and baselines on the same test questions, each with a threshold from calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semflip_core.gate import Gate
from semflip_train.baselines.detectors import (
    Baseline,
    Energy,
    LogisticProbe,
    Mahalanobis,
    Neighbours,
    SmallGate,
)
from semflip_train.evaluation import Judged
from semflip_train.features import FeatureTable, load_table
from semflip_train.metrics import Confusion
from semflip_train.run_directory import ExperimentSettings, RunDirectory
from semflip_train.summary import gate_values
from semflip_train.training import Matrix

Labels = NDArray[np.int64]
Scores = NDArray[np.float64]


def best_threshold(labels: Labels, scores: Scores) -> float:
    """Threshold of best balanced accuracy for scores in any unit."""
    ordered = np.unique(scores)
    if len(ordered) < 2:
        return float(ordered[0]) if len(ordered) else 0.0
    edges = (ordered[1:] + ordered[:-1]) / 2.0
    quality = [Confusion.of(labels, scores > edge).balanced_accuracy for edge in edges]
    return float(edges[int(np.nanargmax(quality))])


def question_vectors(questions: Sequence[str]) -> Matrix:
    """``(n, 384)`` MiniLM vectors of whole questions: all that a blind gate may see."""
    from semflip_core.encoders.mini.text import TextEncoder

    return TextEncoder().vectors(questions)


def compare(
    judged: Sequence[Judged],
    gate: Gate,
    settings: ExperimentSettings,
    training_run: RunDirectory | None,
) -> dict[str, Any]:
    """Metrics of every control and baseline by name.

    Without a training run only always-refuse is there: the others are fitted on training rows.
    """
    count = len(judged)
    refuse_all = gate_values(judged, np.ones(count), np.ones(count, dtype=bool))
    rows: dict[str, Any] = {"always refuse": refuse_all}
    if training_run is None or not settings.evaluation.baselines:
        return rows
    train = load_table(training_run.features / "train")
    calibration_folder = training_run.features / "calibration"
    calibration = load_table(calibration_folder) if calibration_folder.is_dir() else train
    reached = np.array([bool(np.isfinite(j.vector).all()) for j in judged])
    vectors = np.stack([j.vector for j in judged])
    for name, baseline, inputs in _baselines(judged, vectors, gate, settings, train, calibration):
        fitted, held, test = inputs
        baseline.fit(fitted, train.y)
        tau = best_threshold(calibration.y, baseline.score(held))
        scores = np.full(count, np.inf)
        scores[reached] = baseline.score(test[reached])
        finite = np.where(np.isfinite(scores), scores, np.nanmax(scores[reached]) + 1.0)
        rows[name] = gate_values(judged, finite, finite > tau) | {"threshold": tau}
    return rows


Inputs = tuple[Matrix, Matrix, Matrix]


def _baselines(
    judged: Sequence[Judged],
    vectors: Matrix,
    gate: Gate,
    settings: ExperimentSettings,
    train: FeatureTable,
    calibration: FeatureTable,
) -> list[tuple[str, Baseline, Inputs]]:
    words: Inputs = (
        question_vectors([s.question for s in train.samples]),
        question_vectors([s.question for s in calibration.samples]),
        question_vectors([j.query.question for j in judged]),
    )
    seen: Inputs = (train.x, calibration.x, vectors)
    on_embeddings: list[Baseline] = [LogisticProbe(), Neighbours(), Mahalanobis(), Energy(gate)]
    blind = SmallGate("blind gate", settings.training)
    return [("blind gate", blind, words), *((b.name, b, seen) for b in on_embeddings)]
