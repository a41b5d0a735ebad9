"""A simulated drive: poses and pictures as messages in time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from semflip_core.images import StoredPicture, store_raw
from semflip_core.ingest import Ingest
from semflip_core.memory import VideoMemory
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_core.settings import KeyframeSettings

SECOND = 10**9
#: Every picture a tenth of a second after the last is a candidate, wherever the robot is.
FAST = KeyframeSettings(min_interval_s=0.1, min_translation_m=0.0)


@dataclass(frozen=True)
class Message:
    """A picture (``pose`` is None) or a pose, with its header stamp and when it arrives."""

    stamp_ns: int
    arrives_ns: int
    pose: Pose | None = None


def small_picture(seed: int) -> StoredPicture:
    """A tiny picture that differs from others, ready to store."""
    rng = np.random.default_rng(seed)
    rgb = np.repeat(np.repeat(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8), 4, 0), 4, 1)
    return store_raw(rgb, KeyframeSettings())


def along(seconds: float, speed: float = 0.5) -> Pose:
    """Driving in a wide circle at ``speed`` m/s."""
    angle = speed * seconds / 5.0
    place = (5 * math.sin(angle), 5 - 5 * math.cos(angle), 0.0)
    return Pose("map", place, quaternion_from_yaw(angle))


def drive(
    start_s: float = 1.0,
    length_s: float = 10.0,
    *,
    camera_hz: float = 10.0,
    pose_hz: float = 20.0,
    pose_late_s: float = 0.0,
    picture_late_s: float = 0.0,
) -> list[Message]:
    """Messages of a drive, in order of arrival."""
    messages = [
        Message(round(t * SECOND), round((t + picture_late_s) * SECOND))
        for t in start_s + np.arange(0, length_s, 1 / camera_hz)
    ]
    messages += [
        Message(round(t * SECOND), round((t + pose_late_s) * SECOND), along(float(t)))
        for t in start_s - 0.03 + np.arange(0, length_s + 0.1, 1 / pose_hz)
    ]
    return sorted(messages, key=lambda m: (m.arrives_ns, m.pose is None))


def feed(ingest: Ingest, messages: Iterable[Message]) -> list[int]:
    """Send the messages; ids of what was kept."""
    kept: list[int] = []
    for message in messages:
        if message.pose is not None:
            kept += ingest.add_pose(message.stamp_ns, message.pose)
        elif ingest.wants(message.stamp_ns):
            seed = message.stamp_ns // 10**6
            kept += ingest.offer(message.stamp_ns, lambda seed=seed: small_picture(seed))
    return kept


def ingest(memory: VideoMemory | None = None, **options) -> Ingest:
    """An ingest of every candidate into a memory in RAM, on the map ``today``."""
    options.setdefault("map_id", "today")
    return Ingest(
        VideoMemory() if memory is None else memory, options.pop("settings", FAST), **options
    )
