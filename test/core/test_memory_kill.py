"""A recording process is killed at fifty random moments: at most one second is missing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from semflip_core.memory import VideoMemory
from support.driving import small_picture

TEST_DIRECTORY = Path(__file__).resolve().parent.parent
ROUNDS, AT_ONCE = 5, 10
LONGEST_S = 1.7
ALLOWED_LOSS_S = 1.0
#: A recorder adds every 20 ms; where it got no processor for longer than this, that is no loss.
STARVED_S = 0.25


@pytest.fixture
def recorders():
    """A process that forks recorders on demand."""
    process = subprocess.Popen(
        [sys.executable, "-m", "support.recorder"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{TEST_DIRECTORY.parent}{os.pathsep}{TEST_DIRECTORY}"},
    )
    yield process
    process.stdin.close()
    process.wait(timeout=30)


def start(recorders: subprocess.Popen, path: Path) -> int:
    recorders.stdin.write(f"{path}\n")
    recorders.stdin.flush()
    return int(recorders.stdout.readline())


def test_killed_at_fifty_moments_the_file_opens_and_at_most_a_second_is_missing(
    recorders, tmp_path
):
    rng = random.Random(20261129)
    stored, missing = 0, 0
    for turn in range(ROUNDS):
        paths = [tmp_path / f"memory-{turn}-{n}.sqlite" for n in range(AT_ONCE)]
        due = sorted((time.monotonic() + rng.uniform(0, LONGEST_S), path) for path in paths)
        processes = {path: start(recorders, path) for path in paths}
        killed_ns = {}
        for moment, path in due:
            time.sleep(max(0.0, moment - time.monotonic()))
            killed_ns[path] = time.monotonic_ns()
            os.kill(processes[path], signal.SIGKILL)
        time.sleep(0.05)
        for path in paths:
            kept, lost = check(path, killed_ns[path])
            stored += kept
            missing += lost
    print(f"{ROUNDS * AT_ONCE} kills: {stored} keyframes kept, {missing} of the last second lost")
    assert stored > 500, "the recorders recorded something"


def check(path: Path, killed_ns: int) -> tuple[int, int]:
    """Open what a killed recorder left; how many keyframes are there and how many are not."""
    log = Path(f"{path}.log")
    lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    with VideoMemory(path) as memory:
        assert memory.notice == "", "nothing was damaged"
        ids = [record.id for record in memory.records()]
        assert ids == list(range(1, len(ids) + 1)), "no hole"
        for number in ids[-3:]:
            assert memory.encoded_picture(number) == small_picture((number - 1) % 50).data
        lost = [line for line in lines if int(line[0]) > len(ids)]
        moments = [int(added_ns) for _, added_ns in lines] + [killed_ns]
        for keyframe, added_ns in lost:
            after = [moment for moment in moments if moment >= int(added_ns)]
            gaps = [(b - a) * 1e-9 for a, b in pairwise(after)]
            starved = sum(gap for gap in gaps if gap > STARVED_S)
            age = (killed_ns - int(added_ns)) * 1e-9 - starved
            assert age <= ALLOWED_LOSS_S, f"keyframe {keyframe} of {age:.2f} s before is missing"
        assert memory.add(small_picture(0), stamp_ns=1, pose=None, map_id="m") == len(ids) + 1
    return len(ids), len(lost)
