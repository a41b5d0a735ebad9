"""From judged questions and methods to numbers: values, intervals, seeds, differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semflip_train.categories import is_one_of
from semflip_train.evaluation import Judged
from semflip_train.methods import Method
from semflip_train.metrics import (
    Confusion,
    PairOutcomes,
    aurc,
    auroc,
    bootstrap,
    pair_outcomes,
    recall_by,
    resampling_groups,
)
from semflip_train.reasons import reason_confusion, reasons_given

Values = dict[str, float]
Rows = NDArray[np.int64]
#: Metrics whose difference to the gate is given with an interval.
COMPARED = ("auroc", "f1", "balanced_accuracy", "pair_accuracy")
NAN = float("nan")


@dataclass(frozen=True)
class Questions:
    """The judged questions of one part of a test, as arrays.

    Args:
        judged: one for each question.
    """

    judged: Sequence[Judged]

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """``(n,)``, 1 is unanswerable."""
        return np.array([item.label for item in self.judged], np.int64)

    @cached_property
    def pairs(self) -> list[str | None]:
        """Pair of each question."""
        return [item.query.pair for item in self.judged]

    @cached_property
    def categories(self) -> list[str | None]:
        """Category of each question."""
        return [item.query.category for item in self.judged]

    @cached_property
    def groups(self) -> list[str]:
        """What the bootstrap draws: sequences joined by pairs, or pairs where those are few."""
        return resampling_groups([item.query.sequence for item in self.judged], self.pairs)

    @cached_property
    def _final(self) -> dict[str, NDArray[np.float64]]:
        judged = self.judged
        evidence = [NAN if j.evidence_right is None else float(j.evidence_right) for j in judged]
        placed = [j.task == "localization" for j in judged]
        refused = [float(j.refused) if p else NAN for j, p in zip(judged, placed, strict=True)]
        unanswerable = self.labels == 1
        return {
            "goal_success": np.array([j.goal_success for j in judged]),
            "evidence_recall": np.array([j.evidence_recalled for j in judged]),
            "evidence_accuracy": np.array(evidence),
            "end_to_end": np.array([j.end_to_end for j in judged]),
            "verdict_recall": np.where(unanswerable, refused, NAN),
            "verdict_specificity": np.where(unanswerable, NAN, 1.0 - np.array(refused, float)),
        }

    def final_values(self, rows: Rows | None = None) -> Values:
        """Metrics of the final verdict, over rows or all; NaN where no label tells."""
        return {
            name: _mean(values if rows is None else values[rows])
            for name, values in self._final.items()
        }

    def where(self, keep: NDArray[np.bool_]) -> tuple[Questions, Rows]:
        """Some of the questions, and their rows here."""
        rows = np.flatnonzero(keep)
        return Questions([self.judged[i] for i in rows.tolist()]), rows


def gate_values(
    labels: NDArray[np.int64],
    scores: NDArray[np.float64],
    refused: NDArray[np.bool_],
    outcomes: PairOutcomes,
    rows: Rows | None = None,
) -> Values:
    """Metrics of a score and its refusals, over rows (repeated as drawn) or all."""
    if rows is not None:
        labels, scores, refused = labels[rows], scores[rows], refused[rows]
    values = Confusion.of(labels, refused).summary()
    values["auroc"] = auroc(labels, scores)
    values["aurc"] = aurc(labels, scores)
    values["pair_accuracy"] = outcomes.accuracy(rows)
    return values


def _mean(values: NDArray[np.float64] | Sequence[float]) -> float:
    kept = np.asarray(values, np.float64)
    kept = kept[np.isfinite(kept)]
    return float(kept.mean()) if len(kept) else NAN


def _spread(values: Sequence[float]) -> float:
    """Sample standard deviation of the finite values; 0 for one, NaN for none."""
    kept = [value for value in values if math.isfinite(value)]
    if len(kept) < 2:
        return 0.0 if kept else NAN
    return float(np.std(kept, ddof=1))


def mean_and_spread(each: Sequence[Mapping[str, float]]) -> dict[str, Values]:
    """Mean and sample standard deviation of each metric over seeds or datasets."""
    names = each[0].keys() if each else ()
    return {
        "mean": {name: _mean([values[name] for values in each]) for name in names},
        "spread": {name: _spread([values[name] for values in each]) for name in names},
    }


def seeds(questions: Questions, method: Method) -> dict[str, Any]:
    """Each seed's member at the method's threshold: values, mean, spread, and the pooled F1.

    ``mean_f1`` averages the seeds' F1; ``pooled_f1`` adds up their counts first. The two differ.
    """
    if method.member_scores is None or method.member_scores.shape[1] == 0:
        return {}
    labels = questions.labels
    each, counts = [], []
    for scores in method.member_scores.T:
        refused = scores > method.threshold
        outcomes = pair_outcomes(labels, refused, questions.pairs)
        each.append(gate_values(labels, scores, refused, outcomes))
        counts.append(Confusion.of(labels, refused))
    pooled = Confusion(
        *(sum(getattr(c, name) for c in counts) for name in ("tp", "fn", "tn", "fp"))
    )
    made = mean_and_spread(each)
    return {"each": each, **made, "mean_f1": made["mean"]["f1"], "pooled_f1": pooled.f1}


def untaught_rows(questions: Questions, method: Method) -> NDArray[np.bool_]:
    """``(n,)``: unanswerable questions of categories that the method's training never showed."""
    return np.array(
        [
            bool(label) and is_one_of(category, method.untaught)
            for label, category in zip(questions.labels.tolist(), questions.categories, strict=True)
        ]
    )


