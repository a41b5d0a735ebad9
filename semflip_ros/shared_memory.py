"""Fast DDS's shared memory on this machine: is there room, and what did killed processes leave?"""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

FOLDER = Path("/dev/shm")
#: One segment of the profiles in config/ for each of four processes, and some more.
ROOM_BYTES = 800_000_000


def lack_of_room() -> str:
    """What is wrong with the room for shared memory, and the cure; empty when there is enough."""
    if not FOLDER.is_dir():
        return f"{FOLDER} is missing: pictures cannot go through shared memory"
    total = shutil.disk_usage(FOLDER).total
    if total >= ROOM_BYTES:
        return ""
    return (
        f"{FOLDER} has {total / 1e6:.0f} MB, {ROOM_BYTES / 1e6:.0f} MB are needed: "
        "docker run --shm-size=1g, or mount -o remount,size=1g /dev/shm"
    )


def sweep() -> int:
    """Remove segments whose process is gone (a ``kill -9`` leaves 128 MiB behind).

    A living process holds a lock on the file beside its segment, so only the dead's are taken.

    Returns:
        Bytes given back.
    """
    freed = 0
    for lock in FOLDER.glob("fastdds_*_el"):
        segment = lock.with_name(lock.name.removesuffix("_el"))
        try:
            with lock.open("rb") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                freed += segment.stat().st_size if segment.exists() else 0
                segment.unlink(missing_ok=True)
                lock.unlink(missing_ok=True)
        except (BlockingIOError, PermissionError, FileNotFoundError):
            continue  # in use, another user's, or just gone
    return freed
