"""What a memory holds, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from semflip_core.frames import KeyframeRecord


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """What a memory holds.

    Args:
        path: its file; None in RAM.
        keyframes, with_pose: how many.
        picture_bytes, feature_bytes: stored.
        file_bytes: on disk, with the WAL.
        maps: map_id -> keyframes.
        digests: features' digest -> keyframes that have them.
        segments: runs of rising time.
        created_ns: wall time when the file was made; 0 in RAM.
        first_ns, last_ns: least and greatest header stamp; 0 when empty.
        schema_version: of the file.
        degraded: why nothing can be written; empty when all is well.
    """

    path: str | None
    keyframes: int
    with_pose: int
    picture_bytes: int
    feature_bytes: int
    file_bytes: int
    maps: dict[str, int]
    digests: dict[str, int]
    segments: int
    created_ns: int
    first_ns: int
    last_ns: int
    schema_version: int
    degraded: str


def maps_of(records: Iterable[KeyframeRecord]) -> dict[str, int]:
    """map_id -> keyframes."""
    return dict(Counter(record.map_id for record in records))


def file_bytes(path: Path | None) -> int:
    """Bytes on disk of a memory's file and its WAL; 0 in RAM."""
    if path is None:
        return 0
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
