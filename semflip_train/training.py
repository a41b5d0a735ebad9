"""Training of the gate: an ensemble of 3-layer MLPs, a reason head, a distance limit.

Class-weighted cross-entropy, one member for each seed, early stopping on held-out sequences;
deterministic per seed. Sequences are held out whole, because pictures of one place are alike.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo, field_validator

from semflip_core.decision import LEARNED_REASONS, Reason
from semflip_core.errors import MissingExtraError, SemflipError
from semflip_core.gate import Gate, GateHeader
from semflip_core.settings import Settings
from semflip_train.distance import distance_limit, distance_tensors
from semflip_train.evened import even_weights
from semflip_train.features import FeatureTable
from semflip_train.synthesis.samples import STRATEGIES

logger = logging.getLogger("semflip")
Matrix = NDArray[np.float32]


class TrainingError(SemflipError):
    """The gate cannot be trained from what is there."""


class TrainingSettings(Settings):
    """How the gate is trained."""

    seeds: tuple[int, ...] = Field(default=(0, 1, 2, 3, 4), min_length=1)
    hidden: tuple[int, int] = (64, 32)
    dropout: float = Field(default=0.4, ge=0.0, lt=1.0)
    noise: float = Field(default=0.2, ge=0.0, description="Gaussian noise on standardised inputs.")
    group_noise: Mapping[str, float] = Field(
        default_factory=dict,
        description="Share of the noise that a group of inputs gets; all of it where not named.",
    )
    importance: Mapping[str, float] = Field(
        default_factory=dict,
        description="Weight of refusals by Q-Flip strategy, or `vflip`; 1 where not named.",
    )
    even_colours: bool = Field(
        default=True, description="Weigh rows so that naming a colour does not tell the answer."
    )
    learning_rate: float = Field(default=1e-3, gt=0.0)
    weight_decay: float = Field(default=5e-2, ge=0.0)
    batch: int = Field(default=128, ge=2)
    max_epochs: int = Field(default=200, ge=1)
    patience: int = Field(default=20, ge=1)
    held_out_share: float = Field(
        default=0.2, gt=0.0, lt=1.0, description="Sequences for early stopping, by member."
    )
    distance_quantile: float = Field(
        default=0.999, gt=0.5, le=1.0, description="Of held-out distances."
    )
    distance_slack: float = Field(
        default=1.5, ge=1.0, description="The limit is this times that quantile."
    )
    distance_rank: int = Field(default=64, ge=1)
    reason_hidden: int = Field(default=32, ge=1)

    @field_validator("group_noise", "importance")
    @classmethod
    def _shares(cls, shares: Mapping[str, float], info: ValidationInfo) -> Mapping[str, float]:
        bad = [name for name, share in shares.items() if not 0.0 <= share < float("inf")]
        if bad:
            raise ValueError(f"must be finite and not negative: {', '.join(bad)}")
        known = (*STRATEGIES, "vflip")
        unknown = [name for name in shares if name not in known]
        if info.field_name == "importance" and unknown:
            raise ValueError(f"no such flip: {', '.join(unknown)}; known: {', '.join(known)}")
        return shares


@dataclass(frozen=True, slots=True)
class Member:
    """One trained MLP: weights as ``(in, out)``, and its epoch and held-out loss."""

    weights: tuple[tuple[Matrix, Matrix], ...]
    epoch: int
    loss: float
    held_out: tuple[str, ...]


def held_out_sequences(sequences: Sequence[str], seed: int, share: float) -> tuple[str, ...]:
    """Sequences kept from one member's training; a single sequence keeps none."""
    names = sorted(set(sequences))
    if len(names) < 2:
        return ()
    count = min(len(names) - 1, max(1, round(share * len(names))))
    rng = np.random.default_rng([seed, 77])
    return tuple(sorted(rng.choice(names, size=count, replace=False).tolist()))


def class_weights(y: NDArray[np.int64], classes: int) -> Matrix:
    """``(classes,)`` weights inverse to frequency, mean one over samples; absent classes get 0."""
    counts = np.bincount(y, minlength=classes).astype(np.float64)
    present = counts > 0
    weights = np.zeros(classes)
    weights[present] = len(y) / (present.sum() * counts[present])
    return weights.astype(np.float32)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("torch", "train", "training the gate") from error
    return torch


def _network(sizes: Sequence[int], dropout: float) -> Any:
    torch = _torch()
    layers: list[Any] = []
    for number, (before, after) in enumerate(pairwise(sizes)):
        layers.append(torch.nn.Linear(before, after))
        if number < len(sizes) - 2:
            layers += [torch.nn.ReLU(), torch.nn.Dropout(dropout)]
    return torch.nn.Sequential(*layers)


