"""The joint embedding of question and memory, for any encoder with one space for both.

Written once against "region vectors and phrase vectors in one space", so that ``mini`` (two spaces:
trained projection and plain ConSE) and CLIP-like models (one space) share it. What the gate sees
makes groundedness visible: for each phrase how far its best regions stand out against reference
regions, whether other things explain those regions better, whether frames around agree, and whether
they have the colour asked for. Of the words it sees only how the question asks, in few dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.contract import JointEmbedding

Array = NDArray[np.float32]

VERSION = 2
#: Two texts more alike than this name the same thing; one does not compete with the other.
SYNONYM = 0.6
TOP_FRAMES = 3
#: Frames stored this close to the best one should show the referent too.
NEIGHBOURS = 2
Z_LIMIT = 12.0
COLOUR_WEIGHT = 1.5
PHRASE_STATISTICS = 13
WEAKEST = (0, 1, 5, 6, 9, 10, 12)
PAIR_STATISTICS = 3
COLOUR_STATISTICS = 6
SHAPE_STATISTICS = 8


@dataclass(frozen=True)
class Space:
    """A space that holds regions and phrases, with what it takes to judge a similarity.

    Args:
        reference: ``(pictures, regions, dim)`` unit vectors of regions of unrelated pictures.
        distractors: ``(d, dim)`` unit vectors of phrases for things one may meet.
    """

    reference: Array
    distractors: Array

    def standard(self, phrases: Array) -> tuple[Array, Array]:
        """Mean and deviation ``(p,)`` of each phrase's similarity to the reference regions."""
        similarity = self.reference.reshape(-1, phrases.shape[1]) @ phrases.T
        return similarity.mean(axis=0), similarity.std(axis=0) + np.float32(1e-3)

    def standard_of_best(self, phrase: Array) -> tuple[float, float]:
        """Mean and deviation of the best similarity in a picture that is about something else."""
        best = (self.reference @ phrase).max(axis=1)
        return float(np.median(best)), float(best.std()) + 1e-2

    @cached_property
    def distractor_standard(self) -> tuple[Array, Array]:
        """:meth:`standard` of the distractors."""
        return self.standard(self.distractors)

    def best_distractors(self, regions: Array) -> Array:
        """``(d,)`` best z-score of each distractor over one picture's regions ``(n, dim)``."""
        mean, deviation = self.distractor_standard
        best: Array = ((regions @ self.distractors.T).max(axis=0) - mean) / deviation
        return best


@dataclass(frozen=True, slots=True)
class FrameView:
    """One frame as the joint embedding needs it.

    Args:
        key: rises with time; frames with neighbouring keys were taken one after the other.
        regions: for each space ``(n, dim)`` unit vectors.
        distractors: for each space ``(d,)`` best z-scores (:meth:`Space.best_distractors`).
        boxes: ``(n, 4)`` x0, y0, x1, y1 in [0, 1].
        colours: ``(n, 11)`` share of each colour term.
    """

    key: int
    regions: Sequence[Array]
    distractors: Sequence[Array]
    boxes: Array
    colours: Array


@dataclass(frozen=True, slots=True)
class PhraseView:
    """One phrase of the question; the first is what it asks for.

    Args:
        full: for each space the ``(dim,)`` unit vector of the phrase with its attributes.
        head: the same for its naked noun.
        rivals: ``(d,)`` True for distractors that mean something else.
        colour: index of the colour asked for, or None.
        attributes: how many other describing words it has.
        noun: False for a verb phrase.
    """

    full: Sequence[Array]
    head: Sequence[Array]
    rivals: NDArray[np.bool_]
    colour: int | None = None
    attributes: int = 0
    noun: bool = True


@dataclass(frozen=True, slots=True)
class _Grounding:
    """How one phrase shows in the frames, in one space.

    z: ``(frames,)`` best z-score; region: ``(frames,)`` which region; statistics: for the gate.
    """

    z: Array
    region: NDArray[np.int64]
    statistics: Array


