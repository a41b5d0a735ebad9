"""A small recording of a robot that drives past coloured things."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from support.colours import room_picture

STORE = get_typestore(Stores.LATEST)
TYPES = STORE.types
START_NS = 1_700_000_000_000_000_000
IMAGE, ODOMETRY = "/camera/image_raw/compressed", "/odom"


def _header(stamp_ns: int, frame: str) -> object:
    stamp = TYPES["builtin_interfaces/msg/Time"](stamp_ns // 10**9, stamp_ns % 10**9)
    return TYPES["std_msgs/msg/Header"](stamp, frame)


def _image(stamp_ns: int, colours: Sequence[str], size: tuple[int, int]) -> object:
    data = room_picture(*colours, width=size[0], height=size[1]).data
    header = _header(stamp_ns, "camera")
    return TYPES["sensor_msgs/msg/CompressedImage"](header, "jpeg", np.frombuffer(data, np.uint8))


def _odometry(stamp_ns: int, x: float) -> object:
    pose = TYPES["geometry_msgs/msg/Pose"](
        TYPES["geometry_msgs/msg/Point"](x, 0.0, 0.0),
        TYPES["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0),
    )
    zero = TYPES["geometry_msgs/msg/Vector3"](0.0, 0.0, 0.0)
    twist = TYPES["geometry_msgs/msg/Twist"](zero, zero)
    return TYPES["nav_msgs/msg/Odometry"](
        _header(stamp_ns, "map"),
        "base_link",
        TYPES["geometry_msgs/msg/PoseWithCovariance"](pose, np.zeros(36)),
        TYPES["geometry_msgs/msg/TwistWithCovariance"](twist, np.zeros(36)),
    )


def write_drive(
    path: Path,
    *,
    frames: int = 40,
    hz: float = 10.0,
    speed: float = 1.0,
    size: tuple[int, int] = (96, 72),
    log_offset_ns: int = 0,
) -> Path:
    """A drive along x at ``speed`` m/s, past red, green and blue; odometry at five times ``hz``.

    ``log_offset_ns`` is how much later than its stamp each message was recorded.
    """
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        image = writer.add_connection(IMAGE, "sensor_msgs/msg/CompressedImage", typestore=STORE)
        odometry = writer.add_connection(ODOMETRY, "nav_msgs/msg/Odometry", typestore=STORE)
        step_ns = round(1e9 / hz / 5)
        for index in range(frames * 5 + 1):
            now = START_NS + index * step_ns
            x = index * step_ns / 1e9 * speed
            message = _odometry(now, x)
            writer.write(
                odometry, now + log_offset_ns, STORE.serialize_cdr(message, message.__msgtype__)
            )
            if index % 5 == 2:
                colour = ("red", "green", "blue")[3 * (index // 5) // frames]
                message = _image(now, [colour], size)
                writer.write(
                    image, now + log_offset_ns, STORE.serialize_cdr(message, message.__msgtype__)
                )
    return path
