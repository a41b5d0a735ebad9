"""Rooms that mini judges presence by: the regions that words are most drawn to, and their levels.

A phrase's likest region in a place without such a thing depends on the phrase: "bench" resembles
much, "iMac" little. So presence is measured against what the same phrase reaches in rooms known not
to show it. These rooms are neither the projection's nor the gate's training rooms. Kept of each
are the regions that are the likest one for the most words of a vocabulary: some regions resemble
nearly any word ("hubs", Radovanovic et al. 2010), and those are what an absent thing is taken for.
On development rooms (seed 901) 7 rooms of 150 such regions tell absent from present as well for
known things as the most different 250 regions of 5 rooms, and better for new ones; all regions of
the rooms together are worse. What names reach in these and in more such rooms, with and without
the thing, is kept too (:mod:`~semflip_train.projection_levels`). ``docs/benchmark.md`` has the
figures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.joint_space import Rooms, Space
from semflip_core.encoders.mini.coco_names import KINDS, WORDS
from semflip_core.encoders.mini.colours import COLOURS
from semflip_core.encoders.mini.encoder import MiniEncoder
from semflip_core.encoders.mini.imagenet_names import IMAGENET_NAMES
from semflip_core.encoders.mini.projection import SPACES, ProjectionWeights
from semflip_core.settings import KeyframeSettings
from semflip_train.cross_fit import HELD_OUT
from semflip_train.dataset import Dataset, load_dataset
from semflip_train.engines import Engine
from semflip_train.memories import sequence_memory
from semflip_train.projection_levels import Contents, levels, names_in, places_with, reached
from semflip_train.projection_words import BACKGROUND, DISTRACTORS
from semflip_train.simulate_stage import render_datasets
from semflip_train.simulation.settings import SimulationSettings

Array = NDArray[np.float32]

#: Regions kept of a room, and of how many rooms.
KEPT, HUB_ROOMS = 180, 7
#: The rooms.
REFERENCE = SimulationSettings(
    name="reference-places", seed=911, train=24, calibration=0, test=0, corridors=0.3
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
    """The weights of several files, each with rooms and levels from a simulated dataset.

    Names that a projection's header says it was trained without get no level from it.

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
    places = [Contents.of(scenes[s]) for s in sequences]
    weights = [ProjectionWeights.load(file) for file in files]
    made = [_Measured.of(*pair, places) for pair in zip(encoders, weights, strict=True)]
    for number, sequence in enumerate(sequences):
        seen = _frames(encoders, dataset, sequence, folder)
        for one, frames in zip(made, seen, strict=True):
            one.add(frames, hubs=number < HUB_ROOMS)
    there = [sorted({thing["name"] for thing in scenes[s]["objects"]}) for s in sequences]
    result = [one.weights_with(there[:HUB_ROOMS], places) for one in made]
    first.close()
    return result


@dataclass
class _Measured:
    """What one projection makes of the rooms.

    Args:
        asked: ``(w, dim)`` the vocabulary that hubs are found by.
        names: names that get a level; meanings: ``(n, dim)`` and vectors: for each space.
        hubs: ``(KEPT, dim)`` of the first rooms; reached: for each space ``(n,)`` of each room.
    """

    weights: ProjectionWeights
    encoder: MiniEncoder
    asked: Array
    names: list[str]
    meanings: Array
    vectors: tuple[Array, ...]
    hubs: list[Array] = field(default_factory=list)
    reached: tuple[list[Array], ...] = field(default_factory=lambda: tuple([] for _ in SPACES))

    @classmethod
    def of(
        cls, encoder: MiniEncoder, weights: ProjectionWeights, places: Sequence[Contents]
    ) -> _Measured:
        unmet = weights.header.get(HELD_OUT, ())
        names = names_in(places, unmet if isinstance(unmet, list) else ())
        meanings = _half(encoder.meanings(names))
        vectors = (weights.seen(meanings), meanings)
        return cls(weights, encoder, encoder.name_vectors(vocabulary()), names, meanings, vectors)

    def add(self, frames: Sequence[tuple[Array, ...]], hubs: bool) -> None:
        """Take in a room: the regions of each keyframe in each space."""
        if hubs:
            regions = np.concatenate([spaces[0] for spaces in frames])
            self.hubs.append(drawn_to(regions, self.asked, KEPT))
        for number, vectors in enumerate(self.vectors):
            seen = [spaces[number] for spaces in frames]
            self.reached[number].append(reached(seen, vectors))

    def weights_with(
        self, there: Sequence[Sequence[str]], places: Sequence[Contents]
    ) -> ProjectionWeights:
        """The weights with all that was measured.

        Args:
            there: names of what each hub room shows.
        """
        names = sorted({name for group in there for name in group})
        shown = np.full((len(there), max(map(len, there))), -1.0, np.float32)
        for row, group in zip(shown, there, strict=True):
            row[: len(group)] = [names.index(name) for name in group]
        hubs, named = _half(np.stack(self.hubs)), _half(self.encoder.meanings(names))
        rooms = Rooms(hubs, shown.astype(np.int64), named)
        measured = [
            levels(self.names, places, np.stack(there_reached), space, vectors, self.meanings)
            for there_reached, space, vectors in zip(
                self.reached, self._spaces(rooms), self.vectors, strict=True
            )
        ]
        added: Mapping[str, Array] = {
            "rooms.projected": hubs,
            "rooms.names": named,
            "rooms.shown": shown,
            "levels.names": self.meanings,
            "levels.absent": _half(np.stack([absent for absent, _ in measured])),
            "levels.present": _half(np.stack([present for _, present in measured])),
            "levels.places": places_with(self.names, places),
        }
        header = {
            **self.weights.header,
            "rooms": f"{len(hubs)} simulated places, {KEPT} regions of each",
            "levels": f"{len(self.names)} names in {len(places)} simulated places",
        }
        tensors = {**self.weights.tensors, **added}
        return replace(self.weights, tensors=tensors, header=header)

    def _spaces(self, rooms: Rooms) -> tuple[Space, Space]:
        """The two spaces as questions are judged in them, but for the levels."""
        distractors = self.weights["distractors"]
        return (
            Space(self.weights["reference.projected"], self.weights.seen(distractors), rooms=rooms),
            Space(self.weights["reference.conse"], distractors),
        )


def _frames(
    encoders: Sequence[MiniEncoder], dataset: Dataset, sequence: str, folder: Path
) -> list[list[tuple[Array, ...]]]:
    """For each encoder, the regions of each keyframe in each space."""
    rows: list[list[tuple[Array, ...]]] = [[] for _ in encoders]
    with sequence_memory(dataset, sequence, KeyframeSettings(), folder) as memory:
        for record in memory.records():
            made = encoders[0].encode_frame_by(memory.picture(record.id), encoders)
            for kept, encoder, features in zip(rows, encoders, made, strict=True):
                kept.append(encoder.space_vectors(features))
    return rows


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
