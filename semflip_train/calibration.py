"""Calibration: a temperature, then the threshold, on data that neither training nor test saw."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from semflip_core.errors import MissingExtraError, SemflipError
from semflip_core.gate import Gate
from semflip_core.settings import Settings
from semflip_train.evened import even_weights, names
from semflip_train.features import FeatureTable
from semflip_train.synthesis.samples import stable_seed

#: The largest threshold that a gate may have.
BELOW_ONE = 1.0 - 1e-6


class CalibrationError(SemflipError):
    """The gate cannot be calibrated from what is there."""


class CalibrationSettings(Settings):
    """How the threshold is chosen."""

    method: Literal["fixed", "balanced_accuracy", "risk_control"] = "balanced_accuracy"
    tau: float = Field(default=0.5, ge=0.0, lt=1.0, description="Of method fixed.")
    alpha: float = Field(
        default=0.05, gt=0.0, lt=1.0, description="Most unanswerable questions answered."
    )
    delta: float = Field(default=0.05, gt=0.0, lt=1.0, description="Chance that it is more.")
    rests_on: tuple[str, ...] | None = Field(
        default=None,
        description="Q-Flip strategies, and vflip, that best balanced accuracy rests on; None: "
        "all. Those that words alone decide are easy, and would move the threshold up.",
    )
    evened: bool = Field(
        default=False,
        description="Weigh rows so that naming a colour or a place does not tell the answer; of "
        "best balanced accuracy.",
    )
    fit_temperature: bool = True
    temperature_share: float = Field(
        default=0.5, gt=0.0, lt=1.0, description="Source questions used for the temperature alone."
    )
    seed: int = 0


def upper_bound(errors: int, count: int, delta: float) -> float:
    """Exact binomial upper bound of a rate (Clopper and Pearson 1934), confidence 1 - delta."""
    try:
        from scipy.stats import beta  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("scipy", "train", "calibration") from error
    if errors >= count:
        return 1.0
    return float(beta.ppf(1.0 - delta, errors + 1, count - errors))


def samples_needed(alpha: float, delta: float) -> int:
    """Fewest samples that allow any promise: all refused, (1 - alpha)^n <= delta."""
    return math.ceil(math.log(delta) / math.log(1.0 - alpha))


def risk_control_threshold(
    scores: NDArray[np.floating], alpha: float, delta: float
) -> float | None:
    """The largest threshold that keeps its promise, or None if none does.

    The share of unanswerable questions answered rises with the threshold, so that testing from
    zero upwards needs no correction for many tests (fixed-sequence testing; Angelopoulos et al.
    2021): with probability at least 1 - delta over the draw of the scores the share is at most
    alpha at the returned threshold.

    Args:
        scores: ``(n,)`` of unanswerable questions, one for each source question.
    """
    ordered = np.sort(np.asarray(scores, np.float64))
    count = len(ordered)
    allowed = -1
    while allowed + 1 < count and upper_bound(allowed + 1, count, delta) <= alpha:
        allowed += 1
    if allowed < 0:
        return None
    # Thresholds below ordered[allowed] answer at most ``allowed`` of them.
    tau = float(np.nextafter(np.float32(ordered[allowed]), np.float32(0.0)))
    if tau >= ordered[allowed] or tau < 0.0:
        return None
    return min(tau, BELOW_ONE)


def balanced_threshold(
    labels: NDArray[np.integer],
    scores: NDArray[np.floating],
    weights: NDArray[np.floating] | None = None,
) -> float:
    """The threshold of best balanced accuracy; the middle of the widest best range.

    Args:
        weights: ``(n,)`` of the rows; None: all alike.
    """
    ordered = np.unique(np.asarray(scores, np.float64))
    edges = np.concatenate([[0.0], (ordered[1:] + ordered[:-1]) / 2.0, [BELOW_ONE]])
    edges = np.clip(edges, 0.0, BELOW_ONE)
    each = np.ones(len(scores)) if weights is None else np.asarray(weights, np.float64)
    order = np.argsort(scores, kind="stable")
    answered = np.searchsorted(np.asarray(scores, np.float64)[order], edges, side="right")
    shares = []
    for label in (0, 1):
        share = np.where(np.asarray(labels) == label, each, 0.0)[order]
        shares.append(np.append(0.0, share.cumsum())[answered] / share.sum())
    quality = (shares[0] + 1.0 - shares[1]) / 2.0
    best = np.flatnonzero(quality >= np.nanmax(quality) - 1e-12)
    return float(np.median(edges[best]))


def fit_temperature(labels: NDArray[np.integer], gate: Gate, x: NDArray[np.float32]) -> float:
    """The temperature of least negative log-likelihood (Guo et al. 2017), by golden section.

    Classes weigh the same, as in training.
    """
    untempered = Gate(gate.header.model_copy(update={"temperature": 1.0}), gate.tensors())
    members = np.clip(untempered.member_scores(x).astype(np.float64), 1e-7, 1.0 - 1e-7)
    gap = np.log(members) - np.log1p(-members)
    y = labels.astype(bool)
    weight = np.where(y, 0.5 / max(1, y.sum()), 0.5 / max(1, (~y).sum()))

    def loss(log_temperature: float) -> float:
        p = (1.0 / (1.0 + np.exp(-gap / math.exp(log_temperature)))).mean(axis=1)
        p = np.clip(p, 1e-7, 1.0 - 1e-7)
        return float(-(weight * np.where(y, np.log(p), np.log1p(-p))).sum())

    low, high = math.log(0.2), math.log(10.0)
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    for _ in range(60):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        if loss(a) < loss(b):
            high = b
        else:
            low = a
    return math.exp((low + high) / 2.0)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A gate with its threshold, and what the threshold rests on.

    Args:
        answered_by_sequence: of each calibration sequence the share of its unanswerable samples
            that is ``answered``, and their ``count``.
        spread: the same in one phrase.
    """

    gate: Gate
    statement: str
    answered_by_sequence: dict[str, dict[str, float]]
    spread: str


