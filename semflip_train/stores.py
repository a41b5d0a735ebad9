"""Content-hashed caches on disk: what was computed once is not computed again after a kill."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from semflip_core.closing import Closing
from semflip_core.errors import SemflipError


class StoreError(SemflipError):
    """A cache or run directory cannot be read or written."""


def content_hash(*parts: bytes | str) -> str:
    """Hash of an ordered list of parts; no two different lists collide by concatenation."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:32]


def json_hash(value: Any) -> str:
    """Hash of a JSON value, independent of the order of keys."""
    return content_hash(json.dumps(value, sort_keys=True, separators=(",", ":"), default=str))


def tree_hash(path: Path) -> str:
    """Hash of a file's bytes, or of a folder's file names and bytes."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(path.parent if path.is_file() else path).as_posix().encode())
        with file.open("rb") as opened:
            while block := opened.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:32]


def write_whole(path: Path, data: bytes | str) -> None:
    """Write a file so that it appears whole or not at all.

    Raises:
        StoreError: the disk is full or the folder cannot be written; says where, and that the run
            goes on from here when started again.
    """
    raw = data.encode() if isinstance(data, str) else data
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(raw)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StoreError(
            f"{path}: cannot be written ({error.strerror}); make room or rights and start the same "
            "command again: what is done is kept"
        ) from error


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file whole."""
    write_whole(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


class BlobStore(Closing):
    """Keys to bytes in one SQLite file; each put is on disk when it returns.

    Raises:
        StoreError: the file is no such store, or the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=60.0, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS blobs (key TEXT PRIMARY KEY, value BLOB NOT NULL)"
            )
        except (sqlite3.Error, OSError) as error:
            raise self._problem(error) from error

    def _problem(self, error: Exception) -> StoreError:
        return StoreError(
            f"{self.path}: {error}; make room on the disk, or delete the file if it is damaged, "
            "and start the same command again"
        )

    def get(self, key: str) -> bytes | None:
        """What was put under the key, or None."""
        try:
            row = self._connection.execute(
                "SELECT value FROM blobs WHERE key = ?", (key,)
            ).fetchone()
        except sqlite3.Error as error:
            raise self._problem(error) from error
        return None if row is None else bytes(row[0])

    def put(self, key: str, value: bytes) -> None:
        """Store; an older value of the key is replaced."""
        try:
            self._connection.execute("INSERT OR REPLACE INTO blobs VALUES (?, ?)", (key, value))
        except sqlite3.Error as error:
            raise self._problem(error) from error

    def __len__(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM blobs").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
