"""Memories for tests: small, filled with known keyframes."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from semflip_core.frames import CameraMount, FrameFeatures
from semflip_core.memory import VideoMemory
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_core.settings import MemorySettings
from support.driving import SECOND, small_picture

QUICK = MemorySettings(commit_interval_s=0.05)
MOUNT = CameraMount((0.1, -0.02, 0.413), (-0.5, 0.5, -0.5, 0.5), "camera_optical")


def awkward_pose(seed: int) -> Pose:
    """A pose whose numbers have no short decimal form."""
    rng = np.random.default_rng(seed)
    turn = rng.normal(size=4)
    turn /= np.linalg.norm(turn)
    return Pose("map", tuple(rng.normal(size=3) / 3), tuple(turn))


def fill(memory: VideoMemory, count: int, *, map_id: str = "m", segment: int = 0) -> list[int]:
    """Add keyframes along a line, one a second and a metre; their ids."""
    return [
        memory.add(
            small_picture(k),
            stamp_ns=(k + 1) * SECOND,
            pose=Pose("map", (float(k), 0.0, 0.0), quaternion_from_yaw(0.0)),
            map_id=map_id,
            segment=segment,
        )
        for k in range(count)
    ]


def numbers(seed: int, nbytes: int = 400) -> FrameFeatures:
    """Features of about so many bytes."""
    return FrameFeatures(
        {"v": np.random.default_rng(seed).normal(size=nbytes // 4).astype(np.float32)}
    )


def wait_for(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Until the memory's own thread has done it; fails where it does not."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)