def calibrate(gate: Gate, table: FeatureTable, settings: CalibrationSettings) -> Calibrated:
    """Fit temperature and threshold on calibration rows.

    Raises:
        CalibrationError: a class is missing where the method needs it.
    """
    sources = sorted({s.source for s in table.samples})
    rng = np.random.default_rng(stable_seed(settings.seed, "temperature") % 2**32)
    first = set(
        rng.choice(sources, size=round(settings.temperature_share * len(sources)), replace=False)
        if settings.fit_temperature and len(sources) > 1
        else []
    )
    for_temperature = table.where(lambda s: s.source in first)
    for_threshold = table.where(lambda s: s.source not in first)
    temperature = 1.0
    if len(set(for_temperature.y.tolist())) == 2:
        temperature = fit_temperature(for_temperature.y, gate, for_temperature.x)
    header = gate.header.model_copy(update={"temperature": temperature})
    tempered = Gate(header, gate.tensors())
    scores = np.asarray(tempered.score(for_threshold.x), np.float64)
    tau, refuse_all, statement = _threshold(for_threshold, scores, settings)
    basis = (
        f"{statement} It rests on {len(for_threshold.samples)} synthesised and answerable pairs of "
        f"the sequences {', '.join(sorted(set(for_threshold.sequences.tolist())))}: the "
        "synthesised distribution, not whatever people may ask."
    )
    header = header.model_copy(update={"tau": tau, "refuse_all": refuse_all, "calibration": basis})
    answered = _answered(for_threshold, scores <= tau, refuse_all)
    return Calibrated(Gate(header, gate.tensors()), basis, answered, _spread(answered))


def _answered(
    table: FeatureTable, answered: NDArray[np.bool_], refuse_all: bool
) -> dict[str, dict[str, float]]:
    found = {}
    for name in sorted(set(table.sequences.tolist())):
        rows = (table.sequences == name) & (table.y == 1)
        if rows.any():
            share = 0.0 if refuse_all else float(answered[rows].mean())
            found[name] = {"answered": share, "count": int(rows.sum())}
    return found


def _spread(answered: Mapping[str, Mapping[str, float]]) -> str:
    shares = [values["answered"] for values in answered.values()]
    if not shares:
        return "no unanswerable samples"
    if len(shares) == 1:
        return "one sequence only: nothing can be said of others"
    mean, deviation = float(np.mean(shares)), float(np.std(shares, ddof=1))
    return (
        f"{min(shares):.3f} to {max(shares):.3f}, mean {mean:.3f}, standard deviation "
        f"{deviation:.3f} over {len(shares)} sequences"
    )


def _threshold(
    table: FeatureTable, scores: NDArray[np.float64], settings: CalibrationSettings
) -> tuple[float, bool, str]:
    if settings.method == "fixed":
        return settings.tau, False, f"Threshold fixed at {settings.tau}."
    if settings.method == "balanced_accuracy":
        kinds = settings.rests_on
        counted = np.array(
            [
                kinds is None or sample.label == 0 or (sample.strategy or sample.kind) in kinds
                for sample in table.samples
            ],
            bool,
        )
        labels = table.y[counted]
        among = "" if kinds is None else f" among {', '.join(kinds)}"
        if len(set(labels.tolist())) < 2:
            raise CalibrationError(
                "best balanced accuracy needs answerable and unanswerable calibration pairs" + among
            )
        weights = None
        if settings.evened:
            asked = [s.question for s, kept in zip(table.samples, counted, strict=True) if kept]
            weights = even_weights(asked, labels, names)
            if not weights[labels == 1].any():
                raise CalibrationError(
                    "evened: no unanswerable question here names what an answerable one names"
                )
        tau = balanced_threshold(labels, scores[counted], weights)
        return tau, False, f"Threshold {tau:.4f} of best balanced accuracy{among}."
    chosen = one_per_source(table, settings.seed)
    tau_or_none = risk_control_threshold(scores[chosen], settings.alpha, settings.delta)
    promise = (
        f"at most {settings.alpha:.3g} of unanswerable questions are answered, with confidence "
        f"{1 - settings.delta:.3g}"
    )
    if tau_or_none is None:
        needed = samples_needed(settings.alpha, settings.delta)
        return (
            0.0,
            True,
            f"No threshold promises that {promise}: everything is refused. It needs at least "
            f"{needed} unanswerable source questions without an error; there are {len(chosen)}.",
        )
    return tau_or_none, False, f"Threshold {tau_or_none:.4f}: {promise} (n = {len(chosen)})."


def one_per_source(table: FeatureTable, seed: int) -> list[int]:
    """Row of one unanswerable sample for each source question, drawn by seed."""
    rows: dict[str, list[int]] = {}
    for i, sample in enumerate(table.samples):
        if sample.label == 1:
            rows.setdefault(sample.source, []).append(i)
    return [
        candidates[stable_seed(seed, source) % len(candidates)]
        for source, candidates in sorted(rows.items())
    ]
