"""A memory in one SQLite file that a thread of its own writes.

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
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from semflip_core.errors import MemoryFileError
from semflip_core.frames import KeyframeRecord
from semflip_core.memory.rows import COLUMNS, record_of, row_of
from semflip_core.memory.schema import (
    DAMAGED,
    full_check,
    is_damage,
    lock_file,
    open_for_reading,
    open_for_writing,
)

logger = logging.getLogger("semflip")

Key = tuple[str, int, str]
Statement = tuple[str, tuple[object, ...]]
#: After the disk refused, try again this much later.
RETRY_S = 5.0

_INSERT_KEYFRAME = (
    f"INSERT OR REPLACE INTO keyframes ({COLUMNS}, looks, reach, picture_bytes, picture_crc)"
    f" VALUES ({', '.join('?' * 26)})"
)


class _Unsaved:
    """A change that waits for the disk."""

    __slots__ = ("data", "since", "statements")

    def __init__(self, statements: list[Statement], data: bytes | None) -> None:
        self.statements = statements
        self.data = data
        self.since = time.monotonic()


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file has this name now; None where none has."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class FileStore:
    """A memory in one SQLite file.

    Args:
        path: the file; made if there is none.
        commit_interval_s: write this often.
        read_only: only read, perhaps while another process writes; features are taken all the
            same and end with the process.

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
        self._identity: tuple[int, int] | None = None
        self._lock = None if read_only else lock_file(path)
        with ExitStack() as undo:
            if self._lock:
                undo.callback(self._lock.release)
                suspect = DAMAGED in self._lock.text
                self._writer, self.notice = open_for_writing(path, suspect=suspect)
                undo.callback(self._writer.close)
            self._reader = open_for_reading(path)
            self._identity = _identity(path)
            undo.pop_all()
        if not read_only:
            if self._lock:
                self._lock.note("")
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

    def stored_keyframes(self) -> Iterator[tuple[KeyframeRecord, bytes, float, int]]:
        """Each record, its looks, its reach and its picture's bytes, by id."""
        for row in self._read(
            f"SELECT {COLUMNS}, looks, reach, picture_bytes FROM keyframes ORDER BY id"
        ):
            yield record_of(row), row[22], row[23], row[24]

    def stored_features(self) -> list[tuple[int, str, int]]:
        """``(keyframe id, digest, bytes)`` of all features, by id; 0 bytes where evicted."""
        return self._read(
            "SELECT keyframe_id, digest, nbytes FROM features ORDER BY keyframe_id, digest"
        )

    # Changes: into RAM at once, to disk by the thread.

    def put_keyframe(self, record: KeyframeRecord, looks: bytes, picture: bytes) -> None:
        statements: list[Statement] = [
            (_INSERT_KEYFRAME, (*row_of(record), looks, 0.0, len(picture), zlib.crc32(picture))),
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

    def set_reach(self, keyframe_id: int, reach: float) -> None:
        statement = ("UPDATE keyframes SET reach = ? WHERE id = ?", (reach, keyframe_id))
        self._put(("reach", keyframe_id, ""), [statement], None)

    def set_meta(self, name: str, value: str) -> None:
        self._put(
            ("meta", 0, name), [("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))], None
        )

    def _put(self, key: Key, statements: list[Statement], data: bytes | None) -> None:
        if self.read_only and key[0] != "features":
            raise MemoryFileError(f"{self.path}: opened read-only")
        with self._guard:
            if self._closed:
                raise MemoryFileError(f"{self.path}: the memory is closed")
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

    def drop_unsaved_features(self) -> list[tuple[int, str]]:
        with self._guard:
            keys = [key for key in self._unsaved if key[0] == "features"]
            for key in keys:
                self._forget(key)
            return [(keyframe_id, digest) for _, keyframe_id, digest in keys]

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
        """A blob, or None where it is missing or damaged; other trouble is an error."""
        try:
            rows = self._read(query, values)
        except MemoryFileError as error:
            if not is_damage(error.__cause__):
                raise
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
                if self._closed:
                    raise MemoryFileError(f"{self.path}: the memory is closed")
                return self._reader.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise MemoryFileError(f"{self.path}: cannot be read: {error}") from error

    def problems(self) -> list[str]:
        """What a check of the whole file finds; reads all of it."""
        with self._reading:
            return full_check(self._reader)

    # Writing.

    def flush(self) -> None:
        if not self.read_only and not self._write():
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
            if _identity(self.path) != self._identity:
                self._degrade(
                    "was deleted or replaced while in use: start the node again", len(changes)
                )
                return False
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
        with suppress(sqlite3.Error):  # what failed may have rolled back by itself
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        if is_damage(error) and self._lock:
            with suppress(OSError):  # a full disk takes no note either
                self._lock.note(DAMAGED)  # the next start checks the whole file
        self._degrade(f"cannot be written ({error})", changes)

    def _degrade(self, why: str, changes: int) -> None:
        """Say once why nothing is written; it stays in RAM and is tried again."""
        if not self.degraded:
            logger.error(
                "%s: %s; %d changes are kept in RAM and tried again", self.path, why, changes
            )
        self.degraded = f"{self.path}: {why}; keeping new keyframes in RAM"

    def compact(self) -> None:
        self.flush()
        with self._writing:
            try:
                self._writer.execute("VACUUM")
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error as error:
                logger.warning("%s: space was not given back: %s", self.path, error)

    def close(self) -> None:
        with self._guard:
            if self._closed:
                return
            self._closed = True
            self._wake.notify_all()
        if not self.read_only:
            self._thread.join()
            if not self._write():
                lost = len(self.unsaved_keyframes())
                logger.error("%s: closed, %d keyframes lost: %s", self.path, lost, self.degraded)
        with self._reading:
            self._reader.close()
        if not self.read_only:
            with self._writing:
                self._writer.close()
        if self._lock:
            self._lock.release()
