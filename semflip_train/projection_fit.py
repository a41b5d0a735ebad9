"""Train mini's residual MLPs: rendered regions and the words of what they show, to each other.

InfoNCE in both directions (Radford et al. 2021) with several positives a region (name, synonyms,
look and name), against the whole vocabulary, background phrases and ImageNet's names. Words that
are also true of the object, or nearly the same, are masked. Words move too: text vectors have
"table lamp" and "reading lamp" lie together, which no region could then tell apart. Regions of
real photographs are held to their ConSE vectors, and ImageNet's names to their text vectors, so
that what the classifier knows of the real world survives.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from semflip_core.encoders.mini.text import DIMENSION
from semflip_core.errors import MissingExtraError
from semflip_core.settings import Settings
from semflip_train.projection_scenes import SceneRegions
from semflip_train.projection_vocabulary import Named, room_model

logger = logging.getLogger("semflip")

Array = NDArray[np.float32]
Mask = NDArray[np.bool_]


#: Objects of a region whose words are not held against it.
OTHERS = 6
#: The last regions of each picture, of the largest ones: the whole, the lower ones and some of the
#: middle. They tell which room it is.
OVERVIEWS = 13
#: Regions of a model in an epoch; the same model over and over teaches little.
REGIONS_A_MODEL = 100
#: Every so manieth ImageNet name competes; all 1000 would take most of the time.
LABEL_STEP = 3


class FitSettings(Settings):
    """How the projection is trained."""

    hidden: int = Field(default=768, ge=8, description="Width of the MLP.")
    epochs: int = Field(default=6, ge=1)
    batch: int = Field(default=512, ge=8)
    learning_rate: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.02, ge=0)
    temperature: float = Field(default=0.06, gt=0)
    dropout: float = Field(default=0.4, ge=0, lt=1)
    residual_penalty: float = Field(default=0.02, ge=0, description="Keeps the MLP's part small.")
    real_weight: float = Field(
        default=1.0, ge=0, description="Weight of staying with ConSE on photographs."
    )
    synonym: float = Field(default=0.6, description="Texts more alike than this do not compete.")
    words_hidden: int = Field(default=256, ge=8, description="Width of the words' MLP.")
    words_dropout: float = Field(default=0.1, ge=0, lt=1)
    words_penalty: float = Field(
        default=0.02, ge=0, description="Keeps the part small that is added to words."
    )
    min_cover: float = Field(
        default=0.25, description="Share of a region that its object must cover."
    )
    empty_cover: float = Field(
        default=0.03, description="A region with less than this shows background."
    )
    seed: int = 0


@dataclass(frozen=True)
class TextBank:
    """Candidate texts, as centred unit vectors.

    Args:
        vectors: ``(t, 384)``.
        positive: ``(models, t)`` texts true of each model.
        masked: ``(models, t)`` texts that are neither true nor false of it.
        background: ``(t,)`` texts that describe empty regions.
        held: ``(t,)`` texts that should stay where they are: ImageNet's names.
    """

    vectors: Array
    positive: Mask
    masked: Mask
    background: Mask
    held: Mask


@dataclass(frozen=True)
class Rows:
    """Training rows.

    Args:
        features: ``(n, 1280)`` float16; conse: ``(n, 384)``.
        model: ``(n,)`` index of the model that the region shows, -1 for background.
        others: ``(n, k)`` indices of models that it also shows a part of, -1 for none.
    """

    features: NDArray[np.float16]
    conse: Array
    model: NDArray[np.int64]
    others: NDArray[np.int64]


def build_bank(
    words: Sequence[Named],
    extra: Sequence[str],
    background: Sequence[str],
    vectors: dict[str, Array],
    labels: Array,
    synonym: float,
) -> TextBank:
    """Names and looks of the models, extra words, background phrases and ImageNet's labels.

    Args:
        vectors: centred unit vector of each text.
        labels: ``(1000, 384)`` centred unit vectors of ImageNet's names.
    """
    texts = sorted({t for w in words for t in (*w.names, w.described)} | set(extra))
    texts += [t for t in background if t not in set(texts)]
    index = {text: number for number, text in enumerate(texts)}
    bank = np.concatenate([np.stack([vectors[t] for t in texts]), labels[::LABEL_STEP]])
    positive = np.zeros((len(words), len(bank)), bool)
    masked = np.zeros_like(positive)
    by_category: dict[str, list[Named]] = {}
    for w in words:
        by_category.setdefault(w.category, []).append(w)
    told, called = _told_texts(words, index, len(bank))
    for row, w in enumerate(words):
        true = [index[t] for t in (*w.names, w.described)]
        positive[row, true] = True
        alike = (bank @ bank[[index[t] for t in w.names]].T).max(axis=1) > synonym
        masked[row] = alike
        masked[row, [index[t] for t in w.words if t in index]] = True
        if w.told:
            might = np.array([bool(names & w.words) for names in called])
            masked[row, told] = might[told]
        for other in by_category[w.category]:
            # The same thing in another colour is the hardest negative there is.
            hard = bool(w.look) and bool(other.look) and other.look != w.look
            masked[row, index[other.described]] = not hard
        masked[row] &= ~positive[row]
    empty = np.zeros(len(bank), bool)
    empty[[index[t] for t in background]] = True
    return TextBank(bank, positive, masked, empty, np.arange(len(bank)) >= len(texts))


def _told_texts(
    words: Sequence[Named], index: dict[str, int], count: int
) -> tuple[Mask, list[set[str]]]:
    """``(count,)`` which texts name only things whose words are told, and the names in each."""
    known = {name.lower() for w in words if w.told for name in w.names}
    called: list[set[str]] = [set() for _ in range(count)]
    for w in words:
        for name in w.names:
            called[index[name]].add(name.lower())
        called[index[w.described]].add(w.names[0].lower())
    return np.array([bool(names) and names <= known for names in called]), called


def build_rows(
    scenes: Sequence[SceneRegions],
    conse: Sequence[Array],
    words: Sequence[Named],
    settings: FitSettings,
) -> Rows:
    """Regions that show one of ``words`` well, and regions that show nothing.

    Then the last regions of each picture once more, named by the room that it is taken in.
    """
    number = {w.model: i for i, w in enumerate(words)}
    parts: list[tuple[Any, ...]] = []
    for scene, vectors in zip(scenes, conse, strict=True):
        known = np.array([number.get(model, -1) for model in scene.models])
        cover, within = scene.cover.astype(np.float32), scene.within.astype(np.float32)
        main = (cover + 0.3 * within * (cover > 0.05)).argmax(axis=1)
        pick = np.arange(len(main))
        good = cover[pick, main] >= settings.min_cover
        good |= (within[pick, main] > 0.6) & (cover[pick, main] > 0.08)
        good &= known[main] >= 0
        empty = cover.max(axis=1) < settings.empty_cover
        model = np.where(good, known[main], -1)
        largest = np.argsort(-cover, axis=1, kind="stable")[:, :OTHERS]
        some = np.take_along_axis(cover, largest, axis=1) > 0.05
        shown = np.full((len(cover), OTHERS), -1)
        shown[:, : largest.shape[1]] = np.where(some, known[largest], -1)
        room = _rooms(scene, number)
        shown = np.column_stack([shown, room])
        keep = good | empty
        parts.append((scene.pooled[keep], vectors[keep], model[keep], shown[keep]))
        over = _overviews(scene) & (room >= 0)
        parts.append((scene.pooled[over], vectors[over], room[over], shown[over]))
    return Rows(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _rooms(scene: SceneRegions, number: Mapping[str, int]) -> NDArray[np.int64]:
    """``(n,)`` which of the words names the room that a region's view is taken in, -1 for none."""
    views = len(scene.visible)
    of_view = [number.get(room_model(kind), -1) for kind in scene.rooms] or [-1] * views
    return np.repeat(np.array(of_view, np.int64), len(scene.pooled) // views)


def _overviews(scene: SceneRegions) -> Mask:
    """``(n,)`` which regions are the last of their picture, see :data:`OVERVIEWS`."""
    count = len(scene.pooled) // len(scene.visible)
    return np.asarray(np.arange(len(scene.pooled)) % count >= count - OVERVIEWS)


def fit(
    rows: Rows, bank: TextBank, real: tuple[Array, Array], settings: FitSettings
) -> dict[str, Array]:
    """Train both MLPs.

    Args:
        real: features ``(n, 1280)`` and ConSE vectors ``(n, 384)`` of regions of photographs.

    Returns:
        ``mlp.*`` and ``words.*`` tensors of
        :class:`~semflip_core.encoders.mini.projection.ProjectionWeights`.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("torch", "train", "training mini's projection") from error
    torch.manual_seed(settings.seed)
    rng = np.random.default_rng(settings.seed)
    both = np.concatenate([rows.features[:: max(1, len(rows.features) // 20000)], real[0]])
    mean = both.mean(axis=0, dtype=np.float64).astype(np.float32)
    scale = both.std(axis=0, dtype=np.float64).astype(np.float32) + np.float32(0.05)
    net = _residual(torch, len(mean), settings.hidden, settings.dropout)
    of_words = _residual(torch, DIMENSION, settings.words_hidden, settings.words_dropout)
    order = _balanced(rows.model, rng)
    steps = settings.epochs * (len(order) // settings.batch)
    optimiser = torch.optim.AdamW(
        [*net.parameters(), *of_words.parameters()],
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, settings.learning_rate, total_steps=max(steps, 2), pct_start=0.1
    )
    meanings, held = torch.from_numpy(bank.vectors), torch.from_numpy(bank.held)
    x_mean, x_scale = torch.from_numpy(mean), torch.from_numpy(scale)
    real_x = (torch.from_numpy(real[0].astype(np.float32)) - x_mean) / x_scale
    real_conse = torch.from_numpy(real[1])
    net.train()
    for epoch in range(settings.epochs):
        running = 0.0
        order = _balanced(rows.model, rng)
        for start in range(0, len(order) - settings.batch + 1, settings.batch):
            chosen = order[start : start + settings.batch]
            x = (torch.from_numpy(rows.features[chosen].astype(np.float32)) - x_mean) / x_scale
            added = of_words(meanings)
            texts = torch.nn.functional.normalize(meanings + added, dim=1)
            loss = _rendered_loss(torch, net(x), rows, bank, chosen, texts, settings)
            loss = loss + settings.words_penalty * (added**2).sum(dim=1).mean()
            loss = loss + (1 - (texts[held] * meanings[held]).sum(dim=1)).mean()
            if settings.real_weight > 0:
                some = torch.from_numpy(rng.integers(0, len(real_x), settings.batch // 3))
                moved = torch.nn.functional.normalize(real_conse[some] + net(real_x[some]), dim=1)
                kept = (moved * real_conse[some]).sum(dim=1)
                loss = loss + settings.real_weight * (1 - kept).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            running += float(loss.detach())
        count = max(1, len(order) // settings.batch)
        logger.info("epoch %d of %d: loss %.3f", epoch + 1, settings.epochs, running / count)
    return {
        "mlp.mean": mean,
        "mlp.scale": scale,
        **_tensors(torch, "mlp", net),
        **_tensors(torch, "words", of_words),
    }


def _residual(torch: Any, width: int, hidden: int, dropout: float) -> Any:
    """An MLP of two layers that starts as zero."""
    first = torch.nn.Linear(width, hidden)
    last = torch.nn.Linear(hidden, DIMENSION)
    torch.nn.init.zeros_(last.weight)
    torch.nn.init.zeros_(last.bias)
    drop = torch.nn.Dropout(dropout)
    return torch.nn.Sequential(drop, first, torch.nn.ReLU(), drop, last)


def _tensors(torch: Any, name: str, network: Any) -> dict[str, Array]:
    """Weights ``(in, out)`` and biases of both layers."""
    layers = [layer for layer in network if isinstance(layer, torch.nn.Linear)]
    found = {}
    for number, layer in enumerate(layers, start=1):
        found[f"{name}.weight{number}"] = layer.weight.detach().numpy().T.copy()
        found[f"{name}.bias{number}"] = layer.bias.detach().numpy().copy()
    return found


def _rendered_loss(
    torch: Any,
    added: Any,
    rows: Rows,
    bank: TextBank,
    chosen: NDArray[np.int64],
    texts: Any,
    settings: FitSettings,
) -> Any:
    """InfoNCE both ways of some rendered rows, and the size of what the network ``added``."""
    conse = torch.from_numpy(rows.conse[chosen])
    vectors = torch.nn.functional.normalize(conse + added, dim=1)
    positive, masked = _targets(rows, bank, chosen)
    logits = vectors @ texts.T / settings.temperature
    loss = _info_nce(torch, logits, positive, masked)
    loss = loss + 0.5 * _reverse(torch, logits, positive, masked)
    return loss + settings.residual_penalty * (added**2).sum(dim=1).mean()


def _balanced(model: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """A shuffled epoch in which no model has over 100 regions, and background a tenth."""
    chosen = []
    for value in np.unique(model[model >= 0]):
        rows = np.flatnonzero(model == value)
        chosen.append(rng.choice(rows, min(len(rows), REGIONS_A_MODEL), replace=False))
    objects = np.concatenate(chosen)
    empty = np.flatnonzero(model < 0)
    count = min(len(empty), len(objects) // 9)
    order = np.concatenate([objects, rng.choice(empty, count, replace=False)])
    return np.asarray(rng.permutation(order))


def _targets(rows: Rows, bank: TextBank, chosen: NDArray[np.int64]) -> tuple[Any, Any]:
    import torch

    model = rows.model[chosen]
    empty = model < 0
    positive = np.where(empty[:, None], bank.background[None, :], bank.positive[model])
    masked = np.where(empty[:, None], False, bank.masked[model])
    for column in rows.others[chosen].T:
        present = column >= 0
        also = bank.positive[column[present]] | bank.masked[column[present]]
        masked[present] |= also
    masked &= ~positive
    return torch.from_numpy(positive), torch.from_numpy(masked)


def _info_nce(torch: Any, logits: Any, positive: Any, masked: Any) -> Any:
    """Region to texts: the true texts against all that are not masked."""
    low = torch.finfo(logits.dtype).min
    allowed = logits.masked_fill(masked, low)
    # Each true text is asked for; the mean keeps rare names from being drowned by usual ones.
    total = torch.logsumexp(allowed.masked_fill(positive, low), dim=1, keepdim=True)
    each = torch.nn.functional.softplus(total - logits)
    return ((each * positive).sum(dim=1) / positive.sum(dim=1)).mean()


def _reverse(torch: Any, logits: Any, positive: Any, masked: Any) -> Any:
    """Text to regions: for each text met in the batch, its regions against all others."""
    met = positive.any(dim=0)
    columns = logits[:, met].T
    true, hidden = positive[:, met].T, masked[:, met].T
    low = torch.finfo(logits.dtype).min
    total = torch.logsumexp(columns.masked_fill(true | hidden, low), dim=1, keepdim=True)
    each = torch.nn.functional.softplus(total - columns)
    return ((each * true).sum(dim=1) / true.sum(dim=1)).mean()
