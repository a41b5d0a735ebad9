"""Rooms that mini judges resemblance by: their most different regions, and what they show.

A phrase's likest region in a place without such a thing depends on the phrase: "bench" resembles
much, "iMac" little. So presence is measured against what the same phrase reaches in rooms known not
to show it. These rooms are neither the projection's nor the gate's training rooms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.mini.encoder import MiniEncoder
from semflip_core.encoders.mini.projection import ProjectionWeights
from semflip_core.settings import KeyframeSettings
from semflip_train.dataset import Dataset, load_dataset
from semflip_train.memories import SequenceFrames, sequence_memory
from semflip_train.stores import BlobStore

Array = NDArray[np.float32]

#: Regions kept of a room, and so many of its regions, drawn at random, they are chosen from.
KEPT, DRAWN = 250, 8000


def add_rooms(
    weights: ProjectionWeights, root: Path, sequences: Sequence[str], folder: Path
) -> ProjectionWeights:
    """The weights with these sequences of a simulated dataset as rooms.

    Args:
        root: written by ``semflip simulate``; ``scenes.json`` tells what each sequence shows.
        folder: where memories are kept.

    Raises:
        DatasetError: no such sequence.
        StoreError: the disk does not take the memories.
    """
    encoder = MiniEncoder()
    dataset = load_dataset(root)
    scenes = json.loads((root / "scenes.json").read_text(encoding="utf-8"))["sequences"]
    there = [sorted({thing["name"] for thing in scenes[s]["objects"]}) for s in sequences]
    names = sorted({name for group in there for name in group})
    shown = np.full((len(there), max(map(len, there))), -1.0, np.float32)
    for row, group in zip(shown, there, strict=True):
        row[: len(group)] = [names.index(name) for name in group]
    rooms = [different(_regions(encoder, dataset, s, folder), KEPT) for s in sequences]
    added: Mapping[str, Array] = {
        "rooms.projected": _half(np.stack(rooms)),
        "rooms.names": _half(encoder.name_vectors(names)),
        "rooms.shown": shown,
    }
    encoder.close()
    header = {**weights.header, "rooms": f"{len(rooms)} simulated places, {KEPT} regions of each"}
    return replace(weights, tensors={**weights.tensors, **added}, header=header)


def _regions(encoder: MiniEncoder, dataset: Dataset, sequence: str, folder: Path) -> Array:
    """``(n, 384)`` regions of all keyframes, some of them where there are many."""
    with (
        sequence_memory(dataset, sequence, KeyframeSettings(), folder) as memory,
        BlobStore(folder / f"derived-{sequence}.sqlite") as derived,
    ):
        frames = SequenceFrames(memory, encoder, derived)
        frames.encode_missing()
        found = np.concatenate([encoder.region_vectors(frames.features(i)) for i in frames.ids])
    rows = np.random.default_rng(0).choice(len(found), min(len(found), DRAWN), replace=False)
    return found[np.sort(rows)]


def different(vectors: Array, count: int) -> Array:
    """The ``count`` most different of unit vectors, by farthest-point sampling (Gonzalez 1985)."""
    chosen = [0]
    distance = 1 - vectors @ vectors[0]
    for _ in range(min(count, len(vectors)) - 1):
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, 1 - vectors @ vectors[chosen[-1]])
    return vectors[chosen]


def _half(x: Array) -> Array:
    """Rounded to what the file will hold."""
    return x.astype(np.float16).astype(np.float32)
