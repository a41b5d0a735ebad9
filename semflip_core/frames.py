"""What the memory keeps: keyframes with poses, and the features an encoder made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from semflip_core.errors import EncoderError
from semflip_core.poses import Pose, Quaternion, Vector3

Picture = NDArray[np.uint8]
"""Colour picture ``(height, width, 3)``, RGB."""


@dataclass(frozen=True, slots=True)
class CameraMount:
    """Where the camera's optical frame sits on the robot: pose of it in ``base_frame``.

    Args:
        position: metres in ``base_frame``.
        orientation: quaternion ``(x, y, z, w)`` of the optical frame (z forward, x right).
        frame_id: name of the camera's optical frame.
    """

    position: Vector3
    orientation: Quaternion
    frame_id: str = ""


@dataclass(frozen=True, slots=True)
class KeyframeRecord:
    """A keyframe without its picture: what recall and goals need.

    Args:
        id: number in this memory, rising with time of storage, never used again.
        stamp_ns: header stamp of the picture, nanoseconds.
        pose: pose of ``base_frame`` when it was taken, or None where none was known.
        map_id: which map the pose belongs to (DESIGN section 4).
        segment: counts up when time jumps backwards; stamps rise within one segment.
        width, height: of the stored picture, pixels.
        mount: the camera on the robot, or None where unknown.
    """

    id: int
    stamp_ns: int
    pose: Pose | None
    map_id: str
    segment: int
    width: int
    height: int
    mount: CameraMount | None = None


@dataclass(frozen=True, slots=True)
class FrameFeatures:
    """Named arrays that an encoder or retriever made of one picture.

    They are stored as safetensors beside the picture, so dtypes are numpy's own.
    """

    arrays: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def check(self) -> None:
        """Hold what an encoder made before it is kept: it would spoil every later question.

        Raises:
            EncoderError: there is no array, or one holds NaN or infinity.
        """
        if not self.arrays:
            raise EncoderError("the encoder made no features of a picture")
        for name, array in self.arrays.items():
            if np.issubdtype(array.dtype, np.inexact) and not np.isfinite(array).all():
                raise EncoderError(f"the encoder's features '{name}' hold NaN or infinity")

    def to_bytes(self) -> bytes:
        """Serialise as a safetensors buffer."""
        from safetensors.numpy import save

        return bytes(save({k: np.ascontiguousarray(v) for k, v in self.arrays.items()}))

    @classmethod
    def from_bytes(cls, data: bytes) -> FrameFeatures:
        """Read back :meth:`to_bytes`.

        Raises:
            EncoderError: the bytes are not a safetensors buffer.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            return cls(load(data))
        except SafetensorError as error:
            raise EncoderError(
                f"stored features are damaged: {error}; they can be made again"
            ) from error


@dataclass(frozen=True, slots=True)
class MemoryFrame:
    """A keyframe as an encoder sees it during a query.

    Args:
        record: the keyframe's record.
        features: what ``encode_frame`` returned for its stored picture.
        picture: loads the stored picture, ``(height, width, 3)`` RGB.
        prefix: True for a frame that covers the memory (same for every question), False for one
            recalled for this question. Encoders get prefix frames first, each part in time order.
    """

    record: KeyframeRecord
    features: FrameFeatures
    picture: Callable[[], Picture]
    prefix: bool = False
