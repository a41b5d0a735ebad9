"""Memories going in and out: exported as plain files, merged into one another."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semflip_core.errors import ImageError, MemoryFileError
from semflip_core.frames import KeyframeRecord
from semflip_core.image_containers import sniff
from semflip_core.images import StoredPicture
from semflip_core.memory.video_memory import VideoMemory

logger = logging.getLogger("semflip")

Progress = Callable[[int, int], None]
RECORDS_FILE = "keyframes.jsonl"
PICTURES_DIRECTORY = "pictures"


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge did, in keyframes.

    Args:
        added: now in the target.
        known: were there already: same stamp, map and picture.
        damaged: could not be read from the source.
        spared: did not fit into the target's capacity.
    """

    added: int
    known: int
    damaged: int
    spared: int


def export_memory(
    memory: VideoMemory, directory: str | Path, progress: Progress | None = None
) -> int:
    """Write each keyframe's picture as a file, and all records as one JSON object a line.

    Args:
        directory: made if there is none; must be empty.
        progress: told keyframes done and in all.

    Returns:
        How many keyframes were written.

    Raises:
        MemoryFileError: the directory is not empty or cannot be written.
    """
    target = Path(directory)
    try:
        if target.exists() and any(target.iterdir()):
            raise MemoryFileError(f"{target}: not empty; export into a new directory")
        (target / PICTURES_DIRECTORY).mkdir(parents=True)
        records = memory.records()
        written = 0
        with (target / RECORDS_FILE).open("w", encoding="utf-8") as lines:
            for number, record in enumerate(records, start=1):
                try:
                    data = memory.encoded_picture(record.id)
                except KeyError:
                    logger.warning("keyframe %d is damaged and was left out", record.id)
                    continue
                name = f"{PICTURES_DIRECTORY}/{record.id:08d}.{_ending(data)}"
                (target / name).write_bytes(data)
                lines.write(json.dumps(record_to_json(record) | {"file": name}) + "\n")
                written += 1
                if progress:
                    progress(number, len(records))
    except OSError as error:
        raise MemoryFileError(f"{target}: cannot be written: {error}") from error
    return written


def record_to_json(record: KeyframeRecord) -> dict[str, Any]:
    """Plain values of a record; floats keep every digit."""
    pose, mount = record.pose, record.mount
    return {
        "id": record.id,
        "stamp_ns": record.stamp_ns,
        "map_id": record.map_id,
        "segment": record.segment,
        "width": record.width,
        "height": record.height,
        "pose": pose
        and {
            "frame_id": pose.frame_id,
            "position": list(pose.position),
            "orientation": list(pose.orientation),
        },
        "mount": mount
        and {
            "frame_id": mount.frame_id,
            "position": list(mount.position),
            "orientation": list(mount.orientation),
        },
    }


def merge_memory(
    target: VideoMemory, source: VideoMemory, progress: Progress | None = None
) -> Merged:
    """Copy a memory's keyframes and features into another one; merging twice changes nothing.

    Keyframes get new numbers, and segments of their own. Maps keep their names: keyframes of two
    robots on one declared map stay comparable, others do not.
    """
    present = {identity for _, identity in _identities(target)}
    offset = target.next_segment()
    records = {record.id: record for record in source.records()}
    digests = list(source.info().digests)
    fresh: list[int] = []
    known = 0
    for number, (keyframe_id, identity) in enumerate(_identities(source), start=1):
        if identity in present:
            known += 1
        else:
            fresh.append(_copy(target, source, records[keyframe_id], offset, digests))
            present.add(identity)
        if progress:
            progress(number, len(records))
    kept = {record.id for record in target.records()}
    added = sum(keyframe_id in kept for keyframe_id in fresh)
    damaged = len(records) - known - len(fresh)
    return Merged(added, known, damaged, len(fresh) - added)


def _identities(memory: VideoMemory) -> Iterator[tuple[int, tuple[int, str, int]]]:
    for record in memory.records():
        try:
            data = memory.encoded_picture(record.id)
        except KeyError:
            continue
        yield record.id, (record.stamp_ns, record.map_id, zlib.crc32(data))


def _copy(
    target: VideoMemory,
    source: VideoMemory,
    record: KeyframeRecord,
    segment_offset: int,
    digests: list[str],
) -> int:
    data = source.encoded_picture(record.id)
    keyframe_id = target.add(
        StoredPicture(data, record.width, record.height),
        stamp_ns=record.stamp_ns,
        pose=record.pose,
        map_id=record.map_id,
        segment=record.segment + segment_offset,
        mount=record.mount,
    )
    for digest in digests:
        features = source.features(record.id, digest)
        if features is not None:
            target.put_features(keyframe_id, digest, features)
    return keyframe_id


def _ending(data: bytes) -> str:
    try:
        kind = sniff(data).kind
    except ImageError:
        return "bin"
    return "jpg" if kind == "jpeg" else kind
