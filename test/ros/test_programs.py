"""Programs end with whoever started them, children and all, and say what happened."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from semflip_ros.domain import OwnDomain, local_environment
from semflip_ros.programs import Program

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def python(source: str, log: Path) -> Program:
    return Program([sys.executable, "-c", source], log, os.environ)


def printed(program: Program) -> str:
    until = time.monotonic() + 20.0
    while time.monotonic() < until and not program.tail().endswith("\n") and not program.tail():
        time.sleep(0.05)
    return program.tail()


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_program_that_ignores_the_interrupt_dies_with_its_children(tmp_path: Path) -> None:
    program = python(STUBBORN, tmp_path / "log")
    child = int(printed(program))
    assert alive(program.pid) and alive(child)
    assert program.stop(patience_s=0.5) == -9
    until = time.monotonic() + 5.0
    while alive(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(child)


ORDERLY = """
import time
try:
    print("ready", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    print("bye")
"""


def test_an_orderly_program_is_interrupted_not_killed(tmp_path: Path) -> None:
    with python(ORDERLY, tmp_path / "log") as program:
        printed(program)
    assert program.poll() == 0
    assert program.tail() == "ready\nbye"


def test_a_program_that_takes_too_long_is_named_with_its_log(tmp_path: Path) -> None:
    with (
        python("import time; time.sleep(600)", tmp_path / "log") as program,
        pytest.raises(TimeoutError, match=r"still runs after 0 s.*log"),
    ):
        program.wait(0.2)


def test_two_runs_never_share_a_domain_and_a_released_one_is_free_again() -> None:
    first, second = OwnDomain(), OwnDomain()
    assert len({first.id, second.id, int(os.environ["ROS_DOMAIN_ID"])}) == 3
    first.release()
    third = OwnDomain()
    assert third.id <= first.id
    second.release()
    third.release()


@pytest.mark.parametrize(
    ("distro", "variable"),
    [("jazzy", "FASTRTPS_DEFAULT_PROFILES_FILE"), ("lyrical", "FASTDDS_DEFAULT_PROFILES_FILE")],
)
def test_the_profile_goes_by_the_name_that_the_release_reads(
    monkeypatch: pytest.MonkeyPatch, distro: str, variable: str
) -> None:
    monkeypatch.setenv("ROS_DISTRO", distro)
    environment = local_environment(7, Path("/profiles/p.xml"))
    assert environment[variable] == "/profiles/p.xml"
    assert sum(name.endswith("PROFILES_FILE") for name in environment) == 1
    assert environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
