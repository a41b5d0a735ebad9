"""Where the bytes of a memory live: in RAM, or in a file that a thread writes every half second.

Storing never waits for the disk. What is not on disk yet is served from RAM; when the disk is full
it stays there, is tried again, and nothing already stored is touched.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from semflip_core.errors import MemoryFileError
from semflip_core.frames import CameraMount, KeyframeRecord
from semflip_core.memory_schema import full_check, lock_file, open_for_reading, open_for_writing
from semflip_core.poses import Pose

logger = logging.getLogger("semflip")

Key = tuple[str, int, str]
Statement = tuple[str, tuple[object, ...]]
RETRY_S = 5.0

_INSERT_KEYFRAME = f"INSERT OR REPLACE INTO keyframes VALUES ({', '.join('?' * 25)})"


class Store(Protocol):
    """Bytes of pictures and features by keyframe."""

    degraded: str

    def put_keyframe(self, record: KeyframeRecord, looks: bytes, picture: bytes) -> None:
        """Keep a keyframe."""

    def put_features(self, keyframe_id: int, digest: str, data: bytes | None) -> None:
        """Keep features; None notes that they were evicted."""

    def picture(self, keyframe_id: int) -> bytes | None:
        """A picture's bytes, or None where they are missing or damaged."""

    def features(self, keyframe_id: int, digest: str) -> bytes | None:
        """Feature bytes, or None where they are missing or damaged."""

    def remove(self, keyframe_ids: list[int]) -> None:
        """Forget keyframes and their features."""

    def set_meta(self, name: str, value: str) -> None:
        """Keep a small text."""

    def unsaved_bytes(self) -> int:
        """Bytes that wait for the disk."""

    def unsaved_keyframes(self) -> list[int]:
        """Keyframes that are not on disk yet, oldest first."""

    def oldest_unsaved_s(self) -> float:
        """Age of the oldest thing that is not on disk yet; seconds."""

    def flush(self) -> None:
        """Write now; raises MemoryFileError if the disk does not take it."""

    def compact(self) -> None:
        """Give freed space back to the disk."""

    def close(self) -> None:
        """Write and release the file."""


class RamStore:
    """A memory that ends with the process."""

    def __init__(self) -> None:
        self.degraded = ""
        self._pictures: dict[int, bytes] = {}
        self._features: dict[tuple[int, str], bytes] = {}
        self._digests: dict[int, set[str]] = {}

    def put_keyframe(self, record: KeyframeRecord, looks: bytes, picture: bytes) -> None:
        self._pictures[record.id] = picture

    def put_features(self, keyframe_id: int, digest: str, data: bytes | None) -> None:
        if data is None:
            self._features.pop((keyframe_id, digest), None)
            return
        self._features[keyframe_id, digest] = data
        self._digests.setdefault(keyframe_id, set()).add(digest)

    def picture(self, keyframe_id: int) -> bytes | None:
        return self._pictures.get(keyframe_id)

    def features(self, keyframe_id: int, digest: str) -> bytes | None:
        return self._features.get((keyframe_id, digest))

    def remove(self, keyframe_ids: list[int]) -> None:
        for keyframe_id in keyframe_ids:
            self._pictures.pop(keyframe_id, None)
            for digest in self._digests.pop(keyframe_id, ()):
                self._features.pop((keyframe_id, digest), None)

    def set_meta(self, name: str, value: str) -> None:
        pass

    def unsaved_bytes(self) -> int:
        return 0

    def unsaved_keyframes(self) -> list[int]:
        return []

    def oldest_unsaved_s(self) -> float:
        return 0.0

    def flush(self) -> None:
        pass

    def compact(self) -> None:
        pass

    def close(self) -> None:
        self._pictures.clear()
        self._features.clear()


class _Unsaved:
    """A change that waits for the disk."""

    __slots__ = ("data", "since", "statements")

    def __init__(self, statements: list[Statement], data: bytes | None) -> None:
        self.statements = statements
        self.data = data
        self.since = time.monotonic()


