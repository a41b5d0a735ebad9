"""What the COCO detector says of a question, as the joint embedding takes it beside the spaces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.joint_space import Beside, FrameView, PhraseView, Space
from semflip_core.encoders.mini.detector import Detections
from semflip_core.encoders.mini.labels import DIMENSION, LabelTable
from semflip_core.encoders.mini.places import colour_share

Array = NDArray[np.float32]

#: Frames that match the naked noun best, over which the colour of places is averaged.
TOP_FRAMES = 3
#: Length of what :meth:`DetectedThings.beside` gives: the labels' evidence and the colour.
BESIDE = DIMENSION + 1


class DetectedThings:
    """Evidence of the detector, for questions put as phrases of the common space.

    Args:
        table: words of the detector's classes.
        space: the space that tells which places a phrase may mean.
    """

    def __init__(self, table: LabelTable, space: Space) -> None:
        self._table = table
        self._space = space

    @property
    def digest(self) -> str:
        """Hash of the words."""
        return self._table.digest

    def beside(
        self,
        phrases: Sequence[PhraseView],
        frames: Sequence[FrameView],
        detections: Sequence[Detections],
    ) -> Beside:
        """Evidence for a question.

        Args:
            phrases: at least one, the target first.
            frames: at least one.
            detections: of each frame.

        Returns:
            ``(BESIDE,)``: :attr:`.labels.LabelEvidence.vector`, then the share of the colour asked
            for at places that match the naked noun, 0 without a colour.
        """
        meanings = [self._table.meaning(*phrase.meanings) for phrase in phrases]
        keys = np.array([frame.key for frame in frames])
        evidence = self._table.evidence(meanings, detections, keys, phrases[0].colour)
        colour = self._colour(phrases[0], frames, detections)
        return Beside(np.append(evidence.vector, np.float32(colour)), evidence.support)

    def _colour(
        self,
        phrase: PhraseView,
        frames: Sequence[FrameView],
        detections: Sequence[Detections],
    ) -> float:
        if phrase.colour is None:
            return 0.0
        mean, deviation = self._space.standard(phrase.head[0][None])
        matches = [(f.regions[0] @ phrase.head[0] - mean[0]) / deviation[0] for f in frames]
        order = np.argsort([-z.max() for z in matches], kind="stable")[:TOP_FRAMES]
        shares = [
            colour_share(detections[i], frames[i].boxes, matches[i], phrase.colour) for i in order
        ]
        found = [share for share in shares if share is not None]
        return float(np.mean(found)) if found else 0.0
