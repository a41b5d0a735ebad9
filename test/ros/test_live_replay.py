"""Replay: a recording becomes topics and a clock, and nothing of it is lost on the way."""

from __future__ import annotations

import json
import time
import uuid

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("semflip.msg", reason="messages are not built")

import rclpy
from nav_msgs.msg import Odometry
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage

from semflip_core.bags import memory_from_bag, open_bag
from semflip_core.memory import VideoMemory
from semflip_core.settings import KeyframeSettings
from semflip_ros.messages import decision_from, to_nanoseconds
from support.colour_bag import IMAGE, ODOMETRY, write_drive
from support.live import (
    COLOURS_ENCODER,
    Process,
    Robot,
    active_robot,
    parameters,
    refusal_node,
    wait_until,
)

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def drive(tmp_path_factory):
    return write_drive(tmp_path_factory.mktemp("bags") / "drive")


def replay(folder, bag, namespace: str, *remap: str, **values: object) -> Process:
    remaps = [word for rule in remap for word in ("-r", rule)]
    arguments = [str(bag), "--ros-args", *remaps, "-r", f"__ns:={namespace}"]
    return Process("semflip_ros.replay", [*arguments, *parameters(**values)], folder / "replay.log")


def into(namespace: str) -> tuple[str, ...]:
    return (f"{IMAGE}:={namespace}/image/compressed", f"{ODOMETRY}:={namespace}/odom")


def offline_answers(folder, source: str, path, gate, questions) -> list[dict]:
    """What ``semflip ask --json`` says, in a process of its own."""
    arguments = ["ask", source, str(path), "--encoder", COLOURS_ENCODER, "--gate", str(gate)]
    client = Process(
        "semflip_train.cli", [*arguments, "--json", *questions], folder / f"{source}.log"
    )
    assert client.child.wait(60) == 0, client.text()
    return [json.loads(line) for line in client.text().splitlines() if line.startswith("{")]


@pytest.mark.parametrize("source", ["--bag", "--memory"])
def test_semflip_ask_and_the_live_node_say_the_same(
    tmp_path, drive, colour_gate_file, source
) -> None:
    """Over the recording itself, and over the memory that the node stored."""
    questions = ("Where is the green thing?", "Where is the yellow thing?", "Where is the red one?")
    file = tmp_path / "memory.db"
    settings = {"memory_path": file, "map_id": "bag", "keyframes__min_interval_s": 0.2}
    with active_robot(tmp_path, colour_gate_file, **settings) as (_, robot):
        player = replay(tmp_path, drive, "/p", *into(robot.namespace), rate=20.0, clock="none")
        assert player.child.wait(30) == 0, player.text()
        with VideoMemory() as expected:
            memory_from_bag(drive, expected, keyframes=KeyframeSettings(), map_id="bag")
            robot.wait_for_keyframes(len(expected))
            kept = [(record.stamp_ns, record.pose) for record in expected.records()]
        live = [decision_from(robot.ask(text)).to_json() for text in questions]
    with VideoMemory(file) as memory:
        assert [(record.stamp_ns, record.pose) for record in memory.records()] == kept
    path = drive if source == "--bag" else file
    offline = offline_answers(tmp_path, source, path, colour_gate_file, questions)
    assert {said["verdict"] for said in live} == {"answer", "refuse"}
    for said, same in zip(live, offline, strict=True):
        assert same["score"] == pytest.approx(said["score"], abs=1e-5)
        for field in ("question", "verdict", "gate_verdict", "reason", "goal", "statement"):
            assert same[field] == said[field], field
        assert [e["stamp_ns"] for e in same["evidence"]] == [
            e["stamp_ns"] for e in said["evidence"]
        ]


class Listener:
    """Counts what comes on two topics, slowly if asked to, and follows /clock."""

    def __init__(self, namespace: str, slow_s: float = 0.0) -> None:
        self.context = rclpy.Context()
        self.context.init()
        self.node = Node("listener", context=self.context, namespace=namespace)
        everything = QoSProfile(
            history=HistoryPolicy.KEEP_ALL, reliability=ReliabilityPolicy.RELIABLE
        )
        self.images: list[int] = []
        self.poses: list[int] = []
        self.clock: list[int] = []
        self.slow_s = slow_s
        self.node.create_subscription(CompressedImage, "image/compressed", self._image, everything)
        self.node.create_subscription(
            Odometry,
            "odom",
            lambda m: self.poses.append(to_nanoseconds(m.header.stamp)),
            everything,
        )
        self.node.create_subscription(
            Clock, "/clock", lambda m: self.clock.append(to_nanoseconds(m.clock)), 10
        )
        self.executor = rclpy.executors.SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)

    def _image(self, message: CompressedImage) -> None:
        time.sleep(self.slow_s)
        self.images.append(to_nanoseconds(message.header.stamp))

    def spin_until(self, done, timeout_s: float = 30.0) -> None:
        end = time.monotonic() + timeout_s
        while not done():
            assert time.monotonic() < end, (len(self.images), len(self.poses))
            try:
                self.executor.spin_once(timeout_sec=0.05)
            except ExternalShutdownException:
                return

    def close(self) -> None:
        self.executor.shutdown()
        self.node.destroy_node()
        self.context.try_shutdown()


