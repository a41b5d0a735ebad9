"""Typed settings of the core; constructed once, wrong values are errors that name the key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from semflip_core.errors import ConfigError
from semflip_core.plain_text import read_yaml


class Settings(BaseModel):
    """Base of all settings: frozen, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Starts of names that may be given when a process starts and not be changed from outside.
    fixed_at_start: ClassVar[tuple[str, ...]] = ()


class KeyframeSettings(Settings):
    """Which camera frames are kept. Rate, then motion, then looks decide, cheapest first."""

    min_interval_s: float = Field(
        default=0.2, ge=0.0, description="Keep no two frames closer in time; s."
    )
    max_interval_s: float = Field(
        default=30.0,
        gt=0.0,
        description="Keep a frame at least this often, however still the robot is; s.",
    )
    min_translation_m: float = Field(
        default=0.25, ge=0.0, description="Moved this far since the last; m."
    )
    min_rotation_deg: float = Field(
        default=15.0, ge=0.0, description="Or turned this far; degrees."
    )
    min_novelty: float = Field(
        default=0.0,
        ge=0.0,
        le=1.0,
        description="And looks this different from the last kept one; 0 is off.",
    )
    max_pose_gap_s: float = Field(
        default=0.5,
        gt=0.0,
        description="Interpolate a pose between samples no further apart than this; s.",
    )
    max_pose_jump_m: float = Field(
        default=2.0,
        gt=0.0,
        description="And no further apart in place: a jump is no drive, the robot was not between; "
        "m.",
    )
    max_pose_turn_deg: float = Field(
        default=90.0, gt=0.0, description="And turned no further apart; degrees."
    )
    max_pose_wait_s: float = Field(
        default=0.5, ge=0.0, description="How long a frame may wait for the pose after it; s."
    )
    max_waiting_frames: int = Field(
        default=64, ge=1, description="At most so many frames wait for a pose."
    )
    time_jump_s: float = Field(
        default=1.0,
        gt=0.0,
        description="A stamp this far behind the last starts a new segment; s.",
    )
    jpeg_quality: int = Field(
        default=90, ge=50, le=100, description="For frames that come uncompressed."
    )
    max_side_px: int = Field(
        default=1920, ge=64, description="Larger pictures are scaled down; pixels."
    )


class MemorySettings(Settings):
    """How much the video memory may hold."""

    max_keyframes: int = Field(default=20_000, ge=1, description="Keyframes in one memory.")
    max_bytes: int = Field(
        default=4_000_000_000, ge=1_000_000, description="Stored pictures; bytes."
    )
    max_feature_bytes: int = Field(
        default=8_000_000_000,
        ge=1_000_000,
        description="Stored features; the oldest used are evicted; bytes.",
    )
    commit_interval_s: float = Field(
        default=0.5,
        gt=0.0,
        le=1.0,
        description="Write to disk this often; what a killed process may lose; s.",
    )
    max_unsaved_bytes: int = Field(
        default=256_000_000,
        ge=1_000_000,
        description="What may wait in RAM for a slow or full disk; bytes.",
    )
    redundant_distance_m: float = Field(
        default=1.0,
        gt=0.0,
        description="When full: views this far apart count as different; m.",
    )
    redundant_angle_deg: float = Field(
        default=45.0, gt=0.0, description="Or turned this far apart; degrees."
    )
    redundant_looks: float = Field(
        default=0.1, gt=0.0, description="Or looking this different (0 to 1)."
    )
    redundant_time_s: float = Field(
        default=10.0, gt=0.0, description="Without poses: or this far apart in time; s."
    )


class RecallSettings(Settings):
    """Which frames the encoder sees for a question. Part of the gate's fingerprint."""

    prefix_frames: int = Field(
        default=0, ge=0, description="Frames that cover the memory, every question."
    )
    recalled_frames: int = Field(default=16, ge=1, description="Frames recalled for this question.")
    min_separation_s: float = Field(
        default=0.0, ge=0.0, description="Recalled frames are at least this far apart in time; s."
    )
    index_vectors: int = Field(
        default=24, ge=1, le=128, description="Centres that stand for a frame in the index."
    )
    index_dimensions: int = Field(
        default=64, ge=8, description="Dimensions that the index searches in."
    )
    shortlist: int = Field(
        default=96, ge=1, description="Frames whose every region is compared with the question."
    )
    per_view: int = Field(
        default=3, ge=1, description="Frames of one view in the shortlist before others go first."
    )
    context_share: float = Field(
        default=0.25,
        ge=0.0,
        lt=1.0,
        description="Weight of what the question names beside its target.",
    )
    spread_weight: float = Field(
        default=0.5, ge=0.0, description="How much a frame near a chosen one is held back."
    )
    spread_m: float = Field(default=1.0, gt=0.0, description="Near in place; m.")
    spread_s: float = Field(default=5.0, gt=0.0, description="Near in time, without poses; s.")
    spread_headings: int = Field(
        default=8, ge=1, description="Near in heading: parts of a full turn."
    )


class DecisionSettings(Settings):
    """What a goal needs beside an accepting gate."""

    min_peak: float = Field(
        default=1.05,
        ge=1.0,
        description="Best relevance over the least relevant tenth's; below it nothing stands out.",
    )
    stand_in: float = Field(
        default=0.9,
        gt=0.0,
        le=1.0,
        description="Share of the best relevance at which a frame may lend its pose to the goal.",
    )
    evidence_frames: int = Field(
        default=3, ge=1, description="Evidence frames named in a decision."
    )
    max_question_chars: int = Field(default=500, ge=1, description="Longer questions are refused.")
    answer_tokens: int = Field(
        default=0, ge=0, description="Length of the answer in words; 0 is off."
    )


class CheckpointSettings(Settings):
    """Which checkpoint in transformers' format an encoder reads, and where it runs."""

    model: str = Field(min_length=1, description="Directory of a checkpoint, or its hub id.")
    revision: str | None = Field(
        default=None, description="Commit of the hub repository; None: the one in the local cache."
    )
    local_files_only: bool = Field(
        default=True, description="Never ask the hub; the model must be on this machine."
    )
    device: str = Field(default="auto", description="'auto', 'cpu', 'cuda', 'cuda:1'...")


SettingsT = TypeVar("SettingsT", bound=Settings)


def read_settings(kind: type[SettingsT], values: Mapping[str, Any], source: str) -> SettingsT:
    """Check plain values into a settings object.

    Args:
        source: where the values came from, for messages.

    Raises:
        ConfigError: names the key, the value and what is allowed.
    """
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        lines = []
        for item in error.errors():
            key = ".".join(str(part) for part in item["loc"]) or kind.__name__
            if item["type"] == "extra_forbidden":
                known = ", ".join(sorted(kind.model_fields))
                lines.append(f"{source}: unknown key '{key}'; known here: {known}")
            else:
                lines.append(f"{source}: {key} = {item.get('input')!r}: {item['msg']}")
        raise ConfigError("\n".join(lines)) from error


def read_settings_file(kind: type[SettingsT], path: str | Path) -> SettingsT:
    """Read a YAML file into a settings object; errors as for :func:`read_settings`."""
    file = Path(path)
    if not file.is_file():
        raise ConfigError(f"{file}: no such settings file")
    try:
        values = read_yaml(file.read_text(encoding="utf-8")) or {}
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{file}: expected a mapping of settings, got {type(values).__name__}")
    return read_settings(kind, values, str(file))
