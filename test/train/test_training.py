"""Training finds what is there, is the same twice, and keeps sequences whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from semflip_core.decision import Reason
from semflip_core.gate import Gate
from semflip_train.distance import distance_tensors
from semflip_train.evened import even_weights, names_colour
from semflip_train.metrics import auroc
from semflip_train.training import (
    TrainingError,
    TrainingSettings,
    class_weights,
    held_out_sequences,
    noise_shares,
    row_weights,
    train_gate,
)
from support.tables import DIMENSION, FINGERPRINT, gaussian_table, small_settings


@pytest.fixture(scope="module")
def trained():
    return train_gate(gaussian_table(seed=1, sequences=6, sources=40), small_settings())


def test_the_gate_separates_what_can_be_separated(trained):
    fresh = gaussian_table(seed=2, sequences=2, sources=100, prefix="new")
    # Two unit Gaussians two apart: the best possible AUROC is Phi(sqrt 2) = 0.921.
    assert auroc(fresh.y, np.asarray(trained.score(fresh.x))) > 0.88


def test_training_is_the_same_twice_and_seeds_differ(trained):
    table = gaussian_table(seed=1, sequences=6, sources=40)
    again = train_gate(table, small_settings())
    assert again.id == trained.id
    other = train_gate(table, small_settings(seeds=(2, 3)))
    assert other.id != trained.id
    members = trained.member_scores(table.x[:20])
    assert not np.allclose(members[:, 0], members[:, 1])


def test_the_header_says_what_the_gate_was_made_for(trained, tmp_path):
    assert trained.header.fingerprint == FINGERPRINT
    assert trained.header.dimension == DIMENSION
    assert "torch" in trained.header.made_with
    trained.save(tmp_path / "gate.safetensors")
    loaded = Gate.load(tmp_path / "gate.safetensors")
    assert loaded.id == trained.id
    loaded.check_fingerprint(FINGERPRINT)


def test_numpy_and_torch_agree_on_the_score(trained):
    import torch

    x = gaussian_table(seed=3, sequences=1, sources=5).x
    t = {name: torch.from_numpy(value) for name, value in trained.tensors().items()}
    h = (torch.from_numpy(x) - t["input.mean"]) / t["input.scale"]
    for member in range(2):
        z = h
        for layer in (1, 2, 3):
            z = z @ t[f"layer{layer}.weight"][member] + t[f"layer{layer}.bias"][member]
            z = torch.relu(z) if layer < 3 else z
        expected = torch.softmax(z, dim=1)[:, 1].numpy()
        assert trained.member_scores(x)[:, member] == pytest.approx(expected, abs=1e-5)


def test_reasons_are_learned_and_the_others_named(trained):
    fresh = gaussian_table(seed=4, sequences=1, sources=60)
    right = [
        trained.reason(fresh.x[i]) == s.reason for i, s in enumerate(fresh.samples) if s.label == 1
    ]
    assert np.mean(right) > 0.9
    assert set(trained.header.reasons) == {Reason.ABSENT, Reason.SUBJECTIVE}
    assert Reason.NEEDS_ACTION in trained.header.untrained_reasons


def test_what_never_changed_in_training_says_nothing_later():
    table = gaussian_table(seed=1, sequences=4, sources=20)
    same = np.full((len(table.x), 1), np.log(16.0), np.float32)
    gate = train_gate(replace(table, x=np.hstack([table.x, same])), small_settings())
    usual = np.hstack([table.x[:20], same[:20]])
    other = usual.copy()
    other[:, -1] = 0.0
    assert np.asarray(gate.score(other)) == pytest.approx(np.asarray(gate.score(usual)), abs=1e-6)
    assert (np.asarray(gate.distance(other)) > np.asarray(gate.distance(usual))).all()


def test_distance_limit_lets_new_places_in_and_strangers_out(trained):
    fresh = gaussian_table(seed=5, sequences=3, sources=100, prefix="new")
    limit = trained.header.distance_limit
    assert np.mean(np.asarray(trained.distance(fresh.x)) <= limit) > 0.995
    assert trained.distance(np.full(DIMENSION, 30.0, np.float32)) > limit


def test_distance_is_that_of_the_shrunk_covariance():
    from sklearn.covariance import ledoit_wolf

    x = gaussian_table(seed=6, sequences=2, sources=30).x
    table_tensors = distance_tensors(x, DIMENSION)
    covariance, _ = ledoit_wolf(x - x.mean(axis=0), assume_centered=True)
    gate = train_gate(gaussian_table(seed=1, sequences=3, sources=10), small_settings(seeds=(0,)))
    full = Gate(gate.header, gate.tensors() | table_tensors)
    point = x[0] + 1.0
    offset = (point - x.mean(axis=0)).astype(np.float64)
    expected = np.sqrt(offset @ np.linalg.inv(covariance) @ offset)
    assert full.distance(point) == pytest.approx(expected, rel=1e-3)


def test_held_out_sequences_are_whole_and_leave_some_to_train_on():
    names = [f"s{i}" for i in range(10)]
    kept = held_out_sequences(names * 3, seed=0, share=0.2)
    assert len(kept) == 2
    assert held_out_sequences(names, 0, 0.2) == kept
    assert held_out_sequences(["only"], 0, 0.2) == ()
    assert len(held_out_sequences(["a", "b"], 0, 0.9)) == 1


def test_class_weights_balance_the_classes():
    weights = class_weights(np.array([0, 0, 0, 1]), 2)
    assert weights[0] * 3 == pytest.approx(weights[1])
    assert class_weights(np.array([1, 1]), 3).tolist() == [0.0, 1.0, 0.0]


def test_one_class_alone_cannot_be_trained():
    table = gaussian_table(seed=1, sequences=2, sources=5).where(lambda s: s.label == 0)
    with pytest.raises(TrainingError, match="there are 10 and 0"):
        train_gate(table, small_settings())


def test_naming_a_colour_does_not_tell_the_answer() -> None:
    questions = ["the red cup"] * 2 + ["the cup"] * 8 + ["a GREY cup?"] * 30 + ["the mug"] * 10
    y = np.array([0] * 10 + [1] * 40)
    weights = even_weights(questions, y)
    classes = class_weights(y, 2)
    coloured = np.array([names_colour(question) for question in questions])
    assert coloured.sum() == 32
    for named in (True, False):
        by_class = [
            float(weights[(coloured == named) & (y == label)].sum() * classes[label])
            for label in (0, 1)
        ]
        assert by_class[0] == pytest.approx(by_class[1], rel=1e-5)
    only_refused = even_weights(["the cup", "the red cup"], np.array([0, 1]))
    assert only_refused.tolist() == [1.0, 0.0]


def test_important_refusals_weigh_more_and_colours_still_do_not_tell() -> None:
    table = gaussian_table(seed=1, sequences=2, sources=20)
    words = {0: "the cup", 1: "the red cup", 2: "the cup, please"}
    samples = tuple(
        s.model_copy(
            update={
                "question": words[i // 2 % 3],
                "strategy": ("object" if i // 2 % 2 else "subjective") if s.label else "",
            }
        )
        for i, s in enumerate(table.samples)
    )
    table = replace(table, samples=samples)
    settings = TrainingSettings(importance={"object": 3.0})
    weights = row_weights(table, settings)
    coloured = np.array([names_colour(s.question) for s in samples])
    strategy = np.array([s.strategy for s in samples])
    for named in (True, False):
        rows = coloured == named
        refused, answered = weights[rows & (table.y == 1)], weights[rows & (table.y == 0)]
        assert refused.sum() == pytest.approx(answered.sum(), rel=1e-5)
        picked = [weights[rows & (strategy == s)].mean() for s in ("object", "subjective")]
        assert picked[0] == pytest.approx(3.0 * picked[1], rel=1e-5)
    plain = row_weights(table, settings.model_copy(update={"even_colours": False}))
    assert set(plain[strategy == "object"]) == {3.0}
    assert set(plain[strategy != "object"]) == {1.0}


def test_a_group_of_inputs_gets_its_share_of_the_noise() -> None:
    table = gaussian_table(seed=1, sequences=6, sources=40)
    layout = {"picture": slice(0, DIMENSION - 1), "wording": slice(DIMENSION - 1, DIMENSION)}
    table = replace(table, layout=layout)
    settings = small_settings(noise=3.0, group_noise={"wording": 0.25})
    shares = noise_shares(table, settings)
    assert shares.tolist() == [1.0] * (DIMENSION - 1) + [0.25]
    drowned = train_gate(table, small_settings(noise=3.0))
    spared = train_gate(table, small_settings(noise=3.0, group_noise={"picture": 0.0}))
    fresh = gaussian_table(seed=2, sequences=2, sources=100, prefix="new")
    told = [np.ptp(np.asarray(gate.score(fresh.x))) for gate in (drowned, spared)]
    assert told[0] < 0.9 * told[1]  # what is drowned in noise decides less
    with pytest.raises(TrainingError, match="group_noise: no inputs 'words'; known: picture, wor"):
        noise_shares(table, settings.model_copy(update={"group_noise": {"words": 0.5}}))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"importance": {"objects": 3.0}}, "no such flip: objects; known: referential"),
        ({"importance": {"object": -1.0}}, "must be finite and not negative: object"),
        ({"group_noise": {"wording": float("nan")}}, "must be finite and not negative: wording"),
    ],
)
def test_a_weight_that_means_nothing_is_refused(values: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TrainingSettings.model_validate(values)
