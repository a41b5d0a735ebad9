"""A disk that takes no more: the live node serves from RAM, says so, and loses nothing."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("semflip.msg", reason="messages are not built")

from semflip_core.memory import VideoMemory
from support.live import active_robot, wait_until

pytestmark = pytest.mark.live
COLOURS = ("red", "green", "blue", "yellow")


def test_a_full_disk_is_in_the_diagnostics_and_questions_are_answered_from_ram(
    tmp_path, colour_gate_file
) -> None:
    file = tmp_path / "memory.db"
    with active_robot(tmp_path, colour_gate_file, memory_path=file, map_id="office") as (
        process,
        robot,
    ):
        robot.show("green", x=0.0)
        robot.wait_for_keyframes(1)
        before = resource.prlimit(process.child.pid, resource.RLIMIT_FSIZE)
        full = max(size(file), size(file.with_name("memory.db-wal")), size(process.log) + 50_000)
        resource.prlimit(process.child.pid, resource.RLIMIT_FSIZE, (full, before[1]))
        shown = 1
        while robot.level("memory") != b"\x02":
            assert shown < 200, process.text()
            robot.show("red", "blue", x=float(shown))
            shown += 1
            wait_until(lambda n=shown: robot.value("camera", "kept") == str(n), what="a keyframe")
        assert "keeping new keyframes in RAM" in robot.health["memory"].message
        assert "kept in RAM and tried again" in process.text()
        decision = robot.ask("Where is the red thing?")
        assert decision.verdict == "answer"
        assert decision.goal.pose.position.x >= 1.0
        resource.prlimit(process.child.pid, resource.RLIMIT_FSIZE, before)
        wait_until(lambda: robot.level("memory") == b"\x00", what="a memory that is well again")
        assert robot.keyframes() == shown
    with VideoMemory(file, read_only=True) as memory:
        assert len(memory) == shown
        assert memory.check() == []


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
