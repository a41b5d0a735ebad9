"""The process itself: signals, and a second instance on the same memory."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from faults.fault import Tried, trial
from faults.moments import STREAM_X, during
from faults.stage import PATIENCE_S, Stage
from semflip_core.memory import VideoMemory
from support.live import Process, node_arguments, wait_until

#: Signal -> the exit code that it must give.
SIGNALS: dict[str, int] = {
    "SIGINT": 0,
    "SIGTERM": 0,
    "SIGKILL": -signal.SIGKILL,
    "SIGSEGV": -signal.SIGSEGV,
    "SIGABRT": -signal.SIGABRT,
    "SIGHUP": -signal.SIGHUP,
}
#: After these it may not have said its last word.
ABRUPT = ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGHUP")


@contextmanager
def _noting(stage: Stage) -> Iterator[None]:
    """What was waited for in vain is a broken promise of this trial, not the end of the run."""
    try:
        yield
    except AssertionError as error:
        stage.ledger.other.append(f"waited in vain: {error} {stage.process.text()[-300:]}")


def _exit_code(stage: Stage) -> int:
    """What the node ended with; one that does not end is made to say where it is, and killed."""
    try:
        return stage.process.child.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        stage.process.child.send_signal(signal.SIGABRT)
        code = stage.process.child.wait(PATIENCE_S)
        where = stage.process.text()[-6000:]
        stage.ledger.deaths.append(f"it did not end within {PATIENCE_S:.0f} s: {where}")
        return code


def ended(name: str, moment: str, stage: Stage) -> Tried:
    """End the node by a signal at a moment, look at what is left, start it again."""
    with trial("process", name, moment, stage) as tried:
        number = signal.Signals[name]
        robot = stage.robot
        for step in range(3):
            robot.drive(STREAM_X + step, robot.picture)
        wait_until(
            lambda: robot.heard_kept and robot.heard_kept[-1][1] >= 6, PATIENCE_S, "keyframes"
        )
        time.sleep(1.1)  # what is this old now must survive
        killed = time.monotonic()
        code: int | None = None
        with _noting(stage), during(stage, moment):
            killed = time.monotonic()
            stage.process.child.send_signal(number)
            if name not in ABRUPT:
                stage.control.set()
            code = _exit_code(stage)
        if code is None:  # the moment never came
            code = stage.process.end(signal.SIGKILL)
        time.sleep(0.1)
        if code != SIGNALS[name]:
            stage.ledger.other.append(f"exit code {code}")
        if "Traceback" in stage.process.text():
            stage.ledger.other.append(f"a traceback: {stage.process.text()[-400:]}")
        missing = stage.missing_after_kill(killed)
        stage.ledger.lost += ["a keyframe older than a second"] * missing
        stage.judge(silence_allowed=name in ABRUPT)
        robot.close()
        stage.control.set()
        stage.start()
        stage.check_health()
        stage.judge()
    return tried


def paused(moment: str, stage: Stage) -> Tried:
    """SIGSTOP for a moment: the node is late, and then as ever."""
    with trial("process", "SIGSTOP and SIGCONT", moment, stage) as tried:
        with during(stage, moment):
            stage.process.child.send_signal(signal.SIGSTOP)
            asked = stage.send("Where is the blue thing?")
            time.sleep(0.5)
            stage.process.child.send_signal(signal.SIGCONT)
            stage.control.set()
            stage.decided(asked)
        stage.check_health()
        stage.judge()
    return tried


def second_instance(moment: str, stage: Stage) -> Tried:
    """Another node on the same memory file: it must leave, and the first live on."""
    with trial("process", "second instance on the same memory", moment, stage) as tried:
        with during(stage, moment):
            arguments = node_arguments("/second", stage.gate, **stage.values)
            second = Process("semflip_ros.refusal_node", arguments, stage.folder / "second.log")
            if second.child.wait(PATIENCE_S) == 0:
                stage.ledger.other.append("the second instance did not fail")
            if "Traceback" in second.text():
                stage.ledger.other.append(f"the second instance: {second.text()[-300:]}")
        stage.check_health()
        stage.judge()
        if stage.keyframes() < 0:
            stage.ledger.other.append("the memory cannot be saved any more")
        with VideoMemory(stage.memory, read_only=True) as memory:
            stage.ledger.other += memory.check()
    return tried
