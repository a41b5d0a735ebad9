"""Every parameter of the refusal node, declared once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from semflip_core.frames import CameraMount
from semflip_core.plain_text import read_yaml
from semflip_core.settings import (
    DecisionSettings,
    KeyframeSettings,
    MemorySettings,
    RecallSettings,
    Settings,
)

#: Value of ``memory_path`` for a memory that is not written to disk.
IN_RAM = "ram"
Reliability = Literal["best_effort", "reliable"]


class NodeSettings(Settings):
    """Parameters of the refusal node; nested ones are dotted, ``keyframes.min_translation_m``.

    Those that name code or files, or say what may become a goal, are fixed at start: otherwise
    everybody on the network could have a module of their choice imported (``encoder``), a file
    moved aside (``memory_path``) or a wrong place driven to (``threshold``, ``map_id``).
    """

    fixed_at_start: ClassVar[tuple[str, ...]] = (
        "encoder",
        "retriever",
        "gate",
        "threshold",
        "memory_path",
        "global_frame",
        "map_",
        "decision.",
    )

    autostart: bool = Field(
        default=False, description="Configure and activate at start, without a lifecycle manager."
    )
    global_frame: str = Field(
        default="map", min_length=1, description="Frame of goals; poses of other frames give none."
    )
    base_frame: str = Field(default="base_link", min_length=1, description="The robot's base.")
    map_id: str = Field(
        default="",
        description="Names a map that stays the same over restarts; empty: new each start, so that "
        "no goal comes from an older memory.",
    )
    map_common_after_time_jump: bool = Field(
        default=False, description="The map stays the same when time jumps back (a looping bag)."
    )

    image_transport: Literal["raw", "compressed"] = Field(
        default="raw", description="Listen to 'image' or to 'image/compressed'."
    )
    image_reliability: Reliability = Field(
        default="best_effort", description="Reliability asked of the camera's publisher."
    )
    image_depth: int = Field(
        default=30, ge=1, le=1000, description="Images the middleware keeps while the node is busy."
    )
    image_backlog_bytes: int = Field(
        default=268_435_456,
        ge=1_000_000,
        description="Images waiting for the keyframe choice; more are dropped and counted; bytes.",
    )
    pose_source: Literal["tf", "odometry", "pose", "pose_with_covariance"] = Field(
        default="odometry", description="Where poses come from; 'tf' needs a full ROS install."
    )
    pose_reliability: Reliability = Field(
        default="best_effort", description="Reliability asked of the pose's publisher."
    )
    pose_depth: int = Field(default=200, ge=1, le=10_000, description="Poses the middleware keeps.")
    tf_rate_hz: float = Field(
        default=30.0, gt=0.0, le=1000.0, description="How often tf is asked for the pose; Hz."
    )
    needs_pose: bool = Field(
        default=True, description="Keep no picture without a pose; false keeps them as evidence."
    )
    camera_position: tuple[float, ...] = Field(
        default=(), description="Camera's optical centre x, y, z in base_frame; m; empty: unknown."
    )
    camera_orientation: tuple[float, ...] = Field(
        default=(-0.5, 0.5, -0.5, 0.5),
        description="Optical frame in base_frame, quaternion x, y, z, w; default looks forward.",
    )
    camera_frame: str = Field(default="", description="Name of the camera's optical frame.")

    encoder: str = Field(
        default="mini", min_length=1, description="Encoder, by name or as 'module:Class'."
    )
    encoder_options: str = Field(
        default="", description="Options of the encoder as a YAML mapping, '{model: /models/qwen}'."
    )
    retriever: str = Field(
        default="", description="Retriever; empty where the encoder is its own (mini)."
    )
    retriever_options: str = Field(default="", description="Options of the retriever, YAML.")
    gate: str = Field(default="", description="Gate file; empty: the one shipped for the encoder.")
    threshold: float = Field(
        default=-1.0,
        ge=-1.0,
        lt=1.0,
        description="Refuse above this score; -1 keeps the gate's own. Voids the calibration.",
    )

    memory_path: str = Field(
        default="~/.ros/semflip/memory.db",
        min_length=1,
        description=f"File of the video memory; '{IN_RAM}' keeps it in RAM only.",
    )

    query_deadline_s: float = Field(
        default=10.0, gt=0.0, le=3600.0, description="A question gets its decision within this; s."
    )
    query_queue: int = Field(
        default=8, ge=1, le=1000, description="Questions that may wait; more are OVERLOADED."
    )
    repeat_window_s: float = Field(
        default=60.0,
        ge=0.0,
        description="The same id within this gets its decision again, no second goal; s.",
    )

    diagnostics_period_s: float = Field(
        default=1.0, gt=0.0, description="How often /diagnostics is published; s."
    )
    markers_period_s: float = Field(
        default=2.0, gt=0.0, description="How often memory_markers may be published; s."
    )
    silence_warning_s: float = Field(
        default=5.0, gt=0.0, description="Warn when no frame, pose or /clock came for this; s."
    )

    keyframes: KeyframeSettings = KeyframeSettings()
    memory: MemorySettings = MemorySettings()
    recall: RecallSettings = RecallSettings()
    decision: DecisionSettings = DecisionSettings()

    @field_validator("threshold")
    @classmethod
    def _own_or_probability(cls, value: float) -> float:
        if value < 0.0 and value != -1.0:
            raise ValueError("-1, or in [0, 1)")
        return value

    @field_validator("encoder_options", "retriever_options")
    @classmethod
    def _is_mapping(cls, value: str) -> str:
        read_options(value)
        return value

    @field_validator("camera_position")
    @classmethod
    def _three(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if len(value) not in (0, 3):
            raise ValueError("three numbers x, y, z, or none")
        return value

    @field_validator("camera_orientation")
    @classmethod
    def _four(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if len(value) != 4 or abs(sum(v * v for v in value) - 1.0) > 0.02:
            raise ValueError("four numbers x, y, z, w of a unit quaternion")
        return value

    @model_validator(mode="after")
    def _camera_has_a_name(self) -> NodeSettings:
        if self.pose_source == "tf" and self.camera_frame and self.camera_position:
            raise ValueError("with pose_source tf give camera_frame or camera_position, not both")
        return self

    def mount(self) -> CameraMount | None:
        """The camera on the robot, or None where no position was given."""
        if not self.camera_position:
            return None
        x, y, z = self.camera_position
        qx, qy, qz, qw = self.camera_orientation
        return CameraMount((x, y, z), (qx, qy, qz, qw), self.camera_frame)

    def memory_file(self) -> Path | None:
        """Where the memory is kept; None for RAM."""
        if self.memory_path == IN_RAM:
            return None
        return Path(os.path.expandvars(self.memory_path)).expanduser()


def read_options(text: str) -> dict[str, Any]:
    """Options given as a YAML mapping in one string; empty text is no options.

    Raises:
        ValueError: it is not a mapping with text keys.
    """
    value = read_yaml(text) if text.strip() else {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError("needs a YAML mapping, for example '{model: /models/qwen}'")
    return value
