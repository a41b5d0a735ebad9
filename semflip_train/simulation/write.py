"""Writes a rendered drive as a rosbag2 (mcap): compressed pictures and odometry."""

from __future__ import annotations

import io
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from semflip_core.errors import MissingExtraError
from semflip_core.frames import Picture
from semflip_core.poses import quaternion_from_yaw
from semflip_train.simulation.labels import FrameCover, measure
from semflip_train.simulation.path import TimedPose
from semflip_train.simulation.sequence import SequenceRun
from semflip_train.simulation.settings import BagSettings


def stamp_of(time_s: float, settings: BagSettings) -> int:
    """Header stamp in nanoseconds of an instant of the drive."""
    return settings.start_s * 1_000_000_000 + round(time_s * 1e9)


def encode_jpeg(picture: Picture, quality: int) -> bytes:
    """A baseline JPEG; the same picture and quality give the same bytes on one machine."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "JPEG", quality=quality, optimize=True)
    return buffer.getvalue()


def write_bag(
    run: SequenceRun,
    folder: Path,
    settings: BagSettings,
    progress: Callable[[], None] = lambda: None,
) -> list[FrameCover]:
    """Render a drive into ``folder``, in time order; returns what each picture shows.

    Args:
        progress: called after each picture.

    Raises:
        MissingExtraError: rosbags is not installed.
    """
    try:
        from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
        from rosbags.typesys import Stores, get_typestore
    except ImportError as error:
        raise MissingExtraError("rosbags", "cpu", "writing recordings") from error
    if folder.exists():
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    store = get_typestore(Stores.ROS2_JAZZY)
    covers: list[FrameCover] = []
    pictures = iter(run.frames())
    taken = {timed.time_s for timed in run.camera_poses}
    bag = Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP)
    bag.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    with bag as writer:
        odometry = writer.add_connection(
            settings.pose_topic, "nav_msgs/msg/Odometry", typestore=store
        )
        camera = writer.add_connection(
            settings.image_topic, "sensor_msgs/msg/CompressedImage", typestore=store
        )
        previous: TimedPose | None = None
        for timed in run.trace:
            stamp = stamp_of(timed.time_s, settings)
            message = _odometry(store, timed, previous, stamp)
            writer.write(odometry, stamp, store.serialize_cdr(message, message.__msgtype__))
            previous = timed
            if timed.time_s not in taken:
                continue
            frame = next(pictures)
            covers.append(measure(frame.labels, len(run.scene.objects)))
            data = encode_jpeg(frame.rgb, settings.jpeg_quality)
            image = _image(store, data, stamp, run.camera.mount.frame_id)
            writer.write(camera, stamp, store.serialize_cdr(image, image.__msgtype__))
            progress()
    return covers


def _header(store: Any, stamp: int, frame_id: str) -> Any:
    types = store.types
    time = types["builtin_interfaces/msg/Time"](sec=stamp // 10**9, nanosec=stamp % 10**9)
    return types["std_msgs/msg/Header"](stamp=time, frame_id=frame_id)


def _image(store: Any, data: bytes, stamp: int, frame_id: str) -> Any:
    return store.types["sensor_msgs/msg/CompressedImage"](
        header=_header(store, stamp, frame_id),
        format="jpeg",
        data=np.frombuffer(data, np.uint8),
    )


def _odometry(store: Any, timed: TimedPose, previous: TimedPose | None, stamp: int) -> Any:
    types = store.types
    x, y, z, w = quaternion_from_yaw(timed.yaw)
    pose = types["geometry_msgs/msg/Pose"](
        position=types["geometry_msgs/msg/Point"](x=timed.x, y=timed.y, z=0.0),
        orientation=types["geometry_msgs/msg/Quaternion"](x=x, y=y, z=z, w=w),
    )
    speed, rate = 0.0, 0.0
    if previous is not None:
        step = timed.time_s - previous.time_s
        speed = math.hypot(timed.x - previous.x, timed.y - previous.y) / step
        rate = math.remainder(timed.yaw - previous.yaw, 2 * math.pi) / step
    vector = types["geometry_msgs/msg/Vector3"]
    twist = types["geometry_msgs/msg/Twist"](
        linear=vector(x=speed, y=0.0, z=0.0), angular=vector(x=0.0, y=0.0, z=rate)
    )
    unknown = np.zeros(36)
    return types["nav_msgs/msg/Odometry"](
        header=_header(store, stamp, "map"),
        child_frame_id="base_link",
        pose=types["geometry_msgs/msg/PoseWithCovariance"](pose=pose, covariance=unknown),
        twist=types["geometry_msgs/msg/TwistWithCovariance"](twist=twist, covariance=unknown),
    )
