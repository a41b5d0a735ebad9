"""Ablations: the same experiment with one thing changed, all in one table.

Test questions are asked once, as the experiment is configured. A variant is a gate trained on
other rows, other inputs or other settings and scored on the same embeddings, so that differences
are paired. Everything is kept: the same command goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from semflip_core.errors import ConfigError
from semflip_train.calibration import CalibrationError
from semflip_train.categories import never_synthesised, sources_of
from semflip_train.comparison import Tables, gate_method, trained_on
from semflip_train.engines import Engine
from semflip_train.evaluate import judge_all, parts_of, test_datasets
from semflip_train.evaluation import Judged
from semflip_train.features import load_table
from semflip_train.methods import Method
from semflip_train.pipeline import make_gate
from semflip_train.run_directory import ExperimentSettings, RunDirectory
from semflip_train.stages import embed, synthesise
from semflip_train.stores import write_json, write_whole
from semflip_train.summary import plain
from semflip_train.tables import as_markdown
from semflip_train.training import TrainingError
from semflip_train.variants import Variant, changed, chosen_axes

Progress = Callable[[str, int, int], None]


def ablate(
    base: RunDirectory,
    axes: Sequence[str],
    out: Path,
    engine: Engine,
    progress: Progress | None = None,
    assets: Path | None = None,
) -> dict[str, Any]:
    """Run every variant of the axes.

    Args:
        base: the experiment as it is configured; its stages are done here where they are not yet.
        axes: names, see :data:`~semflip_train.variants.AXES`; none: all.
        assets: furniture libraries, where the experiment renders its datasets.

    Returns:
        Metrics of the base with every variant among its ``controls``; also written as
        ``ablation.json`` and ``ablation.md``.

    Raises:
        ConfigError: an axis is unknown.
    """
    variants = chosen_axes(axes)
    gate, _ = make_gate(base, engine, progress, assets)
    judged, _ = judge_all(
        test_datasets(base.settings, "test"),
        base.settings,
        split="test",
        out=base.evaluation,
        gate=gate,
        cache=base.cache_root,
        training_run=base,
        progress=progress,
    )
    rows = []
    for number, (name, variant) in enumerate(variants.items(), start=1):
        rows.append(_row(name, variant, base, judged, out, engine, progress))
        if progress is not None:
            progress("variants", number, len(variants))
    train = load_table(base.features / "train")
    untaught = never_synthesised(_categories(judged), sources_of(train.samples))
    metrics: dict[str, Any] = plain(
        parts_of(judged, gate, gate_method(judged, gate, untaught), rows, base.settings)
    )
    write_json(out / "ablation.json", metrics)
    write_whole(out / "ablation.md", as_markdown(metrics))
    return metrics


def _categories(judged: Sequence[Judged]) -> list[str | None]:
    return [item.query.category for item in judged if item.label]


def _row(
    name: str,
    variant: Variant,
    base: RunDirectory,
    judged: Sequence[Judged],
    out: Path,
    engine: Engine,
    progress: Progress | None,
) -> Method:
    """The variant's gate on the base's test embeddings, or why there is none."""
    try:
        settings = changed(base.settings, variant.change)
        run = base
        if variant.resynthesised and settings != base.settings:
            run = _resynthesised(settings, base, out / name.replace(" ", "_"), engine, progress)
        tables = variant.tables(Tables.of(run))
        gate = trained_on(tables, settings, base)
        x = variant.inputs(np.stack([item.vector for item in judged]), tables.train.layout)
    except (TrainingError, CalibrationError, ConfigError) as error:
        return Method.missing(name, len(judged), str(error))
    untaught = never_synthesised(_categories(judged), sources_of(tables.train.samples))
    return Method.of_gate(name, gate, x, untaught=untaught)


def _resynthesised(
    settings: ExperimentSettings,
    base: RunDirectory,
    folder: Path,
    engine: Engine,
    progress: Progress | None,
) -> RunDirectory:
    """A run of its own, up to its features; frames and embeddings are shared with the base."""
    quick = changed(settings, {"evaluation": {"baselines": False}})
    run = RunDirectory.create(folder, quick, base.cache_root)
    synthesise(run, engine, progress)
    embed(run, engine, progress)
    return run
