"""A process that forks recorders: each fills a memory of its own until it is killed.

Reads a path a line, answers with the recorder's process id. A recorder appends "id monotonic_ns" to
``PATH.log`` after each keyframe; what it wrote there outlives it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from semflip_core.memory import VideoMemory
from support.driving import SECOND, small_picture

PICTURES = [small_picture(k) for k in range(50)]
PERIOD_S = 0.02


def record(path: Path) -> None:
    """Add a keyframe every 20 ms, for ever."""
    log = os.open(f"{path}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    memory = VideoMemory(path)
    while True:
        number = len(memory)
        keyframe = memory.add(
            PICTURES[number % len(PICTURES)],
            stamp_ns=(number + 1) * SECOND,
            pose=None,
            map_id="m",
        )
        os.write(log, b"%d %d\n" % (keyframe, time.monotonic_ns()))
        time.sleep(PERIOD_S)


def main() -> None:
    """Fork a recorder for each path on standard input."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            record(Path(line.strip()))
        print(child, flush=True)


if __name__ == "__main__":
    main()
