"""Camera subscriptions that deserialize an image only where it may become a keyframe."""

from __future__ import annotations

from collections.abc import Callable

from rclpy.callback_groups import CallbackGroup
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription
from sensor_msgs.msg import CompressedImage, Image

from semflip_core.images import StoredPicture, decode_raw, store_compressed, store_raw
from semflip_core.settings import KeyframeSettings
from semflip_ros.frame_feed import FrameFeed
from semflip_ros.messages import read_header, to_nanoseconds

RAW_TOPIC = "image"
COMPRESSED_TOPIC = "image/compressed"


def load_raw(cdr: bytes, settings: KeyframeSettings) -> StoredPicture:
    """The stored picture of a serialized sensor_msgs/Image.

    Raises:
        ImageError: the message cannot be a colour picture.
    """
    message = deserialize_message(cdr, Image)
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
    message = deserialize_message(cdr, CompressedImage)
    return store_compressed(bytes(message.data), settings)


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
        header = read_header(cdr)
        if header is None:
            stamp_ns = to_nanoseconds(deserialize_message(cdr, kind).header.stamp)
        else:
            stamp_ns = header.stamp_ns
        feed.image(stamp_ns, len(cdr), lambda: load(cdr, settings))

    topic = COMPRESSED_TOPIC if compressed else RAW_TOPIC
    return node.create_subscription(
        kind, topic, receive, qos, callback_group=group, event_callbacks=events, raw=True
    )
