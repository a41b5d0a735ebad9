"""Metrics against published counts and against values that can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from semflip_train.metrics import (
    Confusion,
    aurc,
    auroc,
    bootstrap,
    pair_accuracy,
    recall_by,
    resampling_groups,
    risk_coverage,
    roc_curve,
)


@pytest.mark.parametrize(
    ("counts", "f1", "balanced", "recall", "specificity"),
    [
        # AbstainEQA, and SpaceReject C2 (Tool): published counts.
        (Confusion(155, 35, 99, 91), 0.7110, 0.6684, 0.8158, 0.5211),
        (Confusion(130, 5, 107, 28), 0.8874, 0.8778, 0.9630, 0.7926),
        # Semantic Flip, five seeds of 135 + 135 pooled: Q+V, then Q only.
        (Confusion(639, 36, 652, 23), 0.9559, 0.9563, 0.9467, 0.9659),
        (Confusion(632, 43, 651, 24), 0.9497, 0.9504, 0.9363, 0.9644),
    ],
)
def test_published_rows(counts, f1, balanced, recall, specificity):
    assert counts.f1 == pytest.approx(f1, abs=5e-5)
    assert counts.balanced_accuracy == pytest.approx(balanced, abs=5e-5)
    assert counts.recall == pytest.approx(recall, abs=5e-5)
    assert counts.specificity == pytest.approx(specificity, abs=5e-5)


def test_always_refusing_a_balanced_set_has_f1_two_thirds():
    labels = np.array([0, 1] * 50)
    confusion = Confusion.of(labels, np.ones(100, dtype=bool))
    assert confusion.f1 == pytest.approx(2 / 3)
    assert confusion.balanced_accuracy == 0.5


def test_auroc_counts_ties_as_half_and_agrees_with_the_curve():
    labels = np.array([0, 0, 1, 1, 1])
    scores = np.array([0.1, 0.5, 0.5, 0.9, 0.2])
    # Six pairs: 0.5 beats 0.1, ties 0.5; 0.9 beats both; 0.2 beats 0.1, loses to 0.5.
    assert auroc(labels, scores) == pytest.approx((1 + 0.5 + 2 + 1 + 0) / 6)
    fpr, tpr = roc_curve(labels, scores)
    area = float((np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2).sum())
    assert area == pytest.approx(auroc(labels, scores))
    assert np.isnan(auroc(np.zeros(3, int), np.arange(3.0)))


def test_risk_coverage_answers_the_surest_first():
    labels = np.array([0, 1, 0, 1])
    scores = np.array([0.1, 0.9, 0.2, 0.3])
    coverage, risk = risk_coverage(labels, scores)
    assert coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert risk.tolist() == [0.0, 0.0, pytest.approx(1 / 3), 0.5]
    assert aurc(labels, scores) == pytest.approx((0 + 0 + 1 / 3 + 0.5) / 4)


def test_pair_accuracy_is_zero_for_gates_that_cannot_see():
    labels = np.array([0, 1, 0, 1, 0])
    pairs = ["a", "a", "b", "b", None]
    always = np.ones(5, dtype=bool)
    assert pair_accuracy(labels, always, pairs) == (0.0, 2)
    by_words = np.array([True, True, False, False, True])
    assert pair_accuracy(labels, by_words, pairs) == (0.0, 2)
    one_right = np.array([False, True, False, False, True])
    assert pair_accuracy(labels, one_right, pairs) == (0.5, 2)
    coins = np.random.default_rng(0).random(40_000) < 0.5
    many = np.tile([0, 1], 20_000)
    names = [f"p{i // 2}" for i in range(40_000)]
    assert pair_accuracy(many, coins, names)[0] == pytest.approx(0.25, abs=0.02)


def test_pairs_without_both_sides_do_not_count():
    accuracy, count = pair_accuracy(np.array([0, 0]), np.zeros(2, dtype=bool), ["a", "a"])
    assert np.isnan(accuracy)
    assert count == 0


def test_recall_by_category_leaves_answerable_questions_out():
    labels = np.array([1, 1, 1, 0])
    refused = np.array([True, False, True, True])
    assert recall_by(["absent", "absent", None, None], labels, refused) == {
        "absent": {"recall": 0.5, "count": 2.0},
        "unlabelled": {"recall": 1.0, "count": 1.0},
    }


def test_bootstrap_over_groups_is_wider_than_over_questions():
    rng = np.random.default_rng(3)
    group_means = rng.random(8)
    values = np.repeat(group_means, 50)
    groups = [f"g{i // 50}" for i in range(400)]

    def mean(rows):
        return {"mean": float(values[rows].mean()), "broken": float("nan")}

    whole = bootstrap(mean, groups, draws=300)
    single = bootstrap(mean, [str(i) for i in range(400)], draws=300)
    assert "broken" not in whole
    assert whole["mean"][1] - whole["mean"][0] > 3 * (single["mean"][1] - single["mean"][0])
    assert whole["mean"][0] <= values.mean() <= whole["mean"][1]
    assert bootstrap(mean, groups, draws=50) == bootstrap(mean, groups, draws=50)


def test_groups_join_sequences_that_share_a_pair():
    sequences = ["a", "b", "c", "d", "e", "f"]
    groups = resampling_groups(sequences, ["p", "p", None, None, None, None])
    assert groups[0] == groups[1]
    assert len(set(groups)) == 5
    few = resampling_groups(["a", "a", "b"], ["p", None, "p"])
    assert few == ["p", "single 1", "p"]
