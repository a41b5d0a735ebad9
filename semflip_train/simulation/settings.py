"""Settings of the simulation: the camera, the robot, the rooms, and what counts as seen."""

from __future__ import annotations

import math

from pydantic import Field

from semflip_core.frames import CameraMount
from semflip_core.settings import Settings


class CameraSettings(Settings):
    """A forward-looking camera, fixed on the robot."""

    width: int = Field(default=640, ge=32, le=1920, description="Picture width; pixels.")
    height: int = Field(default=480, ge=32, le=1080, description="Picture height; pixels.")
    horizontal_fov_deg: float = Field(default=69.0, gt=20.0, lt=120.0, description="Field of view.")
    height_m: float = Field(default=1.2, ge=0.2, le=2.0, description="Above the floor; m.")
    forward_m: float = Field(default=0.12, ge=-1.0, le=1.0, description="Ahead of the base; m.")
    tilt_deg: float = Field(default=8.0, ge=-45.0, le=45.0, description="Looks down by this.")
    headlight: float = Field(default=0.18, ge=0.0, le=1.0, description="Light along the view.")

    @property
    def vertical_fov_deg(self) -> float:
        """Field of view from top to bottom in degrees (square pixels)."""
        half = math.tan(math.radians(self.horizontal_fov_deg) / 2.0) * self.height / self.width
        return math.degrees(2.0 * math.atan(half))

    @property
    def mount(self) -> CameraMount:
        """Optical frame (z forward, x right; REP 103) on the robot's base."""
        # Roll and yaw of -90 degrees turn the body frame into an optical one; then tilt about x.
        half = math.radians(-90.0 - self.tilt_deg) / 2.0
        roll, yaw = (math.sin(half), math.cos(half)), math.radians(-90.0) / 2.0
        x = roll[0] * math.cos(yaw)
        y = roll[0] * math.sin(yaw)
        z = roll[1] * math.sin(yaw)
        w = roll[1] * math.cos(yaw)
        return CameraMount((self.forward_m, 0.0, self.height_m), (x, y, z, w), "camera_optical")


class DriveSettings(Settings):
    """How the robot drives and where it looks from."""

    pose_hz: float = Field(default=20.0, ge=5.0, le=100.0, description="Odometry; Hz.")
    camera_hz: float = Field(default=2.0, ge=0.5, le=30.0, description="Pictures; Hz.")
    speed: float = Field(default=0.6, gt=0.0, le=2.0, description="m/s.")
    turn_rate: float = Field(default=0.7, gt=0.0, le=3.0, description="rad/s.")
    acceleration: float = Field(default=0.8, gt=0.0, description="m/s^2.")
    turn_acceleration: float = Field(default=1.5, gt=0.0, description="rad/s^2.")
    margin_m: float = Field(default=0.27, ge=0.05, le=0.6, description="Distance kept; m.")
    grid_m: float = Field(
        default=0.25, ge=0.05, le=1.0, description="Spacing of possible viewpoints; m."
    )
    near_m: float = Field(default=0.85, ge=0.2, description="Nearest distance to look from; m.")
    far_m: float = Field(default=3.2, ge=0.5, description="Farthest distance to look from; m.")
    view_share: float = Field(
        default=0.014, gt=0.0, lt=1.0, description="Share of the picture an object should fill."
    )
    stops_per_room: int = Field(default=6, ge=1, description="Most viewpoints in a room.")


class LabelSettings(Settings):
    """When an object counts as seen; shares of the picture's pixels."""

    answerable_share: float = Field(default=0.01, gt=0.0, lt=1.0, description="Well visible.")
    answerable_frames: int = Field(default=3, ge=1, description="In at least so many frames.")
    facing_deg: float = Field(default=35.0, gt=0.0, le=90.0, description="Best views face it.")
    visible_share: float = Field(default=0.002, gt=0.0, lt=1.0, description="Visible at all.")


class BagSettings(Settings):
    """How a drive is recorded."""

    image_topic: str = Field(default="/camera/image_raw/compressed", min_length=1)
    pose_topic: str = Field(default="/odom", min_length=1)
    jpeg_quality: int = Field(default=75, ge=40, le=100, description="Of the pictures.")
    start_s: int = Field(default=1_760_000_000, ge=1, description="First stamp; Unix seconds.")


class SimulationSettings(Settings):
    """A whole dataset. Everything in it follows from these values."""

    name: str = Field(default="semflip-rooms", min_length=1)
    seed: int = Field(default=0, ge=0, le=1_000_000)
    train: int = Field(default=3, ge=0, le=500, description="Training sequences.")
    calibration: int = Field(default=1, ge=0, le=500, description="Calibration sequences.")
    test: int = Field(default=2, ge=0, le=500, description="Test sequences, known things.")
    new_things: int = Field(default=0, ge=0, le=500, description="Test sequences, new things.")
    questions: int = Field(
        default=45, ge=3, le=500, description="Answerable (and unanswerable) ones a sequence."
    )
    balanced: bool = Field(
        default=True, description="Looks and relations as often in answerable questions as not."
    )
    corridors: float = Field(
        default=0.0, ge=0.0, le=1.0, description="Share of sequences with a corridor, by seed."
    )
    density: float = Field(default=1.0, gt=0.0, le=3.0, description="How full the rooms are.")
    paint_share: float = Field(
        default=0.8, ge=0.0, le=1.0, description="Of what comes in any colour, painted over."
    )
    drive: DriveSettings = DriveSettings()
    bag: BagSettings = BagSettings()
    labels: LabelSettings = LabelSettings()
