"""The colour encoder with something broken, chosen by a word in the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from semflip_core.encoders.contract import JointEmbedding
from semflip_core.frames import FrameFeatures, MemoryFrame, Picture
from support.colours import COLOURS, GRID, ColourEncoder

#: Word -> what it does, for the tests' ids.
FAULTS = (
    "exception",
    "memory_error",
    "os_error",
    "nan_vector",
    "infinite_vector",
    "zero_vector",
    "wrong_dimension",
    "nan_relevance",
    "negative_relevance",
    "flat_relevance",
    "missing_relevance",
    "wrong_regions",
    "far_away",
    "nothing_returned",
)


class FaultyColours(ColourEncoder):
    """Sees red as its parent does, and then breaks as the question says."""

    name = "faulty_colours"

    def encode_frame(self, rgb: Picture) -> FrameFeatures:
        """The parent's features; a picture that is yellow all along it can never read."""
        row = rgb[rgb.shape[0] // 2, :: max(1, rgb.shape[1] // GRID)].astype(int)
        if (abs(row[:GRID] - COLOURS["yellow"]) < 20).all():
            raise ArithmeticError("too yellow, on purpose")
        return super().encode_frame(rgb)

    def encode(self, question: str, frames: Sequence[MemoryFrame]) -> JointEmbedding:
        """The parent's embedding, spoilt."""
        joint = super().encode(question, frames)
        fault = next((word for word in FAULTS if word in question.replace(" ", "_")), "")
        spoil = getattr(self, f"_{fault}", None)
        return joint if spoil is None else spoil(joint)  # type: ignore[no-any-return]

    def _exception(self, joint: JointEmbedding) -> JointEmbedding:
        raise ArithmeticError("the encoder broke on purpose")

    def _memory_error(self, joint: JointEmbedding) -> JointEmbedding:
        raise MemoryError("no memory left, on purpose")

    def _os_error(self, joint: JointEmbedding) -> JointEmbedding:
        raise OSError("the device is gone, on purpose")

    def _nan_vector(self, joint: JointEmbedding) -> JointEmbedding:
        return replace(joint, vector=np.full_like(joint.vector, np.nan))

    def _infinite_vector(self, joint: JointEmbedding) -> JointEmbedding:
        return replace(joint, vector=np.full_like(joint.vector, -np.inf))

    def _zero_vector(self, joint: JointEmbedding) -> JointEmbedding:
        return replace(joint, vector=np.zeros_like(joint.vector))

    def _wrong_dimension(self, joint: JointEmbedding) -> JointEmbedding:
        return replace(joint, vector=np.ones(7, np.float32))

    def _nan_relevance(self, joint: JointEmbedding) -> JointEmbedding:
        return replace(joint, relevance=np.full_like(joint.relevance, np.nan))

    def _negative_relevance(self, joint: JointEmbedding) -> JointEmbedding:
        return replace(joint, relevance=-joint.relevance)

    def _flat_relevance(self, joint: JointEmbedding) -> JointEmbedding:
        return replace(joint, relevance=np.ones_like(joint.relevance))

    def _missing_relevance(self, joint: JointEmbedding) -> JointEmbedding:
        return replace(joint, relevance=joint.relevance[:-1])

    def _wrong_regions(self, joint: JointEmbedding) -> JointEmbedding:
        return replace(joint, regions=np.ones((1, 3), np.float32))

    def _far_away(self, joint: JointEmbedding) -> JointEmbedding:
        return replace(joint, vector=joint.vector * np.float32(1e6))

    def _nothing_returned(self, joint: JointEmbedding) -> JointEmbedding:
        return None  # type: ignore[return-value]