class JointModel:
    """Makes joint embeddings.

    Args:
        spaces: most trusted first.
        colours: how many colour terms frames carry.
        text_dimensions: length of the wording vector handed to :meth:`embed`.
    """

    def __init__(self, spaces: Sequence[Space], colours: int, text_dimensions: int) -> None:
        self.spaces = tuple(spaces)
        self._colours = colours
        per_space = PHRASE_STATISTICS + len(WEAKEST) + PAIR_STATISTICS
        fixed = 3 + COLOUR_STATISTICS + SHAPE_STATISTICS
        self.dimension = per_space * len(self.spaces) + fixed + text_dimensions

    def embed(
        self, phrases: Sequence[PhraseView], wording: Array, frames: Sequence[FrameView]
    ) -> JointEmbedding:
        """The joint embedding of a question's phrases with frames.

        Args:
            phrases: at least one, the target first.
            wording: ``(text_dimensions,)``: how the question asks.
            frames: at least one, in any order; the result does not depend on their order beyond
                the order of ``relevance``.
        """
        keys = np.array([frame.key for frame in frames])
        grounded = [
            [
                self._ground(phrase, space, number, frames, keys)
                for number, space in enumerate(self.spaces)
            ]
            for phrase in phrases
        ]
        target = grounded[0]
        parts: list[Array] = []
        for number in range(len(self.spaces)):
            statistics = np.stack([spaces[number].statistics for spaces in grounded])
            weakest = statistics.min(axis=0)
            placed = [spaces[number] for spaces in grounded]
            parts += [statistics[0], weakest[list(WEAKEST)], _pairing(placed, frames)]
        mean_z = np.mean([item.z for item in target], axis=0)
        parts.append(np.array([mean_z.max(), _top_mean(mean_z), np.median(mean_z)], np.float32))
        match = self._colour_match(phrases[0], target[0], frames)
        parts.append(self._colour_statistics(phrases[0], target[0], match, mean_z))
        parts.append(self._shape(phrases, mean_z, keys))
        parts.append(np.asarray(wording, np.float32))
        vector = np.concatenate(parts).astype(np.float32)
        support = self._support(grounded, phrases[0], match)
        regions = np.stack(
            [frame.boxes[target[0].region[i]] for i, frame in enumerate(frames)]
        ).astype(np.float32)
        return JointEmbedding(vector, np.exp(support).astype(np.float32), regions)

    def _ground(
        self,
        phrase: PhraseView,
        space: Space,
        number: int,
        frames: Sequence[FrameView],
        keys: NDArray[np.int64],
    ) -> _Grounding:
        queries = np.stack([phrase.full[number], phrase.head[number]])
        mean, deviation = space.standard(queries)
        count = len(frames)
        z = np.empty(count, np.float32)
        z_head = np.empty(count, np.float32)
        region = np.empty(count, np.int64)
        beaten = np.empty(count, np.float32)
        margin = np.empty(count, np.float32)
        local_beaten = np.empty(count, np.float32)
        local_margin = np.empty(count, np.float32)
        cosine = np.empty(count, np.float32)
        rivals = space.distractors[phrase.rivals]
        rival_mean, rival_deviation = (part[phrase.rivals] for part in space.distractor_standard)
        for i, frame in enumerate(frames):
            similarity = frame.regions[number] @ queries.T
            scores = (similarity - mean) / deviation
            # The phrase as a whole decides, the naked noun steadies it.
            mixed = 0.7 * scores[:, 0] + 0.3 * scores[:, 1]
            best = int(np.argmax(mixed + _colour_bonus(phrase, frame)))
            z[i], z_head[i], region[i] = mixed[best], scores[best, 1], best
            cosine[i] = similarity[best, 0]
            others = frame.distractors[number][phrase.rivals].astype(np.float32)
            beaten[i] = (others > mixed[best]).mean()
            margin[i] = mixed[best] - np.sort(others)[-3:].mean()
            here = (rivals @ frame.regions[number][best] - rival_mean) / rival_deviation
            local_beaten[i] = (here > mixed[best]).mean()
            local_margin[i] = mixed[best] - np.sort(here)[-3:].mean()
        z = np.clip(z, -Z_LIMIT, Z_LIMIT)
        usual, spread = space.standard_of_best(queries[0])
        unusual = np.clip((cosine - usual) / spread, -Z_LIMIT, Z_LIMIT)
        top = np.argsort(-z, kind="stable")[:TOP_FRAMES]
        first = int(top[0])
        statistics = np.array(
            [
                z[first],
                z[top].mean(),
                np.median(z),
                _neighbour(z, keys, first),
                z[first] - np.median(z),
                -beaten[top].mean(),
                margin[top].mean(),
                z[first] - z_head[first],
                cosine[top].mean(),
                -local_beaten[top].mean(),
                local_margin[top].mean(),
                unusual.max(),
                unusual[top].mean(),
            ],
            np.float32,
        )
        return _Grounding(z, region, statistics)

    def _colour_match(
        self, phrase: PhraseView, grounding: _Grounding, frames: Sequence[FrameView]
    ) -> Array:
        """``(frames, 2)``: share of the colour at the best region, and its rank there (0 to 1)."""
        if phrase.colour is None:
            return np.zeros((len(frames), 2), np.float32)
        rows = np.stack([frame.colours[grounding.region[i]] for i, frame in enumerate(frames)])
        share = rows[:, phrase.colour]
        lower = (rows < share[:, None]).sum(axis=1) / max(self._colours - 1, 1)
        return np.stack([share, lower], axis=1).astype(np.float32)

    def _colour_statistics(
        self, phrase: PhraseView, grounding: _Grounding, match: Array, mean_z: Array
    ) -> Array:
        if phrase.colour is None:
            return np.zeros(COLOUR_STATISTICS, np.float32)
        top = np.argsort(-mean_z, kind="stable")[:TOP_FRAMES]
        strong = mean_z >= mean_z.max() - 1.0
        return np.array(
            [
                1.0,
                match[top[0], 0],
                match[top, 0].mean(),
                match[top, 1].mean(),
                match[strong, 0].max(),
                match[:, 0].max(),
            ],
            np.float32,
        )

    def _shape(
        self, phrases: Sequence[PhraseView], mean_z: Array, keys: NDArray[np.int64]
    ) -> Array:
        """How many phrases of which kind, and how many separate frames match about as well."""
        strong = keys[mean_z >= mean_z.max() - 0.75]
        separate = 1 + int((np.diff(np.sort(strong)) > NEIGHBOURS).sum())
        first = phrases[0]
        return np.array(
            [
                float(len(phrases)),
                float(not first.noun),
                float(first.colour is not None),
                float(first.attributes),
                float(separate),
                len(strong) / len(keys),
                np.log(len(keys)),
                float(mean_z.std()),
            ],
            np.float32,
        )

    def _support(
        self, grounded: Sequence[Sequence[_Grounding]], target: PhraseView, match: Array
    ) -> Array:
        """``(frames,)`` log of the relevance: the target first, what places it second."""
        z = np.mean([item.z for item in grounded[0]], axis=0)
        for spaces in grounded[1:]:
            z = z + 0.25 * np.minimum(np.mean([item.z for item in spaces], axis=0), z)
        if target.colour is not None:
            z = z + COLOUR_WEIGHT * match[:, 0]
        clipped: Array = np.clip(z, -2 * Z_LIMIT, 2 * Z_LIMIT).astype(np.float32)
        return clipped


