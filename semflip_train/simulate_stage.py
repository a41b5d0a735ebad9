"""The first stage of an experiment from nothing: render the datasets that are not there yet."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from semflip_core.errors import ConfigError
from semflip_core.settings import read_settings
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
    run: RunDirectory, assets: Path | None = None, progress: Progress | None = None
) -> None:
    """Render what is missing; a sequence that is recorded is not rendered again after a kill.

    Args:
        assets: furniture libraries; None looks where Debian puts them, and fetches them otherwise.
    """
    missing = missing_datasets(run)
    if not missing:
        return
    from semflip_train.simulation import benchmark
    from semflip_train.simulation.catalogue import FurnitureCatalogue, find_furniture

    libraries = find_furniture(assets)
    with run.stage("simulate") as notes:
        for folder, settings in missing.items():
            held_out = any(s.new_things > 0 for s in run.settings.simulate.values())
            catalogue = FurnitureCatalogue(libraries, held_out=held_out)
            shown = benchmark.ShownPictures(progress, f"{folder.name} ")
            benchmark.simulate(
                folder, settings, catalogue, start=shown.start, advance=shown.advance
            )
            notes[folder.name] = len(benchmark.planned(settings))
