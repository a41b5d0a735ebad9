"""How one phrase shows in the frames, in one space: statistics for the gate, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.joint_space import FrameView, PhraseView, Space

Array = NDArray[np.float32]

TOP_FRAMES = 3
#: Frames stored this close to the best one should show the referent too.
NEIGHBOURS = 2
Z_LIMIT = 12.0
#: What a region full of the colour asked for adds to its z-score.
COLOUR_WEIGHT = 2.5
PHRASE_STATISTICS = 24
PAIR_STATISTICS = 5
#: Picture widths within which one thing stands beside or on another.
NEAR = 0.3
COLOUR_STATISTICS = 9
#: Share of a colour that is added before two shares are compared.
LITTLE = 0.03


@dataclass(frozen=True, slots=True)
class Grounding:
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


def ground(
    phrase: PhraseView,
    space: Space,
    number: int,
    frames: Sequence[FrameView],
    keys: NDArray[np.int64],
) -> Grounding:
    """How a phrase shows in the frames, in the space of that number.

    Args:
        keys: ``(frames,)`` of the frames, see :class:`~.joint_space.FrameView`.
    """
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
            *_above_absence(space, queries, phrase.meanings, nearest),
        ],
        np.float32,
    )
    return Grounding(z, unusual.astype(np.float32), everywhere, region, statistics)


def _above_absence(
    space: Space, queries: Array, meanings: Array, nearest: Array
) -> tuple[float, ...]:
    """How far a phrase and its naked noun reach above what they reach where there is none.

    First above resemblance to what is known to be something else, then above rooms without such a
    thing, then above photographs of anything. The last three correct what rooms say by what is
    known of names that resemble the phrase: above the level of places without the thing, and, of
    phrase and noun, above the middle between that and the level of places that have it.

    Args:
        queries: ``(2, dim)`` the phrase and its noun, and what they mean.
        nearest: ``(frames, 2)`` best similarity of each.
    """
    reached = np.array([top_mean(column) for column in nearest.T])
    chance = np.array([space.chance(*one) for one in zip(queries, meanings, strict=True)])
    elsewhere, highest = space.places.reached(queries, meanings)
    absent, present = np.array([space.level(one) for one in queries]).T
    above = reached - elsewhere - absent
    usual = space.usual(queries[0])
    return (
        reached[0] - chance[0],
        reached[0] - chance[0] / 2,
        reached[1] - chance[1] / 2,
        reached[0] - elsewhere[0],
        reached[1] - elsewhere[1],
        reached[0] - highest,
        reached[0] - usual,
        reached[0] - usual / 2,
        above[0],
        above[0] - present[0] / 2,
        above[1] - present[1] / 2,
    )


def colour_statistics(phrase: PhraseView, space: Space, frames: Sequence[FrameView]) -> Array:
    """Whether what the naked noun finds has the colour asked for, on pixels and in words.

    Of the frames that show the noun best: the largest share of the colour in regions that
    match about as well; the share weighted by the match; the share at the best region; how
    much better the phrase fits there than the same phrase in other colours, and than the noun.
    Then, best of these frames, how much more of the colour there is than in the whole picture (log
    ratio), by itself, and against the colour of which there is most so: weighted by the match, and
    at the best region. White walls are in every picture, so a share alone says little of "white".
    """
    if phrase.colour is None:
        return np.zeros(COLOUR_STATISTICS, np.float32)
    mean, deviation = space.standard(phrase.head[0][None])
    rows = []
    for frame in frames:
        regions = frame.regions[0]
        z = (regions @ phrase.head[0] - mean[0]) / deviation[0]
        best = int(np.argmax(z))
        share = frame.colours[:, phrase.colour]
        ratios = np.log((frame.colours + LITTLE) / (frame.colours[-1] + LITTLE))
        ratio = ratios[:, phrase.colour]
        lead = ratio - np.delete(ratios, phrase.colour, axis=1).max(axis=1)
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
                ratio[z >= z[best] - 1.0].max(),
                (lead * weight).sum() / weight.sum(),
                lead[best],
            )
        )
    table = np.array(rows, np.float32)
    top = np.argsort(-table[:, 0], kind="stable")[:TOP_FRAMES]
    mean, highest = table[top, 1:6].mean(axis=0), table[top, 6:].max(axis=0)
    result: Array = np.concatenate([[1.0], mean, highest]).astype(np.float32)
    return result


def pairing(placed: Sequence[Grounding], frames: Sequence[FrameView]) -> Array:
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
            top_mean(together),
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


def top_mean(values: Array) -> float:
    return float(np.sort(values)[-TOP_FRAMES:].mean())


def _neighbour(z: Array, keys: NDArray[np.int64], best: int) -> float:
    """Best z-score among frames taken just before or after the best one; the median without any."""
    near = (np.abs(keys - keys[best]) <= NEIGHBOURS) & (np.arange(len(keys)) != best)
    return float(z[near].max()) if near.any() else float(np.median(z))
