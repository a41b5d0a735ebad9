"""Publishes the node's health on /diagnostics, from configure on."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node

from semflip_core.memory import VideoMemory
from semflip_ros.diagnostics import (
    ERROR,
    WARN,
    Health,
    decision_values,
    diagnostic_array,
    latency_values,
    set_aside_values,
)
from semflip_ros.queries import QueryDesk
from semflip_ros.sensing import Sensing
from semflip_ros.silence import Silence
from semflip_ros.worker import QueryWorker

#: Fields of MemoryInfo that are shown.
MEMORY_VALUES = (
    "keyframes",
    "with_pose",
    "picture_bytes",
    "feature_bytes",
    "file_bytes",
    "segments",
)


class NodeHealth:
    """Queries, memory, clock and camera, one status each.

    Args:
        silence_s: wall seconds without /clock before it warns.
        map_id: tells the map the robot is on now.
    """

    def __init__(
        self,
        node: Node,
        memory: VideoMemory,
        desk: QueryDesk,
        *,
        silence_s: float,
        map_id: Callable[[], str],
    ) -> None:
        self._node = node
        self._memory = memory
        self._desk = desk
        self._map_id = map_id
        self._no_clock = Silence(
            "messages on /clock while use_sim_time is true",
            "start the simulator or the replay, or set use_sim_time to false",
            silence_s,
        )
        self._clock_seen = time.monotonic()
        self._clock_ns = -1
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._last_words = ""
        self._worker: QueryWorker | None = None
        self._sensing: Sensing | None = None

    def watch(self, worker: QueryWorker, sensing: Sensing, undo: ExitStack) -> None:
        """Report on these too, until ``undo`` is closed."""
        self._worker, self._sensing = worker, sensing
        undo.callback(setattr, self, "_worker", None)
        undo.callback(setattr, self, "_sensing", None)

    def publish(self) -> None:
        """Look at everything and say how it is."""
        healths = [self._queries(), self._stored(), self._clock()]
        if self._sensing is not None:
            healths.append(self._sensing.health())
        stamp = self._node.get_clock().now().to_msg()
        name = self._node.get_fully_qualified_name()
        self._publisher.publish(diagnostic_array(name, healths, stamp))

    def fail(self, message: str) -> None:
        """The process is about to end by itself: an error from now on."""
        self._last_words = message
        self.publish()

    def _queries(self) -> Health:
        health, worker, desk = Health("queries"), self._worker, self._desk
        health.put({"received": desk.received, "decided": desk.decided})
        health.put(latency_values(list(desk.latencies_s)))
        health.put(decision_values(desk.last))
        if worker is None:
            health.message = "not active"
        else:
            health.put({"waiting": worker.waiting, "features_made": worker.features_made})
            if worker.feature_errors:
                health.put({"feature_errors": worker.feature_errors})
                health.note(WARN, "some pictures have no features; see the log")
            if worker.set_aside:
                health.put(set_aside_values(worker.set_aside))
                health.note(WARN, "some pictures cannot be read; questions are answered without")
        if self._last_words:
            health.note(ERROR, self._last_words)
        return health

    def _stored(self) -> Health:
        health = Health("memory")
        info = self._memory.info()
        health.put({"map_id": self._map_id(), "path": info.path or "in RAM"})
        health.put({name: getattr(info, name) for name in MEMORY_VALUES})
        if info.degraded:
            health.note(ERROR, info.degraded)
        elif self._memory.notice:
            health.note(WARN, self._memory.notice)
        return health

    def _clock(self) -> Health:
        health = Health("clock")
        use_sim_time = bool(self._node.get_parameter("use_sim_time").value)
        health.put({"use_sim_time": use_sim_time})
        now_ns = self._node.get_clock().now().nanoseconds
        if not use_sim_time or (now_ns != self._clock_ns and now_ns > 0):
            self._clock_seen = time.monotonic()
        self._clock_ns = now_ns
        if self._no_clock.check(self._clock_seen):
            health.note(WARN, f"no {self._no_clock.what}")
        return health

    def close(self) -> None:
        """Destroy the publisher."""
        self._node.destroy_publisher(self._publisher)
