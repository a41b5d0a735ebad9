"""Poses: where the robot's base was, in which frame, and how to interpolate between two of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from semflip_core.errors import PoseError

Vector3 = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

#: How far a quaternion's norm may be from one before it is no rotation (REP 103 asks for unit).
QUATERNION_TOLERANCE = 1e-2
#: No coordinate of a place on Earth is larger, in whatever frame; metres. Sums of two stay finite.
LARGEST_COORDINATE_M = 1e8


@dataclass(frozen=True, slots=True)
class Pose:
    """A rigid pose of a robot's base.

    Args:
        frame_id: the frame it is expressed in, for example ``map``; never empty.
        position: ``(x, y, z)`` in metres.
        orientation: quaternion ``(x, y, z, w)``; normalised here.

    Raises:
        PoseError: a value is not finite or no place on Earth, the frame is empty, or the quaternion
            is not near unit.
    """

    frame_id: str
    position: Vector3
    orientation: Quaternion

    def __post_init__(self) -> None:
        if not self.frame_id:
            raise PoseError("pose without a frame_id: set header.frame_id at its source")
        if len(self.position) != 3 or not all(math.isfinite(v) for v in self.position):
            raise PoseError(f"pose position {self.position} is not three finite numbers")
        if max(abs(v) for v in self.position) > LARGEST_COORDINATE_M:
            raise PoseError(
                f"pose position {self.position} is farther than {LARGEST_COORDINATE_M:g} m away"
            )
        if len(self.orientation) != 4 or not all(math.isfinite(v) for v in self.orientation):
            raise PoseError(f"pose orientation {self.orientation} is not four finite numbers")
        norm = math.sqrt(sum(v * v for v in self.orientation))
        if abs(norm - 1.0) > QUATERNION_TOLERANCE:
            raise PoseError(
                f"pose orientation {self.orientation} has norm {norm:.4g}, not 1: not a rotation"
            )
        x, y, z, w = (v / norm for v in self.orientation)
        object.__setattr__(self, "position", tuple(float(v) for v in self.position))
        object.__setattr__(self, "orientation", (x, y, z, w))

    @property
    def yaw(self) -> float:
        """Heading about z in radians, in (-pi, pi]."""
        x, y, z, w = self.orientation
        return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))

    def flattened(self) -> Pose:
        """The same place and heading on the floor: z, roll and pitch are zero."""
        x, y, _ = self.position
        return Pose(self.frame_id, (x, y, 0.0), quaternion_from_yaw(self.yaw))


def quaternion_from_yaw(yaw: float) -> Quaternion:
    """Rotation by ``yaw`` radians about z as ``(x, y, z, w)``."""
    return (0.0, 0.0, math.sin(yaw / 2.0), math.cos(yaw / 2.0))


def slerp(a: Quaternion, b: Quaternion, fraction: float) -> Quaternion:
    """Spherical linear interpolation between two unit quaternions (Shoemake 1985)."""
    dot = sum(p * q for p, q in zip(a, b, strict=True))
    sign = -1.0 if dot < 0.0 else 1.0
    dot = abs(dot)
    if dot > 0.9995:
        wa, wb = 1.0 - fraction, fraction
    else:
        angle = math.acos(dot)
        wa = math.sin((1.0 - fraction) * angle) / math.sin(angle)
        wb = math.sin(fraction * angle) / math.sin(angle)
    x, y, z, w = (wa * p + sign * wb * q for p, q in zip(a, b, strict=True))
    norm = math.sqrt(x * x + y * y + z * z + w * w)
    return (x / norm, y / norm, z / norm, w / norm)


def interpolate(a: Pose, b: Pose, fraction: float) -> Pose:
    """The pose ``fraction`` of the way from ``a`` to ``b`` (linear and slerp).

    Raises:
        PoseError: the two are expressed in different frames.
    """
    if a.frame_id != b.frame_id:
        raise PoseError(f"cannot interpolate between frames '{a.frame_id}' and '{b.frame_id}'")
    x, y, z = (p + fraction * (q - p) for p, q in zip(a.position, b.position, strict=True))
    return Pose(a.frame_id, (x, y, z), slerp(a.orientation, b.orientation, fraction))


def angle_between(a: Quaternion, b: Quaternion) -> float:
    """Angle of the rotation from ``a`` to ``b`` in radians, in [0, pi]."""
    dot = abs(sum(p * q for p, q in zip(a, b, strict=True)))
    return 2.0 * math.acos(min(1.0, dot))


def wrap_angle(angle: float) -> float:
    """The same angle in (-pi, pi]."""
    wrapped = math.remainder(angle, 2.0 * math.pi)
    return math.pi if wrapped <= -math.pi else wrapped
