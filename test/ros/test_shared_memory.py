"""Segments of dead processes are removed, those of living ones are not, little room is told."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

import pytest

from semflip_ros import shared_memory


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shared_memory, "FOLDER", tmp_path)
    return tmp_path


def segment(folder: Path, name: str) -> Path:
    (folder / f"fastdds_{name}_el").touch()
    (folder / f"fastdds_{name}").write_bytes(bytes(1000))
    return folder / f"fastdds_{name}"


def test_a_dead_process_segment_goes_a_living_ones_stays(folder: Path) -> None:
    dead, living = segment(folder, "dead"), segment(folder, "living")
    other = folder / "someone_elses"
    other.write_bytes(b"x")
    with (folder / "fastdds_living_el").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert shared_memory.sweep() == 1000
        assert not dead.exists() and living.exists() and other.exists()
    assert shared_memory.sweep() == 1000
    assert [path.name for path in folder.iterdir()] == ["someone_elses"]


@pytest.mark.parametrize(("total", "lacking"), [(64e6, True), (2e9, False)])
def test_little_room_is_told_with_its_cure(
    folder: Path, monkeypatch: pytest.MonkeyPatch, total: float, lacking: bool
) -> None:
    usage = shutil.disk_usage(folder)._replace(total=int(total))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert ("--shm-size=1g" in shared_memory.lack_of_room()) is lacking


def test_a_machine_without_shared_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "FOLDER", Path("/nonexistent"))
    assert "missing" in shared_memory.lack_of_room()
