"""Programs as operating-system processes that end with whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from typing_extensions import Self


class Program:
    """A running program in a process group of its own, its output in a file.

    Args:
        command: program and arguments.
        log: receives standard output and error.
        environment: the whole environment of the program.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.name = Path(command[0]).name
        self.log = log
        with log.open("wb") as sink:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id, also of its process group."""
        return self._process.pid

    def poll(self) -> int | None:
        """Exit code; None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int:
        """Exit code once it has ended.

        Raises:
            TimeoutError: it still runs after ``timeout_s`` seconds.
        """
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(
                f"{self.name} still runs after {timeout_s:.0f} s; its log: {self.log}"
            ) from None

    def stop(self, patience_s: float = 10.0) -> int:
        """End it as Ctrl-C would, and whatever is left of its group by force.

        Returns:
            Its exit code; negative is the signal that ended it.
        """
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGINT)
            try:
                self._process.wait(patience_s)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)
        code = self._process.wait()
        with suppress(ProcessLookupError):  # nothing of the group is left, as it should be
            os.killpg(self.pid, signal.SIGKILL)
        return code

    def tail(self, lines: int = 15) -> str:
        """The last lines of its output."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
