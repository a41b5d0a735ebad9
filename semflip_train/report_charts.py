"""The report's curves and bars, from predictions and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semflip_train import charts
from semflip_train.metrics import Confusion, aurc, auroc, risk_coverage, roc_curve

Metrics = Mapping[str, Any]
Predictions = Sequence[Mapping[str, Any]]
Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


def _arrays(predictions: Predictions) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    labels = np.array([int(not p["answerable"]) for p in predictions], np.int64)
    scores = np.array([1.0 if p["score"] is None else p["score"] for p in predictions], np.float64)
    return labels, scores


def _slices(predictions: Predictions) -> dict[str, Predictions]:
    """The slices where there are several, else all questions as one."""
    names = sorted({p["slice"] for p in predictions if p["slice"]})
    if len(names) < 2:
        return {"": predictions}
    return {name: [p for p in predictions if p["slice"] == name] for name in names}


def curves(metrics: Metrics, predictions: Predictions) -> str:
    """ROC and risk against coverage of every slice; scores, sweep and confusion of each."""
    tau = float(metrics["gate"]["tau"])
    roc: dict[str, Curve] = {}
    risk: dict[str, Curve] = {}
    each = ""
    for name, chosen in _slices(predictions).items():
        labels, scores = _arrays(chosen)
        if len(set(labels.tolist())) == 2:
            roc[f"{name or 'gate'}: AUROC {auroc(labels, scores):.3f}"] = roc_curve(labels, scores)
        area = f"{name or 'gate'}: area {aurc(labels, scores):.3f}"
        risk[area] = risk_coverage(labels, scores)
        each += _of_slice(f", {name}" if name else "", labels, scores, tau)
    shared = charts.lines(
        "ROC", "answerable refused", "unanswerable refused", roc, diagonal=True
    ) + charts.lines("Risk against coverage", "share answered", "unanswerable among them", risk)
    return shared + each


def _of_slice(
    ending: str, labels: NDArray[np.int64], scores: NDArray[np.float64], tau: float
) -> str:
    grid = np.linspace(0.0, 1.0, 101)
    sweep = [Confusion.of(labels, scores > t) for t in grid]
    groups = {
        "answerable": scores[labels == 0].tolist(),
        "unanswerable": scores[labels == 1].tolist(),
    }
    swept = {
        "balanced accuracy": [s.balanced_accuracy for s in sweep],
        "recall (unanswerable refused)": [s.recall for s in sweep],
        "specificity (answerable answered)": [s.specificity for s in sweep],
    }
    c = Confusion.of(labels, scores > tau)
    share = max(1, c.tp + c.fn), max(1, c.tn + c.fp)
    confusion = {
        "unanswerable, refused": (c.tp / share[0], f"({c.tp} of {c.tp + c.fn})"),
        "unanswerable, passed": (c.fn / share[0], f"({c.fn} of {c.tp + c.fn})"),
        "answerable, answered": (c.tn / share[1], f"({c.tn} of {c.tn + c.fp})"),
        "answerable, refused": (c.fp / share[1], f"({c.fp} of {c.tn + c.fp})"),
    }
    return (
        charts.histogram(f"Scores{ending}", "P(unanswerable)", groups, marker=tau)
        + charts.lines(
            f"Threshold sweep{ending}",
            "threshold",
            "share",
            {name: (grid, _filled(values)) for name, values in swept.items()},
            marker=tau,
        )
        + charts.bars(f"Confusion at τ = {tau:.3f}{ending}", confusion)
    )


def _filled(values: Sequence[float]) -> list[float]:
    return [0.0 if value != value else value for value in values]


def category_bars(metrics: Metrics) -> str:
    """Recall by category, slices apart."""
    slices: Mapping[str, Metrics] = metrics.get("slices") or {}
    shown = slices if len(slices) > 1 else {"": metrics}
    return "".join(
        charts.bars(
            "Recall by category" + (f", {name}" if name else ""),
            {
                category.replace("_", " "): (values["recall"], f"(n = {int(values['count'])})")
                for category, values in part["per_category"].items()
                if values["recall"] is not None
            },
        )
        for name, part in shown.items()
    )
