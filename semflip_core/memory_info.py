"""What a memory holds, in numbers."""

from __future__ import annotations

from dataclasses import dataclass


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
