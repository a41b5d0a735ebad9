"""``semflip ask``: clear errors that name the thing and the cure; footage without poses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from semflip_core.settings import RecallSettings
from support.cli import semflip
from support.colours import write_gate
from support.gates import linear_gate

ROOT = Path(__file__).resolve().parents[2]
BAG = ROOT / "data" / "sample" / "sequences" / "test_0"
COLOURS = "support.colours:ColourEncoder"


def ask(*arguments: object) -> subprocess.CompletedProcess[str]:
    return semflip("ask", *arguments)


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound gate, made for no encoder that exists."""
    file = tmp_path_factory.mktemp("gate") / "gate.safetensors"
    made = linear_gate(np.ones(3, np.float32), {"encoder.name": "another", "recall.policy": "x"})
    made.save(file)
    return file


@pytest.fixture(scope="module")
def footage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A film of six seconds: a red block crosses a grey wall in the first second."""
    import cv2

    file = tmp_path_factory.mktemp("film") / "red.avi"
    film = cv2.VideoWriter(str(file), cv2.VideoWriter_fourcc(*"MJPG"), 10.0, (96, 72))
    for step in range(60):
        frame = np.full((72, 96, 3), 100, np.uint8)
        if step < 10:
            frame[24:48, 4 * step : 4 * step + 32] = (30, 30, 200)
        film.write(frame)
    film.release()
    return file


def test_a_wrong_path_is_named_by_the_program_itself() -> None:
    arguments = ["ask", "--bag", "/nowhere/bag", "Where is the sofa?"]
    done = subprocess.run(
        [sys.executable, "-m", "semflip_train.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 2
    assert "/nowhere/bag" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_topic_that_is_not_there_lists_those_that_are() -> None:
    done = ask("--bag", BAG, "--image-topic", "/front", "Where is the sofa?")
    assert done.returncode == 2
    assert "/front" in done.stderr
    assert "/camera/image_raw/compressed" in done.stderr
    assert "/odom" in done.stderr


def test_a_gate_for_another_encoder_names_the_differing_field(gate: Path) -> None:
    done = ask("--bag", BAG, "--encoder", COLOURS, "--gate", gate, "Where is the red thing?")
    assert done.returncode == 2
    assert "encoder.name" in done.stderr
    assert "'another'" in done.stderr
    assert "semflip train" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--threshold", "2"), "2.0"),
        (("--encoder", "nonsense"), "nonsense"),
        (("--gate", "/nowhere/gate"), "/nowhere/gate"),
        (("--video", "film.avi"), "exactly one"),
    ],
)
def test_a_wrong_value_is_named(arguments: tuple[str, str], named: str) -> None:
    done = ask("--bag", BAG, *arguments, "Where is the sofa?")
    assert done.returncode == 2
    assert named in done.stderr


def test_footage_without_poses_shows_what_it_saw_and_gives_no_goal(
    footage: Path, tmp_path: Path
) -> None:
    made = write_gate(tmp_path / "gate.safetensors")
    shown = tmp_path / "evidence"
    done = ask(
        "--video", footage, "--encoder", COLOURS, "--gate", made, "--json", "--evidence", shown,
        "Where is the red thing?", "Where is the yellow thing?",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    red, yellow = (json.loads(line) for line in done.stdout.splitlines())
    assert (red["verdict"], red["gate_verdict"], red["reason"]) == ("refuse", "answer", "NO_POSE")
    assert red["statement"] == "I do not know"
    assert red["goal"] is None
    assert red["evidence"][0]["stamp_ns"] > 0
    assert yellow["gate_verdict"] == "refuse"
    assert len(list(shown.glob("*.jpg"))) == 2


def test_the_numbers_of_frames_are_options_and_must_be_the_gates(
    footage: Path, tmp_path: Path
) -> None:
    recall = RecallSettings(prefix_frames=2, recalled_frames=5)
    made = write_gate(tmp_path / "gate.safetensors", recall=recall)
    usual = ["--video", footage, "--encoder", COLOURS, "--gate", made, "--json"]
    done = ask(*usual, "--prefix-frames", 2, "--recalled-frames", 5, "Where is the red thing?")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["gate_verdict"] == "answer"
    wrong = ask(*usual, "--prefix-frames", 2, "--recalled-frames", 6, "Where is the red thing?")
    assert wrong.returncode == 2
    assert "recall.recalled_frames" in wrong.stderr
