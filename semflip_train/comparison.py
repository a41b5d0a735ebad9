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
from semflip_train.stages import SINGLE
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

    return TextEncoder().bulk_vectors(list(questions))


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
    train, calibration = _tables(training_run, "")
    jobs = _baselines(judged, gate, settings, train, calibration)
    if training_run.single_frame_recall is not None:
        small, held = _tables(training_run, f"_{SINGLE}")
        inputs = (small.x, held.x, np.stack([j.single_vector for j in judged]))
        jobs.append((SmallGate("best single frame", settings.training), inputs))
    for baseline, (fitted, held_rows, test) in jobs:
        baseline.fit(fitted, train.y)
        tau = best_threshold(calibration.y, baseline.score(held_rows))
        reached = np.isfinite(test).all(axis=1)
        scores = np.full(count, np.inf)
        scores[reached] = baseline.score(test[reached])
        top = scores[reached].max(initial=0.0) + 1.0
        finite = np.where(np.isfinite(scores), scores, top)
        rows[baseline.name] = gate_values(judged, finite, finite > tau) | {"threshold": tau}
    return rows


Inputs = tuple[Matrix, Matrix, Matrix]


def _tables(run: RunDirectory, ending: str) -> tuple[FeatureTable, FeatureTable]:
    """Training and calibration rows; the former twice where there is no calibration split."""
    train = load_table(run.features / f"train{ending}")
    folder = run.features / f"calibration{ending}"
    return train, load_table(folder) if folder.is_dir() else train


def _baselines(
    judged: Sequence[Judged],
    gate: Gate,
    settings: ExperimentSettings,
    train: FeatureTable,
    calibration: FeatureTable,
) -> list[tuple[Baseline, Inputs]]:
    """Baselines with their training, calibration and test rows."""
    words: Inputs = (
        question_vectors([s.question for s in train.samples]),
        question_vectors([s.question for s in calibration.samples]),
        question_vectors([j.query.question for j in judged]),
    )
    seen: Inputs = (train.x, calibration.x, np.stack([j.vector for j in judged]))
    on_embeddings: list[Baseline] = [LogisticProbe(), Neighbours(), Mahalanobis(), Energy(gate)]
    blind: Baseline = SmallGate("blind gate", settings.training)
    return [(blind, words), *((baseline, seen) for baseline in on_embeddings)]
