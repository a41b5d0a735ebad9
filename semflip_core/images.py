"""Camera pictures: from any message to RGB, and to the bytes that the memory keeps.

Nothing here trusts a size or an encoding: everything is checked before anything is allocated, and
what cannot be used raises :class:`ImageError` with a short reason to count drops by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from semflip_core.errors import ImageError, MissingExtraError
from semflip_core.frames import Picture
from semflip_core.image_containers import Container, sniff
from semflip_core.image_encodings import (
    MIN_SIDE_PX,
    check_raw,
    check_size,
    convert,
    to_eight_bits,
)
from semflip_core.settings import KeyframeSettings

if TYPE_CHECKING:
    from types import ModuleType

#: libjpeg paints what is missing from a cut picture in exactly this grey.
_MISSING_GREY = 128
_MISSING_ROWS = 16


@dataclass(frozen=True, slots=True)
class StoredPicture:
    """A compressed picture as the memory keeps it.

    Args:
        data: a whole jpeg, png or webp file.
        width, height: pixels.
    """

    data: bytes
    width: int
    height: int


def decode_raw(
    encoding: str, width: int, height: int, step: int, is_bigendian: bool, data: Any
) -> Picture:
    """Convert the fields of a sensor_msgs/Image.

    Args:
        data: anything with a buffer of bytes (bytes, array.array, numpy, memoryview).

    Returns:
        A fresh ``(height, width, 3)`` RGB picture.

    Raises:
        ImageError: with a reason of :func:`semflip_core.image_encodings.check_raw`, or
            ``bad_data``.
        MissingExtraError: OpenCV is not installed.
    """
    try:
        view = memoryview(data).cast("B")
    except TypeError as error:
        raise ImageError(
            "bad_data", f"picture data is {type(data).__name__}, not a buffer of bytes"
        ) from error
    layout = check_raw(encoding, width, height, step, view.nbytes)
    return convert(
        layout, width, height, step, bool(is_bigendian), np.frombuffer(view, dtype=np.uint8)
    )


def decode_compressed(data: bytes) -> Picture:
    """Decode a compressed picture by what its bytes are, whatever the message calls them.

    Orientation marks of cameras are ignored: bearings need the sensor's own rows and columns.

    Returns:
        A fresh ``(height, width, 3)`` RGB picture.

    Raises:
        ImageError: with a reason of :func:`semflip_core.image_containers.sniff`, of
            :func:`semflip_core.image_encodings.check_size`, ``truncated`` or ``damaged``.
        MissingExtraError: OpenCV is not installed.
    """
    payload = bytes(data)
    return _decode(payload, check_compressed(payload))


def check_compressed(data: bytes) -> Container:
    """Check a compressed picture by its header alone; errors as for :func:`decode_compressed`."""
    container = sniff(data)
    check_size(container.width, container.height)
    if container.bits == 16 and container.channels == 1:
        raise ImageError(
            "depth_image",
            f"{container.kind} with one 16-bit channel is depth, not colour; "
            "remap 'image/compressed' to the colour camera",
        )
    if container.kind == "jpeg" and container.bits != 8:
        raise ImageError("damaged", f"jpeg with {container.bits} bits a sample")
    return container


def store_raw(rgb: Picture, settings: KeyframeSettings) -> StoredPicture:
    """Compress an RGB picture ``(height, width, 3)`` to JPEG, scaled down to ``max_side_px``.

    Raises:
        ImageError: a size of :func:`semflip_core.image_encodings.check_size`, or not RGB.
    """
    if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.dtype != np.uint8:
        raise ImageError(
            "bad_data", f"expected (height, width, 3) uint8, got {rgb.shape} {rgb.dtype}"
        )
    cv2 = _opencv()
    height, width = rgb.shape[:2]
    check_size(width, height)
    scale = settings.max_side_px / max(width, height)
    if scale < 1.0:
        width, height = (max(MIN_SIDE_PX, round(side * scale)) for side in (width, height))
        rgb = cv2.resize(rgb, (width, height), interpolation=cv2.INTER_AREA)
    return StoredPicture(jpeg(rgb, settings.jpeg_quality), width, height)


def jpeg(rgb: Picture, quality: int = 85) -> bytes:
    """An RGB picture ``(height, width, 3)`` as a JPEG file.

    Raises:
        ImageError: it cannot be compressed.
        MissingExtraError: OpenCV is not installed.
    """
    cv2 = _opencv()
    written, data = cv2.imencode(
        ".jpg", cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality]
    )
    if not written:
        raise ImageError("damaged", f"OpenCV could not compress a picture of shape {rgb.shape}")
    return bytes(data.tobytes())


def store_compressed(data: bytes, settings: KeyframeSettings) -> StoredPicture:
    """Check a compressed picture by decoding it once, and make it fit to be stored.

    A sound JPEG within ``max_side_px`` is kept as it came, less any padding after its end;
    everything else is compressed anew.

    Raises:
        ImageError: as for :func:`decode_compressed`.
    """
    payload = bytes(data)
    container = check_compressed(payload)
    rgb = _decode(payload, container)
    if container.kind == "jpeg" and max(container.width, container.height) <= settings.max_side_px:
        return StoredPicture(payload[: container.end], container.width, container.height)
    return store_raw(rgb, settings)


def _decode(data: bytes, container: Container) -> Picture:
    cv2 = _opencv()
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    if container.bits == 16:
        flags |= cv2.IMREAD_ANYDEPTH
    try:
        bgr = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error as error:
        raise ImageError("damaged", f"{container.kind} cannot be decoded: {error}") from error
    if bgr is None:
        raise ImageError("damaged", f"{container.kind} of {len(data)} bytes cannot be decoded")
    if bgr.shape != (container.height, container.width, 3):
        raise ImageError(
            "damaged",
            f"{container.kind} decodes to {bgr.shape[1]} x {bgr.shape[0]} pixels, "
            f"its header says {container.width} x {container.height}",
        )
    if bgr.dtype == np.uint16:
        bgr = to_eight_bits(bgr)
    if container.kind == "jpeg" and _has_missing_rows(bgr):
        raise ImageError("truncated", "the lower part of this jpeg was lost on its way")
    return np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), np.uint8)


def _has_missing_rows(pixels: Picture) -> bool:
    """Whether the last rows are what libjpeg paints for lost data, below a real picture.

    A camera that drops a packet still sends the end marker, so the marker alone proves nothing.
    """
    tail = pixels[-_MISSING_ROWS:]
    return bool((tail == _MISSING_GREY).all()) and not bool((pixels == _MISSING_GREY).all())


def _opencv() -> ModuleType:
    try:
        import cv2
    except ImportError as error:
        raise MissingExtraError("cv2", "cpu", "camera pictures") from error
    module: ModuleType = cv2
    return module
