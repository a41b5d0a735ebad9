"""Keyframe records as rows of the memory's file; every float comes back as it was."""

from __future__ import annotations

import logging
from typing import Any

from semflip_core.errors import PoseError
from semflip_core.frames import CameraMount, KeyframeRecord
from semflip_core.poses import Pose

logger = logging.getLogger("semflip")

COLUMNS = (
    "id, stamp_ns, map_id, segment, width, height,"
    " frame_id, px, py, pz, qx, qy, qz, qw, mount_frame, mx, my, mz, mqx, mqy, mqz, mqw"
)


def row_of(record: KeyframeRecord) -> tuple[object, ...]:
    """Values of ``COLUMNS``."""
    pose, mount = record.pose, record.mount
    nothing = (None,) * 8
    return (
        record.id,
        record.stamp_ns,
        record.map_id,
        record.segment,
        record.width,
        record.height,
        *((pose.frame_id, *pose.position, *pose.orientation) if pose else nothing),
        *((mount.frame_id, *mount.position, *mount.orientation) if mount else nothing),
    )


def record_of(row: tuple[Any, ...]) -> KeyframeRecord:
    """The record whose row starts with ``COLUMNS``."""
    pose = mount = None
    if row[6] is not None:
        try:
            pose = Pose(row[6], row[7:10], row[10:14])
        except (PoseError, TypeError) as error:
            logger.error("keyframe %d: its stored pose is damaged, kept without: %s", row[0], error)
        else:
            # Normalising again could change the last bit; what was stored is what comes back.
            object.__setattr__(pose, "orientation", row[10:14])
    if row[14] is not None:
        mount = CameraMount(row[15:18], row[18:22], row[14])
    return KeyframeRecord(row[0], row[1], pose, row[2], row[3], row[4], row[5], mount)
