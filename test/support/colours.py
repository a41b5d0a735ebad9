"""A tiny but honest encoder: it looks for the colour that the question names.

It follows the encoder and retriever contracts without any weights, so tests of agent and node run
in milliseconds and still depend on what is in the pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from semflip_core.agent import RefusalAgent
from semflip_core.encoders import load_encoder
from semflip_core.encoders.contract import Fingerprint, JointEmbedding, Vector
from semflip_core.frames import FrameFeatures, MemoryFrame, Picture
from semflip_core.gate import Gate
from semflip_core.images import StoredPicture, store_raw
from semflip_core.memory import VideoMemory
from semflip_core.settings import KeyframeSettings, RecallSettings
from support.gates import linear_gate

COLOURS = {
    "red": (200, 30, 30),
    "green": (30, 200, 30),
    "blue": (30, 30, 200),
    "yellow": (200, 200, 30),
}
GRID = 3


class ColourEncoder:
    """Regions are mean colours of a 3x3 grid; a phrase is the colour that the question names."""

    name = "colours"
    dimension = 3
    region_dimension = 3

    def fingerprint(self) -> Fingerprint:
        return {"name": self.name, "grid": GRID}

    def frame_fingerprint(self) -> Fingerprint:
        return self.fingerprint()

    def encode_frame(self, rgb: Picture) -> FrameFeatures:
        rows = np.array_split(rgb.astype(np.float32), GRID, axis=0)
        cells = [c.mean((0, 1)) for row in rows for c in np.array_split(row, GRID, axis=1)]
        return FrameFeatures({"regions": _unit(np.stack(cells) - 100.0).astype(np.float32)})

    def region_vectors(self, features: FrameFeatures) -> Vector:
        return features.arrays["regions"].astype(np.float32)

    def phrase_vectors(self, question: str) -> Vector:
        words = question.lower().replace("?", " ").split()
        named = [COLOURS[word] for word in words if word in COLOURS] or [(100, 100, 101)]
        return _unit(np.array(named, np.float32) - 100.0)

    def encode(self, question: str, frames: Sequence[MemoryFrame]) -> JointEmbedding:
        phrase = self.phrase_vectors(question)[0]
        match = np.stack([self.region_vectors(f.features) @ phrase for f in frames])
        best = match.max(axis=1)
        cell = match.argmax(axis=1)
        x, y = cell % GRID / GRID, cell // GRID / GRID
        regions = np.stack([x, y, x + 1 / GRID, y + 1 / GRID], axis=1)
        vector = np.array([best.max(), best.mean(), 1.0], np.float32)
        relevance = np.exp(5.0 * best).astype(np.float32)
        return JointEmbedding(vector, relevance, regions.astype(np.float32))

    def close(self) -> None:
        pass


def colour_gate(fingerprint: Fingerprint | None = None, **header: object) -> Gate:
    """Refuses where no region matches the named colour to a cosine of about 0.8."""
    return linear_gate(np.array([-10.0, 0.0, 8.0], np.float32), dict(fingerprint or {}), **header)


def room_picture(*colours: str, width: int = 96, height: int = 72) -> StoredPicture:
    """A grey wall with one block a colour, left to right in the middle row of the grid."""
    rgb = np.full((height, width, 3), 100, np.uint8)
    for index, colour in enumerate(colours):
        left, right = index * width // GRID, (index + 1) * width // GRID
        rgb[height // GRID : 2 * height // GRID, left:right] = COLOURS[colour]
    return store_raw(rgb, KeyframeSettings())


def _unit(vectors: np.ndarray) -> Vector:
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Vector = (vectors / np.maximum(norms, 1e-6)).astype(np.float32)
    return unit


def write_gate(
    path: Path,
    encoder: str = "support.colours:ColourEncoder",
    recall: RecallSettings | None = None,
    **header: Any,
) -> Path:
    """A gate for a test encoder, made for exactly the pipeline that the node runs."""
    with VideoMemory() as memory:
        agent = RefusalAgent(memory, load_encoder(encoder), None, recall=recall or RecallSettings())
        colour_gate(agent.fingerprint(), **header).save(path)
    return path
