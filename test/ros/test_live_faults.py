"""An encoder that breaks in every way: one decision, one refusal, no goal, and the node lives."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("semflip.msg", reason="messages are not built")

from diagnostic_msgs.msg import DiagnosticStatus

from support.colours import write_gate
from support.faulty_colours import FAULTS
from support.live import Process, Robot, active_robot, wait_until

pytestmark = pytest.mark.live

ENCODER = "support.faulty_colours:FaultyColours"
REASONS = {"far_away": "OUT_OF_DISTRIBUTION", "flat_relevance": "ABSENT"}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory) -> Iterator[tuple[Process, Robot]]:
    """An active node that has seen red, green and blue with an encoder that may break."""
    folder = tmp_path_factory.mktemp("faulty")
    gate = write_gate(folder / "gate.safetensors", ENCODER)
    with active_robot(folder, gate, encoder=ENCODER) as (process, robot):
        for x, colour in enumerate(("red", "green", "blue")):
            robot.show(colour, x=float(x))
        robot.wait_for_keyframes(3)
        yield process, robot


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_encoder_never_gives_a_goal(faulty, fault) -> None:
    process, robot = faulty
    goals = len(robot.of("goal_pose"))
    query_id = robot.send(f"Where is the red {fault.replace('_', ' ')}?", f"fault_{fault}")
    decision = robot.decision(query_id)
    time.sleep(0.1)
    assert decision.verdict == "refuse"
    assert decision.reason == REASONS.get(fault, "INTERNAL_ERROR")
    assert len(robot.of("decision", query_id)) == len(robot.of("refusal", query_id)) == 1
    assert len(robot.of("goal_pose")) == goals
    assert process.child.poll() is None
    assert robot.ask("Where is the red thing?").verdict == "answer"


def test_each_failure_is_logged_once_with_its_traceback(faulty) -> None:
    process, robot = faulty
    before = process.text().count("ArithmeticError: the encoder")
    robot.ask("Where is the red exception?")
    time.sleep(0.2)
    assert process.text().count("ArithmeticError: the encoder") - before == 1


def test_a_picture_that_it_can_never_read_is_told_of_and_answers_go_on(faulty) -> None:
    process, robot = faulty
    robot.show("yellow", "yellow", "yellow", x=9.0)
    wait_until(lambda: robot.value("queries", "pictures_set_aside") == "1", what="diagnostics")
    assert robot.value("queries", "set_aside_keyframes") == "4"
    assert "too yellow" in robot.value("queries", "set_aside_because")
    assert robot.level("queries") == DiagnosticStatus.WARN
    assert robot.ask("Where is the red thing?").verdict == "answer"
    assert robot.ask("Where is the yellow thing?").verdict == "refuse"
    assert process.text().count("keyframe 4 is set aside") == 1
