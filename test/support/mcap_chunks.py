"""Recompresses the chunks of an MCAP file, as ``ros2 bag record`` presets and other tools do.

Record by record after the MCAP specification (mcap.dev/spec): the data section is copied with its
chunks packed anew, then the summary with its chunk indexes moved.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

import lz4.frame

MAGIC = b"\x89MCAP0\r\n"
CHUNK, CHUNK_INDEX, FOOTER, SUMMARY_OFFSET = 0x06, 0x08, 0x02, 0x0E
PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "lz4": lz4.frame.compress,
    "zstd": zstd.compress,
}
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "lz4": lz4.frame.decompress,
    "zstd": zstd.decompress,
}


def recompress(file: Path, compression: str) -> int:
    """Pack every chunk of a file anew; how many there were."""
    data = file.read_bytes()
    out = bytearray(MAGIC)
    moved: dict[int, tuple[int, int, int, int]] = {}
    (summary_start,) = struct.unpack_from("<Q", data, len(data) - len(MAGIC) - 20)
    new_summary = 0
    for offset, kind, body in _records(data):
        if offset == summary_start:
            new_summary = len(out)
        if kind == CHUNK:
            start = len(out)
            body, packed, plain = _repacked(body, compression)
            moved[offset] = (start, len(body) + 9, packed, plain)
        elif kind == CHUNK_INDEX:
            body = _moved(body, moved, compression)
        elif kind == FOOTER:
            body = struct.pack("<QQI", new_summary, 0, 0)
        if kind != SUMMARY_OFFSET:
            out += struct.pack("<BQ", kind, len(body)) + body
    file.write_bytes(bytes(out) + MAGIC)
    return len(moved)


def _records(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = len(MAGIC)
    while at < len(data) - len(MAGIC):
        kind, length = struct.unpack_from("<BQ", data, at)
        yield at, kind, data[at + 9 : at + 9 + length]
        at += 9 + length


def _repacked(body: bytes, compression: str) -> tuple[bytes, int, int]:
    (size,) = struct.unpack_from("<I", body, 28)
    plain = UNPACK[body[32 : 32 + size].decode()](body[40 + size :])
    packed = PACK[compression](plain)
    name = compression.encode()
    checksum = struct.pack("<I", crc32(plain))
    head = body[:24] + checksum + struct.pack("<I", len(name)) + name
    head += struct.pack("<Q", len(packed))
    return head + packed, len(packed), len(plain)


def _moved(body: bytes, moved: dict[int, tuple[int, int, int, int]], compression: str) -> bytes:
    """A chunk index that points at where its chunk went, and the message indexes behind it."""
    times, offset = body[:16], struct.unpack_from("<Q", body, 16)[0]
    start, length, packed, plain = moved[offset]
    (map_bytes,) = struct.unpack_from("<I", body, 32)
    shift = start + length - offset - struct.unpack_from("<Q", body, 24)[0]
    channels = b"".join(
        struct.pack("<HQ", channel, at + shift)
        for channel, at in struct.iter_unpack("<HQ", body[36 : 36 + map_bytes])
    )
    (index_length,) = struct.unpack_from("<Q", body, 36 + map_bytes)
    name = compression.encode()
    return b"".join(
        (
            times,
            struct.pack("<QQI", start, length, map_bytes),
            channels,
            struct.pack("<QI", index_length, len(name)),
            name,
            struct.pack("<QQ", packed, plain),
        )
    )
