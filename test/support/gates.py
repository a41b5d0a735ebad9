"""Small gates with known behaviour, built from tensors as the trainer builds them."""

from __future__ import annotations

import numpy as np

from semflip_core.gate import Gate, GateHeader


def linear_tensors(direction: np.ndarray, members: int = 5) -> dict[str, np.ndarray]:
    """Tensors of a gate whose logit gap is ``4 * direction . x``, exactly, through both ReLUs."""
    d = direction.size
    layer1 = np.zeros((members, d, 2), np.float32)
    layer1[:, :, 0], layer1[:, :, 1] = direction, -direction
    layer3 = np.tile(np.array([[-2.0, 2.0], [2.0, -2.0]], np.float32), (members, 1, 1))
    return {
        "input.mean": np.zeros(d, np.float32),
        "input.scale": np.ones(d, np.float32),
        "layer1.weight": layer1,
        "layer1.bias": np.zeros((members, 2), np.float32),
        "layer2.weight": np.tile(np.eye(2, dtype=np.float32), (members, 1, 1)),
        "layer2.bias": np.zeros((members, 2), np.float32),
        "layer3.weight": layer3,
        "layer3.bias": np.zeros((members, 2), np.float32),
        "distance.mean": np.zeros(d, np.float32),
        "distance.basis": np.zeros((0, d), np.float32),
        "distance.variance": np.zeros(0, np.float32),
        "distance.floor": np.ones(1, np.float32),
    }


def linear_gate(direction: np.ndarray, fingerprint: dict | None = None, **header: object) -> Gate:
    """A gate that reads one direction; ``header`` overrides its fields."""
    fields: dict = {
        "fingerprint": fingerprint or {"encoder.name": "test"},
        "dimension": direction.size,
        "members": 5,
        "tau": 0.5,
        "distance_limit": 100.0,
    }
    return Gate(GateHeader(**{**fields, **header}), linear_tensors(direction))