class FileStore:
    """A memory in one SQLite file.

    Args:
        path: the file; made if there is none.
        commit_interval_s: write this often.
        read_only: only read, perhaps while another process writes.

    Attributes:
        degraded: why nothing can be written at the moment; empty when all is well.
        notice: what happened at start, for example that a damaged file was set aside.
    """

    def __init__(self, path: Path, commit_interval_s: float, *, read_only: bool = False) -> None:
        self.path = path
        self.degraded = ""
        self.notice = ""
        self.read_only = read_only
        self._interval = commit_interval_s
        self._unsaved: dict[Key, _Unsaved] = {}
        self._unsaved_bytes = 0
        self._guard = threading.Lock()  # of what is unsaved
        self._wake = threading.Condition(self._guard)
        self._writing = threading.Lock()  # of the writing connection
        self._reading = threading.Lock()  # of the reading connection
        self._closed = False
        self._lock = None if read_only else lock_file(path)
        try:
            if read_only:
                self._reader = open_for_reading(path)
            else:
                self._writer, self.notice = open_for_writing(path)
                self._reader = open_for_reading(path)
        except BaseException:
            if self._lock:
                self._lock.release()
            raise
        if not read_only:
            self._thread = threading.Thread(target=self._run, name="semflip-memory", daemon=True)
            self._thread.start()

    # What the file holds, at start.

    def meta(self) -> dict[str, str]:
        """The small texts kept with the memory."""
        return dict(self._read("SELECT name, value FROM meta"))

    def next_id(self) -> int:
        """The first keyframe number that was never used."""
        rows = self._read("SELECT seq FROM sqlite_sequence WHERE name = 'keyframes'")
        return (rows[0][0] if rows else 0) + 1

    def stored_keyframes(self) -> Iterator[tuple[KeyframeRecord, bytes, int]]:
        """Each record, its looks and its picture's bytes, by id."""
        for row in self._read(
            "SELECT id, stamp_ns, map_id, segment, width, height, frame_id, px, py, pz, qx, qy,"
            " qz, qw, mount_frame, mx, my, mz, mqx, mqy, mqz, mqw, looks, picture_bytes"
            " FROM keyframes ORDER BY id"
        ):
            yield _record(row), row[22], row[23]

    def stored_features(self) -> list[tuple[int, str, int]]:
        """``(keyframe id, digest, bytes)`` of all features, by id; 0 bytes where evicted."""
        return self._read(
            "SELECT keyframe_id, digest, nbytes FROM features ORDER BY keyframe_id, digest"
        )

    # Changes: into RAM at once, to disk by the thread.

    def put_keyframe(self, record: KeyframeRecord, looks: bytes, picture: bytes) -> None:
        statements: list[Statement] = [
            (_INSERT_KEYFRAME, (*_columns(record), looks, len(picture), zlib.crc32(picture))),
            ("INSERT OR REPLACE INTO pictures VALUES (?, ?)", (record.id, picture)),
        ]
        self._put(("keyframe", record.id, ""), statements, picture)

    def put_features(self, keyframe_id: int, digest: str, data: bytes | None) -> None:
        row = (keyframe_id, digest, len(data or b""), zlib.crc32(data or b""), data)
        statements: list[Statement] = [
            ("DELETE FROM features WHERE keyframe_id = ? AND digest = ?", (keyframe_id, digest)),
            ("INSERT INTO features VALUES (?, ?, ?, ?, ?)", row),
        ]
        self._put(("features", keyframe_id, digest), statements, data)

    def remove(self, keyframe_ids: list[int]) -> None:
        gone = set(keyframe_ids)
        with self._guard:
            for key in [key for key in self._unsaved if key[1] in gone and key[0] != "remove"]:
                self._forget(key)
        statements: list[Statement] = []
        for keyframe_id in keyframe_ids:
            statements += [
                ("DELETE FROM keyframes WHERE id = ?", (keyframe_id,)),
                ("DELETE FROM pictures WHERE keyframe_id = ?", (keyframe_id,)),
                ("DELETE FROM features WHERE keyframe_id = ?", (keyframe_id,)),
            ]
        if keyframe_ids:
            # A number that never reached the disk must not be used again either.
            statements.append(
                (
                    "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'keyframes'",
                    (max(keyframe_ids),),
                )
            )
            self._put(("remove", keyframe_ids[0], ""), statements, None)

    def set_meta(self, name: str, value: str) -> None:
        self._put(
            ("meta", 0, name), [("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))], None
        )

    def _put(self, key: Key, statements: list[Statement], data: bytes | None) -> None:
        if self.read_only:
            raise MemoryFileError(f"{self.path}: opened read-only")
        with self._guard:
            self._forget(key)
            self._unsaved[key] = _Unsaved(statements, data)
            self._unsaved_bytes += len(data or b"")
            self._wake.notify()

    def _forget(self, key: Key) -> None:
        change = self._unsaved.pop(key, None)
        if change is not None:
            self._unsaved_bytes -= len(change.data or b"")

    def unsaved_bytes(self) -> int:
        return self._unsaved_bytes

    def unsaved_keyframes(self) -> list[int]:
        with self._guard:
            return [key[1] for key in self._unsaved if key[0] == "keyframe"]

    def oldest_unsaved_s(self) -> float:
        with self._guard:
            first = next(iter(self._unsaved.values()), None)
            return 0.0 if first is None else time.monotonic() - first.since

    # Reading.

    def picture(self, keyframe_id: int) -> bytes | None:
        with self._guard:
            change = self._unsaved.get(("keyframe", keyframe_id, ""))
            if change is not None:
                return change.data
        return self._checked(
            "SELECT p.data, k.picture_crc FROM pictures p JOIN keyframes k"
            " ON k.id = p.keyframe_id WHERE p.keyframe_id = ?",
            (keyframe_id,),
        )

    def features(self, keyframe_id: int, digest: str) -> bytes | None:
        with self._guard:
            change = self._unsaved.get(("features", keyframe_id, digest))
            if change is not None:
                return change.data
        return self._checked(
            "SELECT data, crc FROM features WHERE keyframe_id = ? AND digest = ?",
            (keyframe_id, digest),
        )

    def _checked(self, query: str, values: tuple[object, ...]) -> bytes | None:
        try:
            rows = self._read(query, values)
        except MemoryFileError as error:
            logger.error("%s", error)
            return None
        if not rows or rows[0][0] is None:
            return None
        data, checksum = rows[0]
        if zlib.crc32(data) != checksum:
            logger.error("%s: checksum of %s is wrong; dropped", self.path, values)
            return None
        return bytes(data)

    def _read(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._reading:
                return self._reader.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise MemoryFileError(f"{self.path}: cannot be read: {error}") from error

    def problems(self) -> list[str]:
        """What a check of the whole file finds; reads all of it."""
        with self._reading:
            return full_check(self._reader)

    # Writing.

    def flush(self) -> None:
        if self.read_only:
            return
        if not self._write():
            raise MemoryFileError(self.degraded)

    def _run(self) -> None:
        while True:
            with self._guard:
                while not self._unsaved and not self._closed:
                    self._wake.wait()
                if self._closed:
                    return
                self._wake.wait_for(lambda: self._closed, self._interval)
                if self._closed:
                    return
            if not self._write():
                with self._guard:
                    self._wake.wait_for(lambda: self._closed, RETRY_S)

    def _write(self) -> bool:
        """Commit everything that is unsaved; False, with ``degraded`` set, if that fails."""
        with self._writing:
            with self._guard:
                changes = list(self._unsaved.items())
            if not changes:
                return True
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                for _, change in changes:
                    for statement, values in change.statements:
                        self._writer.execute(statement, values)
                self._writer.execute("COMMIT")
            except sqlite3.Error as error:
                self._roll_back(error, len(changes))
                return False
            if self.degraded:
                logger.warning("%s: written again, nothing was lost", self.path)
                self.degraded = ""
            with self._guard:
                for key, change in changes:
                    if self._unsaved.get(key) is change:
                        self._forget(key)
            return True

    def _roll_back(self, error: sqlite3.Error, changes: int) -> None:
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")
        if not self.degraded:
            logger.error(
                "%s: cannot be written (%s); %d changes are kept in RAM and tried again",
                self.path,
                error,
                changes,
            )
        self.degraded = f"{self.path}: cannot be written ({error}); keeping new keyframes in RAM"

    def compact(self) -> None:
        self.flush()
        with self._writing:
            try:
                self._writer.execute("VACUUM")
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error as error:
                logger.warning("%s: space was not given back: %s", self.path, error)

    def close(self) -> None:
        if self._closed:
            return
        if not self.read_only:
            if not self._write():
                logger.error("%s: closed with unsaved keyframes: %s", self.path, self.degraded)
            with self._guard:
                self._closed = True
                self._wake.notify_all()
            self._thread.join()
        self._closed = True
        with self._reading:
            self._reader.close()
        if not self.read_only:
            with self._writing:
                self._writer.close()
        if self._lock:
            self._lock.release()


def _columns(record: KeyframeRecord) -> tuple[object, ...]:
    pose, mount = record.pose, record.mount
    nothing = (None,) * 8
    return (
        record.id,
        record.stamp_ns,
        record.map_id,
        record.segment,
        record.width,
        record.height,
        *((pose.frame_id, *pose.position, *pose.orientation) if pose else nothing),
        *((mount.frame_id, *mount.position, *mount.orientation) if mount else nothing),
    )


def _record(row: tuple[Any, ...]) -> KeyframeRecord:
    pose = mount = None
    if row[6] is not None:
        pose = Pose(row[6], row[7:10], row[10:14])
        # Normalising again could change the last bit; what was stored is what comes back.
        object.__setattr__(pose, "orientation", row[10:14])
    if row[14] is not None:
        mount = CameraMount(row[15:18], row[18:22], row[14])
    return KeyframeRecord(row[0], row[1], pose, row[2], row[3], row[4], row[5], mount)
