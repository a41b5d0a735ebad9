"""A full-size camera beside a thinking robot, and publishers whose QoS does not fit."""

from __future__ import annotations

import os
import struct
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("semflip.msg", reason="messages are not built")

from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image

from support.live import Process, Robot, active_robot, refusal_node, wait_until

pytestmark = pytest.mark.live

SLOW = "support.slow_colours:SlowColours"
FRAMES, HZ = 270, 30.0
#: Runnable processes a core beyond which a camera process itself cannot keep 30 Hz.
MOST_LOAD = 4.0
#: Share of the frames that only a node gets which listens while it thinks.
LISTENING = 0.7


def test_1080p_at_30_hz_is_received_while_a_question_of_5_s_runs(tmp_path, slow_gate_file) -> None:
    """At least 99 % of the frames, and every one that should be a keyframe.

    Another process that wakes up on a small machine takes frames from a best-effort receiver, now
    and then; a node that does not listen while it thinks loses them in every drive. So there are
    up to three drives.
    """
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if load > MOST_LOAD:
        pytest.skip(f"other work loads each core {load:.1f} times: real time means nothing here")
    drives: list[Drive] = []
    while len(drives) < 3 and not any(drive.whole for drive in drives):
        folder = tmp_path / str(len(drives))
        folder.mkdir()
        drives.append(drive_of_nine_seconds(folder, slow_gate_file))
    # Deaf for 5 s, less the second that its queue holds, a node would get 150 of the 270 frames.
    assert max(drive.received / drive.sent for drive in drives) > LISTENING, drives
    if not drives[-1].whole:
        pytest.skip(f"other work took frames in every drive, so the 99 % are not shown: {drives}")


@dataclass(frozen=True)
class Drive:
    """Frames that a camera sent and the node received, and keyframes expected and kept."""

    sent: int
    received: int
    expected: int
    kept: int

    @property
    def whole(self) -> bool:
        return self.received >= 0.99 * self.sent and self.kept == self.expected


def drive_of_nine_seconds(folder: Path, gate: Path) -> Drive:
    """A camera of 1080p at 30 Hz, and a question that takes more than half of its drive."""
    namespace = f"/t{uuid.uuid4().hex[:6]}"
    settings = {
        "encoder": SLOW,
        "image_transport": "raw",
        "image_reliability": "best_effort",
        "image_depth": 30,
        "query_deadline_s": 20.0,
        "keyframes__min_translation_m": 0.5,
    }
    with (
        refusal_node(folder, namespace, gate, **settings),
        Robot(namespace) as robot,
    ):
        robot.connect()
        camera = Process(
            "support.full_hd_camera",
            [namespace, str(FRAMES), str(HZ)],
            folder / "camera.log",
        )
        camera.wait_for("driving")
        wait_until(lambda: robot.keyframes() >= 3, what="the first keyframes")
        asked = time.monotonic()
        decision = robot.ask("red for 5.0 seconds")
        assert time.monotonic() - asked > 5.0
        assert decision.gate_verdict == "answer"
        assert camera.child.wait(30) == 0, camera.text()
        expected = int(camera.text().split("keyframes ")[1].split()[0])
        sent = int(camera.text().split("sent ")[1].split()[0])
        wait_until(
            lambda: int(robot.value("camera", "received") or 0) >= sent or camera_quiet(robot),
            what="the last frames",
        )
        wait_until(
            lambda: robot.value("camera", "backlog") in ("", "0"), what="all frames looked at"
        )
        received = int(robot.value("camera", "received"))
        return Drive(sent, received, expected, robot.keyframes())


def camera_quiet(robot: Robot) -> bool:
    """Whether no frame came for two looks at the diagnostics."""
    before = robot.value("camera", "received")
    time.sleep(1.0)
    return robot.value("camera", "received") == before


def test_a_publisher_whose_reliability_does_not_fit_is_named_with_the_cure(
    tmp_path, colour_gate_file
) -> None:
    settings = {"image_transport": "raw", "image_reliability": "reliable"}
    namespace = f"/t{uuid.uuid4().hex[:6]}"
    with (
        refusal_node(tmp_path, namespace, colour_gate_file, **settings) as process,
        Robot(namespace) as robot,
    ):
        profile = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        robot.node.create_publisher(Image, "image", profile)
        process.wait_for("image_reliability to 'best_effort'")
        wait_until(
            lambda: robot.level("camera") == b"\x02",
            what="an error in the diagnostics",
        )
        assert "image_reliability" in process.text() and robot.keyframes() == 0


def test_odometry_of_another_part_of_the_robot_is_named(tmp_path, colour_gate_file) -> None:
    with active_robot(tmp_path, colour_gate_file, base_frame="base_footprint") as (process, robot):
        robot.show("red", x=0.0)
        process.wait_for("base_frame")
        assert robot.keyframes() == 0


def test_broken_poses_are_dropped_and_named(tmp_path, colour_gate_file) -> None:
    with active_robot(tmp_path, colour_gate_file) as (process, robot):
        robot.broken_odometry()
        process.wait_for("dropped (pose)")
        assert robot.keyframes() == 0
        robot.show("red", x=0.0)
        robot.wait_for_keyframes(1)
        assert process.child.poll() is None


def test_malformed_messages_end_nothing(tmp_path, colour_gate_file) -> None:
    """Bytes of a broken or hostile publisher, on every topic that the node listens to."""
    header = b"\0\1\0\0" + struct.pack("<iII", 1_700_000_000, 0, 4) + b"cam\0"
    junk = (b"\0\1\0\0", b"garbage!" * 10, header, header + b"\xff\xff\xff\x7fzzzz")
    with active_robot(tmp_path, colour_gate_file) as (process, robot):
        for data in junk:
            robot.publish_bytes(data)
        robot.wait_for_health("camera", "image_malformed")
        robot.show("red", x=1.0)
        robot.wait_for_keyframes(1)
        assert robot.ask("Where is the red thing?").verdict == "answer"
        assert process.child.poll() is None


def test_a_raw_image_that_claims_gigabytes_allocates_nothing(tmp_path, colour_gate_file) -> None:
    settings = {"image_transport": "raw"}
    namespace = f"/t{uuid.uuid4().hex[:6]}"
    with (
        refusal_node(tmp_path, namespace, colour_gate_file, **settings) as process,
        Robot(namespace) as robot,
    ):
        images = robot.node.create_publisher(Image, "image", 10)
        robot.connect()
        wait_until(images.get_subscription_count)
        wait_until(lambda: robot._odom.get_subscription_count())
        robot.odometry(0.0, 0.0, "map", 1_700_000_000 * 10**9 - 10**8)
        claim = b"\0\1\0\0" + struct.pack("<iII", 1_700_000_000, 0, 4) + b"cam\0"
        claim += struct.pack("<II", 60_000, 60_000)  # height, width
        claim += struct.pack("<I", 5) + b"rgb8\0" + b"\0" * 3
        claim += struct.pack("<II", 180_000, 0x7FFF_FFFF) + b"tiny"
        before = memory_bytes(process)
        images.publish(claim)
        robot.odometry(0.0, 0.0, "map", 1_700_000_000 * 10**9 + 10**8)
        process.wait_for("dropped (image_")
        assert memory_bytes(process) - before < 100_000_000
        assert process.child.poll() is None


def memory_bytes(process: Process) -> int:
    """Peak resident memory of a process."""
    status = Path(f"/proc/{process.child.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
