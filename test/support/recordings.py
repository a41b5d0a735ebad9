"""Small recordings, of ROS 2 and of ROS 1, as their recorders write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_typestore

STORE = get_typestore(Stores.ROS2_JAZZY)
STORE1 = get_typestore(Stores.ROS1_NOETIC)
IMAGE = "sensor_msgs/msg/Image"
COMPRESSED = "sensor_msgs/msg/CompressedImage"
ODOMETRY = "nav_msgs/msg/Odometry"
SECOND = 1_000_000_000


def header(stamp_ns: int, frame: str, *, ros1: bool = False) -> Any:
    """A header; ROS 1 ones have a number."""
    store = STORE1 if ros1 else STORE
    time = store.types["builtin_interfaces/msg/Time"](
        sec=stamp_ns // SECOND, nanosec=stamp_ns % SECOND
    )
    extra = {"seq": 7} if ros1 else {}
    return store.types["std_msgs/msg/Header"](stamp=time, frame_id=frame, **extra)


def image(stamp_ns: int, *, ros1: bool = False) -> Any:
    """Two by two pixels of rgb8."""
    store = STORE1 if ros1 else STORE
    return store.types[IMAGE](
        header=header(stamp_ns, "camera", ros1=ros1),
        height=2,
        width=2,
        encoding="rgb8",
        is_bigendian=0,
        step=6,
        data=np.arange(12, dtype=np.uint8),
    )


def odometry(stamp_ns: int, x: float) -> Any:
    """At ``x``, looking ahead."""
    t = STORE.types
    pose = t["geometry_msgs/msg/Pose"](
        position=t["geometry_msgs/msg/Point"](x=x, y=2.0, z=0.0),
        orientation=t["geometry_msgs/msg/Quaternion"](x=0.0, y=0.0, z=0.0, w=1.0),
    )
    zero = t["geometry_msgs/msg/Vector3"](x=0.0, y=0.0, z=0.0)
    return t[ODOMETRY](
        header=header(stamp_ns, "map"),
        child_frame_id="base_link",
        pose=t["geometry_msgs/msg/PoseWithCovariance"](pose=pose, covariance=np.zeros(36)),
        twist=t["geometry_msgs/msg/TwistWithCovariance"](
            twist=t["geometry_msgs/msg/Twist"](linear=zero, angular=zero), covariance=np.zeros(36)
        ),
    )


def write_bag(
    path: Path,
    *,
    storage: StoragePlugin = StoragePlugin.MCAP,
    compression: CompressionMode = CompressionMode.NONE,
    frames: int = 5,
    first: int = 1,
    image_topic: str = "/camera/image_raw",
) -> Path:
    """A recording of ``frames`` pictures and poses, one a second; log time is 100 s later."""
    writer = Writer2(path, version=9, storage_plugin=storage)
    writer.set_compression(compression, CompressionFormat.ZSTD)
    with writer:
        images = writer.add_connection(image_topic, IMAGE, typestore=STORE)
        poses = writer.add_connection("/odom", ODOMETRY, typestore=STORE)
        for i in range(first, first + frames):
            for connection, message, kind in (
                (poses, odometry(i * SECOND, float(i)), ODOMETRY),
                (images, image(i * SECOND + 5), IMAGE),
            ):
                writer.write(connection, (i + 100) * SECOND, STORE.serialize_cdr(message, kind))
    return path


def write_ros1_bag(path: Path, frames: int = 3) -> Path:
    with Writer1(path) as writer:
        images = writer.add_connection("/camera/image_raw", IMAGE, typestore=STORE1)
        for i in range(1, frames + 1):
            raw = STORE1.serialize_ros1(image(i * SECOND + 5, ros1=True), IMAGE)
            writer.write(images, (i + 100) * SECOND, raw)
    return path


def storage_file(bag: Path) -> Path:
    return next(p for p in bag.iterdir() if p.name != "metadata.yaml")


def edit_metadata(bag: Path, old: str, new: str) -> None:
    file = bag / "metadata.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
