"""Live tests share gates, and one active node and robot a module where its state allows it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.live import Process, Robot


@pytest.fixture(autouse=True)
def _nothing_outlives_its_test() -> Iterator[None]:
    """End what a test started itself and did not end, so that no other test hears it."""
    live = sys.modules.get("support.live")
    started: list[Process] = live.STARTED if live else []
    before = len(started)
    yield
    for process in started[before:]:
        if process.child.poll() is None:
            process.child.kill()
            process.child.wait()
    del started[before:]


@pytest.fixture(scope="session")
def colour_gate_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gate for the colour encoder in the node's default pipeline."""
    from support.colours import write_gate

    return write_gate(tmp_path_factory.mktemp("gates") / "colours.safetensors")


@pytest.fixture(scope="session")
def slow_gate_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gate for the slow colour encoder."""
    from support.colours import write_gate

    file = tmp_path_factory.mktemp("gates") / "slow.safetensors"
    return write_gate(file, "support.slow_colours:SlowColours")


@pytest.fixture(scope="module")
def seen(
    tmp_path_factory: pytest.TempPathFactory, colour_gate_file: Path
) -> Iterator[tuple[Process, Robot]]:
    """An active node that has driven past red (x 0), green (x 1) and blue (x 2)."""
    from support.live import active_robot

    with active_robot(tmp_path_factory.mktemp("seen"), colour_gate_file) as (process, robot):
        for x, colour in enumerate(("red", "green", "blue")):
            robot.show(colour, x=float(x))
        robot.wait_for_keyframes(3)
        yield process, robot
