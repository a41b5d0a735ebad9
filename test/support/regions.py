"""A retriever without a network: pictures are known by number, regions are vectors we choose."""

from __future__ import annotations

import numpy as np

from semflip_core.encoders.contract import fingerprint_digest
from semflip_core.frames import FrameFeatures
from semflip_core.memory import VideoMemory
from semflip_core.poses import Pose, quaternion_from_yaw
from support.driving import SECOND, small_picture

DIMENSION, REGIONS = 64, 40


def unit(vectors: np.ndarray) -> np.ndarray:
    """The same directions with length one, float32."""
    vectors = np.asarray(vectors, np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def thing(name: str) -> np.ndarray:
    """The direction of a thing's name."""
    seed = [ord(letter) for letter in name]
    return unit(np.random.default_rng(seed).normal(size=DIMENSION))


def scene(seed: int, *things: str) -> np.ndarray:
    """``(REGIONS, DIMENSION)`` of a frame: walls and floor everywhere, each thing in one region."""
    rng = np.random.default_rng(seed)
    backgrounds = unit(np.random.default_rng(0).normal(size=(5, DIMENSION)))
    regions = backgrounds[rng.integers(0, 5, REGIONS)]
    regions = regions + 0.08 * rng.normal(size=regions.shape)
    for place, name in zip(rng.permutation(REGIONS), things, strict=False):
        regions[place] = 0.8 * thing(name) + 0.05 * rng.normal(size=DIMENSION)
    return unit(regions)


class WordRetriever:
    """Phrases are the words of the question, the first one the target."""

    name = "words"
    region_dimension = DIMENSION

    def __init__(self) -> None:
        self.encoded = 0

    def fingerprint(self) -> dict:
        return {"name": self.name}

    def frame_fingerprint(self) -> dict:
        return {"name": self.name, "regions": REGIONS}

    def encode_frame(self, rgb: np.ndarray) -> FrameFeatures:
        self.encoded += 1
        return FrameFeatures({"v": scene(int(rgb.sum()))})

    def region_vectors(self, features: FrameFeatures) -> np.ndarray:
        return features.arrays["v"]

    def phrase_vectors(self, question: str) -> np.ndarray:
        return np.stack([thing(word) for word in question.split()])

    def close(self) -> None:
        """Nothing to release."""


WORDS_DIGEST = fingerprint_digest(WordRetriever().frame_fingerprint())


def see(
    memory: VideoMemory,
    *things: str,
    x: float | None = None,
    stamp_s: float | None = None,
    segment: int = 0,
    encode: bool = True,
) -> int:
    """Store a frame that shows some things; its id."""
    number = len(memory)
    pose = None if x is None else Pose("map", (x, 0.0, 0.0), quaternion_from_yaw(0.0))
    keyframe = memory.add(
        small_picture(number % 97),
        stamp_ns=round((number + 1 if stamp_s is None else stamp_s) * SECOND),
        pose=pose,
        map_id="m",
        segment=segment,
    )
    if encode:
        features = FrameFeatures({"v": scene(keyframe, *things)})
        memory.put_features(keyframe, WORDS_DIGEST, features)
    return keyframe
