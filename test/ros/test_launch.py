"""The launch file on a full ROS install: an active node, and again one after it is killed.

Run where `launch` and `launch_pytest` exist, reported as skipped elsewhere. A folder named `launch`
makes `import launch` succeed without either, hence the names asked for.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

try:
    import launch_pytest
    from launch import LaunchDescription
    from launch.actions import IncludeLaunchDescription, SetEnvironmentVariable
    from launch.launch_description_sources import PythonLaunchDescriptionSource
except ImportError as error:
    pytest.skip(
        f"launch files are run on a full ROS install only ({error}); "
        "test_launch_files.py checks what can be checked without",
        allow_module_level=True,
    )

if pytest.version_tuple >= (8, 4):
    pytest.skip(
        f"launch_pytest needs pytest < 8.4, this is {pytest.__version__}: pip install 'pytest<8.4'",
        allow_module_level=True,
    )

import rclpy
from lifecycle_msgs.msg import State
from lifecycle_msgs.srv import GetState
from rclpy.executors import SingleThreadedExecutor

from semflip.msg import Decision, Query, Refusal
from support.colours import write_gate
from support.live import COLOURS_ENCODER, TEST_ROOT

LAUNCH_FILE = Path(__file__).parents[2] / "launch" / "semflip.launch.py"
NAME = "launched_refusal_node"
pytestmark = pytest.mark.live


@launch_pytest.fixture
def launched(tmp_path: Path) -> LaunchDescription:
    """The node as a user starts it, with an empty memory of its own."""
    arguments = {
        "name": NAME,
        "memory_path": str(tmp_path / "memory.db"),
        "pose_source": "odometry",
        "image_transport": "compressed",
        "encoder": COLOURS_ENCODER,
        "gate": str(write_gate(tmp_path / "gate.safetensors")),
    }
    path = os.pathsep.join([str(TEST_ROOT), os.environ.get("PYTHONPATH", "")])
    source = PythonLaunchDescriptionSource(str(LAUNCH_FILE))
    return LaunchDescription(
        [
            SetEnvironmentVariable("PYTHONPATH", path),  # where the encoder is
            IncludeLaunchDescription(source, launch_arguments=list(arguments.items())),
        ]
    )


@pytest.fixture
def client() -> Iterator[tuple[Any, SingleThreadedExecutor]]:
    """A node that asks, in a context of its own beside that of launch."""
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node("launch_test_client", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    yield node, executor
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown(context=context)


def is_active(client: tuple[Any, SingleThreadedExecutor], patience_s: float) -> bool:
    node, executor = client
    service = node.create_client(GetState, f"{NAME}/get_state")
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        if service.wait_for_service(timeout_sec=0.5):
            future = service.call_async(GetState.Request())
            executor.spin_until_future_complete(future, timeout_sec=1.0)
            reply = future.result() if future.done() else None
            if reply is not None and reply.current_state.id == State.PRIMARY_STATE_ACTIVE:
                return True
        time.sleep(0.2)
    return False


def ask(client: tuple[Any, SingleThreadedExecutor], identity: str) -> tuple[list[Any], list[Any]]:
    """Decisions and refusals that one query brings within two seconds after the first."""
    node, executor = client
    decisions: list[Any] = []
    refusals: list[Any] = []
    node.create_subscription(Decision, "decision", decisions.append, 10)
    node.create_subscription(Refusal, "refusal", refusals.append, 10)
    publisher = node.create_publisher(Query, "query", 10)
    until = time.monotonic() + 10.0
    while time.monotonic() < until and (
        publisher.get_subscription_count() == 0 or node.count_publishers("refusal") == 0
    ):
        executor.spin_once(timeout_sec=0.1)
    time.sleep(0.5)
    publisher.publish(Query(id=identity, text="Where is the chair?"))
    until = time.monotonic() + 20.0
    while time.monotonic() < until:
        executor.spin_once(timeout_sec=0.1)
        if decisions and refusals:
            until = min(until, time.monotonic() + 2.0)
    return decisions, refusals


@pytest.mark.launch(fixture=launched)
def test_a_launched_node_is_active_and_refuses_from_an_empty_memory(client: Any) -> None:
    assert is_active(client, 60.0)
    decisions, refusals = ask(client, "launch-1")
    assert [(d.query_id, d.verdict) for d in decisions] == [("launch-1", Decision.VERDICT_REFUSE)]
    assert [r.reason for r in refusals] == [Decision.REASON_EMPTY_MEMORY]


@pytest.mark.launch(fixture=launched)
def test_a_killed_node_comes_back_active(client: Any) -> None:
    assert is_active(client, 60.0)
    first = node_processes()
    assert len(first) == 1
    os.kill(first[0], signal.SIGKILL)
    until = time.monotonic() + 60.0
    while time.monotonic() < until and (not node_processes() or node_processes() == first):
        time.sleep(0.2)
    assert len(node_processes()) == 1 and node_processes() != first
    assert is_active(client, 60.0)


def node_processes() -> list[int]:
    """Processes of this user whose command line names the launched node."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"__node:={NAME}".encode() in words:
                found.append(int(entry.name))
    return found
