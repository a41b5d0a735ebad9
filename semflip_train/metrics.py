"""Metrics of refusal; the positive class is *unanswerable* everywhere.

A higher score means more unanswerable; a score above the threshold is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.floating]
Labels = NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts: tp refused and unanswerable, fn answered though unanswerable, tn answered and
    answerable, fp refused though answerable."""

    tp: int
    fn: int
    tn: int
    fp: int

    @classmethod
    def of(cls, labels: Labels, refused: NDArray[np.bool_]) -> Confusion:
        """From labels (1 is unanswerable) and refusals, both ``(n,)``."""
        y = labels.astype(bool)
        return cls(
            int((y & refused).sum()),
            int((y & ~refused).sum()),
            int((~y & ~refused).sum()),
            int((~y & refused).sum()),
        )

    @property
    def recall(self) -> float:
        """Share of the unanswerable that is refused; NaN where there is none."""
        return _share(self.tp, self.tp + self.fn)

    @property
    def specificity(self) -> float:
        """Share of the answerable that is answered; NaN where there is none."""
        return _share(self.tn, self.tn + self.fp)

    @property
    def precision(self) -> float:
        """Share of the refusals that were right; NaN where nothing was refused."""
        return _share(self.tp, self.tp + self.fp)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; NaN where nothing is unanswerable."""
        if self.tp + self.fn == 0:
            return float("nan")
        return 2 * self.tp / (2 * self.tp + self.fp + self.fn)

    @property
    def balanced_accuracy(self) -> float:
        """Mean of recall and specificity."""
        return (self.recall + self.specificity) / 2.0

    def summary(self) -> dict[str, float]:
        """All of them by name."""
        return {
            "f1": self.f1,
            "balanced_accuracy": self.balanced_accuracy,
            "recall": self.recall,
            "specificity": self.specificity,
            "precision": self.precision,
        }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def auroc(labels: Labels, scores: Scores) -> float:
    """Area under the ROC curve (Mann-Whitney, ties count half); NaN with one class only."""
    y = labels.astype(bool)
    positive, negative = int(y.sum()), int((~y).sum())
    if positive == 0 or negative == 0:
        return float("nan")
    ranks = _mid_ranks(np.asarray(scores, np.float64))
    return float((ranks[y].sum() - positive * (positive + 1) / 2) / (positive * negative))


def _mid_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = (last - (counts - 1) / 2.0)[inverse]
    return ranks


def roc_curve(labels: Labels, scores: Scores) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """False positive and true positive rates, from (0, 0) to (1, 1)."""
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    y = labels.astype(bool)[order]
    s = np.asarray(scores, np.float64)[order]
    ends = np.append(np.flatnonzero(np.diff(s)), len(s) - 1)
    tpr = np.concatenate([[0.0], np.cumsum(y)[ends] / max(1, y.sum())])
    fpr = np.concatenate([[0.0], np.cumsum(~y)[ends] / max(1, (~y).sum())])
    return fpr, tpr


def risk_coverage(
    labels: Labels, scores: Scores
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coverage (share answered) and risk (share of the answered that was unanswerable).

    Questions are answered from the lowest score on (El-Yaniv and Wiener 2010); equal scores are
    answered together.
    """
    s = np.asarray(scores, np.float64)
    order = np.argsort(s, kind="stable")
    y = labels.astype(np.float64)[order]
    ends = np.append(np.flatnonzero(np.diff(s[order])), len(s) - 1)
    answered = ends + 1.0
    return answered / len(s), np.cumsum(y)[ends] / answered


def aurc(labels: Labels, scores: Scores) -> float:
    """Area under the risk-coverage curve; lower is better; NaN without questions."""
    if len(labels) == 0:
        return float("nan")
    coverage, risk = risk_coverage(labels, scores)
    return float((risk * np.diff(np.concatenate([[0.0], coverage]))).sum())


