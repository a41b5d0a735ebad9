"""A middleware that hangs while it is taken down does not keep the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("rclpy")

from semflip_ros.process import teardown

#: Sleeps with Python's lock held, as a call into the middleware does.
STUCK = """
import ctypes
from semflip_ros.process import StopSignals, teardown
StopSignals()
with teardown({limit}):
    print("in", flush=True)
    ctypes.PyDLL(None).sleep(60)
"""


def test_a_stuck_teardown_ends_by_itself():
    program = [sys.executable, "-c", STUCK.format(limit=1)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        assert process.wait(30) == -signal.SIGALRM


def test_a_signal_that_echoes_ends_no_sound_teardown():
    def mine(*_: object) -> None:
        heard.append(True)

    heard: list[bool] = []
    before = signal.signal(signal.SIGTERM, mine)
    try:
        with teardown():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [True]
    assert signal.alarm(0) == 0
