"""Where the robot's pose comes from: a topic, or tf on a full ROS install."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from nav_msgs.msg import Odometry
from rclpy.callback_groups import CallbackGroup
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.time import Time

from semflip_core.errors import ConfigError, PoseError
from semflip_core.frames import CameraMount
from semflip_core.poses import Pose
from semflip_ros.frame_feed import FrameFeed
from semflip_ros.messages import pose_from, to_nanoseconds

#: pose_source -> topic name (remappable) and message type.
TOPICS: dict[str, tuple[str, type[Any]]] = {
    "odometry": ("odom", Odometry),
    "pose": ("pose", PoseStamped),
    "pose_with_covariance": ("pose_with_covariance", PoseWithCovarianceStamped),
}


class PoseSource(Protocol):
    """Feeds poses until it is closed."""

    def close(self) -> None:
        """Stop feeding."""


class TopicPoses:
    """Poses from Odometry, PoseStamped or PoseWithCovarianceStamped messages.

    An Odometry whose ``child_frame_id`` is not ``base_frame`` is dropped and counted: its pose is
    that of another part of the robot. An empty one is taken for the base.

    Everything that has come is taken at once: an executor serves one message of each subscription
    in turn, and poses come more often than pictures, so that after a stall they would fall ever
    further behind.
    """

    def __init__(
        self,
        node: Node,
        feed: FrameFeed,
        *,
        kind: str,
        base_frame: str,
        qos: QoSProfile,
        group: CallbackGroup,
        events: SubscriptionEventCallbacks,
    ) -> None:
        self._node = node
        self._feed = feed
        self._base_frame = base_frame
        self._depth = qos.depth
        topic, message_type = TOPICS[kind]
        self._topic = node.resolve_topic_name(topic)
        self._subscription: Any = None  # another thread may bring a message before it is known here
        self._subscription = node.create_subscription(
            message_type, topic, self._receive, qos, callback_group=group, event_callbacks=events
        )

    def _receive(self, message: Any) -> None:
        self._take(message)
        for later in self._at_hand():
            self._take(later)

    def _at_hand(self) -> Iterator[Any]:
        """Messages that came meanwhile, no more than the queue holds."""
        subscription = self._subscription
        for _ in range(0 if subscription is None else self._depth):
            try:
                with subscription.handle:
                    taken = subscription.handle.take_message(subscription.msg_type, False)
            except InvalidHandle:  # closed in this moment
                return
            if taken is None:
                return
            yield taken[0]

    def _take(self, message: Any) -> None:
        child = getattr(message, "child_frame_id", "").lstrip("/")
        if child and child != self._base_frame.lstrip("/"):
            self._feed.complain(
                "pose_frame",
                f"pose of '{child}' on '{self._topic}', not of base_frame "
                f"'{self._base_frame}': set base_frame or take another topic",
            )
            return
        pose = message.pose if isinstance(message, PoseStamped) else message.pose.pose
        try:
            sample = pose_from(message.header.frame_id, pose)
        except PoseError as error:
            self._feed.complain("pose", str(error))
            return
        self._feed.pose(to_nanoseconds(message.header.stamp), sample)

    def close(self) -> None:
        """Stop feeding."""
        self._node.destroy_subscription(self._subscription)


class TransformBuffer(Protocol):
    """What is used of tf2_ros.Buffer; a lookup never waits here."""

    def lookup_transform(self, target_frame: str, source_frame: str, time: Time) -> Any:
        """geometry_msgs/TransformStamped, or a tf2 TransformException."""


class TfPoses:
    """Samples ``global_frame`` <- ``base_frame`` at a fixed rate, always the latest common time.

    Images then wait for the pose after them as with any other source, so that no callback ever
    waits for a transform.

    Args:
        mount_known: told once where the camera sits, when ``camera_frame`` is given.
        unavailable: exception types that mean "not known yet".
    """

    def __init__(
        self,
        node: Node,
        feed: FrameFeed,
        buffer: TransformBuffer,
        *,
        global_frame: str,
        base_frame: str,
        camera_frame: str,
        rate_hz: float,
        group: CallbackGroup,
        mount_known: Callable[[CameraMount], None],
        unavailable: tuple[type[Exception], ...],
    ) -> None:
        self._node = node
        self._feed = feed
        self._buffer = buffer
        self._global_frame = global_frame
        self._base_frame = base_frame
        self._camera_frame = camera_frame
        self._mount_known = mount_known
        self._unavailable = unavailable
        self._last_ns = -1
        self._timer = node.create_timer(
            1.0 / rate_hz,
            self.sample,
            callback_group=group,
            clock=Clock(clock_type=ClockType.STEADY_TIME),
        )

    def sample(self) -> None:
        """Feed the latest pose, if there is a new one."""
        try:
            found = self._buffer.lookup_transform(self._global_frame, self._base_frame, Time())
            if self._camera_frame:
                self._find_camera()
        except self._unavailable as error:
            self._feed.complain("tf", str(error))
            return
        stamp_ns = to_nanoseconds(found.header.stamp)
        if stamp_ns == self._last_ns:
            return
        self._last_ns = stamp_ns
        place, turn = found.transform.translation, found.transform.rotation
        try:
            pose = Pose(
                self._global_frame, (place.x, place.y, place.z), (turn.x, turn.y, turn.z, turn.w)
            )
        except PoseError as error:
            self._feed.complain("pose", str(error))
            return
        self._feed.pose(stamp_ns, pose)

    def _find_camera(self) -> None:
        found = self._buffer.lookup_transform(self._base_frame, self._camera_frame, Time())
        place, turn = found.transform.translation, found.transform.rotation
        mount = CameraMount(
            (place.x, place.y, place.z), (turn.x, turn.y, turn.z, turn.w), self._camera_frame
        )
        self._camera_frame = ""
        self._mount_known(mount)

    def close(self) -> None:
        """Stop sampling."""
        self._node.destroy_timer(self._timer)


def tf_poses(
    node: Node,
    feed: FrameFeed,
    *,
    global_frame: str,
    base_frame: str,
    camera_frame: str,
    rate_hz: float,
    group: CallbackGroup,
    mount_known: Callable[[CameraMount], None],
) -> TfPoses:
    """Poses from /tf and /tf_static.

    Raises:
        ConfigError: tf2_ros is not installed.
    """
    try:
        from tf2_ros import Buffer, TransformException, TransformListener
    except ImportError as error:
        raise ConfigError(
            "pose_source 'tf' needs tf2_ros, which comes with a full ROS install "
            "(apt: ros-<distro>-tf2-ros-py); without it use 'odometry', 'pose' or "
            "'pose_with_covariance'"
        ) from error

    class ListeningTf(TfPoses):
        """Keeps the listener alive, and ends it with the source."""

        listener: Any = None

        def close(self) -> None:
            super().close()
            self.listener.unregister()

    buffer = Buffer()
    source = ListeningTf(
        node,
        feed,
        buffer,
        global_frame=global_frame,
        base_frame=base_frame,
        camera_frame=camera_frame,
        rate_hz=rate_hz,
        group=group,
        mount_known=mount_known,
        unavailable=(TransformException,),
    )
    source.listener = TransformListener(buffer, node, spin_thread=False)
    return source
