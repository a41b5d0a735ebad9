"""The parts between callbacks and memory: the feed, tf sampling, markers, health."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("semflip.msg", reason="messages are not built")

import rclpy
from builtin_interfaces.msg import Time as TimeMsg
from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Odometry
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.duration import Duration
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from visualization_msgs.msg import Marker

from semflip_core.decision import Decision, Evidence, Reason, Verdict, refuse
from semflip_core.errors import ImageError, MemoryFileError
from semflip_core.frames import CameraMount, KeyframeRecord
from semflip_core.images import StoredPicture
from semflip_core.ingest import Ingest
from semflip_core.memory import VideoMemory
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_core.settings import KeyframeSettings
from semflip_ros.diagnostics import ERROR, OK, WARN, Health, diagnostic_array, percentile
from semflip_ros.frame_feed import FrameFeed
from semflip_ros.markers import MOST_KEYFRAMES, memory_markers
from semflip_ros.messages import to_time
from semflip_ros.pose_sources import TfPoses, TopicPoses
from support.colours import room_picture

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


def pose_at(x: float, frame: str = "map") -> Pose:
    return Pose(frame, (x, 0.0, 0.0), quaternion_from_yaw(0.0))


class Lane:
    """A feed on a memory in RAM."""

    def __init__(self, backlog_bytes: int = 10_000_000) -> None:
        self.memory = VideoMemory()
        self.stored = threading.Event()
        settings = KeyframeSettings(min_interval_s=0.0)
        self.feed = FrameFeed(
            Ingest(self.memory, settings, map_id="m"),
            backlog_bytes=backlog_bytes,
            on_keyframes=self.stored.set,
        )

    def drive(self, index: int, load=lambda: room_picture("red"), size: int = 100) -> None:
        self.feed.pose(START + index * SECOND - 1000, pose_at(float(index)))
        self.feed.image(START + index * SECOND, size, load)
        self.feed.pose(START + index * SECOND + 1000, pose_at(float(index)))


def test_frames_become_keyframes_in_the_feeds_own_thread() -> None:
    lane = Lane()
    threads: set[str] = set()

    def load() -> StoredPicture:
        threads.add(threading.current_thread().name)
        return room_picture("red")

    lane.feed.start()
    for index in range(5):
        lane.drive(index, load)
    lane.feed.stop()
    assert len(lane.memory) == 5
    assert lane.stored.is_set()
    assert threads == {"semflip-frames"}
    assert lane.feed.counts() | {} == {"received": 5, "poses": 10, "kept": 5}


def test_a_broken_picture_is_counted_named_once_and_the_next_is_kept(caplog) -> None:
    def broken() -> StoredPicture:
        raise ImageError("truncated", "half of it is missing")

    lane = Lane()
    lane.feed.start()
    for index in range(3):
        lane.drive(index, broken)
    lane.drive(3)
    lane.feed.stop()
    assert len(lane.memory) == 1
    assert lane.feed.counts()["image_truncated"] == 3
    assert caplog.text.count("half of it is missing") == 1


def test_images_beyond_the_backlog_are_dropped_and_counted_never_waited_for() -> None:
    lane = Lane(backlog_bytes=1000)
    for index in range(10):  # its thread has not started: to wait for it would be for ever
        lane.drive(index, size=400)
    lane.feed.start()
    lane.feed.stop()
    assert lane.feed.counts()["backlog"] == 8
    assert len(lane.memory) == 2


def test_a_memory_that_cannot_store_does_not_end_the_feed(caplog) -> None:
    lane = Lane()

    def fails(_: Ingest) -> list[int]:
        raise MemoryFileError("the disk is gone")

    lane.feed.start()
    lane.feed.then(fails)
    lane.drive(0)
    lane.feed.stop()
    assert "the disk is gone" in caplog.text
    assert len(lane.memory) == 1


class NotYetError(Exception):
    """Stands for tf2's TransformException."""


