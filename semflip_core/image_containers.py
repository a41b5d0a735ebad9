"""Compressed pictures by their bytes: which container, which size, and whether it is all there.

Only headers are read here, so that nothing is allocated before a picture's size is known. Formats:
ITU-T T.81 (JPEG), W3C PNG, RFC 9649 (WebP), TIFF 6.0 and Windows BMP.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from semflip_core.errors import ImageError

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
_VIDEO_STARTS = (b"\x00\x00\x00\x01", b"\x00\x00\x01")
_COMPRESSED_DEPTH_HEADER = 12
_SOF_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_NEXT_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")


@dataclass(frozen=True, slots=True)
class Container:
    """What the header of a compressed picture says.

    Args:
        kind: ``jpeg``, ``png``, ``webp``, ``bmp`` or ``tiff``.
        width, height: pixels, before any rotation that its metadata asks for.
        channels: colour channels of the file, alpha included.
        bits: per channel.
        end: where the picture ends in the bytes; what follows is padding.
    """

    kind: str
    width: int
    height: int
    channels: int
    bits: int
    end: int


def sniff(data: bytes) -> Container:
    """Read a compressed picture's header.

    Raises:
        ImageError: ``empty``, ``truncated``, ``damaged``, ``depth_image``, ``video_stream`` or
            ``unknown_container``.
    """
    if not data:
        raise ImageError("empty", "compressed picture without any bytes")
    try:
        return _sniff(data)
    except (struct.error, IndexError) as error:
        raise ImageError(
            "truncated", f"compressed picture of {len(data)} bytes ends inside its header"
        ) from error


def _sniff(data: bytes) -> Container:
    if data[:2] == b"\xff\xd8":
        return _jpeg(data)
    if data[:8] == PNG_MAGIC:
        return _png(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp(data)
    if data[:2] == b"BM":
        return _bmp(data)
    if data[:4] in (b"II*\x00", b"MM\x00*"):
        return _tiff(data)
    if data[_COMPRESSED_DEPTH_HEADER : _COMPRESSED_DEPTH_HEADER + 8] == PNG_MAGIC:
        raise ImageError(
            "depth_image",
            "this is a compressedDepth payload; remap 'image/compressed' to the colour camera",
        )
    if data.startswith(_VIDEO_STARTS):
        raise ImageError(
            "video_stream",
            "this is an H.264 or H.265 stream, not single pictures; "
            "republish it as jpeg (image_transport republish)",
        )
    raise ImageError(
        "unknown_container",
        f"compressed picture starts with {data[:8]!r}: not jpeg, png, webp, bmp or tiff",
    )


def _jpeg(data: bytes) -> Container:
    """Walk the markers from SOI to EOI (T.81 annex B); a missing EOI means a cut picture."""
    position, frame = 2, None
    while True:
        if data[position] != 0xFF:
            raise ImageError("damaged", f"jpeg has no marker at byte {position}")
        while data[position] == 0xFF:
            position += 1
        marker = data[position]
        position += 1
        if marker == 0xD9:
            break
        if marker == 0x01 or 0xD0 <= marker <= 0xD7:
            continue
        (length,) = struct.unpack_from(">H", data, position)
        if length < 2:
            raise ImageError("damaged", f"jpeg segment at byte {position} has length {length}")
        if marker in _SOF_MARKERS:
            bits, height, width, channels = struct.unpack_from(">BHHB", data, position + 2)
            frame = (width, height, channels, bits)
        position += length
        if marker == 0xDA:
            following = _NEXT_MARKER.search(data, position)
            if following is None:
                raise ImageError(
                    "truncated", f"jpeg of {len(data)} bytes ends inside the picture (no EOI)"
                )
            position = following.start()
    if frame is None:
        raise ImageError("damaged", "jpeg has no frame header")
    return Container("jpeg", *frame, end=position)


def _png(data: bytes) -> Container:
    """Walk the chunks to IEND; the decoder checks their checksums."""
    position, header = 8, None
    while True:
        length, name = struct.unpack_from(">I4s", data, position)
        end = position + 12 + length
        if end > len(data):
            raise ImageError("truncated", f"png of {len(data)} bytes ends inside chunk {name!r}")
        if header is None:
            if name != b"IHDR":
                raise ImageError("damaged", f"png starts with chunk {name!r}, not IHDR")
            header = struct.unpack_from(">IIBB", data, position + 8)
        position = end
        if name == b"IEND":
            break
    width, height, bits, colour = header
    channels = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}.get(colour)
    if channels is None:
        raise ImageError("damaged", f"png has unknown colour type {colour}")
    return Container("png", width, height, channels, bits, position)


def _webp(data: bytes) -> Container:
    (size,) = struct.unpack_from("<I", data, 4)
    end = size + 8
    if end > len(data):
        raise ImageError("truncated", f"webp declares {end} bytes and has {len(data)}")
    name = data[12:16]
    if name == b"VP8 ":
        if data[23:26] != b"\x9d\x01\x2a":
            raise ImageError("damaged", "webp has no start code")
        width, height = (v & 0x3FFF for v in struct.unpack_from("<HH", data, 26))
        return Container("webp", width, height, 3, 8, end)
    if name == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return Container("webp", (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1, 4, 8, end)
    if name == b"VP8X":
        width = int.from_bytes(data[24:27], "little") + 1
        height = int.from_bytes(data[27:30], "little") + 1
        if len(data) < 30:
            raise ImageError("truncated", "webp ends inside its header")
        return Container("webp", width, height, 4, 8, end)
    raise ImageError("damaged", f"webp has unknown chunk {name!r}")


def _bmp(data: bytes) -> Container:
    offset, size = struct.unpack_from("<II", data, 10)
    if size < 40:
        raise ImageError("unknown_container", f"bmp with an old header of {size} bytes")
    width, height, _, bits, compression = struct.unpack_from("<iiHHI", data, 18)
    end = len(data)
    if compression == 0:
        end = offset + (width * bits + 31) // 32 * 4 * abs(height)
        if end > len(data):
            raise ImageError("truncated", f"bmp needs {end} bytes and has {len(data)}")
    return Container("bmp", width, abs(height), 4 if bits == 32 else 3, 8, end)


def _tiff(data: bytes) -> Container:
    order = "<" if data[:2] == b"II" else ">"
    (position,) = struct.unpack_from(order + "I", data, 4)
    (count,) = struct.unpack_from(order + "H", data, position)
    tags: dict[int, tuple[int, int]] = {}
    for index in range(count):
        entry = position + 2 + 12 * index
        tag, kind, amount, value = struct.unpack_from(order + "HHII", data, entry)
        if kind == 3 and amount <= 2:
            (value,) = struct.unpack_from(order + "H", data, entry + 8)
        tags[tag] = (amount, value)
    if 256 not in tags or 257 not in tags:
        raise ImageError("damaged", "tiff names no width or height")
    amount, bits = tags.get(258, (1, 1))
    if amount > 2:
        (bits,) = struct.unpack_from(order + "H", data, bits)
    channels = tags.get(277, (1, 1))[1]
    return Container("tiff", tags[256][1], tags[257][1], channels, bits, len(data))
