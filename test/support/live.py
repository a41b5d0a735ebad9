"""A robot for live tests: real processes, real topics, everything that was said kept in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.srv import ChangeState, GetState
from nav_msgs.msg import Odometry
from rclpy.action import ActionClient
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import String
from std_srvs.srv import Trigger
from visualization_msgs.msg import MarkerArray

from semflip.action import Ask
from semflip.msg import Decision, Query, Refusal
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_ros.messages import pose_message, to_time
from semflip_ros.outlets import LATCHED
from support.colours import room_picture

TEST_ROOT = Path(__file__).resolve().parents[1]
COLOURS_ENCODER = "support.colours:ColourEncoder"
#: Generous: eight builds may share two cores.
PATIENCE_S = 30.0
START_NS = 1_700_000_000_000_000_000


def wait_until(done: Callable[[], Any], timeout_s: float = PATIENCE_S, what: str = "") -> Any:
    """Poll until ``done()`` is true, or fail the test."""
    end = time.monotonic() + timeout_s
    while not (value := done()):
        assert time.monotonic() < end, f"waited {timeout_s} s in vain for {what or done}"
        time.sleep(0.02)
    return value


#: Every process that a test started, so that none outlives a test that failed half-way.
STARTED: list[Process] = []


class Process:
    """One operating-system process of ours, ended by its id, its output kept in a file.

    ``module`` is run with ``python -m``, or as a script where it is a path.
    """

    def __init__(self, module: str, arguments: list[str], log: Path, **env: str) -> None:
        self.log = log
        path = f"{TEST_ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        with log.open("ab") as output:
            self.child = subprocess.Popen(
                [sys.executable, *([module] if "/" in module else ["-m", module]), *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **env},
                cwd=TEST_ROOT.parent,
            )
        STARTED.append(self)

    def text(self) -> str:
        """Everything that it printed so far."""
        return self.log.read_text(errors="replace")

    def wait_for(self, words: str, timeout_s: float = PATIENCE_S) -> None:
        """Until it printed the words; fails with its output where it ended instead."""

        def said() -> bool:
            if words in self.text():
                return True
            assert self.child.poll() is None, f"ended with {self.child.returncode}:\n{self.text()}"
            return False

        wait_until(said, timeout_s, f"'{words}' in:\n{self.text()}")

    def end(self, number: int = signal.SIGINT, timeout_s: float = 15.0) -> int:
        """Send a signal to this process and wait for its exit code."""
        if self.child.poll() is None:
            self.child.send_signal(number)
        try:
            return self.child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise


def parameters(**values: Any) -> list[str]:
    """Command line of parameters; dots in names are written as double underscores."""
    arguments: list[str] = []
    for name, value in values.items():
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        arguments += ["-p", f"{name.replace('__', '.')}:={shown}"]
    return arguments


class Robot:
    """The other side of a refusal node: camera, odometry, a person asking, and an observer."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._context = rclpy.Context()
        self._context.init()
        self.node = Node(
            f"robot_{uuid.uuid4().hex[:6]}", context=self._context, namespace=namespace
        )
        self.said: list[tuple[str, Any]] = []
        self._lock = threading.Lock()
        reliable = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
        for kind, topic in (
            (Decision, "decision"),
            (Refusal, "refusal"),
            (PoseStamped, "goal_pose"),
            (CompressedImage, "evidence/compressed"),
        ):
            self.node.create_subscription(kind, topic, self._note(topic), reliable)
        self.node.create_subscription(MarkerArray, "memory_markers", self._note("markers"), LATCHED)
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._diagnosed, 10)
        self.health: dict[str, Any] = {}
        self._query = self.node.create_publisher(Query, "query", reliable)
        self._text = self.node.create_publisher(String, "query_text", reliable)
        self._image = self.node.create_publisher(CompressedImage, "image/compressed", reliable)
        self._odom = self.node.create_publisher(Odometry, "odom", reliable)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._spinning = threading.Thread(target=self._spin, daemon=True)
        self._spinning.start()
        self.time_ns = START_NS

    def _spin(self) -> None:
        try:
            self._executor.spin()
        except ExternalShutdownException:
            return

    def _note(self, topic: str) -> Callable[[Any], None]:
        def note(message: Any) -> None:
            with self._lock:
                self.said.append((topic, message))

        return note

    def _diagnosed(self, message: DiagnosticArray) -> None:
        for status in message.status:
            name, _, part = status.name.partition(": ")
            if name == f"{self.namespace}/refusal_node":
                self.health[part] = status

    def action_client(self) -> ActionClient[Any, Any, Any]:
        """A client of the ``ask`` action, made by the thread that spins.

        rclpy hands a client to the executor before it has its lock, so one made beside a spinning
        executor can end that executor's thread.
        """
        made = self._executor.create_task(ActionClient, self.node, Ask, "ask")
        wait_until(made.done, what="an action client")
        client: ActionClient[Any, Any, Any] = made.result()
        return client

    # What it saw of the node -------------------------------------------------------------------

    def of(self, topic: str, query_id: str = "") -> list[Any]:
        """Messages of a topic so far, of one query where an id is given."""
        with self._lock:
            found = [message for name, message in self.said if name == topic]
        return [m for m in found if not query_id or m.query_id == query_id]

    def value(self, part: str, key: str) -> str:
        """A value of the latest diagnostics; empty while there is none."""
        status = self.health.get(part)
        return next((v.value for v in status.values if v.key == key), "") if status else ""

    def level(self, part: str) -> bytes:
        """Level of a part in the latest diagnostics; empty while there is none."""
        status = self.health.get(part)
        return bytes(status.level) if status else b""

    # What it does ------------------------------------------------------------------------------

    def connect(self) -> None:
        """Wait until the node hears questions and its decisions, refusals and goals are heard."""
        wait_until(
            lambda: (
                self._query.get_subscription_count()
                and self._text.get_subscription_count()
                and all(self.node.count_publishers(t) for t in ("decision", "refusal", "goal_pose"))
            ),
            what="the node's query topics",
        )

    def wait_for_camera(self) -> None:
        """Wait until the node listens to camera and odometry."""
        wait_until(
            lambda: self._image.get_subscription_count() and self._odom.get_subscription_count(),
            what="camera and pose subscriptions",
        )

    def show(
        self, *colours: str, x: float, yaw: float = 0.0, frame: str = "map", pose_delay_s: float = 0
    ) -> int:
        """Drive to ``x`` and look at a room with these colours; returns the picture's stamp.

        ``pose_delay_s`` is how much later, on the wall, the pose after the picture comes.
        """
        self.time_ns += 1_000_000_000
        picture = CompressedImage(format="jpeg")
        picture.header.stamp = to_time(self.time_ns)
        picture.header.frame_id = "camera"
        picture.data.frombytes(room_picture(*colours).data)
        self.odometry(x, yaw, frame, self.time_ns - 100_000_000)
        self._image.publish(picture)
        time.sleep(pose_delay_s)
        self.odometry(x, yaw, frame, self.time_ns + 100_000_000)
        return self.time_ns

    def odometry(self, x: float, yaw: float, frame: str, stamp_ns: int) -> None:
        """One odometry message."""
        pose = Pose(frame, (x, 0.0, 0.0), quaternion_from_yaw(yaw))
        message = Odometry(child_frame_id="base_link")
        stamped = pose_message(pose, to_time(stamp_ns))
        message.header = stamped.header
        message.pose.pose = stamped.pose
        self._odom.publish(message)

    def broken_odometry(self) -> None:
        """Odometry as a driver sends it before it knows anything: a zero quaternion."""
        message = Odometry(child_frame_id="base_link")
        message.header.frame_id = "map"
        message.header.stamp = to_time(self.time_ns)
        message.pose.pose.orientation.w = 0.0
        self._odom.publish(message)

    def publish_bytes(self, data: bytes) -> None:
        """The same bytes, whatever they are, on every topic that the node listens to."""
        for publisher in (self._query, self._text, self._image, self._odom):
            publisher.publish(data)

    def wait_for_health(self, part: str, key: str) -> None:
        """Until the diagnostics of a part show a value."""
        wait_until(lambda: self.value(part, key), what=f"'{key}' in the diagnostics of {part}")

    def send(self, text: str, query_id: str = "") -> str:
        """Ask without waiting; returns the id."""
        chosen = query_id or uuid.uuid4().hex
        self._query.publish(Query(id=chosen, text=text))
        return chosen

    def send_text(self, text: str) -> None:
        """Ask as a speech node does."""
        self._text.publish(String(data=text))

    def ask(self, text: str, query_id: str = "", timeout_s: float = PATIENCE_S) -> Decision:
        """Ask and wait for the decision."""
        chosen = self.send(text, query_id)
        return self.decision(chosen, timeout_s)

    def decision(self, query_id: str, timeout_s: float = PATIENCE_S) -> Decision:
        """Wait for the decision of an id and for the goal or refusal that goes with it."""
        decision = wait_until(
            lambda: self.of("decision", query_id), timeout_s, f"a decision of {query_id}"
        )[0]
        wait_until(lambda: self._with(decision), timeout_s, f"the goal or refusal of {query_id}")
        return decision

    def _with(self, decision: Decision) -> list[Any]:
        """Goals or refusals that say what a decision says; topics keep no order among them."""
        if decision.verdict == "refuse":
            return self.of("refusal", decision.query_id)
        if not decision.has_goal:
            return [decision]
        return [g for g in self.of("goal_pose") if g.header.stamp == decision.header.stamp]

    def call(self, kind: Any, name: str, request: Any, timeout_s: float = PATIENCE_S) -> Any:
        """Call a service of the node and wait for the response."""
        client = self.node.create_client(kind, f"refusal_node/{name}")
        assert client.wait_for_service(timeout_s), f"no service {name}"
        future = client.call_async(request)
        wait_until(future.done, timeout_s, f"the response of {name}")
        self.node.destroy_client(client)
        return future.result()

    def keyframes(self) -> int:
        """How many keyframes the node has saved now."""
        response = self.call(Trigger, "save_memory", Trigger.Request())
        assert response.success, response.message
        return int(response.message.split()[0])

    def wait_for_keyframes(self, count: int) -> None:
        """Until the node has stored so many."""
        wait_until(lambda: self.keyframes() >= count, what=f"{count} keyframes")

    def change_state(self, transition: int) -> bool:
        """Ask for a lifecycle transition."""
        request = ChangeState.Request()
        request.transition.id = transition
        return bool(self.call(ChangeState, "change_state", request).success)

    def start_transition(self, transition: int) -> Any:
        """Ask for a lifecycle transition; returns the future of its response."""
        client = self.node.create_client(ChangeState, "refusal_node/change_state")
        assert client.wait_for_service(PATIENCE_S)
        request = ChangeState.Request()
        request.transition.id = transition
        return client.call_async(request)

    def state(self) -> str:
        """The node's lifecycle state."""
        return str(self.call(GetState, "get_state", GetState.Request()).current_state.label)

    def close(self) -> None:
        """Leave the graph."""
        self._executor.shutdown(timeout_sec=1.0)
        self._spinning.join(2.0)
        self.node.destroy_node()
        self._context.try_shutdown()

    def __enter__(self) -> Robot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def node_arguments(namespace: str, gate: Path, **values: Any) -> list[str]:
    """Command line of a refusal node that runs on the colour encoder."""
    given = {
        "autostart": True,
        "encoder": COLOURS_ENCODER,
        "gate": gate,
        "memory_path": "ram",
        "image_transport": "compressed",
        "image_reliability": "reliable",
        "image_depth": 200,
        "pose_reliability": "reliable",
        "keyframes__min_interval_s": 0.0,
        "diagnostics_period_s": 0.2,
        "markers_period_s": 0.2,
        **values,
    }
    return ["--ros-args", "-r", f"__ns:={namespace}", *parameters(**given)]


@contextmanager
def refusal_node(folder: Path, namespace: str, gate: Path, **values: Any) -> Iterator[Process]:
    """A running refusal node, ended with Ctrl-C; waits until it is active where it autostarts."""
    arguments = node_arguments(namespace, gate, **values)
    process = Process("semflip_ros.refusal_node", arguments, folder / "refusal_node.log")
    try:
        if values.get("autostart", True):
            process.wait_for("active: ask on")
        yield process
    finally:
        process.end()


@contextmanager
def active_robot(folder: Path, gate: Path, **values: Any) -> Iterator[tuple[Process, Robot]]:
    """An active node and its robot, in a namespace of their own."""
    namespace = f"/t{uuid.uuid4().hex[:6]}"
    with refusal_node(folder, namespace, gate, **values) as process, Robot(namespace) as robot:
        robot.connect()
        robot.wait_for_camera()
        yield process, robot
