"""A run directory: its settings, its stages' folders, and a manifest of what was done when."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import Field

from semflip_core import __version__
from semflip_core.errors import ConfigError
from semflip_core.settings import (
    DecisionSettings,
    KeyframeSettings,
    RecallSettings,
    Settings,
    read_settings,
    read_settings_file,
)
from semflip_train.baselines.prompting import PromptingSettings
from semflip_train.calibration import CalibrationSettings
from semflip_train.dataset import Dataset, load_dataset
from semflip_train.simulation.settings import SimulationSettings
from semflip_train.stores import StoreError, json_hash, write_json
from semflip_train.synthesis.settings import SynthesisSettings
from semflip_train.training import TrainingSettings

LIBRARIES = ("numpy", "torch", "transformers", "onnxruntime", "rosbags", "scikit-learn", "spacy")


class EvaluationSettings(Settings):
    """How a gate is evaluated."""

    bootstrap_draws: int = Field(default=1000, ge=0)
    confidence: float = Field(default=0.95, gt=0.5, lt=1.0)
    goal_distance_m: float = Field(default=2.0, gt=0.0)
    bearing_deg: float = Field(default=45.0, gt=0.0, le=180.0)
    baselines: bool = Field(default=True, description="Also controls and baselines.")
    single_frame: bool = Field(
        default=True, description="Also a gate on the best single frame, as a control."
    )
    prompting: PromptingSettings | None = Field(
        default=None, description="Also a model that is asked in words; None: not run."
    )
    words_alone: tuple[str, ...] = Field(
        default=("unavailable", "subjective", "needs action", "false premise", "ambiguous"),
        description="Categories that words alone can decide; reported apart.",
    )
    datasets: tuple[str, ...] = Field(
        default=(), description="Datasets whose test split is judged; none: the experiment's own."
    )


class ExperimentSettings(Settings):
    """Everything that a run depends on."""

    name: str = Field(min_length=1)
    dataset: str = Field(description="Folder; relative to where the command is run.")
    simulate: dict[str, SimulationSettings] = Field(
        default_factory=dict,
        description="Datasets rendered first where they are not there yet: folder -> how.",
    )
    encoder: str = "mini"
    encoder_options: dict[str, Any] = Field(default_factory=dict)
    retriever: str | None = None
    cross_fit: str | None = Field(
        default=None,
        description="Folder of projections that see training rows; None: the encoder's own.",
    )
    keyframes: KeyframeSettings = KeyframeSettings()
    recall: RecallSettings = RecallSettings()
    decision: DecisionSettings = DecisionSettings()
    synthesis: SynthesisSettings = SynthesisSettings()
    training: TrainingSettings = TrainingSettings()
    calibration: CalibrationSettings = CalibrationSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    global_frame: str | None = Field(default=None, description="None: the dataset's map frame.")


def single_frame(recall: RecallSettings) -> RecallSettings:
    """The same recall with the one best frame instead of the memory."""
    return recall.model_copy(update={"prefix_frames": 0, "recalled_frames": 1})


def read_experiment(file: Path) -> ExperimentSettings:
    """Read an experiment's YAML; errors name file and key."""
    return read_settings_file(ExperimentSettings, file)


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Where a run keeps everything.

    Folders: ``memories`` and ``cache`` (reused by later runs with the same ``cache``), ``synth``,
    ``features``, ``evaluation``; files ``config.json``, ``manifest.json``, ``gate.safetensors``,
    ``report.html``.
    """

    root: Path
    settings: ExperimentSettings
    cache_root: Path

    @classmethod
    def create(
        cls, root: Path, settings: ExperimentSettings, cache: Path | None = None
    ) -> RunDirectory:
        """Make or reopen a run.

        Raises:
            ConfigError: the directory holds a run with other settings.
        """
        file = root / "config.json"
        values = {
            "settings": settings.model_dump(mode="json"),
            "cache": str(cache) if cache else None,
        }
        if file.exists():
            old = _read_json(file)
            differing = sorted(
                key
                for key in values["settings"]  # type: ignore[union-attr]
                if old["settings"].get(key) != values["settings"][key]  # type: ignore[index]
            )
            if differing:
                raise ConfigError(
                    f"{root}: holds a run with other settings ({', '.join(differing)}); choose "
                    "another --out, or delete it"
                )
        write_json(file, values)
        return cls(root, settings, cache or root / "cache")

    @classmethod
    def open(cls, root: Path) -> RunDirectory:
        """Reopen a run by its folder alone.

        Raises:
            StoreError: it is no run directory.
        """
        file = root / "config.json"
        if not file.is_file():
            raise StoreError(f"{root}: no run here (no config.json); start one with: semflip synth")
        values = _read_json(file)
        settings = read_settings(ExperimentSettings, values["settings"], str(file))
        cache = Path(values["cache"]) if values.get("cache") else root / "cache"
        return cls(root, settings, cache)

    def dataset(self) -> Dataset:
        """The dataset, checked."""
        return load_dataset(self.settings.dataset)

    @property
    def memories(self) -> Path:
        """Memories of sequences."""
        return self.cache_root / "memories"

    @property
    def synth(self) -> Path:
        """Samples and erased frames."""
        return self.root / "synth"

    @property
    def features(self) -> Path:
        """Feature tables, one folder a split."""
        return self.root / "features"

    @property
    def single_frame_recall(self) -> RecallSettings | None:
        """Recall of the control that sees one frame; None where it is off."""
        wanted = self.settings.evaluation.baselines and self.settings.evaluation.single_frame
        return single_frame(self.settings.recall) if wanted else None

    @property
    def gate(self) -> Path:
        """The calibrated gate."""
        return self.root / "gate.safetensors"

    @property
    def evaluation(self) -> Path:
        """Metrics and predictions."""
        return self.root / "evaluation"

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Time a stage; what the block writes into the dict goes into the manifest."""
        started = time.time()
        notes: dict[str, Any] = {}
        yield notes
        self._note(name, {**notes, "seconds": round(time.time() - started, 2)})

    def _note(self, name: str, notes: dict[str, Any]) -> None:
        file = self.root / "manifest.json"
        manifest: dict[str, Any] = _read_json(file) if file.exists() else {}
        manifest |= {
            "semflip": __version__,
            "python": platform.python_version(),
            "machine": f"{platform.machine()} {os.cpu_count()} cores",
            "libraries": _versions(),
            "settings_hash": json_hash(self.settings.model_dump(mode="json")),
        }
        stages = manifest.setdefault("stages", {})
        stages.setdefault(name, []).append(notes)
        write_json(file, manifest)


def _versions() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _read_json(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{file}: cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise StoreError(f"{file}: expected a JSON object")
    return values
