"""Which topics of a recording carry the camera and the robot's pose, and how to read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from semflip_core.errors import BagError, ImageError, PoseError
from semflip_core.poses import Pose, Quaternion, Vector3

if TYPE_CHECKING:
    from semflip_core.bags import Bag, BagMessage, Topic
    from semflip_core.images import StoredPicture
    from semflip_core.settings import KeyframeSettings

COMPRESSED = "sensor_msgs/msg/CompressedImage"
RAW = "sensor_msgs/msg/Image"
TF = "tf2_msgs/msg/TFMessage"
ODOMETRY = "nav_msgs/msg/Odometry"
POSE = "geometry_msgs/msg/PoseStamped"
POSE_WITH_COVARIANCE = "geometry_msgs/msg/PoseWithCovarianceStamped"

#: Words in a topic's name that say it is no colour picture.
NOT_COLOUR = ("depth", "mask", "label", "segment", "infra", "confidence")
MAP_FRAME = "map"
BASE_FRAMES = ("base_link", "base_footprint")


def choose_image_topic(bag: Bag, name: str | None) -> Topic:
    """The camera topic: the one named, or the fullest colour one.

    Raises:
        BagError: there is none, or the named one is no picture; lists what is there.
    """
    if name is not None:
        return _named(bag, name, (COMPRESSED, RAW), "a camera topic")
    found = [
        topic
        for topic in bag.topics
        if topic.msgtype in (COMPRESSED, RAW)
        and topic.count
        and not any(word in topic.name.lower() for word in NOT_COLOUR)
    ]
    if not found:
        raise BagError(
            f"{bag.path}: no camera topic ({COMPRESSED} or {RAW}); {bag.describe_topics()}"
        )
    return max(found, key=lambda topic: (topic.count, topic.msgtype == COMPRESSED, topic.name))


def _named(bag: Bag, name: str, types: tuple[str, ...], role: str) -> Topic:
    for topic in bag.topics:
        if topic.name == name:
            if topic.msgtype not in types:
                raise BagError(
                    f"{bag.path}: {name} is {topic.msgtype}, not {role} ({', '.join(types)})"
                )
            return topic
    raise BagError(f"{bag.path}: no topic {name}; {bag.describe_topics()}")


def image_loader(message: BagMessage, settings: KeyframeSettings) -> Callable[[], StoredPicture]:
    """Decode and store a camera message when it is called, not before."""

    def load() -> StoredPicture:
        from semflip_core.images import decode_raw, store_compressed, store_raw

        try:
            decoded = message.decode()
        except BagError as error:
            raise ImageError("malformed", str(error)) from error
        if message.msgtype == COMPRESSED:
            return store_compressed(bytes(decoded.data), settings)
        rgb = decode_raw(
            decoded.encoding,
            decoded.width,
            decoded.height,
            decoded.step,
            decoded.is_bigendian,
            decoded.data,
        )
        return store_raw(rgb, settings)

    return load


class PoseSource(Protocol):
    """Reads poses of the robot's base out of messages of some topics."""

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics to read."""

    @property
    def dropped(self) -> int:
        """Messages whose pose was not a pose (NaN, zero quaternion, empty frame)."""

    def read(self, message: BagMessage, /) -> Iterable[tuple[int, Pose]]:
        """``(stamp_ns, pose)`` for each pose that the message brings."""


def choose_pose_source(bag: Bag, name: str | None, *, required: bool) -> PoseSource | None:
    """The pose topic: the one named, or the fullest one of a pose type, else tf.

    Raises:
        BagError: there is none and one is required, or the named one carries no pose.
    """
    stamped = (ODOMETRY, POSE_WITH_COVARIANCE, POSE)
    if name is not None:
        topic = _named(bag, name, (*stamped, TF), "a pose topic")
        return TfPoses(bag) if topic.msgtype == TF else StampedPoses(topic)
    for kind in stamped:
        found = [topic for topic in bag.topics if topic.msgtype == kind and topic.count]
        if found:
            return StampedPoses(max(found, key=lambda topic: (topic.count, topic.name)))
    if any(topic.msgtype == TF and topic.count for topic in bag.topics):
        return TfPoses(bag)
    if required:
        raise BagError(
            f"{bag.path}: no pose topic ({', '.join((*stamped, TF))}); without poses there are no "
            f"goals: record one, or read the recording as footage; {bag.describe_topics()}"
        )
    return None


class StampedPoses:
    """Poses from nav_msgs/Odometry, PoseStamped or PoseWithCovarianceStamped."""

    def __init__(self, topic: Topic) -> None:
        self.topics = (topic.name,)
        self.dropped = 0

    def read(self, message: BagMessage, /) -> Iterable[tuple[int, Pose]]:
        """The one pose of the message, unless it is none."""
        decoded = message.decode()
        pose = decoded.pose if message.msgtype == POSE else decoded.pose.pose
        try:
            made = Pose(
                decoded.header.frame_id, _vector(pose.position), _quaternion(pose.orientation)
            )
        except PoseError:
            self.dropped += 1
            return
        yield (message.header_ns or message.log_ns), made


class TfPoses:
    """Poses of the base in the map, composed from tf2_msgs/TFMessage.

    Whenever a transform on the chain from base to map arrives, the pose is composed at its stamp
    with the newest of the others: a localiser's ``map -> odom`` changes slowly.
    """

    def __init__(
        self, bag: Bag, map_frame: str = MAP_FRAME, base_frames: tuple[str, ...] = BASE_FRAMES
    ) -> None:
        self.topics = tuple(topic.name for topic in bag.topics if topic.msgtype == TF)
        self.dropped = 0
        self._map_frame = map_frame
        self._base_frames = base_frames
        self._parents: dict[str, tuple[str, Vector3, Quaternion]] = {}

    def read(self, message: BagMessage, /) -> Iterable[tuple[int, Pose]]:
        """The base's pose after each transform on its chain."""
        for item in message.decode().transforms:
            child = item.child_frame_id.lstrip("/")
            self._parents[child] = (
                item.header.frame_id.lstrip("/"),
                _vector(item.transform.translation),
                _quaternion(item.transform.rotation),
            )
            if message.topic.endswith("tf_static"):
                continue
            stamp = item.header.stamp
            stamp_ns = int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)
            for base in self._base_frames:
                chain = self._chain(base)
                if chain and child in chain:
                    try:
                        yield (stamp_ns or message.log_ns), self._compose(chain)
                    except PoseError:
                        self.dropped += 1
                    break

    def _chain(self, base: str) -> list[str]:
        """Frames from base up to below the map; empty where they are not connected."""
        chain: list[str] = []
        frame = base
        while frame != self._map_frame:
            if frame not in self._parents or frame in chain:
                return []
            chain.append(frame)
            frame = self._parents[frame][0]
        return chain

    def _compose(self, chain: list[str]) -> Pose:
        position: Vector3 = (0.0, 0.0, 0.0)
        orientation: Quaternion = (0.0, 0.0, 0.0, 1.0)
        for frame in reversed(chain):
            _, offset, turn = self._parents[frame]
            moved = _rotate(orientation, offset)
            position = (position[0] + moved[0], position[1] + moved[1], position[2] + moved[2])
            orientation = _multiply(orientation, turn)
        return Pose(self._map_frame, position, orientation)


def _vector(value: Any) -> Vector3:
    return (float(value.x), float(value.y), float(value.z))


def _quaternion(value: Any) -> Quaternion:
    return (float(value.x), float(value.y), float(value.z), float(value.w))


def _multiply(a: Quaternion, b: Quaternion) -> Quaternion:
    ax, ay, az, aw = a
    bx, by, bz, bw = b
    return (
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    )


def _rotate(q: Quaternion, v: Vector3) -> Vector3:
    x, y, z, w = q
    rotated = _multiply(_multiply(q, (v[0], v[1], v[2], 0.0)), (-x, -y, -z, w))
    return rotated[:3]
