"""What reaches the log: one record is one line, or lines that are told apart from others."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("rclpy")

from semflip_ros import process
from semflip_ros.process import RosLogHandler


class Pages:
    """Collects what would go to the node's logger."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.error = self.warning = self.info = self.debug = self.texts.append


@pytest.fixture
def pages() -> Iterator[Pages]:
    made = Pages()
    handler = RosLogHandler(made)
    log = logging.getLogger("semflip")
    log.addHandler(handler)
    yield made
    log.removeHandler(handler)


def test_words_from_the_network_cannot_forge_a_line(pages) -> None:
    child = "x\n[INFO] [1.0] [refusal_node]: query 'a': answer\r\x1b[2J\u202eover\u2028there"
    logging.getLogger("semflip").warning("pose of '%s'", child)
    lines = pages.texts[0].split("\n")
    assert len(lines) > 1
    assert all(line.startswith("    ") for line in lines[1:])
    assert not any(ord(c) < 32 or c in "\u202e\u2028" for line in lines for c in line)


def test_an_endless_line_is_cut(pages) -> None:
    logging.getLogger("semflip").warning("%s", "x" * 1_000_000)
    assert len(pages.texts[0]) < 2100


def test_a_thread_that_dies_ends_the_process_and_says_why(monkeypatch, pages) -> None:
    left: list[int] = []
    told: list[str] = []
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(process, "leave", lambda code, words: (words(), left.append(code)))
    process.leave_when_a_thread_dies(lambda message: lambda: told.append(message))

    def run() -> None:
        raise LookupError("on purpose")

    for name in ("semflip-frames", process.LAST_WORDS):
        thread = threading.Thread(target=run, name=name)
        thread.start()
        thread.join()
    assert left == [process.CRASHED]
    assert told == ["semflip-frames ended by an error"]
    assert "LookupError: on purpose" in pages.texts[0]


def test_what_is_destroyed_while_it_is_waited_for_does_not_end_the_node() -> None:
    from rclpy.exceptions import InvalidHandle

    class Executor:
        """Meets a destroyed handle twice, then is shut down."""

        spins = 0

        def spin(self) -> None:
            self.spins += 1
            if self.spins < 3:
                raise InvalidHandle("destruction was requested")

    executor = Executor()
    process.spin_on(executor)
    assert executor.spins == 3


def test_an_executor_that_keeps_failing_is_an_error() -> None:
    from rclpy.exceptions import InvalidHandle

    class Executor:
        """Never works again."""

        def spin(self) -> None:
            raise InvalidHandle("for ever")

    with pytest.raises(InvalidHandle, match="for ever"):
        process.spin_on(Executor())
