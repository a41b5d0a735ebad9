"""Broken memories: no disk, no right, no lock, no file, no handles; on a real file."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from lifecycle_msgs.msg import Transition

from faults.fault import Fault
from faults.moments import ACTIVATION, RUNNING, STREAM_X
from faults.stage import PATIENCE_S, Stage
from support.live import wait_until

FILE = "on file"


def _limit(stage: Stage, which: int, value: int) -> None:
    _, hard = resource.prlimit(stage.process.child.pid, which)
    resource.prlimit(stage.process.child.pid, which, (value, hard))


def _see_more(stage: Stage) -> None:
    for step in range(5):
        stage.robot.drive(STREAM_X + step, stage.robot.picture)


def _disk_full(stage: Stage, room: int) -> None:
    """No file of the process may grow beyond what the limit leaves."""
    _limit(stage, resource.RLIMIT_FSIZE, room)
    _see_more(stage)


def _disk_back(stage: Stage) -> None:
    """Room again: what waited in RAM must all be written."""
    _limit(stage, resource.RLIMIT_FSIZE, resource.RLIM_INFINITY)
    wait_until(lambda: stage.keyframes() >= 0, PATIENCE_S, "a save that works")


def _no_handles(stage: Stage) -> None:
    """Not one file handle more than is open now."""
    _limit(stage, resource.RLIMIT_NOFILE, stage.open_files())
    _see_more(stage)


def _handles_back(stage: Stage) -> None:
    _, hard = resource.prlimit(stage.process.child.pid, resource.RLIMIT_NOFILE)
    _limit(stage, resource.RLIMIT_NOFILE, hard)
    wait_until(lambda: stage.keyframes() >= 0, PATIENCE_S, "a save that works")


def _locked(stage: Stage) -> None:
    """Another process holds SQLite's own lock while pictures come."""
    other = sqlite3.connect(stage.memory, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        _see_more(stage)
        stage.control.set()  # whatever moment it is, the encoder goes on
        decision = stage.ask("Where is the red thing?")
        if decision is not None and decision.verdict != "answer":
            stage.ledger.other.append(f"under the lock: {decision.reason}")
        other.execute("ROLLBACK")
    finally:
        other.close()


def _overwritten(stage: Stage, start: float, length: int) -> None:
    """Bytes of the file change under the node, as on a dying disk."""
    size = stage.memory.stat().st_size
    with stage.memory.open("r+b") as file:
        file.seek(int(start * size))
        file.write(b"\x55" * length)
    _see_more(stage)


def _files(stage: Stage, *endings: str) -> list[Path]:
    return [stage.memory.with_name(stage.memory.name + ending) for ending in endings]


def _deleted(stage: Stage, endings: tuple[str, ...]) -> None:
    for file in _files(stage, *endings):
        file.unlink(missing_ok=True)
    _see_more(stage)
    if "" in endings:
        _no_lies(stage)


def _no_lies(stage: Stage) -> None:
    """A node whose file has no name any more must not say that it saved something."""
    if stage.keyframes() >= 0:
        stage.ledger.other.append("it claims to have saved into a file that is gone")


def _folder_deleted(stage: Stage) -> None:
    shutil.rmtree(stage.memory.parent, ignore_errors=True)  # the node may write meanwhile
    _see_more(stage)
    _no_lies(stage)


def _truncated(stage: Stage, ending: str) -> None:
    for file in _files(stage, ending):
        os.truncate(file, 0)
    _see_more(stage)


def _replaced(stage: Stage) -> None:
    other = stage.memory.with_suffix(".other")
    other.write_bytes(b"SQLite format 3\0" + bytes(4000))
    other.replace(stage.memory)
    _see_more(stage)
    _no_lies(stage)


def _anew(stage: Stage) -> None:
    """What is on the disk is gone or damaged: started again, the node must open or set it aside."""
    stage.restart()


def _next_start(stage: Stage, spoil: Callable[[Stage], None]) -> None:
    """Configured on what is spoilt, by deactivate, clean up, configure, activate."""
    robot = stage.robot
    for step in (Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP):
        assert robot.change_state(step)
    spoil(stage)
    assert robot.change_state(Transition.TRANSITION_CONFIGURE), "it did not open the memory"
    robot.connect()
    assert robot.change_state(Transition.TRANSITION_ACTIVATE)
    robot.wait_for_camera()
    stage.show_truth()


def _held_by_another(stage: Stage) -> None:
    """The lock file is somebody else's: configuring fails, then succeeds."""
    import fcntl

    robot = stage.robot
    for step in (Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP):
        assert robot.change_state(step)
    with _files(stage, ".lock")[0].open("a+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if robot.change_state(Transition.TRANSITION_CONFIGURE):
            stage.ledger.other.append("two processes own one memory")
    assert robot.change_state(Transition.TRANSITION_CONFIGURE)
    robot.connect()
    assert robot.change_state(Transition.TRANSITION_ACTIVATE)
    robot.wait_for_camera()
    stage.show_truth()


def _write(stage: Stage, data: bytes) -> None:
    stage.memory.write_bytes(data)


def _cut(stage: Stage, share: float) -> None:
    os.truncate(stage.memory, int(stage.memory.stat().st_size * share))


def _scribble(stage: Stage, start: float) -> None:
    size = stage.memory.stat().st_size
    with stage.memory.open("r+b") as file:
        file.seek(int(start * size))
        file.write(os.urandom(256))


def _lock_file_of_bytes(stage: Stage) -> None:
    _files(stage, ".lock")[0].write_bytes(b"\xff\xfe\x00garbage" * 10)


def faults() -> Iterator[Fault]:
    """Every broken memory."""
    made = partial(Fault, "memory", setting=FILE)
    for name, room in (("disk full", 0), ("disk full but for a page", 20_000)):
        yield made(
            name, partial(_disk_full, room=room), _disk_back, moments=RUNNING, under="answer"
        )
    yield made("no file handles left", _no_handles, _handles_back, moments=RUNNING, under="any")
    yield made("locked by another process", _locked, moments=RUNNING)
    for name, start, length in (
        ("first page overwritten", 0.0, 100),
        ("a page overwritten", 0.5, 8192),
        ("half of it overwritten", 0.25, 200_000),
    ):
        step = partial(_overwritten, start=start, length=length)
        yield made(name, step, _anew, moments=RUNNING, under="any")
    for name, endings in (
        ("deleted", ("",)),
        ("change log deleted", ("-wal",)),
        ("index deleted", ("-shm",)),
        ("all its files deleted", ("", "-wal", "-shm", ".lock")),
    ):
        yield made(name, partial(_deleted, endings=endings), _anew, moments=RUNNING, under="any")
    yield made("its folder deleted", _folder_deleted, _anew, moments=RUNNING, under="any")
    yield made("cut to nothing", partial(_truncated, ending=""), _anew, RUNNING, under="any")
    yield made(
        "change log cut to nothing", partial(_truncated, ending="-wal"), _anew, RUNNING, under="any"
    )
    yield made("replaced by another file", _replaced, _anew, moments=RUNNING, under="any")
    starts: dict[str, Callable[[Stage], None]] = {
        "empty at start": partial(_write, data=b""),
        "text at start": partial(_write, data=b"not a database at all\n" * 20),
        "header only at start": partial(_write, data=b"SQLite format 3\0" + bytes(84)),
        "cut at start": partial(_cut, share=0.6),
        "scribbled on its first page at start": partial(_scribble, start=0.0),
        "scribbled on in the middle at start": partial(_scribble, start=0.5),
        "missing at start": lambda stage: stage.memory.unlink(),
        "lock file of bytes at start": _lock_file_of_bytes,
    }
    for name, spoil in starts.items():
        step = partial(_next_start, spoil=spoil)
        yield made(name, step, moments=(ACTIVATION,), by_hand=True)
    yield made("held by another at start", _held_by_another, moments=(ACTIVATION,), by_hand=True)
