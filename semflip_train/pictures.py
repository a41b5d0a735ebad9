"""Thumbnails for contact sheets and reports, and masks as files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from semflip_core.frames import Picture
from semflip_core.images import jpeg

__all__ = ["jpeg", "mask_png", "thumbnail"]


def thumbnail(rgb: Picture, width: int) -> Picture:
    """Scaled to a width in pixels, the shape kept."""
    import cv2

    height = max(1, round(rgb.shape[0] * width / rgb.shape[1]))
    small: Picture = cv2.resize(rgb, (width, height), interpolation=cv2.INTER_AREA).astype(np.uint8)
    return small


def mask_png(mask: NDArray[np.bool_]) -> bytes:
    """A mask as a one-channel PNG."""
    import cv2

    done, data = cv2.imencode(".png", mask.astype(np.uint8) * 255)
    if not done:
        raise ValueError(f"OpenCV could not encode a mask of shape {mask.shape}")
    return bytes(data.tobytes())
