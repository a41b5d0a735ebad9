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

VERSION = 4
#: Two texts more alike than this name the same thing; one does not compete with the other.
SYNONYM = 0.6
#: The best so manieth of all reference regions: what chance resemblance reaches.
CHANCE_SHARE = 0.01
TOP_FRAMES = 3
#: Frames stored this close to the best one should show the referent too.
NEIGHBOURS = 2
Z_LIMIT = 12.0
#: What a region full of the colour asked for adds to its z-score.
COLOUR_WEIGHT = 2.5
#: Share of the first space in a frame's relevance.
FIRST_SPACE = 0.85
PHRASE_STATISTICS = 16
WEAKEST = (0, 1, 5, 6, 9, 10, 12, 13, 14, 15)
PAIR_STATISTICS = 5
#: Picture widths within which one thing stands beside or on another.
NEAR = 0.3
AGREEMENT_STATISTICS = 3
COLOUR_STATISTICS = 6
SHAPE_STATISTICS = 7


@dataclass(frozen=True)
class Space:
    """A space that holds regions and phrases, with what it takes to judge a similarity.

    Args:
        reference: ``(pictures, regions, dim)`` unit vectors of regions of unrelated pictures.
        distractors: ``(d, dim)`` unit vectors of phrases for things one may meet.
        shown: ``(pictures, regions, k)`` which ``names`` each reference region shows; -1 nothing
            more, -2 unknown. Without it nothing is known of them.
        names: ``(n, dim)`` unit vectors of what they show.
    """

    reference: Array
    distractors: Array
    shown: NDArray[np.int64] | None = None
    names: Array | None = None

    def standard(self, phrases: Array) -> tuple[Array, Array]:
        """Mean and deviation ``(p,)`` of each phrase's similarity to the reference regions."""
        similarity = self.reference.reshape(-1, phrases.shape[1]) @ phrases.T
        return similarity.mean(axis=0), similarity.std(axis=0) + np.float32(1e-3)

    def standard_of_best(self, phrase: Array) -> tuple[float, float]:
        """Mean and deviation of the best similarity in a picture that is about something else."""
        best = (self.reference @ phrase).max(axis=1)
        return float(np.median(best)), float(best.std()) + 1e-2

    def chance(self, phrase: Array) -> float:
        """What the likest regions reach that show something else: resemblance, not presence.

        Mean similarity of the likest hundredth of the reference regions. Where it is known what
        they show, only those count that show nothing which the phrase might name.
        """
        similarity = self.reference.reshape(-1, len(phrase)) @ phrase
        if self.shown is not None and self.names is not None:
            shown = self.shown.reshape(len(similarity), -1)
            alike = np.append(self.names @ phrase > SYNONYM, [True, False])  # -2, -1
            similarity = similarity[~alike[shown].any(axis=1)]
        count = max(3, round(CHANCE_SHARE * len(similarity)))
        return float(np.sort(similarity)[-count:].mean()) if len(similarity) else 0.0

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
        colours: ``(n, 11)`` share of each colour term; the last region is the whole picture.
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
        repainted: for each space ``(k, dim)`` vectors of the phrase with other colours in its
            colour's place; empty without a colour.
        attributes: how many other describing words it has.
        noun: False for a verb phrase.
    """

    full: Sequence[Array]
    head: Sequence[Array]
    rivals: NDArray[np.bool_]
    colour: int | None = None
    repainted: Sequence[Array] = ()
    attributes: int = 0
    noun: bool = True


@dataclass(frozen=True, slots=True)
class _Grounding:
    """How one phrase shows in the frames, in one space.

    z: ``(frames,)`` best z-score; unusual: ``(frames,)`` the same against what pictures about
    something else reach; everywhere: the same for each region of each frame; region:
    ``(frames,)`` which region; statistics: for the gate.
    """

    z: Array
    unusual: Array
    everywhere: Sequence[Array]
    region: NDArray[np.int64]
    statistics: Array


class JointModel:
    """Makes joint embeddings.

    Args:
        spaces: most trusted first.
        text_dimensions: length of the wording vector handed to :meth:`embed`.
    """

    def __init__(self, spaces: Sequence[Space], text_dimensions: int) -> None:
        self.spaces = tuple(spaces)
        self.text_dimensions = text_dimensions

    @cached_property
    def layout(self) -> dict[str, slice]:
        """Where each group of features lies in the vector, in order, without gaps.

        For each space (``space0`` is the most trusted) what the target shows (``.target``), the
        weakest phrase (``.weakest``) and target with place (``.pairing``); then ``agreement`` of
        the spaces, ``colour``, ``shape`` (how many phrases and frames) and ``wording``.
        """
        lengths: dict[str, int] = {}
        for number in range(len(self.spaces)):
            lengths[f"space{number}.target"] = PHRASE_STATISTICS
            lengths[f"space{number}.weakest"] = len(WEAKEST)
            lengths[f"space{number}.pairing"] = PAIR_STATISTICS
        lengths["agreement"] = AGREEMENT_STATISTICS
        lengths["colour"] = COLOUR_STATISTICS
        lengths["shape"] = SHAPE_STATISTICS
        lengths["wording"] = self.text_dimensions
        ends = np.cumsum(list(lengths.values())).tolist()
        return {
            name: slice(end - length, end)
            for (name, length), end in zip(lengths.items(), ends, strict=True)
        }

    @property
    def dimension(self) -> int:
        """Length of the joint vector."""
        return int(self.layout["wording"].stop)

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
        parts.append(self._colour_statistics(phrases[0], frames))
        parts.append(self._shape(phrases, mean_z, keys))
        parts.append(np.asarray(wording, np.float32))
        vector = np.concatenate(parts).astype(np.float32)
        support = _support(grounded) + _colour_support(phrases[0], target[0].region, frames)
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
        nearest = np.empty((count, 2), np.float32)
        everywhere = []
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
            nearest[i] = similarity.max(axis=0)
            everywhere.append(similarity[:, 0])
            others = frame.distractors[number][phrase.rivals].astype(np.float32)
            beaten[i] = (others > mixed[best]).mean()
            margin[i] = mixed[best] - np.sort(others)[-3:].mean()
            here = (rivals @ frame.regions[number][best] - rival_mean) / rival_deviation
            local_beaten[i] = (here > mixed[best]).mean()
            local_margin[i] = mixed[best] - np.sort(here)[-3:].mean()
        z = np.clip(z, -Z_LIMIT, Z_LIMIT)
        usual, spread = space.standard_of_best(queries[0])
        unusual = np.clip((cosine - usual) / spread, -Z_LIMIT, Z_LIMIT)
        everywhere = [(values - usual) / spread for values in everywhere]
        top = np.argsort(-z, kind="stable")[:TOP_FRAMES]
        first = int(top[0])
        reached = np.array([_top_mean(column) for column in nearest.T])
        chance = np.array([space.chance(query) for query in queries])
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
                reached[0] - chance[0],
                reached[0] - chance[0] / 2,
                reached[1] - chance[1] / 2,
            ],
            np.float32,
        )
        return _Grounding(z, unusual.astype(np.float32), everywhere, region, statistics)

    def _colour_statistics(self, phrase: PhraseView, frames: Sequence[FrameView]) -> Array:
        """Whether what the naked noun finds has the colour asked for, on pixels and in words.

        Of the frames that show the noun best: the largest share of the colour in regions that
        match about as well; the share weighted by the match; the share at the best region; how
        much better the phrase fits there than the same phrase in other colours, and than the noun.
        """
        if phrase.colour is None:
            return np.zeros(COLOUR_STATISTICS, np.float32)
        space = self.spaces[0]
        mean, deviation = space.standard(phrase.head[0][None])
        rows = []
        for frame in frames:
            regions = frame.regions[0]
            z = (regions @ phrase.head[0] - mean[0]) / deviation[0]
            best = int(np.argmax(z))
            share = frame.colours[:, phrase.colour]
            weight = np.exp(2.0 * (z - z[best]))
            fits = float(regions[best] @ phrase.full[0])
            others = np.sort(phrase.repainted[0] @ regions[best])[-3:]
            rows.append(
                (
                    z[best],
                    share[z >= z[best] - 1.0].max(),
                    (share * weight).sum() / weight.sum(),
                    share[best],
                    10.0 * (fits - float(others.mean())) if len(others) else 0.0,
                    10.0 * (fits - float(regions[best] @ phrase.head[0])),
                )
            )
        table = np.array(rows, np.float32)
        top = np.argsort(-table[:, 0], kind="stable")[:TOP_FRAMES]
        result: Array = np.append(np.float32(1.0), table[top, 1:].mean(axis=0)).astype(np.float32)
        return result

    def _shape(
        self, phrases: Sequence[PhraseView], mean_z: Array, keys: NDArray[np.int64]
    ) -> Array:
        """How many phrases of which kind, and how many separate frames match about as well.

        Not how many frames there are: that is the same in nearly all of training, so a gate that
        saw it would refuse everything asked of a shorter memory.
        """
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
                float(mean_z.std()),
            ],
            np.float32,
        )


def _support(grounded: Sequence[Sequence[_Grounding]]) -> Array:
    """``(frames,)`` log of the relevance: the target first, what places it second."""
    total = _weighted(grounded[0])
    for spaces in grounded[1:]:
        total = total + np.float32(0.25) * np.minimum(_weighted(spaces), total)
    clipped: Array = np.clip(total, -2 * Z_LIMIT, 2 * Z_LIMIT).astype(np.float32)
    return clipped


def _colour_support(
    phrase: PhraseView, region: NDArray[np.int64], frames: Sequence[FrameView]
) -> Array | float:
    """``(frames,)``: how much more of the colour asked for the region shows than is usual here."""
    if phrase.colour is None:
        return 0.0
    shares = np.array([f.colours[r, phrase.colour] for f, r in zip(frames, region, strict=True)])
    usual = np.mean([frame.colours[-1, phrase.colour] for frame in frames])
    support: Array = (np.float32(COLOUR_WEIGHT) * (shares - usual)).astype(np.float32)
    return support


def _weighted(spaces: Sequence[_Grounding]) -> Array:
    """How unusual the best regions are, over the spaces; the first counts most."""
    share = FIRST_SPACE if len(spaces) > 1 else 1.0
    rest = np.mean([item.unusual for item in spaces[1:]], axis=0) if len(spaces) > 1 else 0.0
    result: Array = np.asarray(share * spaces[0].unusual + (1 - share) * rest, np.float32)
    return result


def _pairing(placed: Sequence[_Grounding], frames: Sequence[FrameView]) -> Array:
    """Whether what places the target is where the target is.

    Returns:
        best and mean of the best frames' weaker phrase; over the other phrases the least of: how
        they show in the frame that shows the target best, anywhere and within 0.3 picture widths
        of the target, and the correlation of the two over the frames. A target alone scores as if
        it were its own place.
    """
    target = placed[0]
    together = np.min([item.unusual for item in placed], axis=0)
    best = int(np.argmax(target.unusual))
    boxes = frames[best].boxes
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    near = np.linalg.norm(middles - middles[target.region[best]], axis=1) < NEAR
    others = placed[1:] or placed[:1]
    return np.array(
        [
            together.max(),
            _top_mean(together),
            min(float(item.unusual[best]) for item in others),
            min(float(item.everywhere[best][near].max()) for item in others),
            min(_correlation(target.unusual, item.unusual) for item in others),
        ],
        np.float32,
    )


def _correlation(a: Array, b: Array) -> float:
    """Pearson's, 0 where either does not vary."""
    spread = float(a.std() * b.std())
    if spread < 1e-6:
        return 0.0
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread)


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
