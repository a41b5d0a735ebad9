"""The gate's arithmetic, its file, and everything that a gate may not be."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from pydantic import ValidationError
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from semflip_core.decision import Reason
from semflip_core.errors import GateError, GateMismatchError
from semflip_core.gate import HEADER_KEY, Gate, GateHeader, valid_threshold
from support.gates import linear_gate, linear_tensors

DIRECTION = np.array([1.0, -0.5, 0.25], np.float32)


def random_tensors(rng: np.random.Generator, d: int, m: int, h1: int, h2: int, r: int) -> dict:
    basis = np.linalg.qr(rng.normal(size=(d, r)))[0].T
    shapes = {
        "input.mean": (d,),
        "layer1.weight": (m, d, h1),
        "layer1.bias": (m, h1),
        "layer2.weight": (m, h1, h2),
        "layer2.bias": (m, h2),
        "layer3.weight": (m, h2, 2),
        "layer3.bias": (m, 2),
        "distance.mean": (d,),
    }
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    positive = {"input.scale": d, "distance.variance": r, "distance.floor": 1}
    tensors |= {k: rng.uniform(0.5, 2.0, n).astype(np.float32) for k, n in positive.items()}
    tensors["distance.basis"] = basis.astype(np.float32)
    return tensors


def test_members_equal_a_plain_loop_over_mlps() -> None:
    rng = np.random.default_rng(0)
    d, m = 7, 3
    t = random_tensors(rng, d, m, 5, 4, 2)
    header = GateHeader(
        fingerprint={}, dimension=d, members=m, tau=0.3, temperature=1.7, distance_limit=9.0
    )
    gate = Gate(header, t)
    x = rng.normal(size=(6, d)).astype(np.float32)
    expected = np.empty((6, m))
    for i in range(6):
        z = (x[i] - t["input.mean"]) / t["input.scale"]
        for j in range(m):
            h = np.maximum(z @ t["layer1.weight"][j] + t["layer1.bias"][j], 0)
            h = np.maximum(h @ t["layer2.weight"][j] + t["layer2.bias"][j], 0)
            logits = (h @ t["layer3.weight"][j] + t["layer3.bias"][j]) / 1.7
            expected[i, j] = np.exp(logits[1]) / np.exp(logits).sum()
    np.testing.assert_allclose(gate.member_scores(x), expected, atol=1e-5)
    np.testing.assert_allclose(gate.score(x), expected.mean(1), atol=1e-5)
    assert gate.score(x[0]) == pytest.approx(expected[0].mean(), abs=1e-5)


def test_distance_is_mahalanobis_under_the_low_rank_covariance() -> None:
    rng = np.random.default_rng(1)
    t = random_tensors(rng, 6, 2, 3, 3, 2)
    header = GateHeader(fingerprint={}, dimension=6, members=2, tau=0.3, distance_limit=9.0)
    basis, floor = t["distance.basis"].astype(float), float(t["distance.floor"][0])
    covariance = floor * (np.eye(6) - basis.T @ basis)
    covariance += basis.T @ np.diag(t["distance.variance"]) @ basis
    x = rng.normal(size=6).astype(np.float32)
    centred = x - t["distance.mean"]
    expected = math.sqrt(centred @ np.linalg.inv(covariance) @ centred)
    assert Gate(header, t).distance(x) == pytest.approx(expected, rel=1e-4)


def test_a_saved_gate_comes_back_the_same(tmp_path) -> None:
    gate = linear_gate(DIRECTION, calibration="best balanced accuracy", metrics={"f1": 0.5})
    gate.save(tmp_path / "gate.safetensors")
    loaded = Gate.load(tmp_path / "gate.safetensors")
    assert loaded.header == gate.header
    assert loaded.id == gate.id
    x = np.array([0.3, 0.1, -0.2], np.float32)
    assert loaded.score(x) == gate.score(x)
    assert [p.name for p in tmp_path.iterdir()] == ["gate.safetensors"]


def test_the_header_is_readable_without_this_package(tmp_path) -> None:
    linear_gate(DIRECTION).save(tmp_path / "gate.safetensors")
    with safe_open(tmp_path / "gate.safetensors", framework="numpy") as opened:
        header = json.loads(opened.metadata()[HEADER_KEY])
    assert header["tau"] == 0.5
    assert header["fingerprint"] == {"encoder.name": "test"}


@pytest.mark.parametrize("tau", [-0.1, 1.0, 1.5, math.nan, math.inf])
def test_an_impossible_threshold_is_no_gate(tau: float) -> None:
    with pytest.raises(ValidationError, match="tau"):
        linear_gate(DIRECTION, tau=tau)
    assert not valid_threshold(tau)


@pytest.mark.parametrize("name", ["layer1.weight", "layer3.bias", "distance.mean"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(name: str, value: float) -> None:
    tensors = linear_tensors(DIRECTION)
    tensors[name].flat[0] = value
    with pytest.raises(GateError, match=name.replace(".", r"\.")):
        Gate(linear_gate(DIRECTION).header, tensors)


@pytest.mark.parametrize("name", sorted(linear_tensors(DIRECTION)))
def test_a_missing_or_misshapen_tensor_is_named(name: str) -> None:
    tensors = linear_tensors(DIRECTION)
    del tensors[name]
    with pytest.raises(GateError):
        Gate(linear_gate(DIRECTION).header, tensors)
    tensors = linear_tensors(DIRECTION)
    tensors[name] = np.ones((*tensors[name].shape, 1), np.float32)
    with pytest.raises(GateError):
        Gate(linear_gate(DIRECTION).header, tensors)


def test_files_that_are_no_gate_say_so(tmp_path) -> None:
    with pytest.raises(GateError, match="no such gate file"):
        Gate.load(tmp_path / "nowhere")
    (tmp_path / "pickle").write_bytes(b"\x80\x04\x95" + b"x" * 100)
    with pytest.raises(GateError, match="not a readable safetensors"):
        Gate.load(tmp_path / "pickle")
    save_file({"a": np.ones(3, np.float32)}, tmp_path / "other")
    with pytest.raises(GateError, match=HEADER_KEY):
        Gate.load(tmp_path / "other")
    linear_gate(DIRECTION).save(tmp_path / "gate")
    whole = (tmp_path / "gate").read_bytes()
    for cut in (0, 4, 8, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut").write_bytes(whole[:cut])
        with pytest.raises(GateError):
            Gate.load(tmp_path / "cut")


def test_a_header_that_lies_is_refused(tmp_path) -> None:
    linear_gate(DIRECTION).save(tmp_path / "gate")
    tensors = load_file(tmp_path / "gate")
    good = linear_gate(DIRECTION).header.model_dump(mode="json")
    lies: list[dict] = [
        {"tau": 1.0},
        {"tau": "NaN"},
        {"dimension": 4},
        {"members": 2},
        {"distance_limit": -1.0},
        {"format": 99},
        {"extra": 1},
        {"reasons": ["ABSENT"]},
        {"reasons": ["NONSENSE"]},
    ]
    for lie in lies:
        save_file(tensors, tmp_path / "lie", {HEADER_KEY: json.dumps({**good, **lie})})
        with pytest.raises(GateError):
            Gate.load(tmp_path / "lie")
    save_file(tensors, tmp_path / "lie", {HEADER_KEY: "["})
    with pytest.raises(GateError):
        Gate.load(tmp_path / "lie")


def test_another_dimension_names_both() -> None:
    with pytest.raises(GateError, match=r"\(4,\).*\(3,\)"):
        linear_gate(DIRECTION).score(np.zeros(4, np.float32))


def test_a_mismatch_names_each_field() -> None:
    gate = linear_gate(DIRECTION, {"encoder.name": "mini", "encoder.dtype": "float32", "a": 1})
    with pytest.raises(GateMismatchError, match=r"encoder\.dtype.*float32.*int8") as caught:
        gate.check_fingerprint({"encoder.name": "mini", "encoder.dtype": "int8", "b": 2})
    assert set(caught.value.differences) == {"encoder.dtype", "a", "b"}
    gate.check_fingerprint({"encoder.name": "mini", "encoder.dtype": "float32", "a": 1})


def test_an_embedding_that_is_not_finite_gives_no_number() -> None:
    scores = linear_gate(DIRECTION).member_scores(np.array([np.nan, 0, 0], np.float32))
    assert np.isnan(scores).all()


def test_the_reason_head_reads_the_likeliest_label() -> None:
    tensors = linear_tensors(DIRECTION)
    tensors["reason1.weight"] = np.eye(3, 2, dtype=np.float32)
    tensors["reason1.bias"] = np.zeros(2, np.float32)
    tensors["reason2.weight"] = np.eye(2, dtype=np.float32)
    tensors["reason2.bias"] = np.zeros(2, np.float32)
    fields = linear_gate(DIRECTION).header.model_dump()
    header = GateHeader(**{**fields, "reasons": (Reason.ABSENT, Reason.SUBJECTIVE)})
    gate = Gate(header, tensors)
    assert gate.reason(np.array([2.0, 1.0, 0.0], np.float32)) is Reason.ABSENT
    assert gate.reason(np.array([1.0, 2.0, 0.0], np.float32)) is Reason.SUBJECTIVE
    assert linear_gate(DIRECTION).reason(np.zeros(3, np.float32)) is None