@dataclass(frozen=True, slots=True)
class PairOutcomes:
    """What became of the pair that each question belongs to.

    Args:
        right: ``(n,)`` 1 where both sides of the question's pair are right, 0 where not, NaN
            where it has no pair with both sides.
        weight: ``(n,)`` one over the questions of its pair, so that each pair weighs the same.
        pairs: how many have both sides.
    """

    right: NDArray[np.float64]
    weight: NDArray[np.float64]
    pairs: int

    def accuracy(self, rows: NDArray[np.int64] | None = None) -> float:
        """Share of pairs right, over rows (repeated as drawn) or all; NaN without pairs."""
        right, weight = self.right, self.weight
        if rows is not None:
            right, weight = right[rows], weight[rows]
        known = np.isfinite(right)
        if not known.any():
            return float("nan")
        return float((right[known] * weight[known]).sum() / weight[known].sum())


def pair_outcomes(
    labels: Labels, refused: NDArray[np.bool_], pairs: Sequence[str | None]
) -> PairOutcomes:
    """Judge pairs: the same question asked of a memory that supports it and of one that does not.

    Accuracy is 0.25 for coin flips, 0 for always refusing and for a gate that reads only the words.
    """
    members: dict[str, list[int]] = {}
    for row, name in enumerate(pairs):
        if name is not None:
            members.setdefault(name, []).append(row)
    right = np.full(len(labels), np.nan)
    weight = np.zeros(len(labels))
    whole = 0
    for rows in members.values():
        if set(labels[rows].tolist()) == {0, 1}:
            whole += 1
            right[rows] = float((labels[rows].astype(bool) == refused[rows]).all())
            weight[rows] = 1.0 / len(rows)
    return PairOutcomes(right, weight, whole)


def pair_accuracy(
    labels: Labels, refused: NDArray[np.bool_], pairs: Sequence[str | None]
) -> tuple[float, int]:
    """Share of pairs with both sides right, and how many pairs there are."""
    outcomes = pair_outcomes(labels, refused, pairs)
    return outcomes.accuracy(), outcomes.pairs


def recall_by(
    categories: Sequence[str | None], labels: Labels, refused: NDArray[np.bool_]
) -> dict[str, dict[str, float]]:
    """For each category of unanswerable questions its recall and count."""
    found: dict[str, list[bool]] = {}
    for category, label, refusal in zip(categories, labels.tolist(), refused.tolist(), strict=True):
        if label == 1:
            found.setdefault(category or "unlabelled", []).append(refusal)
    return {
        name: {"recall": float(np.mean(values)), "count": float(len(values))}
        for name, values in sorted(found.items())
    }


Interval = tuple[float, float]


def bootstrap(
    statistic: Callable[[NDArray[np.int64]], Mapping[str, float]],
    groups: Sequence[str],
    *,
    draws: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """Percentile intervals by drawing whole groups (sequences, pairs) with replacement.

    Args:
        statistic: rows (repeated as drawn) -> named values; NaN values are left out.
        groups: ``(n,)`` the group of each row.
    """
    names = sorted(set(groups))
    rows_of = {name: np.flatnonzero(np.array(groups) == name) for name in names}
    rng = np.random.default_rng(seed)
    values: dict[str, list[float]] = {}
    for _ in range(draws):
        chosen = rng.integers(len(names), size=len(names))
        rows = np.concatenate([rows_of[names[i]] for i in chosen])
        for key, value in statistic(rows).items():
            if np.isfinite(value):
                values.setdefault(key, []).append(float(value))
    tail = (1.0 - confidence) / 2.0
    return {
        key: (float(np.quantile(v, tail)), float(np.quantile(v, 1.0 - tail)))
        for key, v in values.items()
    }


def resampling_groups(sequences: Sequence[str], pairs: Sequence[str | None]) -> list[str]:
    """Groups for :func:`bootstrap`: sequences, joined where a pair spans them.

    With fewer than five such groups, which a bootstrap cannot resample, each pair (or question
    without one) of a sequence is a group of its own; say so beside the interval.
    """
    parent: dict[str, str] = {name: name for name in sequences}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    first: dict[str, str] = {}
    for sequence, pair in zip(sequences, pairs, strict=True):
        if pair is not None:
            other = first.setdefault(pair, sequence)
            parent[root(sequence)] = root(other)
    joined = [root(sequence) for sequence in sequences]
    if len(set(joined)) >= 5:
        return joined
    return [pair or f"single {i}" for i, pair in enumerate(pairs)]
