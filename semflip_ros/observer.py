"""Drives a refusal node's lifecycle from another process and counts what it publishes."""

from __future__ import annotations

import threading
import time
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from typing_extensions import Self

from semflip.msg import Decision, Refusal
from semflip_core.errors import SemflipError

#: decisions, goals, refusals
Counts = tuple[int, int, int]


class ObserverError(SemflipError):
    """The node did not answer, or refused a lifecycle transition."""


class Observer:
    """A node beside the refusal node; a context manager.

    Args:
        name: name of the refusal node.
        to_the_end: listens until its process ends, which must be by ``os._exit``: the middleware's
            own teardown, which can hang (:func:`~semflip_ros.process.teardown`), is left out.
    """

    def __init__(self, name: str = "refusal_node", *, to_the_end: bool = False) -> None:
        self._name = name
        self._to_the_end = to_the_end
        self._counts = [0, 0, 0]
        self._lock = threading.Lock()
        self._context = rclpy.Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node = rclpy.create_node("semflip_observer", context=self._context)
        self._change: Any = self._node.create_client(ChangeState, f"{name}/change_state")
        quality = QoSProfile(depth=100)
        for place, (kind, topic) in enumerate(
            ((Decision, "decision"), (PoseStamped, "goal_pose"), (Refusal, "refusal"))
        ):
            self._node.create_subscription(kind, topic, self._counter(place), quality)
        self._health: dict[str, str] = {}
        self._node.create_subscription(DiagnosticArray, "/diagnostics", self._note, quality)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._spin, name="semflip-observer", daemon=True)

    def _counter(self, place: int) -> Any:
        def count(_: Any) -> None:
            with self._lock:
                self._counts[place] += 1

        return count

    def _note(self, message: Any) -> None:
        with self._lock:
            for status in message.status:
                part = status.name.rsplit(" ", 1)[-1].rsplit("/", 1)[-1]
                self._health[part] = ", ".join(f"{v.key} {v.value}" for v in status.values)

    def health(self, part: str) -> str:
        """Values of one of the node's diagnostics (``camera``, ``memory``), as last heard."""
        with self._lock:
            return self._health.get(part, "nothing heard")

    def _spin(self) -> None:
        try:
            self._executor.spin()
        except ExternalShutdownException:
            return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown()
        self._thread.join(5.0)
        if self._to_the_end:
            return
        self._node.destroy_node()
        rclpy.shutdown(context=self._context)

    def configure(self, timeout_s: float) -> None:
        """Bring the node from unconfigured to inactive; errors as for :meth:`activate`."""
        self._transition(Transition.TRANSITION_CONFIGURE, "configure", timeout_s)

    def activate(self, timeout_s: float) -> None:
        """Bring the node from inactive to active.

        Raises:
            ObserverError: it did not answer in time, or the transition failed.
        """
        self._transition(Transition.TRANSITION_ACTIVATE, "activate", timeout_s)

    def deactivate(self, timeout_s: float) -> None:
        """Bring the node from active to inactive; errors as for :meth:`activate`."""
        self._transition(Transition.TRANSITION_DEACTIVATE, "deactivate", timeout_s)

    def _transition(self, number: int, name: str, timeout_s: float) -> None:
        if not self._change.wait_for_service(timeout_sec=timeout_s):
            raise ObserverError(f"no node '{self._name}' within {timeout_s:.0f} s")
        request = ChangeState.Request(transition=Transition(id=number))
        arrived = threading.Event()
        future = self._change.call_async(request)
        future.add_done_callback(lambda _: arrived.set())
        if not arrived.wait(timeout_s):
            raise ObserverError(f"'{self._name}' did not {name} within {timeout_s:.0f} s")
        reply: Any = future.result()
        if not reply.success:
            raise ObserverError(f"'{self._name}' failed to {name}")

    def counts(self, at_least: Counts, patience_s: float) -> Counts:
        """Messages seen so far, once ``at_least`` came and half a second more, or in the end."""
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            with self._lock:
                enough = all(a >= b for a, b in zip(self._counts, at_least, strict=True))
            if enough:
                break
            time.sleep(0.05)
        time.sleep(0.5)  # one too many would come now
        with self._lock:
            decisions, goals, refusals = self._counts
        return decisions, goals, refusals
