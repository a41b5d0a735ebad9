"""Camera subscriptions that deserialize an image only where it may become a keyframe."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rclpy.callback_groups import CallbackGroup
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription
from sensor_msgs.msg import CompressedImage, Image

from semflip_core.errors import ImageError
from semflip_core.images import StoredPicture, decode_raw, store_compressed, store_raw
from semflip_core.settings import KeyframeSettings
from semflip_ros.frame_feed import FrameFeed
from semflip_ros.messages import read_header, to_nanoseconds

MsgT = TypeVar("MsgT")

RAW_TOPIC = "image"
COMPRESSED_TOPIC = "image/compressed"


def read_message(cdr: bytes, kind: type[MsgT]) -> MsgT:
    """Deserialize a message that another process sent.

    Raises:
        ImageError: the bytes are no such message.
    """
    try:
        return deserialize_message(cdr, kind)
    except (RuntimeError, ValueError, MemoryError) as error:  # the middleware's own are the first
        name = kind.__name__
        raise ImageError("malformed", f"{len(cdr)} bytes that are no {name}: {error}") from error


def load_raw(cdr: bytes, settings: KeyframeSettings) -> StoredPicture:
    """The stored picture of a serialized sensor_msgs/Image.

    Raises:
        ImageError: the message cannot be a colour picture.
    """
    message = read_message(cdr, Image)
    rgb = decode_raw(
        message.encoding,
        message.width,
        message.height,
        message.step,
        bool(message.is_bigendian),
        message.data,
    )
    return store_raw(rgb, settings)


def load_compressed(cdr: bytes, settings: KeyframeSettings) -> StoredPicture:
    """The stored picture of a serialized sensor_msgs/CompressedImage; errors as for raw ones."""
    message = read_message(cdr, CompressedImage)
    return store_compressed(bytes(message.data), settings)


def read_stamp(cdr: bytes, kind: type[Image] | type[CompressedImage]) -> int:
    """Header stamp in nanoseconds, from the first bytes where they are plain CDR.

    Raises:
        ImageError: the bytes are no such message.
    """
    header = read_header(cdr)
    if header is not None:
        return header.stamp_ns
    return to_nanoseconds(read_message(cdr, kind).header.stamp)


def subscribe_images(
    node: Node,
    feed: FrameFeed,
    *,
    compressed: bool,
    settings: KeyframeSettings,
    qos: QoSProfile,
    group: CallbackGroup,
    events: SubscriptionEventCallbacks,
) -> Subscription[Image] | Subscription[CompressedImage]:
    """Subscribe to ``image`` or ``image/compressed`` and feed what comes, undecoded."""
    load: Callable[[bytes, KeyframeSettings], StoredPicture]
    load = load_compressed if compressed else load_raw
    kind: type[Image] | type[CompressedImage] = CompressedImage if compressed else Image

    def receive(cdr: bytes) -> None:
        try:
            stamp_ns = read_stamp(cdr, kind)
        except ImageError as error:
            feed.complain(f"image_{error.reason}", str(error))
            return
        feed.image(stamp_ns, len(cdr), lambda: load(cdr, settings))

    topic = COMPRESSED_TOPIC if compressed else RAW_TOPIC
    return node.create_subscription(
        kind, topic, receive, qos, callback_group=group, event_callbacks=events, raw=True
    )