class Buffer:
    """Answers lookups from a table, and never waits."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], TransformStamped] = {}

    def put(self, target: str, source: str, x: float, stamp_ns: int) -> None:
        transform = TransformStamped()
        transform.header.stamp = to_time(stamp_ns)
        transform.transform.translation.x = x
        self.known[target, source] = transform

    def lookup_transform(self, target_frame: str, source_frame: str, time: object):
        if (target_frame, source_frame) not in self.known:
            raise NotYetError(f"no transform from {source_frame} to {target_frame}")
        return self.known[target_frame, source_frame]


@pytest.fixture
def node() -> Iterator[Node]:
    context = rclpy.Context()
    context.init()
    made = Node("tf_user", context=context)
    yield made
    made.destroy_node()
    context.try_shutdown()


def test_tf_is_sampled_without_waiting_and_gives_the_camera_mount_once(node) -> None:
    lane, buffer = Lane(), Buffer()
    mounts: list[CameraMount] = []
    source = TfPoses(
        node,
        lane.feed,
        buffer,
        global_frame="map",
        base_frame="base_link",
        camera_frame="camera",
        rate_hz=10.0,
        group=MutuallyExclusiveCallbackGroup(),
        mount_known=mounts.append,
        unavailable=(NotYetError,),
    )
    source.sample()
    assert lane.feed.counts() == {"tf": 1}
    buffer.put("map", "base_link", 1.0, START)
    buffer.put("base_link", "camera", 0.2, START)
    source.sample()
    source.sample()  # nothing newer: not fed twice
    buffer.put("map", "base_link", 2.0, START + SECOND)
    source.sample()
    assert lane.feed.counts()["poses"] == 2
    assert [mount.position[0] for mount in mounts] == [0.2]
    assert mounts[0].frame_id == "camera"
    source.close()


def odometry(stamp_ns: int, x: float) -> Odometry:
    message = Odometry()
    message.header.stamp = to_time(stamp_ns)
    message.header.frame_id, message.child_frame_id = "map", "base_link"
    message.pose.pose.position.x = x
    message.pose.pose.orientation.w = 1.0
    return message


def test_poses_that_waited_are_taken_at_once_and_end_with_the_source(node) -> None:
    """A stall does not put poses behind pictures, of which fewer come, one a turn each."""
    lane = Lane()
    qos = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
    source = TopicPoses(
        node,
        lane.feed,
        kind="odometry",
        base_frame="base_link",
        qos=qos,
        group=MutuallyExclusiveCallbackGroup(),
        events=SubscriptionEventCallbacks(),
    )
    publisher = node.create_publisher(Odometry, "odom", qos)
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    deadline = time.monotonic() + 20.0
    while publisher.get_subscription_count() == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    for index in range(60):
        publisher.publish(odometry(START + index * SECOND, float(index)))
    assert publisher.wait_for_all_acked(Duration(seconds=20))
    while "poses" not in lane.feed.counts() and time.monotonic() < deadline:
        executor.spin_once(timeout_sec=0.2)
    assert lane.feed.counts() == {"poses": 60}
    source.close()
    source._receive(odometry(START, 0.0))  # a callback that was on its way
    executor.remove_node(node)
    executor.shutdown()


class EagerNode:
    """Brings a message before it hands over the subscription, as another thread may."""

    def resolve_topic_name(self, topic: str) -> str:
        return f"/{topic}"

    def create_subscription(self, kind, topic, callback, qos, **_) -> None:
        callback(odometry(START, 0.0))


def test_a_pose_that_comes_while_subscribing_is_taken() -> None:
    lane = Lane()
    TopicPoses(
        EagerNode(),
        lane.feed,
        kind="odometry",
        base_frame="base_link",
        qos=QoSProfile(depth=100),
        group=MutuallyExclusiveCallbackGroup(),
        events=SubscriptionEventCallbacks(),
    )
    assert lane.feed.counts() == {"poses": 1}


def record(number: int, pose: Pose | None, map_id: str = "m") -> KeyframeRecord:
    return KeyframeRecord(number, number, pose, map_id, 0, 640, 480)


def drawn(records, decision=None) -> dict[str, Marker]:
    markers = memory_markers(
        records, decision, global_frame="map", map_id="m", stamp=TimeMsg()
    ).markers
    return {marker.ns: marker for marker in markers}


def test_markers_show_this_maps_keyframes_apart_and_leave_out_other_frames() -> None:
    shown = drawn(
        [
            record(1, pose_at(1.0)),
            record(2, pose_at(2.0), "old"),
            record(3, None),
            record(4, pose_at(4.0, "odom")),
        ]
    )
    assert [p.x for p in shown["keyframes"].points] == [1.0, 1.25]
    assert [p.x for p in shown["keyframes_of_other_maps"].points] == [2.0, 2.25]
    assert shown["goal"].action == shown["evidence"].action == Marker.DELETE


def test_markers_show_evidence_and_goal_and_take_them_back() -> None:
    item = Evidence(1, 1, 1.0, pose_at(3.0), None)
    answer = Decision("q", "?", Verdict.ANSWER, goal=pose_at(5.0), evidence=(item,))
    shown = drawn([], answer)
    assert shown["goal"].pose.position.x == 5.0
    assert [p.x for p in shown["evidence"].points] == [3.0]
    shown = drawn([], refuse("q", "?", Reason.ABSENT))
    assert shown["goal"].action == Marker.DELETE


def test_a_huge_memory_is_drawn_thinned() -> None:
    shown = drawn([record(i, pose_at(float(i))) for i in range(2 * MOST_KEYFRAMES + 1)])
    assert len(shown["keyframes"].points) <= 2 * MOST_KEYFRAMES


def test_the_worst_thing_said_is_the_status() -> None:
    health = Health("camera")
    health.put({"kept": 3, "rate": 1 / 3})
    health.note(WARN, "no poses")
    health.note(ERROR, "wrong QoS")
    health.note(WARN, "no images")
    message = diagnostic_array("/robot/refusal_node", [health, Health("memory")], TimeMsg())
    first, second = message.status
    assert (first.name, first.level, first.message) == (
        "/robot/refusal_node: camera",
        ERROR,
        "wrong QoS",
    )
    assert {v.key: v.value for v in first.values} == {"kept": "3", "rate": "0.3333"}
    assert second.level == OK


def test_percentiles_by_nearest_rank() -> None:
    values = [float(i) for i in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.9, 0.99)] == [50.0, 90.0, 99.0]
    assert percentile([7.0], 0.99) == 7.0
    assert percentile([], 0.5) != percentile([], 0.5)