@pytest.fixture
def listener():
    made: list[Listener] = []

    def make(**options: float) -> Listener:
        made.append(Listener(f"/l{uuid.uuid4().hex[:6]}", **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def stamps(bag, topic: str) -> list[int]:
    with open_bag(bag) as recording:
        return [message.header_ns for message in recording.messages([topic])]


def test_a_slow_reliable_receiver_loses_nothing(tmp_path, drive, listener) -> None:
    slow = listener(slow_s=0.03)
    player = replay(tmp_path, drive, "/p", *into(slow.node.get_namespace()), rate=50.0)
    slow.spin_until(lambda: len(slow.images) >= 40 and len(slow.poses) >= 201)
    assert player.child.wait(5) == 0, player.text()
    assert slow.images == stamps(drive, IMAGE)
    assert slow.poses == stamps(drive, ODOMETRY)


def test_the_clock_runs_at_the_rate_and_never_behind_a_message(tmp_path, drive, listener) -> None:
    here = listener()
    began = time.monotonic()
    player = replay(tmp_path, drive, "/p", *into(here.node.get_namespace()), rate=4.0)
    here.spin_until(lambda: player.child.poll() is not None)
    took = time.monotonic() - began
    span_s = (stamps(drive, ODOMETRY)[-1] - stamps(drive, ODOMETRY)[0]) / 1e9
    assert span_s / 4.0 <= took
    assert here.clock == sorted(here.clock)
    assert here.clock[-1] >= here.images[-1]
    assert len(here.clock) > 40


def test_the_clock_can_follow_header_stamps_of_a_simulation(tmp_path, listener) -> None:
    """Recorded on the wall clock, stamped in simulated time: the clock must be the stamps'."""
    bag = write_drive(tmp_path / "simulated", frames=10, log_offset_ns=9_000_000_000 * 10**9)
    here = listener()
    into_here = into(here.node.get_namespace())
    player = replay(tmp_path, bag, "/p", *into_here, rate=10.0, clock="header")
    here.spin_until(lambda: player.child.poll() is not None and len(here.images) == 10)
    assert here.clock
    assert here.images[0] - 10**9 < here.clock[0] <= here.clock[-1] <= here.images[-1] + 10**9


def test_a_loop_starts_over_until_it_is_told_to_stop(tmp_path, drive, listener) -> None:
    here = listener()
    player = replay(tmp_path, drive, "/p", *into(here.node.get_namespace()), rate=40.0, loop=True)
    here.spin_until(lambda: len(here.images) > 60)
    assert player.end() == 0
    assert "Traceback" not in player.text()
    first, second = here.images[:40], here.images[40:60]
    assert second == first[:20]


@pytest.mark.parametrize(
    ("bag", "values", "words"),
    [
        ("nowhere", {}, "nowhere"),
        ("drive", {"rate": 0.0}, "'rate'"),
        ("drive", {"speed": 2.0}, "unknown parameter 'speed'"),
        ("drive", {"topics": "['/nothing']"}, "/camera/image_raw/compressed"),
        ("", {}, "which recording"),
    ],
)
def test_what_cannot_be_replayed_says_why(tmp_path, drive, bag, values, words) -> None:
    path = {"drive": drive, "nowhere": tmp_path / "nowhere"}.get(bag, "")
    player = replay(tmp_path, path, "/p", **values)
    assert player.child.wait(20) not in (0, None)
    assert words in player.text()
    assert "Traceback" not in player.text()


def test_the_ask_client_prints_decisions_and_tells_by_its_exit_code(seen, tmp_path) -> None:
    _, robot = seen

    def ask(*arguments: str) -> tuple[int, str]:
        namespace = ["--ros-args", "-r", f"__ns:={robot.namespace}"]
        client = Process("semflip_ros.ask", [*arguments, *namespace], tmp_path / "ask.log")
        code = client.child.wait(30)
        text = client.text()
        client.log.unlink()
        return code, text

    code, text = ask("Where is the red thing?")
    assert code == 0
    assert "goal in map" in text
    code, text = ask("--json", "Where is the red thing?", "Where is the yellow thing?")
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert code == 1
    assert [line["verdict"] for line in lines] == ["answer", "refuse"]
    assert lines[0]["goal"]["frame_id"] == "map"
    assert lines[1]["statement"] == "I do not know"
    code, text = ask("--action", "--json", "Where is the green thing?")
    assert code == 0
    assert "encode" in text
    code, text = ask("--id", "x", "one?", "two?")
    assert code == 2


def test_the_ask_client_takes_silence_for_a_refusal(tmp_path) -> None:
    arguments = ["--connect-timeout", "1", "Where?", "--ros-args", "-r", "__ns:=/nobody"]
    client = Process("semflip_ros.ask", arguments, tmp_path / "ask.log")
    assert client.child.wait(20) == 3
    assert "no refusal node" in client.text()


def test_sim_time_from_a_replay_stamps_the_goal_and_its_absence_is_said(
    tmp_path, drive, colour_gate_file
) -> None:
    namespace = f"/t{uuid.uuid4().hex[:6]}"
    settings = {"use_sim_time": True, "silence_warning_s": 1.0}
    with (
        refusal_node(tmp_path, namespace, colour_gate_file, **settings) as process,
        Robot(namespace) as robot,
    ):
        robot.connect()
        process.wait_for("/clock")
        process.wait_for("no images on")
        process.wait_for("no poses on")
        player = replay(tmp_path, drive, "/p", *into(namespace), rate=20.0, linger_s=5.0)
        wait_until(lambda: robot.keyframes() >= 10, what="keyframes")
        decision = robot.ask("Where is the red thing?")
        assert decision.verdict == "answer"
        first = stamps(drive, ODOMETRY)[0]
        assert first <= to_nanoseconds(decision.goal.header.stamp) < first + 200e9
        player.end()


#: Why a picture of a loop may lack its pose.
POSE_LOSSES = ("no_later_pose", "no_earlier_pose", "waiting_full", "pose_gap")


def test_a_looping_bag_does_not_lose_memory(tmp_path, drive, colour_gate_file) -> None:
    settings = {"map_common_after_time_jump": True, "keyframes__min_translation_m": 0.9}
    with active_robot(tmp_path, colour_gate_file, **settings) as (_, robot):
        player = replay(tmp_path, drive, "/p", *into(robot.namespace), rate=4.0, loop=True)
        robot.wait_for_keyframes(1)
        once = wait_until(
            lambda: int(robot.value("camera", "time_jumps") or 0) >= 1 and robot.keyframes(),
            what="a second round",
        )
        # The first round may have begun before the node was matched; the second is whole.
        wait_until(lambda: int(robot.value("camera", "time_jumps")) >= 2, what="a third round")
        player.end()
        assert robot.keyframes() > once
        lost = {why: int(robot.value("camera", why) or 0) for why in POSE_LOSSES}
        received = int(robot.value("camera", "received"))
        assert sum(lost.values()) <= 0.1 * received, (lost, received)
        for colour in ("green", "blue"):
            decision = robot.ask(f"Where is the {colour} thing?")
            assert decision.verdict == "answer", decision.sentence


def test_a_recording_is_kept_whatever_the_node_s_clock_says(tmp_path, colour_gate_file) -> None:
    """Pictures of 2023 wait for their pose although the node's clock says it is years later."""
    with active_robot(tmp_path, colour_gate_file, diagnostics_period_s=0.02) as (_, robot):
        for x in range(5):
            stamp = robot.show("red", x=float(x), pose_delay_s=0.3)
        robot.wait_for_keyframes(5)
        assert stamp < time.time_ns() - 365 * 86_400 * 10**9


def test_a_clock_that_goes_back_is_another_map_and_the_node_goes_on(
    tmp_path, drive, colour_gate_file
) -> None:
    settings = {"use_sim_time": True, "keyframes__min_translation_m": 0.9}
    with active_robot(tmp_path, colour_gate_file, **settings) as (process, robot):
        player = replay(tmp_path, drive, "/p", *into(robot.namespace), rate=4.0, loop=True)
        robot.wait_for_keyframes(3)
        before = robot.value("memory", "map_id")
        process.wait_for("the clock went back")
        wait_until(lambda: robot.value("memory", "map_id") != before, what="another map")
        kept = robot.keyframes()
        wait_until(lambda: robot.keyframes() > kept, what="keyframes on the new map")
        player.end()
        assert robot.ask("Where is the yellow thing?").reason == "ABSENT"
        assert process.child.poll() is None
