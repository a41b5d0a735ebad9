"""Baselines on embeddings: each a formula of its own, fitted on training rows only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from semflip_core.gate import Gate
from semflip_train.training import Matrix, Scaling, TrainingSettings, distance_tensors, fit

Scores = NDArray[np.float64]
Labels = NDArray[np.int64]


class Baseline(Protocol):
    """Scores embeddings; higher is more unanswerable."""

    name: str

    def fit(self, x: Matrix, y: Labels) -> None:
        """Learn from training rows ``(n, dim)`` with labels ``(n,)``, 1 is unanswerable."""

    def score(self, x: Matrix) -> Scores:
        """``(n,)`` scores in any unit."""


class Similarity:
    """Minus the best relevance: refuse where nothing resembles what is asked for. Not trained.

    Its rows are ``(n, 1)`` best relevances instead of embeddings.
    """

    name = "similarity threshold"

    def fit(self, x: Matrix, y: Labels) -> None:
        """Nothing to learn."""

    def score(self, x: Matrix) -> Scores:
        """See :class:`Baseline`."""
        return -x[:, 0].astype(np.float64)


class LogisticProbe:
    """Logistic regression with balanced classes on standardised embeddings."""

    name = "logistic probe"

    def __init__(self, c: float = 0.1) -> None:
        self._c = c
        self._model: Any = None
        self._scaling: Scaling | None = None

    def fit(self, x: Matrix, y: Labels) -> None:
        """See :class:`Baseline`."""
        from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

        self._scaling = Scaling.of(x)
        self._model = LogisticRegression(C=self._c, class_weight="balanced", max_iter=2000)
        self._model.fit(self._scaling(x), y)

    def score(self, x: Matrix) -> Scores:
        """P(unanswerable)."""
        if self._scaling is None:
            raise RuntimeError("fit the probe before scoring with it")
        return np.asarray(self._model.predict_proba(self._scaling(x))[:, 1], np.float64)


class Neighbours:
    """Distance to the k-th nearest answerable training row (Sun et al. 2022)."""

    name = "kNN"

    def __init__(self, k: int = 10) -> None:
        self._k = k
        self._scaling: Scaling | None = None
        self._known: Matrix = np.zeros((0, 0), np.float32)

    def _unit(self, x: Matrix) -> Matrix:
        if self._scaling is None:
            raise RuntimeError("fit the neighbours before scoring with them")
        scaled = self._scaling(x)
        norm = np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-9)
        unit: Matrix = scaled / norm
        return unit

    def fit(self, x: Matrix, y: Labels) -> None:
        """Keeps the answerable rows."""
        self._scaling = Scaling.of(x)
        self._known = self._unit(x[y == 0])

    def score(self, x: Matrix) -> Scores:
        """Euclidean distance on the unit sphere."""
        similarity = np.sort(self._unit(x) @ self._known.T, axis=1)[:, ::-1]
        k = min(self._k, similarity.shape[1]) - 1
        return np.sqrt(np.maximum(2.0 - 2.0 * similarity[:, k].astype(np.float64), 0.0))


class Mahalanobis:
    """Distance from the answerable training rows, shrunk covariance (Lee et al. 2018)."""

    name = "Mahalanobis"

    def __init__(self, rank: int = 64) -> None:
        self._rank = rank
        self._t: dict[str, Matrix] = {}

    def fit(self, x: Matrix, y: Labels) -> None:
        """Mean and covariance of the answerable rows."""
        self._t = distance_tensors(x[y == 0], self._rank)

    def score(self, x: Matrix) -> Scores:
        """See :class:`Baseline`."""
        centred = (x - self._t["distance.mean"]).astype(np.float64)
        along = centred @ self._t["distance.basis"].T.astype(np.float64)
        rest = np.maximum((centred**2).sum(axis=1) - (along**2).sum(axis=1), 0.0)
        squared = (along**2 / self._t["distance.variance"]).sum(axis=1)
        return np.asarray(np.sqrt(squared + rest / float(self._t["distance.floor"][0])))


class Energy:
    """Energy of a classifier's logits, ``-log sum exp`` (Liu et al. 2020), mean over members.

    The classifier is the trained gate itself.
    """

    name = "energy"

    def __init__(self, gate: Gate) -> None:
        self._t = gate.tensors()

    def fit(self, x: Matrix, y: Labels) -> None:
        """Nothing to learn: the gate is trained."""

    def score(self, x: Matrix) -> Scores:
        """See :class:`Baseline`."""
        t = self._t
        h = ((x - t["input.mean"]) / t["input.scale"]).astype(np.float64)
        h = np.maximum(
            np.einsum("nd,mdh->mnh", h, t["layer1.weight"]) + t["layer1.bias"][:, None], 0
        )
        h = np.maximum(h @ t["layer2.weight"] + t["layer2.bias"][:, None], 0)
        logits = h @ t["layer3.weight"] + t["layer3.bias"][:, None]
        top = logits.max(axis=-1)
        energy = -(top + np.log(np.exp(logits - top[..., None]).sum(axis=-1)))
        return np.asarray(energy.mean(axis=0), np.float64)


class SmallGate:
    """A gate of the same shape on other rows: question vectors alone (blind), or one frame.

    Trained like the gate, but without early stopping on sequences.

    Args:
        name: what the table calls it.
    """

    def __init__(self, name: str, settings: TrainingSettings) -> None:
        self.name = name
        self._settings = settings
        self._members: list[Callable[[Matrix], Scores]] = []
        self._scaling: Scaling | None = None

    def fit(self, x: Matrix, y: Labels) -> None:
        """Trains one member a seed, each stopped early on a fifth of the rows."""
        scaling = Scaling.of(x)
        self._scaling = scaling
        sizes = (x.shape[1], *self._settings.hidden, 2)
        self._members = []
        for seed in self._settings.seeds:
            validation = np.random.default_rng([seed, 5]).random(len(y)) < 0.2
            layers, _, _ = fit(scaling(x), y, validation, sizes, seed, self._settings)
            self._members.append(_forward(layers))

    def score(self, x: Matrix) -> Scores:
        """P(unanswerable), mean over members."""
        if self._scaling is None:
            raise RuntimeError("fit the gate before scoring with it")
        scaled = self._scaling(x)
        return np.asarray(np.mean([member(scaled) for member in self._members], axis=0))


def _forward(layers: tuple[tuple[Matrix, Matrix], ...]) -> Callable[[Matrix], Scores]:
    def scores(x: Matrix) -> Scores:
        h = x.astype(np.float64)
        for number, (weight, bias) in enumerate(layers):
            h = h @ weight + bias
            if number < len(layers) - 1:
                h = np.maximum(h, 0)
        return np.asarray(1.0 / (1.0 + np.exp(-(h[:, 1] - h[:, 0]))))

    return scores
