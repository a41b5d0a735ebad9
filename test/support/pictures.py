"""Pictures for tests, and an independent writer of every sensor_msgs/Image encoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from semflip_core.errors import ImageError
from semflip_core.settings import KeyframeSettings

#: What examples are drawn from: width and height, bytes after a row, seeds.
SIZES = st.tuples(st.integers(16, 61), st.integers(16, 41))
PADDING = st.integers(0, 9)
SEEDS = st.integers(0, 2**32 - 1)
KEEP = KeyframeSettings()

#: encoding -> (channel order, bytes a sample)
PACKED = {
    "mono8": ("grey", 1),
    "8UC1": ("grey", 1),
    "mono16": ("grey", 2),
    "8UC3": ("bgr", 1),
    "8UC4": ("bgra", 1),
    **{
        f"{order}{8 * size}": (order, size)
        for order in ("rgb", "bgr", "rgba", "bgra")
        for size in (1, 2)
    },
}
YUV422 = ("yuv422", "uyvy", "yuv422_yuy2", "yuyv")


def reason_of(call: Callable[..., Any], *arguments: Any) -> str:
    """Why a picture is refused."""
    with pytest.raises(ImageError) as caught:
        call(*arguments)
    assert str(caught.value), "an error without words helps nobody"
    return caught.value.reason


def room_picture(width: int, height: int, seed: int) -> np.ndarray:
    """A wall, a floor, coloured boxes and grain, ``(height, width, 3)`` RGB."""
    rng = np.random.default_rng(seed)
    picture = np.empty((height, width, 3), np.float64)
    picture[: height // 2] = rng.integers(90, 220, 3)
    picture[height // 2 :] = rng.integers(30, 120, 3)
    for _ in range(6):
        x, y = rng.integers(0, width), rng.integers(0, height)
        box = (slice(y, y + height // 4), slice(x, x + width // 5))
        picture[box] = rng.integers(0, 256, 3)
    picture += rng.normal(0, 6, picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8)


def smooth_picture(width: int, height: int, seed: int) -> np.ndarray:
    """Colours of pairs of pixels in pairs of rows, so that shared chroma loses nothing."""
    rng = np.random.default_rng(seed)
    across = np.linspace(0, 1, (width + 1) // 2).repeat(2)[:width]
    down = np.linspace(0, 1, (height + 1) // 2).repeat(2)[:height, None]
    a, b, c = rng.uniform(40, 70, 3), rng.uniform(0, 70, 3), rng.uniform(0, 70, 3)
    picture = a + across[None, :, None] * b + down[:, :, None] * c
    return np.rint(picture).astype(np.uint8)


def to_yuv(rgb: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Studio-swing Y, U, V of ITU-R BT.601, rounded, each ``(height, width)``."""
    r, g, b = (rgb[..., i].astype(np.float64) for i in range(3))
    y = 16 + (65.481 * r + 128.553 * g + 24.966 * b) / 255
    u = 128 + (-37.797 * r - 74.203 * g + 112.0 * b) / 255
    v = 128 + (112.0 * r - 93.786 * g - 18.214 * b) / 255
    return tuple(np.rint(plane).astype(np.uint8) for plane in (y, u, v))


def raw_bytes(encoding: str, rgb: np.ndarray, padding: int, big: bool) -> tuple[int, bytes]:
    """``(step, data)`` of a sensor_msgs/Image that shows ``rgb``; rows end in junk."""
    rows = _rows(encoding, rgb, big)
    junk = np.random.default_rng(padding).integers(0, 256, (len(rows), padding), dtype=np.uint8)
    padded = np.concatenate([rows, junk], axis=1)
    return padded.shape[1], padded.tobytes()


def _rows(encoding: str, rgb: np.ndarray, big: bool) -> np.ndarray:
    height, width = rgb.shape[:2]
    if encoding in PACKED:
        order, size = PACKED[encoding]
        alpha = np.full((height, width), 77, np.uint8)
        planes = {"r": rgb[..., 0], "g": rgb[..., 1], "b": rgb[..., 2], "a": alpha}
        samples = rgb[..., :1] if order == "grey" else np.stack([planes[c] for c in order], axis=2)
        return _bytes(samples.reshape(height, -1), size, big)
    if encoding.startswith("bayer_"):
        pattern, size = encoding[6:10], int(encoding[10:]) // 8
        mosaic = np.empty((height, width), np.uint8)
        for position, colour in enumerate(pattern):
            row, column = divmod(position, 2)
            mosaic[row::2, column::2] = rgb[row::2, column::2, "rgb".index(colour)]
        return _bytes(mosaic, size, big)
    y, u, v = to_yuv(rgb)
    if encoding in YUV422:
        luma, chroma = (1, 0) if encoding in ("yuv422", "uyvy") else (0, 1)
        rows = np.empty((height, width, 2), np.uint8)
        rows[..., luma] = y
        rows[:, 0::2, chroma] = u[:, 0::2]
        rows[:, 1::2, chroma] = v[:, 0::2]
        return rows.reshape(height, -1)
    first, second = (u, v) if encoding == "nv12" else (v, u)
    chroma_rows = np.empty((height // 2, width), np.uint8)
    chroma_rows[:, 0::2] = first[0::2, 0::2]
    chroma_rows[:, 1::2] = second[0::2, 0::2]
    return np.concatenate([y, chroma_rows])


def _bytes(samples: np.ndarray, size: int, big: bool) -> np.ndarray:
    """8-bit samples as rows of bytes; 16-bit ones are 257 times as large."""
    if size == 1:
        return np.ascontiguousarray(samples)
    wide = samples.astype(np.uint16) * 257
    return wide.astype(">u2" if big else "<u2").view(np.uint8).reshape(len(samples), -1)
