"""Ablations: the same experiment with one thing changed, side by side in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from semflip_core.errors import ConfigError
from semflip_core.settings import read_settings
from semflip_train.engines import Engine
from semflip_train.pipeline import run_experiment
from semflip_train.run_directory import ExperimentSettings, RunDirectory
from semflip_train.shown import COLUMNS
from semflip_train.stores import write_json, write_whole
from semflip_train.summary import plain
from semflip_train.synthesis.samples import PUBLISHED, STRATEGIES

Change = dict[str, Any]

#: Axis -> variant -> what changes, by section of the settings.
AXES: Mapping[str, Mapping[str, Change]] = {
    "flips": {
        "Q and V": {},
        "Q alone": {"synthesis": {"vflip": False}},
        "V alone": {"synthesis": {"qflip": False}},
        "no sham": {"synthesis": {"sham": False}},
    },
    "fill": {
        name: {"synthesis": {"inpainter": name}} for name in ("patchmatch", "telea", "mean", "blur")
    },
    "pool": {f"{count} a pair": {"synthesis": {"samples_per_pair": count}} for count in (1, 2, 4)},
    "strategies": {
        "published three": {"synthesis": {"strategies": list(PUBLISHED)}},
        "all": {"synthesis": {"strategies": list(STRATEGIES)}},
        **{f"only {name}": {"synthesis": {"strategies": [name]}} for name in PUBLISHED},
    },
    "threshold": {
        "fixed 0.5": {"calibration": {"method": "fixed", "tau": 0.5}},
        "balanced accuracy": {"calibration": {"method": "balanced_accuracy"}},
        "risk control": {"calibration": {"method": "risk_control"}},
    },
    "members": {
        f"{count} member{'s' if count > 1 else ''}": {"training": {"seeds": list(range(count))}}
        for count in (1, 3, 5)
    },
}


def changed(settings: ExperimentSettings, change: Change) -> ExperimentSettings:
    """The settings with a change applied and checked; baselines are left out for speed."""
    values = settings.model_dump(mode="json")
    values["evaluation"]["baselines"] = False
    for section, fields in change.items():
        values[section] = values[section] | fields
    return read_settings(ExperimentSettings, values, "ablation")


def ablate(
    settings: ExperimentSettings,
    axis: str,
    out: Path,
    engine: Engine,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, dict[str, Any]]:
    """Run every variant of an axis; memories, frames and embeddings are shared between them.

    Returns:
        Variant -> metrics; also written as ``ablation.json`` and ``ablation.md``.

    Raises:
        ConfigError: the axis is unknown.
    """
    if axis not in AXES:
        raise ConfigError(f"unknown ablation '{axis}'; known: {', '.join(AXES)}")
    results: dict[str, dict[str, Any]] = {}
    for name, change in AXES[axis].items():
        folder = out / name.replace(" ", "_")
        run = RunDirectory.create(folder, changed(settings, change), out / "cache")
        results[name] = run_experiment(run, engine, progress)
    write_json(out / "ablation.json", plain({"axis": axis, "variants": results}))
    write_whole(out / "ablation.md", as_markdown(axis, results))
    return results


def as_markdown(axis: str, results: Mapping[str, Mapping[str, Any]]) -> str:
    """One row a variant."""
    lines = [f"| {axis} | " + " | ".join(COLUMNS.values()) + " |"]
    lines.append("|---" * (len(COLUMNS) + 1) + "|")
    for name, metrics in results.items():
        cells = [metrics.get(key) for key in COLUMNS]
        shown = ["-" if v is None or v != v else f"{v:.3f}" for v in cells]
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"
