"""What a restart keeps, and what it must never do: send a robot to a place of yesterday's map."""

from __future__ import annotations

import signal
import time

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("semflip.msg", reason="messages are not built")

from semflip_core.memory import VideoMemory
from support.live import Process, active_robot, node_arguments, wait_until

pytestmark = pytest.mark.live


def test_a_restart_keeps_the_memory_of_a_persistent_map(tmp_path, colour_gate_file) -> None:
    settings = {"memory_path": tmp_path / "memory.db", "map_id": "office"}
    with active_robot(tmp_path, colour_gate_file, **settings) as (_, robot):
        robot.show("red", x=3.0)
        robot.wait_for_keyframes(1)
        before = robot.ask("Where is the red thing?")
    with active_robot(tmp_path, colour_gate_file, **settings) as (_, robot):
        assert robot.keyframes() == 1
        after = robot.ask("Where is the red thing?")
    assert before.verdict == after.verdict == "answer"
    assert after.goal.pose == before.goal.pose
    assert after.score == before.score


def test_odometry_of_yesterday_never_becomes_a_goal(tmp_path, colour_gate_file) -> None:
    """The robot was switched off, carried elsewhere, and its odometry starts at zero again."""
    settings = {"memory_path": tmp_path / "memory.db"}
    with active_robot(tmp_path, colour_gate_file, **settings) as (_, robot):
        robot.show("red", x=3.0)
        robot.wait_for_keyframes(1)
        assert robot.ask("Where is the red thing?").verdict == "answer"
    with active_robot(tmp_path, colour_gate_file, **settings) as (_, robot):
        robot.show("green", x=0.0)
        robot.wait_for_keyframes(2)
        old = robot.ask("Where is the red thing?", "old")
        assert old.gate_verdict == "answer"
        assert (old.verdict, old.reason) == ("refuse", "NO_POSE")
        assert "map" in old.sentence
        assert not robot.of("goal_pose")
        assert len(robot.of("refusal", "old")) == 1
        new = robot.ask("Where is the green thing?")
        assert new.verdict == "answer"
        assert new.goal.pose.position.x == pytest.approx(0.0, abs=0.01)


def test_poses_of_another_frame_never_become_a_goal(tmp_path, colour_gate_file) -> None:
    with active_robot(tmp_path, colour_gate_file) as (_, robot):
        robot.show("red", x=3.0, frame="odom")
        robot.wait_for_keyframes(1)
        decision = robot.ask("Where is the red thing?")
        assert (decision.verdict, decision.reason) == ("refuse", "NO_POSE")
        assert "odom" in decision.sentence


def test_after_time_jumped_back_the_old_poses_give_no_goal(tmp_path, colour_gate_file) -> None:
    with active_robot(tmp_path, colour_gate_file) as (process, robot):
        robot.show("red", x=3.0)
        robot.wait_for_keyframes(1)
        robot.time_ns -= 60_000_000_000
        robot.show("green", x=0.0)
        robot.wait_for_keyframes(2)
        process.wait_for("stamps went back")
        assert robot.ask("Where is the red thing?").reason == "NO_POSE"
        assert robot.ask("Where is the green thing?").verdict == "answer"


def test_a_map_declared_common_outlives_a_time_jump(tmp_path, colour_gate_file) -> None:
    with active_robot(tmp_path, colour_gate_file, map_common_after_time_jump=True) as (_, robot):
        robot.show("red", x=3.0)
        robot.wait_for_keyframes(1)
        robot.time_ns -= 60_000_000_000
        robot.show("green", x=0.0)
        robot.wait_for_keyframes(2)
        assert robot.ask("Where is the red thing?").verdict == "answer"


def test_kill_9_loses_at_most_the_last_second_and_never_the_file(
    tmp_path, colour_gate_file
) -> None:
    file = tmp_path / "memory.db"
    settings = {"memory_path": file, "map_id": "office"}
    with active_robot(tmp_path, colour_gate_file, **settings) as (process, robot):
        for x in range(20):
            robot.show("red", "green", x=float(x))
        wait_until(lambda: robot.value("camera", "kept") == "20", what="20 keyframes")
        time.sleep(1.3)  # nobody asks to save: the node commits by itself each second
        for x in range(20, 40):
            robot.show("blue", x=float(x))
        assert process.end(signal.SIGKILL) == -signal.SIGKILL
    with VideoMemory(file) as memory:
        assert len(memory) >= 20
        for record in memory.records():
            assert memory.picture(record.id).shape == (record.height, record.width, 3)
    with active_robot(tmp_path, colour_gate_file, **settings) as (_, robot):
        assert robot.ask("Where is the red thing?").gate_verdict == "answer"


def test_a_second_node_on_the_same_memory_file_says_so_and_harms_nothing(
    tmp_path, colour_gate_file
) -> None:
    file = tmp_path / "memory.db"
    with active_robot(tmp_path, colour_gate_file, memory_path=file) as (_, robot):
        robot.show("red", x=0.0)
        robot.wait_for_keyframes(1)
        arguments = node_arguments("/second", colour_gate_file, memory_path=file)
        second = Process("semflip_ros.refusal_node", arguments, tmp_path / "second.log")
        assert second.child.wait(30) not in (0, None)
        assert str(file) in second.text()
        assert "Traceback" not in second.text()
        robot.show("green", x=1.0)
        robot.wait_for_keyframes(2)
        assert robot.ask("Where is the red thing?").verdict == "answer"


def test_a_damaged_memory_file_is_set_aside_and_the_node_starts_empty(
    tmp_path, colour_gate_file
) -> None:
    file = tmp_path / "memory.db"
    file.write_bytes(b"SQLite format 3\0" + b"\x55" * 8000)
    with active_robot(tmp_path, colour_gate_file, memory_path=file) as (_, robot):
        assert robot.keyframes() == 0
        wait_until(lambda: robot.level("memory") == b"\x01", what="a warning")
        robot.show("red", x=0.0)
        robot.wait_for_keyframes(1)
    kept = [other for other in tmp_path.glob("memory.db*") if other != file]
    assert any(b"\x55" * 100 in other.read_bytes() for other in kept)
