"""From judged questions to numbers: the gate, its members, controls and baselines in one table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semflip_train.evaluation import Judged
from semflip_train.metrics import (
    Confusion,
    aurc,
    auroc,
    bootstrap,
    pair_accuracy,
    recall_by,
    resampling_groups,
)

Values = dict[str, float]


def gate_values(
    judged: Sequence[Judged], scores: NDArray[np.float64], refused: NDArray[np.bool_]
) -> Values:
    """Metrics of a score and its refusals on these questions."""
    labels = np.array([item.label for item in judged])
    values = Confusion.of(labels, refused).summary()
    values["auroc"] = auroc(labels, scores)
    values["aurc"] = aurc(labels, scores)
    values["pair_accuracy"], _ = pair_accuracy(labels, refused, [j.query.pair for j in judged])
    return values


def final_values(judged: Sequence[Judged]) -> Values:
    """Metrics of the final verdict: goals, evidence, and both together."""
    evidence = [float(j.evidence_right) for j in judged if j.evidence_right is not None]
    return {
        "goal_success": _mean([j.goal_success for j in judged]),
        "evidence_accuracy": _mean(evidence),
        "end_to_end": _mean([j.end_to_end for j in judged]),
        "verdict_recall": _mean([float(j.refused) for j in judged if j.label]),
        "verdict_specificity": _mean([float(not j.refused) for j in judged if not j.label]),
    }


def _mean(values: Sequence[float]) -> float:
    kept = [value for value in values if math.isfinite(value)]
    return float(np.mean(kept)) if kept else float("nan")


def _spread(values: Sequence[float]) -> float:
    """Sample standard deviation of the finite values; 0 for one, NaN for none."""
    kept = [value for value in values if math.isfinite(value)]
    if len(kept) < 2:
        return 0.0 if kept else float("nan")
    return float(np.std(kept, ddof=1))


def ensemble(judged: Sequence[Judged]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Scores and refusals of the gate itself."""
    return (
        np.array([item.score for item in judged], np.float64),
        np.array([item.gate_refused for item in judged], dtype=bool),
    )


def summarise(
    judged: Sequence[Judged], *, draws: int, confidence: float, seed: int = 0
) -> dict[str, Any]:
    """Everything about one slice of the test questions, without baselines."""
    scores, refused = ensemble(judged)
    labels = np.array([item.label for item in judged])
    _, pairs = pair_accuracy(labels, refused, [j.query.pair for j in judged])
    values = gate_values(judged, scores, refused) | final_values(judged)

    def statistic(rows: NDArray[np.int64]) -> Mapping[str, float]:
        chosen = [judged[i] for i in rows]
        return gate_values(chosen, scores[rows], refused[rows]) | final_values(chosen)

    groups = resampling_groups([j.query.sequence for j in judged], [j.query.pair for j in judged])
    intervals = (
        bootstrap(statistic, groups, draws=draws, confidence=confidence, seed=seed) if draws else {}
    )
    return {
        **values,
        "confusion": _confusion(labels, refused),
        "counts": {
            "questions": len(judged),
            "answerable": int((labels == 0).sum()),
            "unanswerable": int((labels == 1).sum()),
            "pairs": pairs,
            "resampled_groups": len(set(groups)),
        },
        "per_category": recall_by([j.query.category for j in judged], labels, refused),
        "reasons": _reasons(judged),
        "intervals": {key: list(value) for key, value in intervals.items()},
        "members": members(judged),
    }


def _confusion(labels: NDArray[np.int64], refused: NDArray[np.bool_]) -> dict[str, int]:
    counts = Confusion.of(labels, refused)
    return {"tp": counts.tp, "fn": counts.fn, "tn": counts.tn, "fp": counts.fp}


def _reasons(judged: Sequence[Judged]) -> dict[str, dict[str, int]]:
    """Category of each refused unanswerable question -> reason given -> count."""
    table: dict[str, dict[str, int]] = {}
    for item in judged:
        if item.label and item.refused:
            row = table.setdefault(item.query.category or "unlabelled", {})
            reason = str(item.decision["reason"])
            row[reason] = row.get(reason, 0) + 1
    return table


def members(judged: Sequence[Judged]) -> dict[str, Any]:
    """Each seed's member at the same threshold: values, mean, spread, and the pooled F1.

    ``mean_f1`` averages the seeds' F1; ``pooled_f1`` adds up their counts first. The two differ.
    """
    rows = [item.decision["member_scores"] for item in judged]
    count = max((len(row) for row in rows), default=0)
    if count == 0:
        return {}
    table = np.array([row if row else [1.0] * count for row in rows], np.float64)
    taus = [item.decision["threshold"] for item in judged]
    tau = next(float(value) for value in taus if value is not None)
    labels = np.array([item.label for item in judged])
    each = []
    total = Confusion(0, 0, 0, 0)
    for member in range(count):
        refused = table[:, member] > tau
        each.append(gate_values(judged, table[:, member], refused))
        one = Confusion.of(labels, refused)
        total = Confusion(
            total.tp + one.tp, total.fn + one.fn, total.tn + one.tn, total.fp + one.fp
        )
    names = each[0].keys()
    return {
        "each": each,
        "mean": {name: _mean([m[name] for m in each]) for name in names},
        "spread": {name: _spread([m[name] for m in each]) for name in names},
        "pooled_f1": total.f1,
    }


def plain(value: Any) -> Any:
    """The value with NaN as None, for JSON."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
