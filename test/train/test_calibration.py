"""Thresholds: the promise of risk control holds, and what cannot be promised is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from semflip_train.calibration import (
    CalibrationError,
    CalibrationSettings,
    balanced_threshold,
    calibrate,
    one_per_source,
    risk_control_threshold,
    samples_needed,
    upper_bound,
)
from semflip_train.features import FeatureTable
from semflip_train.training import train_gate
from support.tables import gaussian_table, small_settings


def test_samples_needed_are_the_published_ones():
    assert samples_needed(0.05, 0.05) == 59
    assert samples_needed(0.01, 0.05) == 299


def test_upper_bound_is_exact():
    # No error in 59: (1 - p)^59 = 0.05.
    assert upper_bound(0, 59, 0.05) == pytest.approx(1 - 0.05 ** (1 / 59))
    assert upper_bound(5, 5, 0.05) == 1.0


def test_too_few_samples_promise_nothing():
    scores = np.linspace(0.5, 0.9, 58)
    assert risk_control_threshold(scores, 0.05, 0.05) is None
    tau = risk_control_threshold(np.linspace(0.5, 0.9, 59), 0.05, 0.05)
    assert tau is not None
    assert 0.49 < tau < 0.5


def test_scores_of_zero_leave_no_threshold():
    assert risk_control_threshold(np.zeros(500), 0.05, 0.05) is None


@pytest.mark.parametrize(("alpha", "count"), [(0.05, 100), (0.1, 60), (0.2, 45)])
def test_the_promise_is_broken_in_at_most_delta_of_draws(alpha, count):
    delta, draws = 0.1, 2000
    rng = np.random.default_rng([int(alpha * 100), count])
    broken = 0
    for _ in range(draws):
        # Scores of unanswerable questions: Beta(3, 1), so P(score <= t) = t^3.
        tau = risk_control_threshold(rng.random(count) ** (1 / 3), alpha, delta)
        if tau is not None and tau**3 > alpha:
            broken += 1
    noise = 3 * np.sqrt(delta * (1 - delta) / draws)
    assert broken / draws <= delta + noise
    # And it is no empty promise: a threshold twice as strict would be broken far less often.
    assert broken / draws > delta / 10


def test_balanced_threshold_takes_the_middle_of_the_gap():
    labels = np.array([0, 0, 1, 1])
    assert balanced_threshold(labels, np.array([0.1, 0.2, 0.8, 0.9])) == pytest.approx(0.5)
    assert 0.0 <= balanced_threshold(labels, np.array([0.9, 0.8, 0.2, 0.1])) < 1.0


@pytest.fixture(scope="module")
def trained():
    table = gaussian_table(seed=1, sequences=6, sources=20)
    return train_gate(table, small_settings())


def test_calibrated_gate_says_what_it_rests_on(trained):
    table = gaussian_table(seed=2, sequences=2, sources=60, prefix="cal")
    done = calibrate(trained, table, CalibrationSettings(method="balanced_accuracy"))
    assert 0.0 < done.gate.header.tau < 1.0
    assert "cal_0, cal_1" in done.gate.header.calibration
    assert "synthesised distribution" in done.gate.header.calibration
    assert set(done.answered_by_sequence) == {"cal_0", "cal_1"}


def test_risk_control_refuses_everything_where_it_cannot_promise(trained):
    table = gaussian_table(seed=3, sequences=1, sources=30, prefix="cal")
    done = calibrate(trained, table, CalibrationSettings(method="risk_control"))
    assert done.gate.header.refuse_all
    assert "at least 59" in done.gate.header.calibration
    assert "there are 15" in done.gate.header.calibration


def test_risk_control_keeps_its_promise_on_fresh_data(trained):
    table = gaussian_table(seed=4, sequences=2, sources=300, prefix="cal")
    settings = CalibrationSettings(method="risk_control", alpha=0.1)
    gate = calibrate(trained, table, settings).gate
    fresh = gaussian_table(seed=5, sequences=2, sources=400, prefix="new")
    scores = np.asarray(gate.score(fresh.x))
    assert not gate.header.refuse_all
    # 800 fresh questions: three standard errors of a rate of 0.1 are 0.032.
    assert (scores[fresh.y == 1] <= gate.header.tau).mean() <= 0.1 + 0.032
    assert gate.header.tau > 0.1  # it does answer


def test_temperature_is_fitted_on_other_questions_than_the_threshold(trained):
    table = gaussian_table(seed=6, sequences=2, sources=60, prefix="cal")
    hot = calibrate(trained, table, CalibrationSettings())
    cold = calibrate(trained, table, CalibrationSettings(fit_temperature=False))
    assert hot.gate.header.temperature != 1.0
    assert cold.gate.header.temperature == 1.0
    assert "60 synthesised" in hot.statement or "120" in hot.statement
    assert "240" in cold.statement


def test_one_class_alone_is_an_error(trained):
    table = gaussian_table(seed=7, sequences=2, sources=20).where(lambda s: s.label == 0)
    with pytest.raises(CalibrationError, match="needs answerable and unanswerable"):
        calibrate(trained, table, CalibrationSettings())


def test_weights_move_the_threshold_as_copies_of_rows_would():
    rng = np.random.default_rng(12)
    labels = rng.integers(0, 2, 60)
    scores = rng.random(60).round(2) * 0.5 + 0.3 * labels
    weights = rng.integers(1, 4, 60)
    copied = balanced_threshold(np.repeat(labels, weights), np.repeat(scores, weights))
    assert balanced_threshold(labels, scores, weights.astype(float)) == pytest.approx(copied)


def test_an_evened_threshold_does_not_move_with_how_often_refusals_name_places(trained):
    table = gaussian_table(seed=10, sequences=2, sources=80, prefix="cal")
    words = ("Where is the cup?", "Where is the cup on the table?")
    named = tuple(
        s.model_copy(update={"question": words[i // 2 % 2]}) for i, s in enumerate(table.samples)
    )
    # Refusals that name places score higher, and come a second time.
    far = np.array([s.label == 1 and "table" in s.question for s in named])
    x = np.where(far[:, None], table.x + 1.5, table.x).astype(np.float32)
    once = replace(table, x=x, samples=named)
    again = replace(
        once,
        x=np.concatenate([x, x[far]]),
        samples=named + tuple(s for s, twice in zip(named, far, strict=True) if twice),
    )
    settings = CalibrationSettings(fit_temperature=False, evened=True)
    taus = [calibrate(trained, t, settings).gate.header.tau for t in (once, again)]
    assert taus[0] == pytest.approx(taus[1])
    with pytest.raises(CalibrationError, match="names what an answerable one names"):
        calibrate(
            trained,
            replace(
                once,
                samples=tuple(s.model_copy(update={"question": words[s.label]}) for s in named),
            ),
            settings,
        )


def test_a_threshold_can_rest_on_some_kinds_of_questions_alone(trained):
    table = gaussian_table(seed=9, sequences=2, sources=80, prefix="cal")
    easy = replace(
        table,
        x=np.where((table.y == 1)[:, None], table.x + 6.0, table.x).astype(np.float32),
        samples=tuple(
            s.model_copy(update={"kind": "qflip", "strategy": "subjective"}) if s.label else s
            for s in table.samples
        ),
    )
    hard = replace(
        table,
        samples=tuple(
            s.model_copy(update={"kind": "qflip", "strategy": "object"}) if s.label else s
            for s in table.samples
        ),
    )
    refusals = easy.where(lambda s: s.label == 1)
    both = replace(
        hard, x=np.concatenate([hard.x, refusals.x]), samples=hard.samples + refusals.samples
    )
    plain = CalibrationSettings(fit_temperature=False)
    some = plain.model_copy(update={"rests_on": ("object",)})
    alone = calibrate(trained, hard, plain).gate.header.tau
    assert calibrate(trained, both, some).gate.header.tau == alone
    assert calibrate(trained, both, plain).gate.header.tau != alone
    assert "among object" in calibrate(trained, both, some).statement
    with pytest.raises(CalibrationError, match="among vflip"):
        calibrate(trained, both, plain.model_copy(update={"rests_on": ("vflip",)}))


def test_each_source_question_counts_once_however_many_samples_it_made():
    single = gaussian_table(seed=8, sequences=2, sources=10)
    rows = np.concatenate([single.x] * 3)
    table = FeatureTable(rows, single.samples * 3, single.fingerprint)
    unanswerable = {s.source for s in table.samples if s.label == 1}
    chosen = one_per_source(table, seed=0)
    assert len(chosen) < int(table.y.sum())
    assert {table.samples[i].source for i in chosen} == unanswerable
    assert len(chosen) == len(unanswerable)
    assert all(table.samples[i].label == 1 for i in chosen)
    assert one_per_source(table, seed=0) == chosen != one_per_source(table, seed=1)
