"""Uncompressed camera pictures: what sensor_msgs/Image may hold, checked and turned into RGB.

Encoding names are those of sensor_msgs/image_encodings.hpp. ``8UC3`` and ``8UC4`` are read as BGR
and BGRA, the order of OpenCV, from where such messages come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from semflip_core.errors import ImageError, MissingExtraError
from semflip_core.frames import Picture

#: The shortest side a picture may have, and how many times longer the other may be: vision
#: transformers refuse strips and single pixels (Qwen2.5-VL's smart_resize stops at 200 to 1).
MIN_SIDE_PX = 16
MAX_ASPECT = 100
#: Far above any camera (8K is 33 million), far below what would exhaust a robot's memory.
MAX_PIXELS = 80_000_000


@dataclass(frozen=True, slots=True)
class Layout:
    """How an encoding lies in memory.

    Args:
        kind: ``packed``, ``bayer``, ``yuv422`` or ``nv``.
        order: channel order (``rgb``, ``bgra``, ``grey``) or OpenCV's colour conversion.
        channels: samples a pixel.
        sample_bytes: bytes a sample.
    """

    kind: str
    order: str
    channels: int
    sample_bytes: int = 1

    @property
    def pixel_bytes(self) -> int:
        """Bytes a pixel takes in a row."""
        return self.channels * self.sample_bytes


def _layouts() -> dict[str, Layout]:
    table = {
        "mono8": Layout("packed", "grey", 1),
        "8UC1": Layout("packed", "grey", 1),
        "8UC3": Layout("packed", "bgr", 3),
        "8UC4": Layout("packed", "bgra", 4),
        "mono16": Layout("packed", "grey", 1, 2),
        "yuv422": Layout("yuv422", "COLOR_YUV2RGB_UYVY", 2),
        "uyvy": Layout("yuv422", "COLOR_YUV2RGB_UYVY", 2),
        "yuv422_yuy2": Layout("yuv422", "COLOR_YUV2RGB_YUY2", 2),
        "yuyv": Layout("yuv422", "COLOR_YUV2RGB_YUY2", 2),
        "nv12": Layout("nv", "COLOR_YUV2RGB_NV12", 1),
        "nv21": Layout("nv", "COLOR_YUV2RGB_NV21", 1),
    }
    for order in ("rgb", "bgr", "rgba", "bgra"):
        for sample_bytes in (1, 2):
            name = f"{order}{8 * sample_bytes}"
            table[name] = Layout("packed", order, len(order), sample_bytes)
    # OpenCV names a Bayer pattern by its second row, read from the second column.
    for pattern, opencv in {"rggb": "BG", "bggr": "RG", "gbrg": "GR", "grbg": "GB"}.items():
        for sample_bytes in (1, 2):
            table[f"bayer_{pattern}{8 * sample_bytes}"] = Layout(
                "bayer", f"COLOR_Bayer{opencv}2RGB", 1, sample_bytes
            )
    return table


LAYOUTS: Mapping[str, Layout] = _layouts()
_DEPTH_PREFIXES = ("16UC", "16SC", "32SC", "32FC", "64FC", "8SC")


def check_size(width: int, height: int) -> None:
    """Refuse sizes that no colour camera sends.

    Raises:
        ImageError: ``bad_size``, ``too_small``, ``too_elongated`` or ``too_large``.
    """
    if width <= 0 or height <= 0:
        raise ImageError("bad_size", f"picture of {width} x {height} pixels")
    if width * height > MAX_PIXELS:
        raise ImageError(
            "too_large", f"picture of {width} x {height} pixels is over {MAX_PIXELS} pixels"
        )
    if min(width, height) < MIN_SIDE_PX:
        raise ImageError(
            "too_small", f"picture of {width} x {height} pixels; {MIN_SIDE_PX} a side are needed"
        )
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise ImageError(
            "too_elongated", f"picture of {width} x {height} pixels is over {MAX_ASPECT} to 1"
        )


def check_raw(encoding: str, width: int, height: int, step: int, nbytes: int) -> Layout:
    """Everything that can be wrong with an uncompressed picture, before anything is allocated.

    Args:
        encoding, width, height, step: as in sensor_msgs/Image.
        nbytes: length of its data.

    Raises:
        ImageError: ``empty_encoding``, ``unknown_encoding``, ``depth_image``, ``odd_size``,
            ``step_too_small``, ``data_too_short``, ``data_too_long`` or one of
            :func:`check_size`.
    """
    if not encoding:
        raise ImageError("empty_encoding", "picture without an encoding; set it at the driver")
    layout = LAYOUTS.get(encoding)
    if layout is None:
        if encoding.startswith(_DEPTH_PREFIXES):
            raise ImageError(
                "depth_image",
                f"encoding '{encoding}' is depth or measurement, not colour; "
                "remap 'image' to the colour camera",
            )
        known = ", ".join(sorted(LAYOUTS))
        raise ImageError("unknown_encoding", f"unknown encoding {encoding[:40]!r}; known: {known}")
    check_size(width, height)
    if layout.kind in ("yuv422", "nv") and (width % 2 or (layout.kind == "nv" and height % 2)):
        raise ImageError("odd_size", f"{encoding} of {width} x {height} pixels: sides must be even")
    if step < width * layout.pixel_bytes:
        raise ImageError(
            "step_too_small",
            f"{encoding} row of {width} pixels needs {width * layout.pixel_bytes} bytes, "
            f"step is {step}",
        )
    expected = step * (height * 3 // 2 if layout.kind == "nv" else height)
    if nbytes != expected:
        raise ImageError(
            "data_too_short" if nbytes < expected else "data_too_long",
            f"{encoding} of {width} x {height} with step {step} needs {expected} bytes, "
            f"got {nbytes}",
        )
    return layout


def to_eight_bits(samples: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """Scale 16-bit samples to 8 bits, nearest: 65535 becomes 255 and 257 becomes 1."""
    return ((samples.astype(np.uint32) + 128) // 257).astype(np.uint8)


def convert(
    layout: Layout,
    width: int,
    height: int,
    step: int,
    is_bigendian: bool,
    data: NDArray[np.uint8],
) -> Picture:
    """Turn checked bytes into a fresh RGB picture ``(height, width, 3)``.

    Args:
        layout: from :func:`check_raw`, called with the same values.
        data: ``(bytes,)`` uint8.
    """
    try:
        import cv2
    except ImportError as error:
        raise MissingExtraError("cv2", "cpu", "converting camera pictures") from error
    rows = data.reshape(-1, step)[:, : width * layout.pixel_bytes]
    samples = np.ascontiguousarray(rows)
    if layout.sample_bytes == 2:
        samples = to_eight_bits(samples.view(">u2" if is_bigendian else "<u2"))
    if layout.kind == "packed":
        pixels = samples.reshape(height, width, layout.channels)
        if layout.order == "rgb":
            picture: Picture = np.array(pixels)
            return picture
        code = {
            "grey": cv2.COLOR_GRAY2RGB,
            "bgr": cv2.COLOR_BGR2RGB,
            "rgba": cv2.COLOR_RGBA2RGB,
            "bgra": cv2.COLOR_BGRA2RGB,
        }[layout.order]
    else:
        channels = 2 if layout.kind == "yuv422" else 1
        pixels = samples.reshape(-1, width, channels)
        code = getattr(cv2, layout.order)
    return np.asarray(cv2.cvtColor(pixels, code), np.uint8)
