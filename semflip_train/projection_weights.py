"""Put mini's weights file together: text statistics, labels, residual MLP, reference regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.mini.backbone import WIDTH, Backbone
from semflip_core.encoders.mini.conse import conse_vectors, top_classes, unit
from semflip_core.encoders.mini.imagenet_names import IMAGENET_NAMES
from semflip_core.encoders.mini.phrases import PhraseParser
from semflip_core.encoders.mini.projection import FORMAT, ProjectionWeights
from semflip_core.encoders.mini.text import DIMENSION, TextEncoder
from semflip_train.projection_questions import questions
from semflip_train.projection_scenes import SceneRegions
from semflip_train.projection_vocabulary import Named
from semflip_train.projection_words import BACKGROUND, DISTRACTORS

Array = NDArray[np.float32]

HIDDEN = 384
#: Of the mean variance; keeps the directions of wording from fitting single templates.
RIDGE = 1.0
#: Things of a reference region that are kept, and the share of it that each must cover.
SHOWN, SHOWN_COVER = 3, 0.02
#: Names of a class that its label vector is made of.
NAMES_OF_A_CLASS = 2


def half(x: Array) -> Array:
    """Rounded to what the file will hold."""
    return x.astype(np.float16).astype(np.float32)


def base_tensors(text: TextEncoder, parser: PhraseParser) -> dict[str, Array]:
    """Everything that needs no picture: means, labels, distractors, directions of wording.

    The MLPs are zero, which makes the projection plain ConSE.
    """
    names = [name for names in IMAGENET_NAMES for name in names[:NAMES_OF_A_CLASS]]
    vectors = dict(zip(names, text.bulk_vectors(names), strict=True))
    classes = np.stack(
        [
            unit(np.mean([vectors[n] for n in names[:NAMES_OF_A_CLASS]], axis=0))
            for names in IMAGENET_NAMES
        ]
    )
    things = text.bulk_vectors([*DISTRACTORS, *BACKGROUND])
    # Animals are 40 % of ImageNet's names; the centre must not be theirs alone.
    mean = half((classes.mean(axis=0) + things.mean(axis=0)) / 2)
    asked = questions()
    wording_mean, wording_basis = sounds_like(
        [text.bulk_vectors([parser.parse(q).wording for q in group]) for group in asked.values()]
    )
    return {
        "text.mean": mean,
        "labels": half(unit(classes - mean)),
        "distractors": half(unit(things[: len(DISTRACTORS)] - mean)),
        "wording.mean": wording_mean,
        "wording.basis": wording_basis,
        "mlp.mean": np.zeros(WIDTH, np.float32),
        "mlp.scale": np.ones(WIDTH, np.float32),
        "mlp.weight1": np.zeros((WIDTH, HIDDEN), np.float32),
        "mlp.bias1": np.zeros(HIDDEN, np.float32),
        "mlp.weight2": np.zeros((HIDDEN, DIMENSION), np.float32),
        "mlp.bias2": np.zeros(DIMENSION, np.float32),
        "words.weight1": np.zeros((DIMENSION, HIDDEN), np.float32),
        "words.bias1": np.zeros(HIDDEN, np.float32),
        "words.weight2": np.zeros((HIDDEN, DIMENSION), np.float32),
        "words.bias2": np.zeros(DIMENSION, np.float32),
    }


def sounds_like(groups: Sequence[Array]) -> tuple[Array, Array]:
    """Mean and directions of wordings: ridge regression of their vectors onto what they ask for.

    Far fewer dimensions than the wordings' principal components, and none that tells templates of
    one kind apart: a gate can not mistake a new way to ask for a reason to refuse.

    Args:
        groups: wording vectors of each kind.
    """
    x = np.concatenate(groups)
    kind = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    weight = (1.0 / np.array([len(group) for group in groups]))[kind]
    target = np.eye(len(groups))[kind]
    mean = np.average(x, axis=0, weights=weight)
    centred = x - mean
    gram = (centred * weight[:, None]).T @ centred / len(groups)
    moment = (centred * weight[:, None]).T @ (target - 1.0 / len(groups)) / len(groups)
    ridge = RIDGE * np.trace(gram) / len(gram)
    basis = np.linalg.solve(gram + ridge * np.eye(len(gram)), moment).T
    deviation = (centred @ basis.T).std(axis=0)
    return half(mean.astype(np.float32)), half((basis / deviation[:, None]).astype(np.float32))


def conse_of(pooled: Array, backbone: Backbone, labels: Array) -> Array:
    """ConSE vectors ``(n, 384)`` of averaged features ``(n, 1280)``."""
    logits = pooled @ backbone.class_weight.T + backbone.class_bias
    return conse_vectors(*top_classes(logits), labels)


@dataclass(frozen=True)
class Reference:
    """What similarities are judged against.

    Args:
        pooled: ``(pictures, regions, 1280)`` averaged features of unrelated pictures.
        shown: ``(pictures, regions, 3)`` rows of :func:`reference_names` that the region shows,
            -1 for nothing more; -2 in the first place where nobody knows (photographs).
    """

    pooled: Array
    shown: Array


def complete(
    tensors: Mapping[str, Array],
    reference: Reference,
    backbone: Backbone,
    header: Mapping[str, object],
) -> ProjectionWeights:
    """Add what the spaces are judged by: the reference regions, projected."""
    shape = (*reference.pooled.shape[:2], DIMENSION)
    pooled = reference.pooled.reshape(-1, reference.pooled.shape[2]).astype(np.float32)
    rounded = {name: half(np.asarray(value)) for name, value in tensors.items()}
    conse = conse_of(pooled, backbone, rounded["labels"])
    bare = ProjectionWeights(rounded, {})
    rounded["reference.conse"] = half(conse).reshape(shape)
    rounded["reference.projected"] = half(bare.project(pooled, conse)).reshape(shape)
    rounded["reference.shown"] = reference.shown
    full_header = {"format": FORMAT, "distractor_names": list(DISTRACTORS), **header}
    return ProjectionWeights(rounded, full_header)


def _categories(words: Sequence[Named]) -> dict[str, str]:
    """Usual name of each category, in a stable order."""
    return {w.category: w.names[0] for w in sorted(words, key=lambda w: (w.category, w.model))}


def reference_names(words: Sequence[Named], vectors: Mapping[str, Array]) -> dict[str, Array]:
    """``reference.names``: the usual name of each category as a vector."""
    return {"reference.names": np.stack([vectors[name] for name in _categories(words).values()])}


def sample_rows(groups: Sequence[NDArray[Any]], count: int, seed: int) -> Array:
    """``count`` rows, as evenly as possible from each group."""
    rng = np.random.default_rng(seed)
    each = -(-count // max(len(groups), 1))
    rows = [g[rng.choice(len(g), min(each, len(g)), replace=False)] for g in groups]
    joined = np.concatenate(rows).astype(np.float32)
    return np.asarray(joined[rng.permutation(len(joined))[:count]], np.float32)


def reference_pictures(
    scenes: Sequence[SceneRegions],
    photographs: Sequence[NDArray[Any]],
    words: Sequence[Named],
    size: tuple[int, int],
    seed: int,
) -> Reference:
    """Some regions of some pictures, the whole picture among them, and what they show.

    Args:
        scenes: with masks, none of them trained on.
        photographs: ``(regions, 1280)`` of each.
        size: pictures of the scenes together, and regions of each picture.
    """
    rng = np.random.default_rng(seed)
    pictures, regions = size
    each = -(-pictures // max(len(scenes), 1))
    category = {w.model: w.category for w in words}
    number = {name: i for i, name in enumerate(_categories(words))}
    pooled, shown = [], []
    for scene in scenes:
        views = len(scene.visible)
        count = len(scene.pooled) // views
        known = np.array([number.get(category.get(model, ""), -1) for model in scene.models])
        for view in np.unique(np.linspace(0, views - 1, min(each, views)).round().astype(int)):
            rows = view * count + _some(rng, count, regions)
            cover = scene.cover[rows].astype(np.float32)
            largest = np.argsort(-cover, axis=1, kind="stable")[:, :SHOWN]
            there = np.take_along_axis(cover, largest, axis=1) > SHOWN_COVER
            labels = np.full((regions, SHOWN), -1.0, np.float32)
            labels[:, : largest.shape[1]] = np.where(there, known[largest], -1)
            pooled.append(scene.pooled[rows])
            shown.append(labels)
    for picture in photographs:
        pooled.append(picture[_some(rng, len(picture), regions)])
        shown.append(np.tile(np.array([-2.0, -1.0, -1.0], np.float32), (regions, 1)))
    return Reference(np.stack(pooled).astype(np.float32), np.stack(shown))


def _some(rng: np.random.Generator, count: int, regions: int) -> NDArray[np.int64]:
    """Random regions of a picture, and its last, the whole."""
    return np.append(rng.choice(count - 1, regions - 1, replace=False), count - 1)
