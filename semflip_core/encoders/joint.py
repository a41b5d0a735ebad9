"""The joint embedding of question and memory, for any encoder with one space for both.

Written once against "region vectors and phrase vectors in one space", so that ``mini`` (two spaces:
trained projection and plain ConSE) and CLIP-like models (one space) share it. What the gate sees
makes groundedness visible: for each phrase how far its best regions stand out against reference
regions, whether other things explain those regions better, whether frames around agree, and whether
they have the colour asked for. Of the words it sees only how the question asks, in few dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.contract import JointEmbedding
from semflip_core.encoders.joint_grounding import (
    COLOUR_STATISTICS,
    COLOUR_WEIGHT,
    NEIGHBOURS,
    PAIR_STATISTICS,
    PHRASE_STATISTICS,
    Z_LIMIT,
    Grounding,
    colour_statistics,
    ground,
    pairing,
    top_mean,
)
from semflip_core.encoders.joint_space import Beside, FrameView, PhraseView, Space
from semflip_core.errors import EncoderError

Array = NDArray[np.float32]

VERSION = 7
#: Share of the first space in a frame's relevance.
FIRST_SPACE = 0.85
#: What the other model's support adds to a frame's relevance.
BESIDE_WEIGHT = 0.5
WEAKEST = (0, 1, 5, 6, 9, 10, 12, 13, 14, 15, 16, 17, 18, 20, 22)
AGREEMENT_STATISTICS = 3
SHAPE_STATISTICS = 7


class JointModel:
    """Makes joint embeddings.

    Args:
        spaces: most trusted first.
        text_dimensions: length of the wording vector handed to :meth:`embed`.
        beside_dimensions: length of what another model says beside the spaces; 0 without one.
    """

    def __init__(
        self, spaces: Sequence[Space], text_dimensions: int, beside_dimensions: int = 0
    ) -> None:
        self.spaces = tuple(spaces)
        self.text_dimensions = text_dimensions
        self.beside_dimensions = beside_dimensions

    @cached_property
    def layout(self) -> dict[str, slice]:
        """Where each group of features lies in the vector, in order, without gaps.

        For each space (``space0`` is the most trusted) what the target shows (``.target``), the
        weakest phrase (``.weakest``) and target with place (``.pairing``); then ``agreement`` of
        the spaces, ``colour``, ``shape`` (how many phrases and frames), ``beside`` where there is
        another model, and ``wording``.
        """
        lengths: dict[str, int] = {}
        for number in range(len(self.spaces)):
            lengths[f"space{number}.target"] = PHRASE_STATISTICS
            lengths[f"space{number}.weakest"] = len(WEAKEST)
            lengths[f"space{number}.pairing"] = PAIR_STATISTICS
        lengths["agreement"] = AGREEMENT_STATISTICS
        lengths["colour"] = COLOUR_STATISTICS
        lengths["shape"] = SHAPE_STATISTICS
        if self.beside_dimensions:
            lengths["beside"] = self.beside_dimensions
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
        self,
        phrases: Sequence[PhraseView],
        wording: Array,
        frames: Sequence[FrameView],
        beside: Beside | None = None,
    ) -> JointEmbedding:
        """The joint embedding of a question's phrases with frames.

        Args:
            phrases: at least one, the target first.
            wording: ``(text_dimensions,)``: how the question asks.
            frames: at least one, in any order; the result does not depend on their order beyond
                the order of ``relevance``.
            beside: what another model says, where ``beside_dimensions`` is not 0.

        Raises:
            EncoderError: ``beside`` has another length.
        """
        said = np.zeros(0, np.float32) if beside is None else beside.vector
        if len(said) != self.beside_dimensions:
            raise EncoderError(f"{len(said)} features beside {self.beside_dimensions} expected")
        keys = np.array([frame.key for frame in frames])
        grounded = [
            [
                ground(phrase, space, number, frames, keys)
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
            parts += [statistics[0], weakest[list(WEAKEST)], pairing(placed, frames)]
        mean_z = np.mean([item.z for item in target], axis=0)
        parts.append(np.array([mean_z.max(), top_mean(mean_z), np.median(mean_z)], np.float32))
        parts.append(colour_statistics(phrases[0], self.spaces[0], frames))
        parts.append(self._shape(phrases, mean_z, keys))
        parts += [said, np.asarray(wording, np.float32)]
        vector = np.concatenate(parts).astype(np.float32)
        support = _support(grounded) + _colour_support(phrases[0], target[0].region, frames)
        if beside is not None:
            more = np.clip(beside.support, -Z_LIMIT, Z_LIMIT)
            support = support + np.float32(BESIDE_WEIGHT) * more
        regions = np.stack(
            [frame.boxes[target[0].region[i]] for i, frame in enumerate(frames)]
        ).astype(np.float32)
        return JointEmbedding(vector, np.exp(support).astype(np.float32), regions)

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


def _support(grounded: Sequence[Sequence[Grounding]]) -> Array:
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


def _weighted(spaces: Sequence[Grounding]) -> Array:
    """How unusual the best regions are, over the spaces; the first counts most."""
    share = FIRST_SPACE if len(spaces) > 1 else 1.0
    rest = np.mean([item.unusual for item in spaces[1:]], axis=0) if len(spaces) > 1 else 0.0
    result: Array = np.asarray(share * spaces[0].unusual + (1 - share) * rest, np.float32)
    return result
