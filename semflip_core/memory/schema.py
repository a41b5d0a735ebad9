"""The memory's file: opened by one writer, checked at start, set aside when damaged.

SQLite in WAL mode with synchronous=FULL: what was committed survives a killed process and, where
the disk honours flushes, a power cut.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from semflip_core.errors import MemoryFileError

logger = logging.getLogger("semflip")

SCHEMA_VERSION = 1
#: "sFlp": tells our files from any other SQLite file.
APPLICATION_ID = 0x73466C70
PAGE_BYTES = 8192
WAL_LIMIT_BYTES = 64_000_000

_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE keyframes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    stamp_ns INTEGER NOT NULL, map_id TEXT NOT NULL, segment INTEGER NOT NULL,
    width INTEGER NOT NULL, height INTEGER NOT NULL,
    frame_id TEXT, px REAL, py REAL, pz REAL, qx REAL, qy REAL, qz REAL, qw REAL,
    mount_frame TEXT, mx REAL, my REAL, mz REAL, mqx REAL, mqy REAL, mqz REAL, mqw REAL,
    looks BLOB NOT NULL, reach REAL NOT NULL,
    picture_bytes INTEGER NOT NULL, picture_crc INTEGER NOT NULL
);
CREATE TABLE pictures (keyframe_id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE features (
    keyframe_id INTEGER NOT NULL, digest TEXT NOT NULL, nbytes INTEGER NOT NULL,
    crc INTEGER NOT NULL, data BLOB
);
CREATE UNIQUE INDEX features_by_keyframe ON features (keyframe_id, digest, nbytes);
"""
#: Small tables whose damage would mix up keyframes; blobs carry checksums of their own.
_CHECKED_AT_START = ("meta", "keyframes")
#: Left in the lock file when damage was found while running.
DAMAGED = ": found damage"


@dataclass(slots=True)
class FileLock:
    """Advisory lock of a memory file, held as long as the process lives.

    Args:
        handle: the open lock file.
        text: what its last owner left in it.
    """

    handle: IO[str]
    text: str

    def note(self, text: str) -> None:
        """Leave word for the next owner."""
        self.handle.truncate(0)
        self.handle.write(f"process {os.getpid()}{text}")
        self.handle.flush()

    def release(self) -> None:
        """Let another process have the file."""
        self.handle.close()


