"""Whether a picture is one that an encoder can read at all."""

from __future__ import annotations

import math

import numpy as np

from semflip_core.errors import EncoderError
from semflip_core.frames import Picture

#: Pixels; on less there is nothing to see.
MIN_SIDE = 16


def check_picture(rgb: Picture, max_aspect: float = math.inf) -> None:
    """Hold a picture against what the encoder takes.

    Args:
        max_aspect: largest ratio of its sides.

    Raises:
        EncoderError: not ``(height, width, 3)`` of 8 bits, a side under 16 pixels, or a strip.
    """
    if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.dtype != np.uint8:
        raise EncoderError(
            f"picture has shape {rgb.shape} and type {rgb.dtype}; expected (height, width, 3) uint8"
        )
    height, width = rgb.shape[:2]
    if min(height, width) < MIN_SIDE:
        raise EncoderError(
            f"picture of {width} x {height} pixels; at least {MIN_SIDE} on each side are needed"
        )
    if max(height, width) > max_aspect * min(height, width):
        raise EncoderError(
            f"picture of {width} x {height} pixels; one side may be at most {max_aspect:g} times "
            "the other"
        )