def fit(
    x: Matrix,
    y: NDArray[np.int64],
    validation: NDArray[np.bool_],
    sizes: Sequence[int],
    seed: int,
    settings: TrainingSettings,
    weights: Matrix | None = None,
    noise_share: Matrix | None = None,
) -> tuple[tuple[tuple[Matrix, Matrix], ...], int, float]:
    """Train one MLP and keep its best epoch on the validation rows.

    Args:
        x: ``(n, dim)`` standardised.
        validation: ``(n,)`` rows kept from training; none trains for a quarter of the epochs.
        sizes: widths from input to output.
        weights: ``(n,)`` weight of each row beside its class's.
        noise_share: ``(dim,)`` share of the noise that each input gets; None gives each all.

    Returns:
        Weights ``(in, out)`` and biases of each layer, the epoch kept, and its loss.
    """
    torch = _torch()
    torch.set_num_threads(1)  # these networks are far too small to be worth more
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    network = _network(sizes, settings.dropout)
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    loss_of = _weighted_loss(
        network, x, y, class_weights(y[~validation], sizes[-1]), weights, noise_share, generator
    )
    train = torch.from_numpy(np.flatnonzero(~validation))
    kept = torch.from_numpy(np.flatnonzero(validation))
    best, best_epoch, best_state = float("inf"), 0, None
    epochs = settings.max_epochs if len(kept) else max(1, settings.max_epochs // 4)
    for epoch in range(1, epochs + 1):
        network.train()
        order = train[torch.randperm(len(train), generator=generator)]
        for start in range(0, len(order), settings.batch):
            index = order[start : start + settings.batch]
            if len(index) < 2:
                continue
            optimiser.zero_grad()
            loss_of(index, settings.noise).backward()
            optimiser.step()
        network.eval()
        with torch.no_grad():
            loss = float(loss_of(kept if len(kept) else train, 0.0))
        if loss < best - 1e-5 or not len(kept):
            best, best_epoch = loss, epoch
            best_state = {k: v.clone() for k, v in network.state_dict().items()}
        elif epoch - best_epoch >= settings.patience:
            break
    if best_state is None:
        raise TrainingError("training diverged: no epoch gave a finite loss")
    network.load_state_dict(best_state)
    return _layers(network), best_epoch, best


def _weighted_loss(
    network: Any,
    x: Matrix,
    y: NDArray[np.int64],
    importance: Matrix,
    weights: Matrix | None,
    noise_share: Matrix | None,
    generator: Any,
) -> Callable[[Any, float], Any]:
    """``loss(rows, shift)``: cross-entropy weighted by class and row, with noise of that scale."""
    torch = _torch()
    by_class = torch.from_numpy(importance)
    rows = torch.from_numpy(np.ones(len(y), np.float32) if weights is None else weights)
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    every = np.ones(x.shape[1], np.float32) if noise_share is None else noise_share
    share_of_noise = torch.from_numpy(every)

    def loss_of(index: Any, shift: float) -> Any:
        batch = inputs[index]
        if shift > 0:
            noise = torch.randn(batch.shape, generator=generator) * share_of_noise
            batch = batch + shift * noise
        each = torch.nn.functional.cross_entropy(
            network(batch), labels[index], weight=by_class, reduction="none"
        )
        share = rows[index]
        return (each * share).sum() / (by_class[labels[index]] * share).sum().clamp_min(1e-9)

    return loss_of


def _layers(network: Any) -> tuple[tuple[Matrix, Matrix], ...]:
    """Weights ``(in, out)`` and biases of the linear layers."""
    return tuple(
        (
            layer.weight.detach().numpy().T.astype(np.float32).copy(),
            layer.bias.detach().numpy().astype(np.float32).copy(),
        )
        for layer in network
        if isinstance(layer, _torch().nn.Linear)
    )


#: A dimension that varies by less than this share of its size is constant but for rounding.
CONSTANT = 1e-4
#: Scale of such a dimension: whatever it does at run time, it stays at nothing. Divided by its
#: rounding instead, a count that was the same in all of training would refuse every other count.
#: The distance limit still sees it.
SILENT = 1e9


@dataclass(frozen=True, slots=True)
class Scaling:
    """``(x - mean) / scale``, both ``(dim,)``."""

    mean: Matrix
    scale: Matrix

    @classmethod
    def of(cls, x: Matrix) -> Scaling:
        """From training rows; a dimension that never changes in them says nothing later."""
        mean, scale = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
        varies = scale > CONSTANT * np.maximum(1.0, np.abs(mean))
        return cls(mean.astype(np.float32), np.where(varies, scale, SILENT).astype(np.float32))

    def __call__(self, x: Matrix) -> Matrix:
        scaled: Matrix = ((x - self.mean) / self.scale).astype(np.float32)
        return scaled


def train_gate(
    table: FeatureTable,
    settings: TrainingSettings,
    progress: Callable[[int, int], None] | None = None,
) -> Gate:
    """Train a gate; its threshold is 0.5 and temperature 1 until it is calibrated.

    Args:
        table: rows of the training split.

    Raises:
        TrainingError: one of the classes is missing.
    """
    y = table.y
    if not (0 < y.sum() < len(y)):
        raise TrainingError(
            f"training needs answerable and unanswerable pairs; there are {len(y) - int(y.sum())} "
            f"and {int(y.sum())}: look at the counts of the synthesis stage"
        )
    scaling = Scaling.of(table.x)
    x = scaling(table.x)
    dimension = x.shape[1]
    sizes = (dimension, *settings.hidden, 2)
    weights = row_weights(table, settings)
    noise_share = noise_shares(table, settings)
    members = []
    for number, seed in enumerate(settings.seeds, start=1):
        held_out = held_out_sequences(table.sequences.tolist(), seed, settings.held_out_share)
        validation = np.isin(table.sequences, held_out)
        layers, epoch, loss = fit(x, y, validation, sizes, seed, settings, weights, noise_share)
        members.append(Member(layers, epoch, loss, held_out))
        logger.info("member %d: epoch %d, held-out loss %.4f", seed, epoch, loss)
        if progress is not None:
            progress(number, len(settings.seeds))
    tensors = _tensors(scaling, members) | distance_tensors(table.x, settings.distance_rank)
    reasons, reason_tensors = train_reasons(x, table, settings)
    header = GateHeader(
        fingerprint=dict(table.fingerprint),
        dimension=dimension,
        members=len(members),
        tau=0.5,
        distance_limit=1.0,
        reasons=reasons,
        untrained_reasons=tuple(r for r in LEARNED_REASONS if r not in reasons),
        calibration="not calibrated: threshold 0.5",
        data_hash=table.data_hash(),
        metrics={f"held_out_loss_{i}": m.loss for i, m in enumerate(members)},
        made_with={name: version(name) for name in ("numpy", "torch", "scikit-learn")},
    )
    gate = Gate(header, tensors | reason_tensors)
    quantile, slack = settings.distance_quantile, settings.distance_slack
    limit = distance_limit(gate, table, settings.distance_rank, quantile, slack)
    return Gate(header.model_copy(update={"distance_limit": limit}), gate.tensors())


def row_weights(table: FeatureTable, settings: TrainingSettings) -> Matrix:
    """``(n,)`` weight of each row beside its class's: its importance, evened by colours."""
    importance = np.array(
        [settings.importance.get(s.strategy or s.kind, 1.0) for s in table.samples], np.float32
    )
    if not settings.even_colours:
        return importance
    questions = [sample.question for sample in table.samples]
    return even_weights(questions, table.y, importance=importance)


def noise_shares(table: FeatureTable, settings: TrainingSettings) -> Matrix:
    """``(dim,)`` share of the noise that each input gets.

    Raises:
        TrainingError: a group is named that the encoder does not have.
    """
    shares = np.ones(table.x.shape[1], np.float32)
    for group, share in settings.group_noise.items():
        if group not in table.layout:
            known = ", ".join(table.layout) or "this encoder names none"
            raise TrainingError(f"training.group_noise: no inputs '{group}'; known: {known}")
        shares[table.layout[group]] = share
    return shares


def _tensors(scaling: Scaling, members: Sequence[Member]) -> dict[str, Matrix]:
    tensors: dict[str, Matrix] = {"input.mean": scaling.mean, "input.scale": scaling.scale}
    for layer in range(3):
        tensors[f"layer{layer + 1}.weight"] = np.stack([m.weights[layer][0] for m in members])
        tensors[f"layer{layer + 1}.bias"] = np.stack([m.weights[layer][1] for m in members])
    return tensors


def train_reasons(
    x: Matrix, table: FeatureTable, settings: TrainingSettings
) -> tuple[tuple[Reason, ...], dict[str, Matrix]]:
    """The reason head on label-1 rows; empty where fewer than two reasons occur."""
    rows = [i for i, s in enumerate(table.samples) if s.reason is not None]
    present = {table.samples[i].reason for i in rows}
    reasons = tuple(r for r in LEARNED_REASONS if r in present)
    if len(reasons) < 2:
        return (), {}
    y = np.array([reasons.index(r) for i in rows if (r := table.samples[i].reason)], np.int64)
    sequences = table.sequences[rows]
    held_out = held_out_sequences(sequences.tolist(), settings.seeds[0], settings.held_out_share)
    validation = np.isin(sequences, held_out)
    missing = set(range(len(reasons))) - set(y[~validation].tolist())
    if missing:
        validation = np.zeros(len(y), dtype=bool)
    sizes = (x.shape[1], settings.reason_hidden, len(reasons))
    noise_share = noise_shares(table, settings)
    layers, _, _ = fit(
        x[rows], y, validation, sizes, settings.seeds[0], settings, noise_share=noise_share
    )
    names = ("reason1", "reason2")
    tensors: dict[str, Matrix] = {}
    for name, (weight, bias) in zip(names, layers, strict=True):
        tensors |= {f"{name}.weight": weight, f"{name}.bias": bias}
    return reasons, tensors
