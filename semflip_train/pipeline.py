"""The stages after features, and all of them in a row."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from semflip_core.gate import Gate
from semflip_train.calibration import calibrate
from semflip_train.engines import Engine
from semflip_train.evaluate import evaluate_stage, judge_ahead
from semflip_train.features import load_table
from semflip_train.run_directory import RunDirectory
from semflip_train.simulate_stage import simulate_stage
from semflip_train.stages import embed, synthesise
from semflip_train.stores import json_hash, write_json, write_whole
from semflip_train.summary import plain
from semflip_train.training import train_gate

logger = logging.getLogger("semflip")
Progress = Callable[[str, int, int], None]
UNCALIBRATED = "gate_uncalibrated.safetensors"


def _step(progress: Progress | None, name: str) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(name, done, total)


def train_stage(run: RunDirectory, progress: Progress | None = None) -> Gate:
    """Train, unless the same rows and settings were trained already."""
    table = load_table(run.features / "train")
    file = run.root / UNCALIBRATED
    key = json_hash([table.data_hash(), run.settings.training.model_dump(mode="json")])
    done = run.root / "trained.json"
    if file.exists() and done.exists() and json.loads(done.read_text())["key"] == key:
        return Gate.load(file)
    with run.stage("train") as notes:
        gate = train_gate(table, run.settings.training, _step(progress, "members"))
        gate.save(file)
        write_json(done, {"key": key})
        notes |= {"rows": len(table.samples), "members": gate.header.members, "gate": gate.id}
    return gate


def calibrate_stage(run: RunDirectory) -> Gate:
    """Calibrate the trained gate; without a calibration split its rows are the training ones."""
    gate = Gate.load(run.root / UNCALIBRATED)
    split = "calibration" if (run.features / "calibration").is_dir() else "train"
    table = load_table(run.features / split)
    with run.stage("calibrate") as notes:
        done = calibrate(gate, table, run.settings.calibration)
        if split == "train":
            logger.warning("no calibration split: the threshold rests on training sequences")
        done.gate.save(run.gate)
        notes |= {
            "gate": done.gate.id,
            "tau": done.gate.header.tau,
            "temperature": done.gate.header.temperature,
            "statement": done.statement,
            "answered_by_sequence": done.answered_by_sequence,
            "spread": done.spread,
        }
        write_json(run.root / "calibration.json", plain(notes))
    return done.gate


def make_gate(
    run: RunDirectory,
    engine: Engine,
    progress: Progress | None = None,
    assets: Path | None = None,
) -> tuple[Gate, Counter[str]]:
    """All stages up to the calibrated gate, and how many samples of each kind it learned from.

    Args:
        assets: furniture libraries, where the experiment renders its datasets.
    """
    simulate_stage(run, assets, progress, engine)
    folds_stage(run, assets, progress, engine)
    counts = synthesise(run, engine, progress)
    embed(run, engine, progress)
    train_stage(run, progress)
    return calibrate_stage(run), counts


def folds_stage(
    run: RunDirectory,
    assets: Path | None = None,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> None:
    """Make the projections that features are cross-fitted with, where they are not there yet."""
    if run.settings.cross_fit is None:
        return
    from semflip_train.projection_folds import make_folds, missing_folds

    folder = Path(run.settings.cross_fit)
    if missing_folds(folder):
        with run.stage("cross_fit") as notes:
            notes["made"] = missing_folds(folder)
            make_folds(folder, assets, engine=engine, progress=progress)


def run_experiment(
    run: RunDirectory,
    engine: Engine,
    progress: Progress | None = None,
    assets: Path | None = None,
) -> dict[str, Any]:
    """All stages; each takes up what an earlier, interrupted run has left.

    Args:
        assets: furniture libraries, where the experiment renders its datasets.
    """
    from semflip_train.report import write_report

    make_gate(run, engine, progress, assets)
    with run.stage("evaluate") as notes:
        asked = judge_ahead(run, engine, progress)
        metrics = evaluate_stage(
            run.settings,
            split="test",
            out=run.evaluation,
            gate_file=run.gate,
            cache=run.cache_root,
            training_run=run,
            progress=progress,
        )
        notes["questions_asked_now"] = asked + metrics["asked_now"]
    with run.stage("report"):
        write_report(run)
    write_whole(run.root / "done", "")
    return metrics
