"""Every experiment that is shipped can be read, and one from nothing renders what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from semflip_core.errors import ConfigError
from semflip_train.run_directory import ExperimentSettings, RunDirectory, read_experiment
from semflip_train.simulate_stage import missing_datasets
from semflip_train.simulation.settings import SimulationSettings
from semflip_train.synthesis.samples import PUBLISHED

FOLDER = Path(__file__).parents[2] / "config" / "experiments"
FILES = sorted(FOLDER.glob("*.yaml"))


def test_the_experiments_of_the_documentation_are_there():
    names = {file.stem for file in FILES}
    assert names >= {"sample", "abstaineqa_hm3d", "spacereject", "simulated", "shipped_gate"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_experiment_is_read_and_names_known_encoders(file):
    from semflip_core.encoders.registry import ENCODERS, RETRIEVERS

    settings = read_experiment(file)
    assert settings.encoder in ENCODERS
    assert settings.retriever is None or settings.retriever in RETRIEVERS
    assert settings.dataset


@pytest.mark.parametrize("name", ["abstaineqa_hm3d", "spacereject"])
def test_the_published_protocol(name):
    settings = read_experiment(FOLDER / f"{name}.yaml")
    assert settings.synthesis.strategies == PUBLISHED
    assert settings.synthesis.samples_per_pair == 1
    assert len(settings.training.seeds) == 5
    assert settings.encoder == "qwen2_5_vl"


def test_the_simulated_benchmark_trains_on_no_test_seed():
    settings = read_experiment(FOLDER / "simulated.yaml")
    train = settings.simulate[settings.dataset]
    tests = [settings.simulate[name] for name in settings.evaluation.datasets]
    assert train.test == train.new_things == 0
    assert len({t.seed for t in tests} | {train.seed}) == 4
    assert all(t.train == t.calibration == 0 and t.test and t.new_things for t in tests)


def run_with(tmp_path: Path, **changes: object) -> RunDirectory:
    values = {
        "name": "s",
        "dataset": str(tmp_path / "d"),
        "simulate": {str(tmp_path / "d"): changes},
    }
    return RunDirectory.create(tmp_path / "run", ExperimentSettings.model_validate(values))


def test_only_what_is_missing_is_rendered(tmp_path):
    run = run_with(tmp_path, seed=3)
    folder = tmp_path / "d"
    assert missing_datasets(run) == {folder: SimulationSettings(seed=3)}
    folder.mkdir()
    (folder / "dataset.yaml").write_text("name: x\n")
    with pytest.raises(ConfigError, match="not made by `semflip simulate`"):
        missing_datasets(run)
    record = '{"settings": %s}'
    (folder / "scenes.json").write_text(record % SimulationSettings(seed=3).model_dump_json())
    assert missing_datasets(run) == {}
    (folder / "scenes.json").write_text(record % SimulationSettings(seed=4).model_dump_json())
    with pytest.raises(ConfigError, match="other settings"):
        missing_datasets(run)
