"""Baselines on embeddings: each a known detector, fitted on training rows only.

Detectors are scikit-learn's and SciPy's where those have them. pytorch-ood has the same three, but
loads torchvision with its first import and inverts a covariance without shrinkage, which fewer rows
than dimensions make singular; scikit-learn is needed for the gate's distance limit anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from semflip_core.errors import MissingExtraError
from semflip_core.gate import Gate
from semflip_train.training import Matrix, Scaling, TrainingSettings, fit, held_out_sequences

Scores = NDArray[np.float64]
Labels = NDArray[np.int64]


class Baseline(Protocol):
    """Scores embeddings; higher is more unanswerable."""

    name: str

    def fit(self, x: Matrix, y: Labels) -> None:
        """Learn from training rows ``(n, dim)`` with labels ``(n,)``, 1 is unanswerable."""

    def score(self, x: Matrix) -> Scores:
        """``(n,)`` scores in any unit."""


def _sklearn(module: str, name: str) -> Any:
    from importlib import import_module

    try:
        return getattr(import_module(f"sklearn.{module}"), name)
    except ImportError as error:
        raise MissingExtraError("sklearn", "train", "the baselines") from error


class Similarity:
    """Minus the best relevance: refuse where nothing resembles what is asked for. Not trained.

    Its rows are ``(n, 1)`` best relevances over the frames instead of embeddings.
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
        self._scaling = Scaling.of(x)
        self._model = _sklearn("linear_model", "LogisticRegression")(
            C=self._c, class_weight="balanced", max_iter=2000
        )
        self._model.fit(self._scaling(x), y)

    def score(self, x: Matrix) -> Scores:
        """P(unanswerable)."""
        return np.asarray(
            self._model.predict_proba(_fitted(self._scaling, self.name)(x))[:, 1], np.float64
        )


def _fitted(scaling: Scaling | None, name: str) -> Scaling:
    if scaling is None:
        raise RuntimeError(f"fit the {name} before scoring with it")
    return scaling


class Neighbours:
    """Distance to the k-th nearest answerable training row on the unit sphere (Sun et al. 2022)."""

    name = "kNN"

    def __init__(self, k: int = 10) -> None:
        self._k = k
        self._scaling: Scaling | None = None
        self._index: Any = None

    def _unit(self, x: Matrix) -> Matrix:
        scaled = _fitted(self._scaling, self.name)(x)
        norm = np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-9)
        unit: Matrix = scaled / norm
        return unit

    def fit(self, x: Matrix, y: Labels) -> None:
        """Keeps the answerable rows."""
        self._scaling = Scaling.of(x)
        known = self._unit(x[y == 0])
        neighbours = min(self._k, len(known))
        self._index = _sklearn("neighbors", "NearestNeighbors")(n_neighbors=neighbours).fit(known)

    def score(self, x: Matrix) -> Scores:
        """Euclidean distance, 0 to 2."""
        distances, _ = self._index.kneighbors(self._unit(x))
        return np.asarray(distances[:, -1], np.float64)


class Mahalanobis:
    """Distance from the answerable training rows (Lee et al. 2018), covariance shrunk as Ledoit
    and Wolf (2004) do."""

    name = "Mahalanobis"

    def __init__(self) -> None:
        self._model: Any = None

    def fit(self, x: Matrix, y: Labels) -> None:
        """Mean and covariance of the answerable rows."""
        self._model = _sklearn("covariance", "LedoitWolf")().fit(x[y == 0].astype(np.float64))

    def score(self, x: Matrix) -> Scores:
        """See :class:`Baseline`."""
        squared = self._model.mahalanobis(x.astype(np.float64))
        return np.sqrt(np.maximum(np.asarray(squared, np.float64), 0.0))


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
        from scipy.special import logsumexp  # type: ignore[import-untyped]

        t = self._t
        h = ((x - t["input.mean"]) / t["input.scale"]).astype(np.float64)
        h = np.maximum(
            np.einsum("nd,mdh->mnh", h, t["layer1.weight"]) + t["layer1.bias"][:, None], 0
        )
        h = np.maximum(h @ t["layer2.weight"] + t["layer2.bias"][:, None], 0)
        logits = h @ t["layer3.weight"] + t["layer3.bias"][:, None]
        return np.asarray(-logsumexp(logits, axis=-1).mean(axis=0), np.float64)


class SmallGate:
    """A gate of the same shape on other rows: question vectors alone (blind), or one frame.

    Trained like the gate: one member a seed, each stopped early on sequences held out whole.

    Args:
        name: what the table calls it.
        sequences: ``(n,)`` of the training rows.
    """

    def __init__(self, name: str, settings: TrainingSettings, sequences: Sequence[str]) -> None:
        self.name = name
        self._settings = settings
        self._sequences = list(sequences)
        self._members: list[Callable[[Matrix], Scores]] = []
        self._scaling: Scaling | None = None

    def fit(self, x: Matrix, y: Labels) -> None:
        """See :class:`Baseline`."""
        scaling = Scaling.of(x)
        self._scaling = scaling
        sizes = (x.shape[1], *self._settings.hidden, 2)
        self._members = []
        for seed in self._settings.seeds:
            held_out = held_out_sequences(self._sequences, seed, self._settings.held_out_share)
            validation = np.isin(self._sequences, held_out)
            layers, _, _ = fit(scaling(x), y, validation, sizes, seed, self._settings)
            self._members.append(_forward(layers))

    @property
    def members(self) -> int:
        """How many seeds."""
        return len(self._settings.seeds)

    def member_scores(self, x: Matrix) -> Scores:
        """``(n, members)`` P(unanswerable) of each seed."""
        scaled = _fitted(self._scaling, self.name)(x)
        return np.stack([member(scaled) for member in self._members], axis=1)

    def score(self, x: Matrix) -> Scores:
        """P(unanswerable), mean over members."""
        return np.asarray(self.member_scores(x).mean(axis=1), np.float64)


def _forward(layers: tuple[tuple[Matrix, Matrix], ...]) -> Callable[[Matrix], Scores]:
    def scores(x: Matrix) -> Scores:
        h = x.astype(np.float64)
        for number, (weight, bias) in enumerate(layers):
            h = h @ weight + bias
            if number < len(layers) - 1:
                h = np.maximum(h, 0)
        return np.asarray(1.0 / (1.0 + np.exp(-(h[:, 1] - h[:, 0]))))

    return scores
