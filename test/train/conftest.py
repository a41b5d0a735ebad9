"""What tests of the offline half share: one dataset, and one finished run on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from semflip_train.run_directory import RunDirectory


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Coloured boxes, to be read only."""
    from support.colour_runs import write_colour_dataset

    return write_colour_dataset(tmp_path_factory.mktemp("data") / "colours")


@pytest.fixture(scope="session")
def finished(
    dataset: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunDirectory, dict[str, Any]]:
    """A whole run on it, and its metrics; running it again changes nothing but its notes."""
    from semflip_train.engines import LocalEngine
    from semflip_train.pipeline import run_experiment
    from semflip_train.run_directory import RunDirectory
    from support.colour_runs import settings_for

    run = RunDirectory.create(tmp_path_factory.mktemp("run"), settings_for(dataset))
    return run, run_experiment(run, LocalEngine())