def _pairing(placed: Sequence[_Grounding], frames: Sequence[FrameView]) -> Array:
    """How well one frame shows all phrases together, and how close to each other.

    Returns:
        best and mean of the best frames' weakest z-score; the best again, less three times the
        distance (in picture widths) between the target's region and what places it.
    """
    together = np.min([item.z for item in placed], axis=0)
    near = together.copy()
    for i, frame in enumerate(frames):
        middles = [
            (frame.boxes[item.region[i], :2] + frame.boxes[item.region[i], 2:]) / 2
            for item in placed
        ]
        near[i] -= 3.0 * max(float(np.linalg.norm(m - middles[0])) for m in middles)
    return np.array([together.max(), _top_mean(together), near.max()], np.float32)


def _colour_bonus(phrase: PhraseView, frame: FrameView) -> Array | float:
    """What the colour asked for adds to each region's claim to be the referent, as a z-score."""
    if phrase.colour is None:
        return 0.0
    bonus: Array = np.float32(COLOUR_WEIGHT) * frame.colours[:, phrase.colour]
    return bonus


def _top_mean(values: Array) -> float:
    return float(np.sort(values)[-TOP_FRAMES:].mean())


def _neighbour(z: Array, keys: NDArray[np.int64], best: int) -> float:
    """Best z-score among frames taken just before or after the best one; the median without any."""
    near = (np.abs(keys - keys[best]) <= NEIGHBOURS) & (np.arange(len(keys)) != best)
    return float(z[near].max()) if near.any() else float(np.median(z))
