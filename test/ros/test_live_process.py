"""The node as a process: it ends when told, leaves by itself when stuck, without tracebacks."""

from __future__ import annotations

import os
import signal
import time
import uuid

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("semflip.msg", reason="messages are not built")

from semflip_core.memory import VideoMemory
from semflip_ros.process import CONFIG, STUCK
from support.live import Process, active_robot, node_arguments, refusal_node

pytestmark = pytest.mark.live

SLOW = "support.slow_colours:SlowColours"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(tmp_path, colour_gate_file, number) -> None:
    namespace = f"/t{uuid.uuid4().hex[:6]}"
    with refusal_node(tmp_path, namespace, colour_gate_file) as process:
        assert process.end(number, timeout_s=10.0) == 0
        assert "Traceback" not in process.text()
        assert "rror" not in process.text()


def test_a_second_ctrl_c_does_not_hang_while_a_question_runs(tmp_path, slow_gate_file) -> None:
    with active_robot(tmp_path, slow_gate_file, encoder=SLOW) as (process, robot):
        robot.show("red", x=0.0)
        robot.wait_for_keyframes(1)
        robot.send("red for 60 seconds")
        time.sleep(0.5)
        process.child.send_signal(signal.SIGINT)
        time.sleep(0.7)
        code = process.end(signal.SIGINT)
        assert code in (0, 128 + signal.SIGINT)
        assert "Traceback" not in process.text()


def test_ctrl_c_during_a_question_refuses_it_and_keeps_the_memory(tmp_path, slow_gate_file) -> None:
    file = tmp_path / "memory.db"
    with active_robot(tmp_path, slow_gate_file, encoder=SLOW, memory_path=file) as (process, robot):
        robot.show("red", x=0.0)
        robot.wait_for_keyframes(1)
        query_id = robot.send("red for 1 seconds")
        time.sleep(0.3)
        assert process.end(signal.SIGINT) == 0
        assert robot.decision(query_id).reason == "NOT_ACTIVE"
        assert "Traceback" not in process.text()
    with VideoMemory(file) as memory:
        assert len(memory) == 1


def test_a_hanging_encoder_times_out_and_then_the_process_leaves(tmp_path, slow_gate_file) -> None:
    settings = {"encoder": SLOW, "query_deadline_s": 1.0}
    with active_robot(tmp_path, slow_gate_file, **settings) as (process, robot):
        robot.show("red", x=0.0)
        robot.wait_for_keyframes(1)
        asked = time.monotonic()
        query_id = robot.send("red, hang")
        assert robot.decision(query_id).reason == "TIMEOUT"
        assert process.child.wait(15.0) == STUCK
        assert time.monotonic() - asked > 2.0
        assert "stuck" in process.text()
        assert robot.level("queries") == b"\x02"
        assert len(robot.of("decision", query_id)) == 1


def test_an_unreadable_command_line_is_one_clear_error(tmp_path, colour_gate_file) -> None:
    arguments = node_arguments("/x", colour_gate_file, memory_path="::")
    process = Process("semflip_ros.refusal_node", arguments, tmp_path / "node.log")
    assert process.child.wait(20) == CONFIG
    assert "Traceback" not in process.text()


@pytest.mark.parametrize("delay_s", [0.2, 0.5, 0.8])
def test_ctrl_c_while_python_still_starts_prints_no_traceback(
    tmp_path, colour_gate_file, delay_s
) -> None:
    program = tmp_path / "refusal_node.py"
    program.write_text(
        "import sys; from semflip_ros import commands; sys.exit(commands.refusal_node())"
    )
    arguments = node_arguments("/x", colour_gate_file)
    process = Process(str(program), arguments, tmp_path / "node.log")
    time.sleep(delay_s)
    assert process.end(signal.SIGINT) in (0, -signal.SIGINT)
    assert "Traceback" not in process.text()


def test_no_child_of_the_node_is_left_behind(tmp_path, colour_gate_file) -> None:
    with refusal_node(tmp_path, f"/t{uuid.uuid4().hex[:6]}", colour_gate_file) as process:
        pid = process.child.pid
        assert process.end() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
