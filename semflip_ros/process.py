"""A node as a process: signals, executor thread, exit codes, and the core's log on ROS' log."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TypeVar

import rclpy
from rclpy.action.server import RCLError
from rclpy.exceptions import InvalidHandle
from rclpy.executors import Executor, ExternalShutdownException, MultiThreadedExecutor
from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from rclpy.signals import SignalHandlerOptions

from semflip_core.errors import ConfigError
from semflip_core.questions import printable

logger = logging.getLogger("semflip")
NodeT = TypeVar("NodeT", bound=LifecycleNode)

#: Failed waits within a second that are no coincidence any more.
SPIN_FAILURES = 20
#: Exit codes of a node (sysexits.h where one fits).
CONFIG, START_FAILED, STUCK, CRASHED = 78, 1, 70, 71
#: Lifecycle, queries, camera, poses and services may each be in a callback.
EXECUTOR_THREADS = 4
#: A second Ctrl-C within this is the first one's echo (terminal and launcher both send it).
ECHO_S = 0.5
#: Characters of a log line; the rest is cut.
LONGEST_LINE = 2000
#: The thread that says last words; it may fail without more being said.
LAST_WORDS = "semflip-last-words"
#: Longest that last words may take before the process leaves anyway.
LAST_WORDS_S = 2.0
#: Longest that the middleware may take to give back what it holds, whole seconds.
TEARDOWN_S = 10


class RosLogHandler(logging.Handler):
    """Sends the core's log records to a node's logger, and so to the console and /rosout."""

    def __init__(self, ros_logger: RcutilsLogger) -> None:
        super().__init__()
        self._ros_logger = ros_logger

    def emit(self, record: logging.LogRecord) -> None:
        """Log at the nearest severity, free of control characters.

        Lines after the first are indented: words from the network cannot pass for a line of ours.
        """
        lines = self.format(record).splitlines()
        text = "\n    ".join(printable(line, LONGEST_LINE) for line in lines)
        if record.levelno >= logging.ERROR:
            self._ros_logger.error(text)
        elif record.levelno >= logging.WARNING:
            self._ros_logger.warning(text)
        elif record.levelno >= logging.INFO:
            self._ros_logger.info(text)
        else:
            self._ros_logger.debug(text)


class StopSignals:
    """SIGINT and SIGTERM ask for an orderly end; a second one ends at once."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._first = 0.0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def _handle(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if not self.stopped.is_set():
            self._first = now
            self.stopped.set()
        elif now - self._first > ECHO_S:
            os._exit(128 + number)


def leave(code: int, last_words: Callable[[], None]) -> None:
    """End the process now, whatever its threads do; ``last_words`` get a moment before."""
    speaker = threading.Thread(target=last_words, name=LAST_WORDS, daemon=True)
    speaker.start()
    speaker.join(LAST_WORDS_S)
    time.sleep(0.1)  # the middleware sends in threads of its own
    sys.stderr.flush()
    os._exit(code)


@contextmanager
def teardown(limit_s: int = TEARDOWN_S) -> Iterator[None]:
    """Give back what the middleware holds, without the power to hang the process.

    Fast DDS can deadlock while it destroys a publisher (eProsima/Fast-DDS issue 6502, open), with
    Python's lock held, so that no handler of ours would run: SIGALRM ends the process after
    ``limit_s`` then. Other signals stay as they are: a Ctrl-C may still echo (:data:`ECHO_S`).
    """
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(limit_s)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def leave_when_a_thread_dies(last_words: Callable[[str], Callable[[], None]]) -> None:
    """No thread may die quietly: the node would live on, deaf or without its deadlines.

    Args:
        last_words: makes what is done before the process leaves, from the reason for it.
    """

    def died(arguments: threading.ExceptHookArgs) -> None:
        name = arguments.thread.name if arguments.thread else "a thread"
        error = arguments.exc_value
        logger.error(
            "unexpected error in %s", name, exc_info=error or RuntimeError("no error was named")
        )
        if name != LAST_WORDS:
            leave(CRASHED, last_words(f"{name} ended by an error"))

    threading.excepthook = died


def spin_on(executor: Executor) -> None:
    """Spin until the executor is shut down.

    Subscriptions are destroyed while it waits for them. rclpy guards most uses of a handle that is
    gone, not all (those of QoS events and action servers); the next wait leaves it out. What keeps
    failing is another error, and is raised.
    """
    failures: deque[float] = deque(maxlen=SPIN_FAILURES)
    while True:
        try:
            executor.spin()
        except (InvalidHandle, RCLError) as error:
            failures.append(time.monotonic())
            if len(failures) == SPIN_FAILURES and failures[-1] - failures[0] < 1.0:
                raise
            logger.debug("destroyed while it was waited for: %s", error)
        else:
            return


def run(
    make: Callable[[], NodeT],
    *,
    autostart: Callable[[NodeT], bool],
    last_words: Callable[[NodeT, str], Callable[[], None]],
) -> int:
    """Run a lifecycle node until it is told to stop.

    Args:
        make: makes the node; its ConfigError ends the process with :data:`CONFIG`.
        autostart: whether to configure and activate it without a lifecycle manager.
        last_words: what the node does before it leaves because of an error, from its reason.

    Returns:
        The exit code.
    """
    signals = StopSignals()
    try:
        rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
        node = make()
    except (ConfigError, RCLError) as error:  # rcl's: a parameter or remapping it cannot read
        print(error, file=sys.stderr)
        rclpy.try_shutdown()
        return CONFIG
    handler = RosLogHandler(node.get_logger())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    leave_when_a_thread_dies(lambda message: last_words(node, message))
    executor = MultiThreadedExecutor(num_threads=EXECUTOR_THREADS)
    executor.add_node(node)
    failed: list[BaseException] = []

    def spin() -> None:
        with suppress(ExternalShutdownException):
            try:
                spin_on(executor)
            finally:
                if error := sys.exc_info()[1]:
                    failed.append(error)
                signals.stopped.set()

    spinning = threading.Thread(target=spin, name="semflip-executor", daemon=True)
    spinning.start()
    code = 0
    if autostart(node) and not _started(node, signals):
        code = START_FAILED
    else:
        signals.stopped.wait()
    if failed:
        code = CRASHED
    with suppress(RCLError):  # a transition that somebody else asked for is still running
        node.trigger_shutdown()
    executor.shutdown(timeout_sec=1.0)
    spinning.join(2.0)
    logger.removeHandler(handler)
    sys.stdout.flush()
    sys.stderr.flush()
    with teardown():
        node.destroy_node()
        rclpy.try_shutdown()
    if spinning.is_alive() or any(t.name == "semflip-worker" for t in threading.enumerate()):
        os._exit(code)  # a step of the encoder is still running and cannot be interrupted
    return code


def _started(node: LifecycleNode, signals: StopSignals) -> bool:
    for step in (node.trigger_configure, node.trigger_activate):
        if signals.stopped.is_set():
            return True
        if step() != TransitionCallbackReturn.SUCCESS:
            return False
    logger.info("active: ask on 'query', 'query_text' or the action 'ask'")
    return True
