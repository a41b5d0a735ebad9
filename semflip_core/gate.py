"""The rejection gate: an ensemble of small MLPs that reads a joint embedding.

``Gate.load(path).score(embedding)`` is P(unanswerable) in [0, 1] and all that a pipeline of your
own needs. Numpy only, so that a robot needs no training library. The file is safetensors; its
header says what the gate was made for (DESIGN section 5.6), and nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from semflip_core.decision import Reason
from semflip_core.encoders.contract import Fingerprint
from semflip_core.errors import ConfigError, GateError, GateMismatchError
from semflip_core.plain_text import read_json
from semflip_core.settings import Settings

Tensor = NDArray[np.float32]
HEADER_KEY = "semflip_gate"
FORMAT = 1


class GateHeader(Settings):
    """What a gate file says of itself.

    ``fingerprint`` holds every field of encoder, retriever and recall that changes an embedding.
    ``tau`` is the threshold: a score above it is refused. ``refuse_all`` is set when calibration
    found no threshold that keeps its promise.
    """

    format: int = Field(default=FORMAT, description="Version of this layout.")
    fingerprint: dict[str, str | int | float | bool | None]
    dimension: int = Field(ge=1, description="Length of the embedding.")
    members: int = Field(ge=1, description="MLPs in the ensemble.")
    tau: float = Field(ge=0.0, lt=1.0, allow_inf_nan=False)
    temperature: float = Field(default=1.0, gt=0.0, allow_inf_nan=False)
    refuse_all: bool = False
    distance_limit: float = Field(gt=0.0, allow_inf_nan=False)
    reasons: tuple[Reason, ...] = Field(
        default=(), description="Labels of the reason head, in order."
    )
    untrained_reasons: tuple[Reason, ...] = Field(default=(), description="Reasons it never saw.")
    calibration: str = Field(
        default="", description="What the threshold promises, and on what it rests."
    )
    data_hash: str = ""
    metrics: dict[str, float] = Field(default_factory=dict)
    made_with: dict[str, str] = Field(default_factory=dict, description="Library -> version.")

    @model_validator(mode="after")
    def _known_format(self) -> GateHeader:
        if self.format != FORMAT:
            raise ValueError(f"gate format {self.format}; this semflip reads {FORMAT}")
        return self


class Gate:
    """An ensemble of 3-layer MLPs with a threshold, a distance limit and a reason head.

    Args:
        header: what the gate was made for.
        tensors: float32 arrays, with ``d`` = dimension, ``m`` = members:

            - ``input.mean (d,)``, ``input.scale (d,)``: standardisation ``(x - mean) / scale``;
            - ``layer1.weight (m, d, h1)``, ``layer1.bias (m, h1)``, ``layer2.weight (m, h1, h2)``,
              ``layer2.bias (m, h2)``, ``layer3.weight (m, h2, 2)``, ``layer3.bias (m, 2)``; ReLU
              between; class 1 is unanswerable;
            - ``distance.mean (d,)``, ``distance.basis (r, d)`` orthonormal rows,
              ``distance.variance (r,)``, ``distance.floor (1,)``: the training mean and a shrunk
              covariance (Ledoit and Wolf 2004) as leading directions plus an isotropic rest;
            - optional ``reason1.weight (d, h)``, ``reason1.bias (h,)``, ``reason2.weight (h, c)``,
              ``reason2.bias (c,)``: the reason head on the standardised embedding.

    Raises:
        GateError: a tensor is missing, has the wrong shape or holds a value that is not finite.
    """

    def __init__(self, header: GateHeader, tensors: Mapping[str, Tensor]) -> None:
        self.header = header
        self._t = {name: np.asarray(value, dtype=np.float32) for name, value in tensors.items()}
        self._check_tensors()
        digest = hashlib.sha256(_header_json(header).encode())
        for name in sorted(self._t):
            digest.update(name.encode() + self._t[name].tobytes())
        self.id = digest.hexdigest()[:12]
        probe = self.member_scores(self._t["distance.mean"])
        if not np.isfinite(probe).all():
            raise GateError("gate gives no finite score even at its own training mean")

    def _check_tensors(self) -> None:
        d, m = self.header.dimension, self.header.members
        h1 = self._t["layer1.bias"].shape[-1] if "layer1.bias" in self._t else 0
        h2 = self._t["layer2.bias"].shape[-1] if "layer2.bias" in self._t else 0
        rank = self._t["distance.basis"].shape[0] if "distance.basis" in self._t else 0
        expected: dict[str, tuple[int, ...]] = {
            "input.mean": (d,),
            "input.scale": (d,),
            "layer1.weight": (m, d, h1),
            "layer1.bias": (m, h1),
            "layer2.weight": (m, h1, h2),
            "layer2.bias": (m, h2),
            "layer3.weight": (m, h2, 2),
            "layer3.bias": (m, 2),
            "distance.mean": (d,),
            "distance.basis": (rank, d),
            "distance.variance": (rank,),
            "distance.floor": (1,),
        }
        if self.header.reasons:
            h = self._t["reason1.bias"].shape[-1] if "reason1.bias" in self._t else 0
            classes = len(self.header.reasons)
            expected |= {
                "reason1.weight": (d, h),
                "reason1.bias": (h,),
                "reason2.weight": (h, classes),
                "reason2.bias": (classes,),
            }
        for name, shape in expected.items():
            if name not in self._t:
                raise GateError(f"gate lacks the tensor '{name}'")
            if self._t[name].shape != shape:
                raise GateError(
                    f"gate tensor '{name}' has shape {self._t[name].shape}, not {shape}"
                )
        unknown = sorted(set(self._t) - set(expected))
        if unknown:
            raise GateError(f"gate holds tensors that no gate has: {', '.join(unknown)}")
        for name, value in self._t.items():
            if not np.isfinite(value).all():
                raise GateError(f"gate tensor '{name}' holds NaN or infinity")
        for name in ("input.scale", "distance.variance", "distance.floor"):
            if (self._t[name] <= 0).any():
                raise GateError(f"gate tensor '{name}' must be positive")

    def _rows(self, embedding: NDArray[np.floating]) -> tuple[Tensor, bool]:
        x = np.asarray(embedding, dtype=np.float32)
        single = x.ndim == 1
        x = np.atleast_2d(x)
        if x.ndim != 2 or x.shape[1] != self.header.dimension:
            raise GateError(
                f"embedding has shape {np.shape(embedding)}; this gate reads "
                f"({self.header.dimension},) or (n, {self.header.dimension})"
            )
        return x, single

    def _standardised(self, x: Tensor) -> Tensor:
        scaled: Tensor = (x - self._t["input.mean"]) / self._t["input.scale"]
        return scaled

    def member_scores(self, embedding: NDArray[np.floating]) -> Tensor:
        """P(unanswerable) of each member.

        Args:
            embedding: ``(dim,)`` or ``(n, dim)``.

        Returns:
            ``(members,)`` or ``(n, members)``; NaN where the embedding was not finite.

        Raises:
            GateError: the last dimension is not the gate's.
        """
        x, single = self._rows(embedding)
        with np.errstate(over="ignore", invalid="ignore"):
            h = self._standardised(x)
            h = np.maximum(np.einsum("nd,mdh->mnh", h, self._t["layer1.weight"]) + self._bias(1), 0)
            h = np.maximum(np.matmul(h, self._t["layer2.weight"]) + self._bias(2), 0)
            logits = np.matmul(h, self._t["layer3.weight"]) + self._bias(3)
            gap = (logits[..., 1] - logits[..., 0]) / self.header.temperature
            scores: Tensor = (1.0 / (1.0 + np.exp(-gap.astype(np.float64)))).astype(np.float32).T
        return scores[0] if single else scores

    def _bias(self, layer: int) -> Tensor:
        return self._t[f"layer{layer}.bias"][:, None, :]

    def score(self, embedding: NDArray[np.floating]) -> float | Tensor:
        """P(unanswerable), the mean over the members.

        Args:
            embedding: ``(dim,)`` gives a float, ``(n, dim)`` an array ``(n,)``.
        """
        members = self.member_scores(embedding)
        if members.ndim == 1:
            return float(members.mean(dtype=np.float64))
        mean: Tensor = members.mean(axis=1, dtype=np.float64).astype(np.float32)
        return mean

    def distance(self, embedding: NDArray[np.floating]) -> float | Tensor:
        """Mahalanobis distance from the training mean (Lee et al. 2018), shrunk covariance.

        Args:
            embedding: ``(dim,)`` gives a float, ``(n, dim)`` an array ``(n,)``.
        """
        x, single = self._rows(embedding)
        centred = (x - self._t["distance.mean"]).astype(np.float64)
        along = centred @ self._t["distance.basis"].T.astype(np.float64)
        rest = np.maximum((centred**2).sum(axis=1) - (along**2).sum(axis=1), 0.0)
        squared = (along**2 / self._t["distance.variance"]).sum(axis=1)
        squared = squared + rest / float(self._t["distance.floor"][0])
        values = np.sqrt(squared)
        return float(values[0]) if single else values.astype(np.float32)

    def reason(self, embedding: NDArray[np.floating]) -> Reason | None:
        """The most likely learned reason for ``(dim,)``, or None where no reason was trained."""
        if not self.header.reasons:
            return None
        x, _ = self._rows(embedding)
        h = np.maximum(
            self._standardised(x) @ self._t["reason1.weight"] + self._t["reason1.bias"], 0
        )
        logits = (h @ self._t["reason2.weight"] + self._t["reason2.bias"])[0]
        return self.header.reasons[int(np.argmax(logits))]

    def check_fingerprint(self, running: Fingerprint) -> None:
        """Hold the gate against what is running.

        Raises:
            GateMismatchError: names each field that differs.
        """
        made_for = self.header.fingerprint
        differences = {
            key: (made_for.get(key, "(absent)"), running.get(key, "(absent)"))
            for key in sorted(set(made_for) | set(running))
            if key not in made_for or key not in running or made_for[key] != running[key]
        }
        if differences:
            lines = "; ".join(
                f"{k}: gate {a!r}, running {b!r}" for k, (a, b) in differences.items()
            )
            raise GateMismatchError(
                f"the gate was made for another pipeline ({lines}). Use the gate made for this "
                "encoder and these recall settings, or train one: semflip train",
                differences,
            )

    def tensors(self) -> dict[str, Tensor]:
        """A copy of all tensors, by name."""
        return {name: value.copy() for name, value in self._t.items()}

    def save(self, path: str | Path) -> None:
        """Write the gate; the file appears whole or not at all."""
        from safetensors.numpy import save

        target = Path(path)
        data = save(
            {name: np.ascontiguousarray(value) for name, value in sorted(self._t.items())},
            metadata={HEADER_KEY: _header_json(self.header)},
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(target.name + ".partial")
        partial.write_bytes(data)
        partial.replace(target)

    @classmethod
    def load(cls, path: str | Path) -> Gate:
        """Read and check a gate file.

        Raises:
            GateError: the file is missing, truncated, not a gate, or holds impossible values.
        """
        from safetensors import SafetensorError, safe_open

        file = Path(path)
        if not file.is_file():
            raise GateError(f"{file}: no such gate file; train one with: semflip train")
        try:
            with safe_open(file, framework="numpy") as opened:
                metadata = opened.metadata() or {}
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            raise GateError(f"{file}: not a readable safetensors file: {error}") from error
        if HEADER_KEY not in metadata:
            raise GateError(f"{file}: safetensors, but no semflip gate (no '{HEADER_KEY}' header)")
        try:
            header = GateHeader.model_validate(read_json(metadata[HEADER_KEY]))
        except (ValidationError, ConfigError) as error:
            raise GateError(f"{file}: its header is not a gate's: {error}") from error
        for name, value in tensors.items():
            if value.dtype != np.float32:
                raise GateError(f"{file}: tensor '{name}' is {value.dtype}, not float32")
        try:
            return cls(header, tensors)
        except GateError as error:
            raise GateError(f"{file}: {error}") from error


def _header_json(header: GateHeader) -> str:
    return json.dumps(header.model_dump(mode="json"), sort_keys=True, allow_nan=False)


def valid_threshold(tau: float) -> bool:
    """Whether ``tau`` may be a threshold: finite, at least 0, below 1."""
    return math.isfinite(tau) and 0.0 <= tau < 1.0
