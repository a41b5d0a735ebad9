"""How recordings are broken, and what to do about each."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

from semflip_core.errors import BagError

#: What rosbags and the codecs below it raise on damaged files.
_BROKEN = (
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
)


def check_closed(file: Path) -> None:
    """A database that its recorder left open loses what is in the side file, silently.

    Raises:
        BagError: ``file``, or a database in it, was left open.
    """
    databases = [file] if file.suffix == ".db3" else sorted(file.glob("*.db3"))
    for database in databases:
        for ending in ("-wal", "-journal"):
            side = database.with_name(database.name + ending)
            if side.exists() and side.stat().st_size > 0:
                raise BagError(
                    f"{database}: was not closed ({side.name} still holds messages): close it "
                    f"with: sqlite3 '{database}' 'PRAGMA wal_checkpoint(TRUNCATE)'"
                )


def open_problem(where: Path, error: BaseException) -> str:
    """Why a recording cannot be opened, and the cure."""
    text = str(error)
    if "are missing" in text:
        return f"{where}: {text}; copy the missing parts beside the others, or reindex the rest"
    return f"{where}: cannot be read: {text or type(error).__name__}; {recovery(where)}"


def recovery(where: Path) -> str:
    """The command that mends a recording of this kind."""
    names = [where.name] if where.is_file() else [p.name for p in where.iterdir()]
    if any(name.endswith(".mcap") for name in names):
        return "if it was cut short, recover it with: mcap recover IN.mcap -o OUT.mcap"
    if any(name.endswith(".bag") for name in names):
        return "if it was not closed, mend it with: rosbag reindex FILE.bag"
    return "if it was cut short: sqlite3 FILE.db3 .recover, then ros2 bag reindex DIR"


def broken_types() -> tuple[type[BaseException], ...]:
    """Exceptions that mean a damaged file, the libraries' own included."""
    import apsw

    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    from rosbags.rosbag1 import ReaderError as ReaderError1
    from rosbags.rosbag2 import ReaderError as ReaderError2
    from rosbags.serde import SerdeError

    return (
        *_BROKEN,
        ReaderError1,
        ReaderError2,
        SerdeError,
        apsw.Error,
        zstd.ZstdError,
    )