def lock_file(path: Path) -> FileLock:
    """Become the only writer of a memory.

    Raises:
        MemoryFileError: another process has it, or the directory cannot be written.
    """
    import fcntl

    lock_path = path.with_name(path.name + ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = lock_path.open("a+", encoding="utf-8", errors="replace")
    except OSError as error:
        raise MemoryFileError(f"{path}: cannot write here: {error}") from error
    handle.seek(0)
    text = handle.read(200)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        raise MemoryFileError(
            f"{path}: already open for writing by {text.strip() or 'another process'}; stop it, "
            "give this one another file, or open it read-only"
        ) from error
    return FileLock(handle, text)


def is_damage(error: BaseException | None) -> bool:
    """Whether an SQLite error says that the file itself is broken, not the disk or the lock."""
    if not isinstance(error, sqlite3.DatabaseError):
        return False
    words = ("malformed", "not a database")
    return type(error) is sqlite3.DatabaseError or any(word in str(error) for word in words)


def open_for_writing(path: Path, *, suspect: bool = False) -> tuple[sqlite3.Connection, str]:
    """Open or make a memory file; the caller holds its lock.

    Args:
        suspect: check all of it, because its last owner found damage.

    Returns:
        The connection, and a notice that is not empty if a damaged file was set aside.

    Raises:
        MemoryFileError: a sound SQLite file of something else, a newer schema, or no access.
    """
    try:
        return _connect_checked(path, suspect), ""
    except sqlite3.Error as error:
        if not is_damage(error):
            raise MemoryFileError(f"{path}: cannot be opened: {error}") from error
        aside = set_aside(path)
        notice = f"{path}: damaged ({error}); set aside as {aside.name}, starting a new memory"
        logger.error("%s", notice)
    try:
        return _connect_checked(path, suspect=False), notice
    except sqlite3.Error as error:
        raise MemoryFileError(f"{path}: cannot be created: {error}") from error


def _connect_checked(path: Path, suspect: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
    with ExitStack() as undo:
        undo.callback(connection.close)
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # counts only while it is empty
        empty = _is_empty(connection)
        if not empty:
            check_identity(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
        if empty:
            _create(connection)
        problems = full_check(connection) if suspect else []
        if problems:
            raise sqlite3.DatabaseError(problems[0])
        check_tables(connection)
        undo.pop_all()
    return connection


def _is_empty(connection: sqlite3.Connection) -> bool:
    """A file just made, perhaps by a process that was killed before it wrote anything."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return bool(tables == 0)


def _create(connection: sqlite3.Connection) -> None:
    connection.executescript(
        f"BEGIN; {_TABLES} PRAGMA application_id = {APPLICATION_ID}; "
        f"PRAGMA user_version = {SCHEMA_VERSION}; "
        "INSERT INTO sqlite_sequence VALUES ('keyframes', 0); "
        f"INSERT INTO meta VALUES ('created_ns', '{time.time_ns()}'); COMMIT;"
    )


def check_identity(connection: sqlite3.Connection, path: Path) -> None:
    """Tell a memory from another SQLite file and from a newer memory.

    Raises:
        MemoryFileError: it is not ours to touch.
        sqlite3.DatabaseError: it is damaged.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise MemoryFileError(
            f"{path}: this SQLite file is not a video memory; choose another path"
        )
    if version != SCHEMA_VERSION:
        raise MemoryFileError(
            f"{path}: has schema version {version}, this semflip reads {SCHEMA_VERSION}; "
            "use the release that wrote it, or choose another path"
        )


def check_tables(connection: sqlite3.Connection) -> None:
    """Check the tables that every query depends on; takes milliseconds, whatever was stored.

    Raises:
        sqlite3.DatabaseError: they are damaged, or the file is shorter than it says.
    """
    for table in _CHECKED_AT_START:
        problems = [row[0] for row in connection.execute(f"PRAGMA quick_check('{table}')")]
        if problems != ["ok"]:
            raise sqlite3.DatabaseError(f"{table}: {problems[0]}")
    for table in ("pictures", "features"):
        connection.execute(f"SELECT max(rowid) FROM {table}").fetchone()


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open a memory file that another process may be writing.

    Raises:
        MemoryFileError: there is none, it is damaged, or it is not a memory.
    """
    if not path.is_file():
        raise MemoryFileError(f"{path}: no such memory file")
    uri = path.absolute().as_uri()
    try:
        return _connect_reading(f"{uri}?mode=ro", path)
    except sqlite3.OperationalError as error:
        # In a directory that cannot be written WAL has no place for its index; without a WAL
        # the file alone is whole.
        wal = path.with_name(path.name + "-wal")
        if wal.exists() and wal.stat().st_size:
            raise MemoryFileError(
                f"{path}: cannot be read here ({error}); copy it together with {wal.name} to a "
                "directory that can be written"
            ) from error
    except sqlite3.DatabaseError as error:
        raise MemoryFileError(f"{path}: damaged: {error}") from error
    try:
        return _connect_reading(f"{uri}?mode=ro&immutable=1", path)
    except sqlite3.DatabaseError as error:
        raise MemoryFileError(f"{path}: damaged or unreadable: {error}") from error


def _connect_reading(uri: str, path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    with ExitStack() as undo:
        undo.callback(connection.close)
        check_identity(connection, path)
        check_tables(connection)
        undo.pop_all()
    return connection


def set_aside(path: Path) -> Path:
    """Rename a damaged file and its WAL to a name of their own; nothing is overwritten."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    number = 0
    while True:
        suffix = f".damaged-{stamp}" + (f"-{number}" if number else "")
        aside = path.with_name(path.name + suffix)
        if not aside.exists():
            break
        number += 1
    path.rename(aside)
    for ending in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + ending).rename(aside.with_name(aside.name + ending))
    return aside


def full_check(connection: sqlite3.Connection) -> list[str]:
    """Every problem SQLite finds in the whole file; reads all of it."""
    try:
        rows = [row[0] for row in connection.execute("PRAGMA integrity_check")]
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return [] if rows == ["ok"] else rows
