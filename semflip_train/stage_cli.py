"""The commands of the offline stages: synth, features, train, calibrate, evaluate, report, run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from semflip_train.run_directory import ExperimentSettings, RunDirectory, read_experiment

RunFolder = Annotated[Path, typer.Argument(help="Run directory.")]
Experiment = Annotated[Path, typer.Argument(help="Experiment YAML.")]
NewRun = Annotated[Path, typer.Option(help="Run directory to make or go on with.")]
Cache = Annotated[
    Path | None, typer.Option(help="Folder for memories and caches shared between runs.")
]
EngineName = Annotated[str, typer.Option(help="local, or ray for a cluster.")]
Address = Annotated[str | None, typer.Option(help="Of a running Ray cluster.")]
Gpus = Annotated[float, typer.Option(help="GPUs of one unit of work; a fraction shares one.")]
Workers = Annotated[int | None, typer.Option(help="Processes on this machine.")]
Assets = Annotated[
    Path | None,
    typer.Option(help="Furniture libraries (*.sh3f), where the experiment renders datasets."),
]


def _engine(name: str, address: str | None, gpus: float, workers: int | None) -> Any:
    from semflip_train.engines import load_engine

    if name == "ray":
        return load_engine("ray", address=address, gpus=gpus, workers=workers)
    return load_engine(name, workers=workers)


def synth(
    dataset: Annotated[Path, typer.Argument(help="Dataset folder.")],
    out: NewRun,
    config: Annotated[
        Path | None, typer.Option(help="Experiment YAML; --out and DATASET override it.")
    ] = None,
    cache: Cache = None,
    engine: EngineName = "local",
    address: Address = None,
    gpus: Gpus = 0.0,
    workers: Workers = None,
) -> None:
    """Synthesise unanswerable pairs from the answerable ones (Q-Flip and V-Flip)."""
    from semflip_train.shown import print_counts, steps
    from semflip_train.stages import synthesise

    settings = (
        read_experiment(config)
        if config
        else ExperimentSettings(name=out.name or "run", dataset=str(dataset))
    )
    run = RunDirectory.create(out, settings.model_copy(update={"dataset": str(dataset)}), cache)
    with steps() as progress:
        counts = synthesise(run, _engine(engine, address, gpus, workers), progress)
    print_counts("synthesised", counts)


def features(
    run: RunFolder,
    engine: EngineName = "local",
    address: Address = None,
    gpus: Gpus = 0.0,
    workers: Workers = None,
) -> None:
    """Embed every synthesised pair; frames are encoded once."""
    from semflip_train.shown import steps
    from semflip_train.stages import embed

    with steps() as progress:
        embed(RunDirectory.open(run), _engine(engine, address, gpus, workers), progress)
    typer.echo(f"features in {run / 'features'}")


def train(run: RunFolder) -> None:
    """Train the gate's members and its reason head."""
    from semflip_train.pipeline import train_stage
    from semflip_train.shown import steps

    with steps() as progress:
        gate = train_stage(RunDirectory.open(run), progress)
    typer.echo(f"gate {gate.id}: {gate.header.members} members, not yet calibrated")


def calibrate(run: RunFolder) -> None:
    """Fit temperature and threshold on the calibration split."""
    from semflip_train.pipeline import calibrate_stage

    gate = calibrate_stage(RunDirectory.open(run))
    typer.echo(gate.header.calibration)
    typer.echo(f"gate {gate.id} in {run / 'gate.safetensors'}")


def evaluate(
    datasets: Annotated[list[Path], typer.Argument(help="Dataset folders, judged together.")],
    out: Annotated[Path, typer.Option(help="Folder for metrics.json and predictions.jsonl.")],
    split: Annotated[str, typer.Option(help="train, calibration or test.")] = "test",
    encoder: Annotated[str, typer.Option(help="Name of the encoder.")] = "mini",
    retriever: Annotated[str | None, typer.Option(help="Name of the retriever.")] = None,
    gate: Annotated[Path | None, typer.Option(help="Gate; default: the one shipped.")] = None,
    run: Annotated[
        Path | None, typer.Option(help="Run whose training rows the baselines are fitted on.")
    ] = None,
    cache: Cache = None,
) -> None:
    """Ask every question of a split with the robot's agent, and judge the decisions."""
    from semflip_train.evaluate import evaluate_stage
    from semflip_train.shown import print_metrics, steps

    trained = RunDirectory.open(run) if run else None
    settings = (
        trained.settings
        if trained
        else ExperimentSettings(
            name="evaluation", dataset=str(datasets[0]), encoder=encoder, retriever=retriever
        )
    )
    chosen = settings.evaluation.model_copy(update={"datasets": tuple(map(str, datasets))})
    with steps() as progress:
        metrics = evaluate_stage(
            settings.model_copy(update={"evaluation": chosen}),
            split=split,
            out=out,
            gate_file=gate or (trained.gate if trained else None),
            cache=cache or (trained.cache_root if trained else out / "cache"),
            training_run=trained,
            progress=progress,
        )
    print_metrics(metrics)


def report(run: RunFolder) -> None:
    """Write report.html, and the tables as Markdown and LaTeX, from an evaluated run."""
    from semflip_train.report import write_report

    typer.echo(f"report in {write_report(RunDirectory.open(run))}")


def run_all(
    config: Experiment,
    out: NewRun,
    cache: Cache = None,
    engine: EngineName = "local",
    address: Address = None,
    gpus: Gpus = 0.0,
    workers: Workers = None,
    assets: Assets = None,
) -> None:
    """All stages of an experiment, from recordings to report.html; goes on where it stopped."""
    from semflip_train.pipeline import run_experiment
    from semflip_train.shown import print_metrics, steps

    run = RunDirectory.create(out, read_experiment(config), cache)
    with steps() as progress:
        metrics = run_experiment(run, _engine(engine, address, gpus, workers), progress, assets)
    print_metrics(metrics)
    typer.echo(f"report in {run.root / 'report.html'}")


def ablate(
    config: Experiment,
    out: Annotated[Path, typer.Option(help="Folder for the table and the variants' runs.")],
    axes: Annotated[
        list[str] | None,
        typer.Argument(help="flips, inputs, strategies, members, threshold, fill, pool; none: all"),
    ] = None,
    base: Annotated[
        Path | None, typer.Option(help="Run of the same experiment; default: OUT/base.")
    ] = None,
    engine: EngineName = "local",
    address: Address = None,
    gpus: Gpus = 0.0,
    workers: Workers = None,
    assets: Assets = None,
) -> None:
    """The same experiment with one thing changed, in one table."""
    from semflip_train.ablation import ablate as run_ablation
    from semflip_train.shown import print_metrics, steps

    made = _engine(engine, address, gpus, workers)
    settings = read_experiment(config)
    run = RunDirectory.open(base) if base else RunDirectory.create(out / "base", settings)
    with steps() as progress:
        metrics = run_ablation(run, axes or [], out, made, progress, assets)
    print_metrics(metrics)
    typer.echo(f"table in {out / 'ablation.md'}")


def register(app: typer.Typer) -> None:
    """Add the commands to the ``semflip`` program."""
    for name, command in (
        ("synth", synth),
        ("features", features),
        ("train", train),
        ("calibrate", calibrate),
        ("evaluate", evaluate),
        ("report", report),
        ("run", run_all),
        ("ablate", ablate),
    ):
        app.command(name)(command)
