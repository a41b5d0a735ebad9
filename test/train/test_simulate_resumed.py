"""A rendered dataset that was killed half way goes on where it stopped, and ends the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("MUJOCO_GL", "egl")  # chosen when mujoco is first imported
pytest.importorskip("mujoco")
pytest.importorskip("rosbags")

from semflip_train.engines import LocalEngine
from semflip_train.run_directory import ExperimentSettings, RunDirectory
from semflip_train.simulate_stage import missing_datasets, simulate_stage
from semflip_train.simulation import benchmark
from semflip_train.simulation.settings import CameraSettings
from semflip_train.stores import tree_hash
from support.box_furniture import box_furniture

SIMULATE = {
    "name": "boxes", "seed": 5, "train": 1, "calibration": 0, "test": 1, "questions": 3,
    "drive": {"stops_per_room": 1, "camera_hz": 0.5},
}  # fmt: skip


class KilledError(Exception):
    """Stands for the end of the process."""


def run_in(folder: Path) -> RunDirectory:
    dataset = str(folder / "dataset")
    values = {"name": "s", "dataset": dataset, "simulate": {dataset: SIMULATE}}
    return RunDirectory.create(folder / "run", ExperimentSettings.model_validate(values))


def test_what_was_rendered_is_not_rendered_again(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "semflip_train.simulation.sequence.random_camera",
        lambda rng: CameraSettings(width=96, height=72),
    )
    assets = box_furniture(tmp_path / "assets")
    whole = run_in(tmp_path / "whole")
    simulate_stage(whole, assets, engine=LocalEngine())
    killed = run_in(tmp_path / "killed")
    rendered: list[str] = []
    write = benchmark.write_bag

    def counted(run, folder, settings, advance):
        rendered.append(folder.name)
        if folder.name == "test_0" and rendered.count("test_0") == 1:
            raise KilledError
        return write(run, folder, settings, advance)

    monkeypatch.setattr(benchmark, "write_bag", counted)
    with pytest.raises(KilledError):
        simulate_stage(killed, assets)
    assert missing_datasets(killed)
    simulate_stage(killed, assets)
    assert rendered == ["train_0", "test_0", "test_0"]
    assert missing_datasets(killed) == {}
    a, b = Path(whole.settings.dataset), Path(killed.settings.dataset)
    for name in ("queries.jsonl", "scenes.json", "dataset.yaml"):
        assert (a / name).read_bytes() == (b / name).read_bytes()
    assert tree_hash(a / "sequences") == tree_hash(b / "sequences")
    assert not (b / benchmark.RENDERED).exists()
    simulate_stage(killed, assets)
    assert len(rendered) == 3
