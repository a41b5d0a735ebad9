"""The thread that refuses questions past their deadline and notices a stuck worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from semflip_ros.queries import QueryDesk

#: How often a cancellation is looked at while the middleware acknowledges it; seconds.
CANCEL_POLL_S = 0.005
#: Longest sleep, so that a stuck worker is noticed without anybody asking; seconds.
IDLE_S = 0.5


class DeadlineWatch(threading.Thread):
    """Sleeps until the next deadline; wall time, so that a stopped /clock stops nothing.

    Args:
        desk: its overdue queries are refused with TIMEOUT.
        stuck_after_s: longest that one step of the worker may take; seconds.
        busy_since: ``time.monotonic()`` of the worker's present step, or None while it waits.
        on_stuck: told once, with the seconds it has been stuck.
    """

    def __init__(
        self,
        desk: QueryDesk,
        *,
        stuck_after_s: float,
        busy_since: Callable[[], float | None],
        on_stuck: Callable[[float], None],
    ) -> None:
        super().__init__(name="semflip-deadlines", daemon=True)
        self._desk = desk
        self._stuck_after_s = stuck_after_s
        self._busy_since = busy_since
        self._on_stuck = on_stuck
        self._stopping = threading.Event()

    def run(self) -> None:
        """Until :meth:`stop`."""
        told = False
        while not self._stopping.is_set():
            now = time.monotonic()
            self._desk.enforce(now)
            since = self._busy_since()
            if since is not None and now - since > self._stuck_after_s and not told:
                told = True
                self._on_stuck(now - since)
            with self._desk.changed:
                self._desk.changed.wait(self._pause())

    def _pause(self) -> float:
        if self._desk.cancelling():
            return CANCEL_POLL_S
        deadline = self._desk.next_deadline()
        left = IDLE_S if deadline is None else deadline - time.monotonic()
        return min(max(left, 0.001), IDLE_S)

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._stopping.set()
        with self._desk.changed:
            self._desk.changed.notify_all()
        if threading.current_thread() is not self:
            self.join()
