"""What ``ros2 run semflip`` starts: its interpreter must be one that has what semflip needs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from semflip_ros import commands

NAMES = ("ask", "refusal_node", "replay", "semflip")
NEEDED = "import rclpy, numpy, pydantic, safetensors, semflip.msg, semflip_core, semflip_ros"


def folder() -> Path | None:
    """Where colcon put the programs; None where the package is not installed."""
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    found = (Path(prefix) / "lib" / "semflip" for prefix in prefixes if prefix)
    return next((path for path in found if path.is_dir()), None)


@pytest.fixture
def programs() -> Path:
    found = folder()
    if found is None:
        pytest.skip("no built workspace is sourced")
    return found


def test_every_program_is_installed(programs: Path) -> None:
    assert {path.name for path in programs.iterdir()} >= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_shebang_names_an_interpreter_that_has_everything(programs: Path, name: str) -> None:
    """Built with another Python than the environment's, a program fails at its first import."""
    program = programs / name
    first = program.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("#!/"), first
    assert os.access(program, os.X_OK)
    interpreter = first.removeprefix("#!").split()
    run = subprocess.run(
        [*interpreter, "-c", NEEDED], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("name", ["ask", "semflip"])
def test_a_program_runs_from_anywhere(programs: Path, name: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [programs / name, "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert "question" in run.stdout.lower()


@pytest.mark.parametrize("given", [None, "4"])
def test_numpy_has_one_thread_where_nobody_says_otherwise(given: str | None, monkeypatch) -> None:
    name = "OPENBLAS_NUM_THREADS"
    monkeypatch.setenv(name, given or "")
    if given is None:
        monkeypatch.delenv(name)
    started: list[str] = []
    program = SimpleNamespace(main=lambda: started.append(os.environ[name]) or 0)
    monkeypatch.setattr(commands, "import_module", lambda _: program)
    assert commands.refusal_node() == 0
    assert started == [given or "1"]
