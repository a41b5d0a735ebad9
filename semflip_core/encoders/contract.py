"""What every encoder and retriever must do; both are chosen by name from the settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from semflip_core.errors import EncoderError, SemflipError
from semflip_core.frames import FrameFeatures, MemoryFrame, Picture

Vector = NDArray[np.float32]
Fingerprint = Mapping[str, str | int | float | bool | None]
"""Flat mapping of everything that changes an embedding: name, weight hash, dtype, prompt..."""


def fingerprint_digest(fingerprint: Fingerprint) -> str:
    """Short stable hash of a fingerprint, the key under which features are stored."""
    text = json.dumps(dict(fingerprint), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextmanager
def encoder_errors(what: str) -> Iterator[None]:
    """What an encoder raises in the block becomes an EncoderError that says what it was about.

    A picture stays in the memory, so a process that ended for its sake would end again at each
    start. Our own errors pass as they are.
    """
    try:
        yield
    except SemflipError:
        raise
    except Exception as error:
        # Broad: encoders are anybody's, and the errors of OpenCV, ONNX Runtime and safetensors
        # have no other base in common.
        raise EncoderError(f"{what}: {type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class JointEmbedding:
    """Question and memory in one vector.

    Args:
        vector: ``(dim,)`` float32, what the gate reads.
        relevance: ``(frames,)`` float32, not negative; how much each frame supports an answer.
        regions: ``(frames, 4)`` float32 ``x0, y0, x1, y1`` in [0, 1] of the picture: where in each
            frame the referent would be; None where the encoder cannot tell.
    """

    vector: Vector
    relevance: Vector
    regions: Vector | None = None

    def check(self, dimension: int, frames: int) -> None:
        """Hold the contract.

        Raises:
            EncoderError: a shape is wrong, a value is not finite, or the vector is all zero.
        """
        if self.vector.shape != (dimension,):
            raise EncoderError(f"embedding has shape {self.vector.shape}, expected ({dimension},)")
        if not np.isfinite(self.vector).all():
            raise EncoderError("embedding holds NaN or infinity")
        if not self.vector.any():
            raise EncoderError("embedding is all zero")
        if self.relevance.shape != (frames,):
            raise EncoderError(f"relevance has shape {self.relevance.shape}, expected ({frames},)")
        if not np.isfinite(self.relevance).all() or (self.relevance < 0).any():
            raise EncoderError("relevance holds NaN, infinity or a negative value")
        if self.regions is not None and self.regions.shape != (frames, 4):
            raise EncoderError(f"regions have shape {self.regions.shape}, expected ({frames}, 4)")


@runtime_checkable
class Encoder(Protocol):
    """A frozen vision-language encoder. One thread at a time owns it."""

    name: str

    @property
    def dimension(self) -> int:
        """Length of ``JointEmbedding.vector``."""

    def fingerprint(self) -> Fingerprint:
        """Everything that changes a joint embedding; compared with the gate's, field by field."""

    def frame_fingerprint(self) -> Fingerprint:
        """The part of it that changes ``encode_frame``; stored features are keyed by its digest."""

    def encode_frame(self, rgb: Picture) -> FrameFeatures:
        """Features of one picture, ``(height, width, 3)`` uint8 RGB; once per keyframe.

        Raises:
            EncoderError: the picture is too small or the backend failed.
        """

    def encode(self, question: str, frames: Sequence[MemoryFrame]) -> JointEmbedding:
        """Embed the question together with the frames (prefix part first, each part by time).

        Deterministic: same question and frames, same embedding. ``frames`` is never empty.
        """

    def close(self) -> None:
        """Release memory and device; the encoder is not used afterwards."""


@runtime_checkable
class AnsweringEncoder(Encoder, Protocol):
    """An encoder that can also say a short answer in words."""

    def answer(
        self,
        question: str,
        frames: Sequence[MemoryFrame],
        *,
        max_tokens: int,
        on_text: Callable[[str], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> str:
        """Greedy short answer; numbers in it are never used for goals."""


@runtime_checkable
class PreparingEncoder(Encoder, Protocol):
    """An encoder that reads frames ahead of the question, and so may be interrupted."""

    def prepare(
        self, frames: Sequence[MemoryFrame], *, cancelled: Callable[[], bool] | None = None
    ) -> bool:
        """Read frames (as for ``encode``; may be none), so that ``encode`` costs the question only.

        Returns:
            False where ``cancelled`` became true; what was read until then stays read.
        """


@runtime_checkable
class Retriever(Protocol):
    """Chooses frames for a question from a long memory, by region vectors."""

    name: str

    @property
    def region_dimension(self) -> int:
        """Length of a region vector (``dimension`` is the joint vector's, in the same class)."""

    def fingerprint(self) -> Fingerprint:
        """Everything that changes region vectors or phrase vectors."""

    def frame_fingerprint(self) -> Fingerprint:
        """The part of it that changes ``encode_frame``."""

    def encode_frame(self, rgb: Picture) -> FrameFeatures:
        """Features of one picture, as for an encoder."""

    def region_vectors(self, features: FrameFeatures) -> Vector:
        """``(regions, dim)`` unit vectors of one picture's regions, from its features."""

    def phrase_vectors(self, question: str) -> Vector:
        """``(phrases, dim)`` unit vectors of what the question looks for; at least one."""

    def close(self) -> None:
        """Release memory and device."""


@runtime_checkable
class NamingRetriever(Retriever, Protocol):
    """A retriever that can turn many names into vectors at once, without reading them as questions.

    Recall asks about two hundred names when it starts; one by one they may take seconds.
    """

    def name_vectors(self, names: Sequence[str]) -> Vector:
        """``(names, dim)`` unit vectors, as the target of :meth:`phrase_vectors` would have."""
