"""The first stage of an experiment from nothing: render the datasets that are not there yet."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from semflip_core.errors import ConfigError
from semflip_core.settings import read_settings
from semflip_train.engines import Engine, LocalEngine
from semflip_train.run_directory import RunDirectory
from semflip_train.simulation.settings import SimulationSettings

Progress = Callable[[str, int, int], None]


def missing_datasets(run: RunDirectory) -> dict[Path, SimulationSettings]:
    """Datasets of the ``simulate`` section that are not whole.

    Raises:
        ConfigError: a folder holds a dataset of other settings.
    """
    missing = {}
    for name, settings in run.settings.simulate.items():
        folder = Path(name)
        if not (folder / "dataset.yaml").is_file():
            missing[folder] = settings
            continue
        record = folder / "scenes.json"
        if not record.is_file():
            raise ConfigError(f"{folder}: not made by `semflip simulate`; name another folder")
        values = json.loads(record.read_text(encoding="utf-8"))["settings"]
        if read_settings(SimulationSettings, values, str(record)) != settings:
            raise ConfigError(
                f"{folder}: rendered with other settings than the experiment's simulate section; "
                "delete it, or name another folder"
            )
    return missing


def simulate_stage(
    run: RunDirectory,
    assets: Path | None = None,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> None:
    """Render what is missing; a sequence that is recorded is not rendered again after a kill.

    Args:
        assets: furniture libraries; None looks where Debian puts them, and fetches them otherwise.
        engine: renders several sequences at once; None: one after the other.
    """
    missing = missing_datasets(run)
    if not missing:
        return
    with run.stage("simulate") as notes:
        notes |= render_datasets(missing, assets, progress, engine)


def render_datasets(
    datasets: Mapping[Path, SimulationSettings],
    assets: Path | None = None,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> dict[str, int]:
    """Render datasets, several sequences at once; returns how many sequences each has."""
    from semflip_train.simulation import benchmark
    from semflip_train.simulation.catalogue import FurnitureCatalogue, find_furniture

    libraries = find_furniture(assets)
    items = [
        json.dumps([str(folder), plan.name, settings.model_dump(mode="json")])
        for folder, settings in datasets.items()
        for plan in benchmark.planned(settings)
    ]
    (engine or LocalEngine()).map(render_unit, str(libraries), items, progress)
    for folder, settings in datasets.items():
        catalogue = FurnitureCatalogue(libraries, held_out=settings.new_things > 0)
        shown = benchmark.ShownPictures(progress, f"{folder.name} ")
        benchmark.simulate(folder, settings, catalogue, start=shown.start, advance=shown.advance)
    return {folder.name: len(benchmark.planned(settings)) for folder, settings in datasets.items()}


def render_unit(root: str, item: str, progress: Progress | None = None) -> dict[str, Any]:
    """Render one sequence of a dataset; questions come when all of them are rendered.

    Args:
        root: folder of the furniture libraries.
        item: JSON of the dataset's folder, the sequence's name, and the dataset's settings.
    """
    from semflip_train.simulation import benchmark
    from semflip_train.simulation.catalogue import FurnitureCatalogue

    folder, sequence, values = json.loads(item)
    settings = read_settings(SimulationSettings, values, folder)
    catalogue = FurnitureCatalogue(Path(root), held_out=settings.new_things > 0)
    shown = benchmark.ShownPictures(progress, f"{Path(folder).name} ")
    plan = next(plan for plan in benchmark.planned(settings) if plan.name == sequence)
    benchmark.render(
        Path(folder), plan, settings, catalogue, start=shown.start, advance=shown.advance
    )
    return {"sequence": sequence}