def compare_methods(
    questions: Questions, gate: Method, others: Sequence[Method], *, draws: int, confidence: float
) -> tuple[Values, dict[str, list[float]], dict[str, dict[str, Any]]]:
    """Values and intervals of the gate and of every other method, all from the same draws.

    Returns:
        The gate's values, its intervals, and by name each other method's values with intervals,
        seeds, and the gate's lead over it (value, low, high).
    """
    labels, pairs = questions.labels, questions.pairs
    run = [m for m in (gate, *others) if not m.not_run]
    outcomes = {m.name: pair_outcomes(labels, m.refused, pairs) for m in run}
    untaught = {m.name: untaught_rows(questions, m) for m in run if m.untaught}

    def values_of(method: Method, rows: Rows | None) -> Values:
        name = method.name
        values = gate_values(labels, method.scores, method.refused, outcomes[name], rows)
        if name in untaught:
            chosen = untaught[name] if rows is None else untaught[name][rows]
            refused = method.refused if rows is None else method.refused[rows]
            values["untaught_recall"] = _mean(refused[chosen].astype(np.float64))
        return values

    def everything(rows: Rows | None) -> dict[str, Values]:
        found = {method.name: values_of(method, rows) for method in run}
        found[gate.name] |= questions.final_values(rows)
        return found

    def flat(rows: Rows) -> Mapping[str, float]:
        found = everything(rows)
        mine = found[gate.name]
        drawn = {f"{name}\n{key}": v for name, part in found.items() for key, v in part.items()}
        for method in run[1:]:
            for key in COMPARED:
                drawn[f"{method.name}\nlead {key}"] = mine[key] - found[method.name][key]
        return drawn

    values = everything(None)
    intervals: dict[str, dict[str, list[float]]] = {method.name: {} for method in run}
    if draws:
        for key, ends in bootstrap(
            flat, questions.groups, draws=draws, confidence=confidence
        ).items():
            name, _, metric = key.partition("\n")
            intervals[name][metric] = list(ends)
    rows: dict[str, dict[str, Any]] = {}
    for method in others:
        if method.not_run:
            rows[method.name] = {"not_run": method.not_run}
            continue
        mine, its = values[gate.name], values[method.name]
        leads = {
            key: [mine[key] - its[key], *intervals[method.name].pop(f"lead {key}", ())]
            for key in COMPARED
        }
        rows[method.name] = (
            its
            | _extras(questions, method)
            | {
                "intervals": intervals[method.name],
                "gate_leads_by": leads,
            }
        )
    return values[gate.name], intervals[gate.name], rows


def _extras(questions: Questions, method: Method) -> dict[str, Any]:
    extras: dict[str, Any] = {
        "threshold": method.threshold,
        "per_category": recall_by(questions.categories, questions.labels, method.refused),
    }
    if method.note:
        extras["note"] = method.note
    if method.untaught:
        chosen = untaught_rows(questions, method)
        extras["untaught"] = {"categories": list(method.untaught), "count": int(chosen.sum())}
    if made := seeds(questions, method):
        extras["members"] = made
    return extras


def summarise(
    questions: Questions, gate: Method, others: Sequence[Method], *, draws: int, confidence: float
) -> dict[str, Any]:
    """Everything about one part of the test: the gate's metrics and, in ``controls``, all rows."""
    values, intervals, controls = compare_methods(
        questions, gate, others, draws=draws, confidence=confidence
    )
    labels = questions.labels
    counts = Confusion.of(labels, gate.refused)
    return {
        **values,
        "per_category": recall_by(questions.categories, labels, gate.refused),
        "intervals": intervals,
        "controls": controls,
        "confusion": {"tp": counts.tp, "fn": counts.fn, "tn": counts.tn, "fp": counts.fp},
        "counts": {
            "questions": len(labels),
            "answerable": int((labels == 0).sum()),
            "unanswerable": int((labels == 1).sum()),
            "pairs": pair_outcomes(labels, gate.refused, questions.pairs).pairs,
            "resampled_groups": len(set(questions.groups)),
        },
        "members": seeds(questions, gate),
        "reasons": reasons_given(questions.judged),
        "reason_confusion": reason_confusion(questions.judged),
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
