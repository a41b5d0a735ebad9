"""Rooms that mini judges resemblance by: the regions that words are most drawn to there.

A phrase's likest region in a place without such a thing depends on the phrase: "bench" resembles
much, "iMac" little. So presence is measured against what the same phrase reaches in rooms known not
to show it. These rooms are neither the projection's nor the gate's training rooms. Kept of each
are the regions that are the likest one for the most words of a vocabulary: some regions resemble
nearly any word ("hubs", Radovanovic et al. 2010), and those are what an absent thing is taken for.
On development rooms (seed 901) 7 rooms of 150 such regions tell absent from present as well for
known things as the most different 250 regions of 5 rooms, and better for new ones; all regions of
the rooms together are worse. ``docs/benchmark.md`` has the figures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.mini.coco_names import KINDS, WORDS
from semflip_core.encoders.mini.colours import COLOURS
from semflip_core.encoders.mini.encoder import MiniEncoder
from semflip_core.encoders.mini.imagenet_names import IMAGENET_NAMES
from semflip_core.encoders.mini.projection import ProjectionWeights
from semflip_core.settings import KeyframeSettings
from semflip_train.dataset import Dataset, load_dataset
from semflip_train.engines import Engine
from semflip_train.memories import sequence_memory
from semflip_train.projection_words import BACKGROUND, DISTRACTORS
from semflip_train.simulate_stage import render_datasets
from semflip_train.simulation.settings import SimulationSettings

Array = NDArray[np.float32]

#: Regions kept of a room.
KEPT = 180
#: The rooms.
REFERENCE = SimulationSettings(
    name="reference-rooms", seed=911, train=7, calibration=0, test=0, corridors=0.3
)
Progress = Callable[[str, int, int], None]


def render_reference(
    folder: Path,
    assets: Path | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Path:
    """The dataset of :data:`REFERENCE`, rendered where it is not there yet; its folder."""
    root = folder / f"{REFERENCE.name}-{REFERENCE.seed}"
    if not (root / "dataset.yaml").is_file():
        render_datasets({root: REFERENCE}, assets, progress, engine)
    return root


def add_rooms(files: Sequence[Path], root: Path, folder: Path) -> list[ProjectionWeights]:
    """The weights of several files, each with the sequences of a simulated dataset as its rooms.

    Args:
        files: projections, with other rooms or without; each picture is looked at once for all.
        root: written by ``semflip simulate``; ``scenes.json`` tells what each sequence shows.
        folder: where memories are kept.

    Raises:
        StoreError: the disk does not take the memories.
    """
    first = MiniEncoder(files[0])
    encoders = [first, *(first.with_weights(file) for file in files[1:])]
    dataset = load_dataset(root)
    sequences = dataset.info.splits["train"]
    scenes = json.loads((root / "scenes.json").read_text(encoding="utf-8"))["sequences"]
    there = [sorted({thing["name"] for thing in scenes[s]["objects"]}) for s in sequences]
    names = sorted({name for group in there for name in group})
    shown = np.full((len(there), max(map(len, there))), -1.0, np.float32)
    for row, group in zip(shown, there, strict=True):
        row[: len(group)] = [names.index(name) for name in group]
    words = [encoder.name_vectors(vocabulary()) for encoder in encoders]
    rooms: list[list[Array]] = [[] for _ in encoders]
    for sequence in sequences:
        seen = _regions(encoders, dataset, sequence, folder)
        for kept, regions, asked in zip(rooms, seen, words, strict=True):
            kept.append(drawn_to(regions, asked, KEPT))
    result = []
    for file, encoder, kept in zip(files, encoders, rooms, strict=True):
        weights = ProjectionWeights.load(file)
        added: Mapping[str, Array] = {
            "rooms.projected": _half(np.stack(kept)),
            "rooms.names": _half(encoder.meanings(names)),
            "rooms.shown": shown,
        }
        header = {
            **weights.header,
            "rooms": f"{len(kept)} simulated places, {KEPT} regions of each",
        }
        result.append(replace(weights, tensors={**weights.tensors, **added}, header=header))
    first.close()
    return result


def _regions(
    encoders: Sequence[MiniEncoder], dataset: Dataset, sequence: str, folder: Path
) -> list[Array]:
    """``(n, 384)`` regions of all keyframes, by each encoder."""
    rows: list[list[Array]] = [[] for _ in encoders]
    with sequence_memory(dataset, sequence, KeyframeSettings(), folder) as memory:
        for record in memory.records():
            made = encoders[0].encode_frame_by(memory.picture(record.id), encoders)
            for kept, encoder, features in zip(rows, encoders, made, strict=True):
                kept.append(encoder.region_vectors(features))
    return [np.concatenate(kept) for kept in rows]


def vocabulary() -> list[str]:
    """Some 4600 words and looks of things; none is taken from the benchmark's table."""
    words = dict.fromkeys([*chain(*IMAGENET_NAMES), *DISTRACTORS, *BACKGROUND, *WORDS, *KINDS])
    return [*words, *(f"{colour} {name}" for colour in COLOURS for name in DISTRACTORS)]


def drawn_to(regions: Array, words: Array, count: int) -> Array:
    """The ``count`` regions that are the likest one for the most words, most first.

    Args:
        regions: ``(n, dim)``; words: ``(w, dim)``; unit vectors.
    """
    likest = (regions @ words.T).argmax(axis=0)
    votes = np.bincount(likest, minlength=len(regions))
    chosen: Array = regions[np.argsort(-votes, kind="stable")[:count]]
    return chosen


def _half(x: Array) -> Array:
    """Rounded to what the file will hold."""
    return x.astype(np.float16).astype(np.float32)
