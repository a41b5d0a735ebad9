"""A middleware that hangs while it is taken down does not keep the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

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


@pytest.mark.parametrize(("limit", "sent"), [(1, None), (50, signal.SIGINT), (50, signal.SIGTERM)])
def test_a_stuck_teardown_ends_by_itself_or_by_one_signal(limit, sent):
    program = [sys.executable, "-c", STUCK.format(limit=limit)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        if sent is not None:
            time.sleep(0.2)  # it is in the call then
            process.send_signal(sent)
        assert process.wait(30) == -(sent or signal.SIGALRM)


def test_handlers_are_back_after_it():
    def mine(*_: object) -> None:
        heard.append(True)

    heard: list[bool] = []
    before = signal.signal(signal.SIGTERM, mine)
    try:
        with teardown():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [True]
    assert signal.alarm(0) == 0
