"""Killed in each stage, out of disk, given a damaged recording: a clear end, and it goes on."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("spacy")
pytest.importorskip("torch")

from semflip_core.gate import Gate
from semflip_core.memory import VideoMemory
from semflip_train.engines import LocalEngine
from semflip_train.pipeline import run_experiment
from semflip_train.run_directory import RunDirectory
from support.cli import semflip, with_support
from support.colour_runs import settings_for, stages

#: Bytes that a file may have in the test of a full disk.
DISK = 100_000
STAGES = ("synth", "features", "train", "calibrate", "evaluate", "report")


def experiment(dataset: Path, folder: Path) -> Path:
    """The small experiment as a file, as a user writes it."""
    import yaml

    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump(settings_for(dataset).model_dump(mode="json")))
    return file


def test_killed_in_each_stage_nothing_is_done_twice(dataset, finished, tmp_path):
    whole, metrics = finished
    run = RunDirectory.create(tmp_path / "killed", settings_for(dataset))
    arguments = [sys.executable, "-m", "support.killed_run", str(run.root), *STAGES]
    died = subprocess.run(
        arguments, env=with_support(), stdout=subprocess.PIPE, text=True, timeout=170, check=True
    )
    told = [line.split() for line in died.stdout.splitlines()]
    assert told == [[stage, str(-signal.SIGKILL), "False"] for stage in STAGES]
    final = run_experiment(run, LocalEngine())
    assert final | {"asked_now": 0} == metrics | {"asked_now": 0}
    assert Gate.load(run.gate).id == Gate.load(whole.gate).id
    log, once = stages(run), stages(whole)
    # Work lost to a kill is at most the unit in hand; what was finished is never done again.
    # The killed process leaves no note, so the notes miss exactly what it had finished.
    for stage, count, finished in (
        ("synth", "questions_made_now", 2),
        ("features", "pairs_embedded_now", 3),
        ("evaluate", "questions_asked_now", 3),
    ):
        made = [notes[count] for notes in log[stage]]
        assert sum(made) == once[stage][0][count] - finished, stage
        assert sum(n > 0 for n in made) == 1, stage
    assert len(log["train"]) == 1
    assert (run.root / "report.html").stat().st_size > 10_000


def test_a_full_disk_ends_with_a_clear_message_and_the_run_goes_on(dataset, tmp_path):
    out = tmp_path / "full"
    config = experiment(dataset, tmp_path)

    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (DISK, DISK))

    ended = subprocess.run(
        [sys.executable, "-m", "semflip_train.cli", "run", config, "--out", out],
        env={**with_support(), "CI": "1"},
        preexec_fn=small_disk,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 2, ended.stderr
    said = ended.stderr.splitlines()[-1]
    assert said.startswith(f"semflip: {out}")
    assert "ake room" in said
    assert "Traceback" not in ended.stderr
    # A memory that lacks what the disk did not take is never taken for a whole one.
    assert not list(out.glob("cache/memories/*.ready"))
    again = semflip("run", config, "--out", out)
    assert again.returncode == 0, again.stderr
    assert (out / "done").exists()
    for file in out.glob("cache/memories/*.sqlite"):
        with VideoMemory(file, read_only=True) as memory:
            assert len(memory) > 6, file


def test_a_damaged_recording_is_named_and_the_rest_is_kept(dataset, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(dataset, broken)
    recording = next((broken / "sequences" / "b").glob("*.*3*"), None) or next(
        p for p in (broken / "sequences" / "b").iterdir() if p.suffix != ".yaml"
    )
    whole = recording.read_bytes()
    recording.write_bytes(whole[:100])
    out = tmp_path / "run"
    config = experiment(broken, tmp_path)
    ended = semflip("run", config, "--out", out)
    assert ended.returncode == 2, ended.stderr
    assert "sequences/b" in ended.stderr
    kept = {p.name: p.stat().st_mtime_ns for p in out.glob("synth/parts/a-*/*.json")}
    assert len(kept) == 6
    recording.write_bytes(whole)
    again = semflip("run", config, "--out", out)
    assert again.returncode == 0, again.stderr
    assert (out / "done").exists()
    made = json.loads((out / "manifest.json").read_text())["stages"]["synth"]
    assert sum(notes["questions_made_now"] for notes in made) == 12
