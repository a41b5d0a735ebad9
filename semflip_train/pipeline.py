"""The stages after features, and all of them in a row."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from semflip_core.errors import ConfigError
from semflip_core.gate import Gate
from semflip_core.loading import load_backends, shipped_gate
from semflip_train.calibration import calibrate
from semflip_train.comparison import compare
from semflip_train.dataset import SPLITS, load_dataset
from semflip_train.engines import Engine
from semflip_train.evaluation import Judged, SequenceEvaluation, write_predictions
from semflip_train.features import load_table
from semflip_train.memories import SequenceFrames, sequence_memory
from semflip_train.run_directory import ExperimentSettings, RunDirectory
from semflip_train.stages import embed, synthesise
from semflip_train.stores import BlobStore, json_hash, write_json, write_whole
from semflip_train.summary import plain, summarise
from semflip_train.training import train_gate

logger = logging.getLogger("semflip")
Progress = Callable[[str, int, int], None]
UNCALIBRATED = "gate_uncalibrated.safetensors"
EVALUATED = "evaluated.json"


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
        }
        write_json(run.root / "calibration.json", plain(notes))
    return done.gate


def evaluate_stage(
    settings: ExperimentSettings,
    *,
    split: str,
    out: Path,
    gate_file: Path | None,
    cache: Path,
    training_run: RunDirectory | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Judge every question of a split; writes ``metrics.json`` and ``predictions.jsonl``.

    Raises:
        ConfigError: the split has no such name.
        DatasetError: the split is empty.
    """
    if split not in SPLITS:
        raise ConfigError(f"unknown split '{split}'; known: {', '.join(SPLITS)}")
    dataset = load_dataset(settings.dataset)
    queries = dataset.split(split)
    encoder, retriever = load_backends(
        settings.encoder, settings.retriever, settings.encoder_options
    )
    gate = Gate.load(gate_file or shipped_gate(settings.encoder))
    judged: list[Judged] = []
    asked = 0
    for sequence in dataset.sequences(split):
        here = [q for q in queries if q.sequence == sequence]
        memory = sequence_memory(
            dataset, sequence, settings.keyframes, cache / "memories", _step(progress, sequence)
        )
        with (
            memory,
            BlobStore(cache / f"derived-{sequence}.sqlite") as derived,
            BlobStore(out / f"decisions-{sequence}.sqlite") as decisions,
        ):
            frames = SequenceFrames(memory, encoder, derived)
            frames.encode_missing(_step(progress, f"{sequence} frames"))
            work = SequenceEvaluation(
                dataset,
                frames,
                frames.content(),
                gate,
                decisions,
                encoder,
                retriever,
                settings.recall,
                settings.decision,
                settings.evaluation.goal_distance_m,
                settings.evaluation.bearing_deg,
                training_run.single_frame_recall if training_run else None,
            )
            judged += work.judge(here, _step(progress, f"{sequence} questions"))
            asked += work.asked_now
    write_predictions(out / "predictions.jsonl", judged)
    metrics = _metrics(judged, gate, settings, training_run)
    metrics["asked_now"] = asked
    write_json(out / "metrics.json", plain(metrics))
    return metrics


def _metrics(
    judged: list[Judged],
    gate: Gate,
    settings: ExperimentSettings,
    training_run: RunDirectory | None,
) -> dict[str, Any]:
    e = settings.evaluation
    metrics = summarise(judged, draws=e.bootstrap_draws, confidence=e.confidence)
    slices = sorted({j.query.slice for j in judged if j.query.slice})
    metrics["slices"] = {
        name: summarise(
            [j for j in judged if j.query.slice == name],
            draws=e.bootstrap_draws,
            confidence=e.confidence,
        )
        for name in slices
    }
    metrics["gate"] = {
        "id": gate.id,
        "tau": gate.header.tau,
        "calibration": gate.header.calibration,
        "untrained_reasons": [r.value for r in gate.header.untrained_reasons],
    }
    metrics["controls"] = compare(judged, gate, settings, training_run)
    return metrics


def run_experiment(
    run: RunDirectory, engine: Engine, progress: Progress | None = None
) -> dict[str, Any]:
    """All stages; each takes up what an earlier, interrupted run has left."""
    from semflip_train.report import write_report

    synthesise(run, engine, progress)
    embed(run, engine, progress)
    train_stage(run, progress)
    calibrate_stage(run)
    with run.stage("evaluate") as notes:
        metrics = evaluate_stage(
            run.settings,
            split="test",
            out=run.evaluation,
            gate_file=run.gate,
            cache=run.cache_root,
            training_run=run,
            progress=progress,
        )
        notes["questions_asked_now"] = metrics["asked_now"]
    with run.stage("report"):
        write_report(run)
    write_whole(run.root / "done", "")
    return metrics
