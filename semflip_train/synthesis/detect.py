"""Detectors: which regions of a picture show what a phrase names.

One contract: boxes with a strength, higher is surer. ``mini`` scores the encoder's own regions;
Grounding DINO is its production counterpart (:mod:`.grounding_dino`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.contract import Fingerprint
from semflip_core.errors import SynthesisError
from semflip_core.frames import FrameFeatures, Picture

Array = NDArray[np.float32]
Box = tuple[float, float, float, float]
#: Regions named of each picture, and pictures whose regions are kept unpacked.
KEPT = 32
UNPACKED = 512


@dataclass(frozen=True, slots=True)
class View:
    """A picture as detectors see it.

    Args:
        picture: ``(height, width, 3)`` RGB.
        features: what the encoder made of it; None where the detector does without.
    """

    picture: Picture
    features: FrameFeatures | None = None


@dataclass(frozen=True, slots=True)
class Detection:
    """``box``: x0, y0, x1, y1 in [0, 1] of the picture; ``strength``: the detector's own scale."""

    box: Box
    strength: float


class Detector(Protocol):
    """Finds what a phrase names."""

    name: str

    @property
    def present(self) -> float:
        """Strength from which on something is taken to be there."""

    def fingerprint(self) -> Fingerprint:
        """Everything that changes detections."""

    def detect(self, phrase: str, views: Sequence[View]) -> list[list[Detection]]:
        """For each view its detections, strongest first; weak ones included."""

    def strengths(self, phrase: str, views: Sequence[View]) -> Array:
        """``(views,)`` strength of each view's best detection, not below 0."""


class MiniDetector:
    """Regions of the mini encoder against the phrase's text vector, as z-scores.

    A region's similarity to the phrase is standardised by its similarity to reference regions of
    unrelated pictures, so that one number means the same for every phrase.

    Args:
        present: z-score from which on something is taken to be there.
        weights: projection file; None for the shipped one.
    """

    name = "mini"

    def __init__(self, present: float = 4.0, weights: str | None = None) -> None:
        from semflip_core.encoders.mini.projection import DEFAULT_WEIGHTS, ProjectionWeights
        from semflip_core.encoders.mini.text import TextEncoder

        self._present = present
        self._weights = ProjectionWeights.load(weights or DEFAULT_WEIGHTS)
        self._text = TextEncoder()
        self._statistics: dict[str, tuple[Array, float, float]] = {}
        self._unpacked: dict[int, tuple[FrameFeatures, Array, Array]] = {}

    @property
    def present(self) -> float:
        """z-score from which on something is taken to be there."""
        return self._present

    def fingerprint(self) -> Fingerprint:
        """Everything that changes detections."""
        return {"name": self.name, "weights": self._weights.digest, "present": self._present}

    def _phrase(self, phrase: str) -> tuple[Array, float, float]:
        if phrase not in self._statistics:
            meaning = self._weights.centred(self._text.vectors([phrase]))
            vector = self._weights.seen(meaning)[0]
            similarity = self._weights["reference.projected"] @ vector
            mean, deviation = float(similarity.mean()), float(similarity.std()) + 1e-3
            self._statistics[phrase] = (vector, mean, deviation)
        return self._statistics[phrase]

    def detect(self, phrase: str, views: Sequence[View]) -> list[list[Detection]]:
        """The strongest regions with their z-scores."""
        vector, mean, deviation = self._phrase(phrase)
        found = []
        for view in views:
            regions, boxes = self._regions(view)
            z = (regions @ vector - mean) / deviation
            order = np.argsort(-z, kind="stable")[:KEPT]
            found.append(
                [
                    Detection((box[0], box[1], box[2], box[3]), strength)
                    for box, strength in zip(boxes[order].tolist(), z[order].tolist(), strict=True)
                    if strength > 0.0
                ]
            )
        return found

    def strengths(self, phrase: str, views: Sequence[View]) -> Array:
        """Best z-score of each view; much cheaper than naming the regions."""
        vector, mean, deviation = self._phrase(phrase)
        best = [float((self._regions(view)[0] @ vector).max()) for view in views]
        z = (np.array(best, np.float32) - np.float32(mean)) / np.float32(deviation)
        floored: Array = np.maximum(z, np.float32(0.0))
        return floored

    def _regions(self, view: View) -> tuple[Array, Array]:
        from semflip_core.encoders.mini.regions import boxes

        if view.features is None or "projected" not in view.features.arrays:
            raise SynthesisError(
                "the mini detector reads the mini encoder's features; use encoder mini, or another "
                "detector"
            )
        kept = self._unpacked.get(id(view.features))
        if kept is not None and kept[0] is view.features:
            return kept[1], kept[2]
        a = view.features.arrays
        rows = np.asarray(a["projected"], np.float32) * np.asarray(a["scale"], np.float32)[:, None]
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        high, wide = (int(v) for v in a["grid"])
        if len(self._unpacked) >= UNPACKED:
            self._unpacked.clear()
        places = boxes(high, wide)
        self._unpacked[id(view.features)] = (view.features, rows, places)
        return rows, places


def strongest(found: Sequence[Sequence[Detection]]) -> NDArray[np.float32]:
    """``(views,)`` strength of each view's best detection; 0 where there is none."""
    return np.array([max((d.strength for d in view), default=0.0) for view in found], np.float32)


def distinct_count(detections: Sequence[Detection], present: float) -> int:
    """How many separate things a view shows: present detections that do not share their place."""
    kept: list[Detection] = []
    for item in sorted(detections, key=lambda d: -d.strength):
        if item.strength < present:
            break
        if all(box_overlap(item.box, other.box, smaller=True) < 0.3 for other in kept):
            kept.append(item)
    return len(kept)


def box_overlap(a: Box, b: Box, *, smaller: bool = False) -> float:
    """Intersection over union, or over the smaller box."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0.0 or height <= 0.0:
        return 0.0
    shared = width * height
    first, second = (a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1])
    return shared / (min(first, second) if smaller else first + second - shared)
