"""A running node, the robot around it, and the truth about what was shown where."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage, Image
from std_srvs.srv import Trigger

from faults.breakable import Control
from semflip.msg import Decision
from semflip_core.images import decode_compressed
from semflip_core.memory import VideoMemory
from semflip_ros.messages import to_time
from support.colours import room_picture
from support.live import STARTED, Process, Robot, node_arguments, wait_until

ENCODER = "faults.breakable:BreakableColours"
#: Generous: a loaded machine is no fault of the node.
PATIENCE_S = 60.0
#: Where each colour was shown, metres along x; yellow never was where a goal may lead.
TRUTH = {"red": 0.0, "green": 1.0, "blue": 2.0}
NEVER = "yellow"


class Witness(Robot):
    """A robot that files what it hears by query, and can show pictures uncompressed.

    Args:
        transport: ``raw`` or ``compressed``, what the node listens to.
    """

    def __init__(self, namespace: str, transport: str) -> None:
        self._filed: dict[tuple[str, str], list[Any]] = defaultdict(list)
        self.transport = transport
        self.heard_kept: list[tuple[float, int]] = []
        self._decisions = 0
        self.on_decision: Callable[[Any], None] | None = None
        self.wheel = threading.RLock()  # one drives at a time, so that stamps only rise
        super().__init__(namespace)
        self.raw_image = self.node.create_publisher(Image, "image", 100)
        self.clock = self.node.create_publisher(Clock, "/clock", 10)

    @property
    def compressed_image(self) -> Any:
        """Publisher of ``image/compressed``."""
        return self._image

    @property
    def poses(self) -> Any:
        """Publisher of ``odom``."""
        return self._odom

    def _note(self, topic: str) -> Callable[[Any], None]:
        def note(message: Any) -> None:
            if topic in ("decision", "refusal", "goal_pose"):
                with self._lock:
                    self._filed[topic, getattr(message, "query_id", "")].append(message)
                    self._decisions += topic == "decision"
            if topic == "decision" and self.on_decision is not None:
                self.on_decision(message)

        return note

    def of(self, topic: str, query_id: str = "") -> list[Any]:
        """As the robot's, without looking through everything."""
        with self._lock:
            if query_id or topic == "goal_pose":
                return list(self._filed[topic, query_id])
            return [m for (name, _), found in self._filed.items() if name == topic for m in found]

    def _diagnosed(self, message: Any) -> None:
        super()._diagnosed(message)
        kept = self.value("camera", "kept")
        if kept:
            self.heard_kept.append((time.monotonic(), int(kept)))

    def wait_for_camera(self) -> None:
        """Until the node listens to the camera of its transport."""
        image = self.raw_image if self.transport == "raw" else self._image
        wait_until(
            lambda: image.get_subscription_count() and self._odom.get_subscription_count(),
            PATIENCE_S,
            "camera and pose subscriptions",
        )

    def picture(self, *colours: str) -> Any:
        """A sound camera message of the node's transport, stamped now."""
        stored = room_picture(*colours)
        if self.transport == "compressed":
            message: Any = CompressedImage(format="jpeg")
            message.data.frombytes(stored.data)
        else:
            rgb = decode_compressed(stored.data)
            message = Image(encoding="rgb8", width=rgb.shape[1], height=rgb.shape[0])
            message.step = rgb.shape[1] * 3
            message.data.frombytes(rgb.tobytes())
        message.header.frame_id = "camera"
        message.header.stamp = to_time(self.time_ns)
        return message

    def publish_picture(self, message: Any) -> None:
        """A camera message, or raw bytes, on the topic that the node listens to."""
        (self.raw_image if self.transport == "raw" else self._image).publish(message)

    def drive(self, x: float, message_of: Callable[[], Any] | None, *, frame: str = "map") -> None:
        """One second of driving: a pose, a picture, a pose; None leaves the picture out."""
        with self.wheel:
            self.time_ns += 1_000_000_000
            self.odometry(x, 0.0, frame, self.time_ns - 100_000_000)
            if message_of is not None:
                self.publish_picture(message_of())
            self.odometry(x, 0.0, frame, self.time_ns + 100_000_000)

    def total_decisions(self) -> int:
        """Decisions heard of all queries."""
        return self._decisions

    def publish_query_bytes(self, data: bytes) -> None:
        """A serialized semflip/Query, whatever it holds."""
        self._query.publish(data)

    def until_noticed(self, publish: Callable[[], None], count: Callable[[], int]) -> None:
        """Publish until the node's count grows: a reader just made may not be matched yet."""
        before = count()

        def noticed() -> bool:
            publish()
            with suppress(AssertionError):
                wait_until(lambda: count() > before, 2.0)
            return count() > before

        wait_until(noticed, PATIENCE_S, "the node to take notice of a message")

    def camera_messages(self) -> int:
        """Camera messages that the node has taken notice of, by its diagnostics."""
        status = self.health.get("camera")
        values = {v.key: v.value for v in status.values} if status else {}
        malformed = int(values.get("image_malformed", "0") or 0)
        return int(values.get("received", "0") or 0) + malformed

    def pose_messages(self) -> int:
        """Pose messages that the node has taken or dropped, by its diagnostics."""
        status = self.health.get("camera")
        values = {v.key: v.value for v in status.values} if status else {}
        return sum(int(values.get(key, "0") or 0) for key in ("poses", "pose", "pose_frame"))


@dataclass
class Ledger:
    """What the suite counts: each should stay empty."""

    wrong_goals: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)

    def problems(self) -> list[str]:
        """Everything that went wrong, in words."""
        return [*self.wrong_goals, *self.undecided, *self.deaths, *self.lost, *self.other]


class Stage:
    """A node under test with everything around it; started and ended by the suite.

    Args:
        folder: for memory file, gate, log and control file.
        gate: a sound gate for :data:`ENCODER`; copied, since faults write on it.
        transport: ``raw`` or ``compressed``.
        on_file: keep the memory in a file rather than in RAM.
        values: parameters of the node.
    """

    def __init__(
        self,
        folder: Path,
        gate: Path,
        *,
        transport: str = "compressed",
        on_file: bool = False,
        **values: Any,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.good_gate = gate
        self.gate = folder / "gate.safetensors"
        self.memory = folder / "memory" / "memory.db"
        self.control = Control(folder / "control.json")
        self.ledger = Ledger()
        self.asked: dict[str, str] = {}
        self.repeats: set[str] = set()
        self._judged_goals = 0
        self._starts = 0
        self.transport = transport
        self.values = {
            "encoder": ENCODER,
            "encoder_options": f"'{{control: {self.control.path}}}'",
            "memory_path": self.memory if on_file else "ram",
            "map_id": "house",
            "image_transport": transport,
            "diagnostics_period_s": 0.1,
            **values,
        }
        self.restore_gate()
        self.start()

    # The node ----------------------------------------------------------------------------------

    def start(self) -> None:
        """A node and a robot in a namespace of their own, and three colours seen."""
        self._starts += 1
        self.namespace = f"/f{uuid.uuid4().hex[:6]}"
        arguments = node_arguments(self.namespace, self.gate, **self.values)
        log = self.folder / f"node-{self._starts}.log"
        # should it hang, SIGABRT makes it print where each of its threads is
        self.process = Process("semflip_ros.refusal_node", arguments, log, PYTHONFAULTHANDLER="1")
        self.process.wait_for("active: ask on", PATIENCE_S)
        self.robot = Witness(self.namespace, self.transport)
        self._judged_goals = 0
        self.robot.connect()
        self.robot.wait_for_camera()
        self.show_truth()

    def show_truth(self) -> None:
        """Forget everything and see the three colours again."""
        self.robot.call(Trigger, "clear_memory", Trigger.Request(), PATIENCE_S)
        for colour, x in TRUTH.items():
            self.robot.drive(x, lambda c=colour: self.robot.picture(c))
        wait_until(lambda: self.keyframes() >= len(TRUTH), PATIENCE_S, "the colours in the memory")

    def keyframes(self) -> int:
        """Keyframes in the memory, saved where the disk takes them."""
        answer = self.robot.call(Trigger, "save_memory", Trigger.Request(), PATIENCE_S)
        return int(answer.message.split()[0]) if answer.success else -1

    def restart(self) -> None:
        """End the node, however it is, and start another on the same files."""
        self.end(signal.SIGINT)
        self.start()

    def end(self, number: int) -> int:
        """Signal the node, wait for its end, judge what it left; its exit code."""
        with suppress(ProcessLookupError):
            code = self.process.end(number, timeout_s=PATIENCE_S)
        self.judge()
        self.robot.close()
        STARTED.remove(self.process)
        return code

    def close(self) -> None:
        """End everything."""
        self.control.set()
        code = self.end(signal.SIGINT)
        if code != 0:
            self.ledger.deaths.append(f"exit code {code} on SIGINT")

    def alive(self) -> bool:
        """Whether the node's process runs."""
        return self.process.child.poll() is None

    def open_files(self) -> int:
        """File handles that the node has open."""
        return len(list(Path(f"/proc/{self.process.child.pid}/fd").iterdir()))

    def threads(self) -> int:
        """Threads of the node."""
        return len(os.listdir(f"/proc/{self.process.child.pid}/task"))  # noqa: PTH208

    def children(self) -> list[str]:
        """Processes that the node started."""
        pid = self.process.child.pid
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()

    def restore_gate(self) -> None:
        """A sound gate file at the node's path."""
        partial = self.gate.with_suffix(".new")
        partial.write_bytes(self.good_gate.read_bytes())
        partial.replace(self.gate)

    # Asking ------------------------------------------------------------------------------------

    def send(self, text: str, query_id: str = "", *, repeat: bool = False) -> str:
        """Ask without waiting; its decision is judged later."""
        chosen = query_id or uuid.uuid4().hex
        self.asked.setdefault(chosen, text)
        if repeat:
            self.repeats.add(chosen)
        self.robot.send(text, chosen)
        return chosen

    def decided(self, query_id: str) -> Decision | None:
        """The decision of a query; None, and a mark in the ledger, where it does not come."""
        try:
            decision = self.robot.decision(query_id, PATIENCE_S)
        except AssertionError:
            self.ledger.undecided.append(f"'{self.asked.get(query_id)}' got no decision")
            return None
        with suppress(AssertionError):  # whether it came is judged at the end
            wait_until(lambda: self._followed(decision), 5.0)
        return decision

    def _followed(self, decision: Decision) -> bool:
        """Whether what belongs to a decision came: its goal or its refusal."""
        if decision.has_goal:
            stamps = [goal.header.stamp for goal in self.robot.of("goal_pose")]
            return decision.header.stamp in stamps
        return bool(self.robot.of("refusal", decision.query_id))

    def ask(self, text: str) -> Decision | None:
        """Ask and wait."""
        return self.decided(self.send(text))

    def check_health(self) -> None:
        """The next questions are answered as ever: what was seen, and what was not."""
        for colour in (*TRUTH, NEVER):
            decision = self.ask(f"Where is the {colour} thing?")
            if decision is None:
                continue
            expected = "refuse" if colour == NEVER else "answer"
            if decision.verdict != expected:
                self.ledger.other.append(
                    f"after it, '{colour}' gave {decision.verdict} {decision.reason}: "
                    f"{decision.sentence}"
                )

    # Judging -----------------------------------------------------------------------------------

    def judge(self, *, silence_allowed: bool = False) -> None:
        """Hold everything asked so far against the invariants, from outside.

        Args:
            silence_allowed: the process was killed; a question may have died with it.
        """
        answered: list[Any] = []
        for query_id, text in self.asked.items():
            decisions = self.robot.of("decision", query_id)
            refusals = len(self.robot.of("refusal", query_id))
            if not decisions:
                if not silence_allowed:
                    self.ledger.undecided.append(f"'{text[:40]}' got no decision")
                continue
            first = decisions[0]
            if len(decisions) > 1 and query_id not in self.repeats:
                self.ledger.other.append(f"'{text[:40]}' got {len(decisions)} decisions")
            if refusals != (0 if first.has_goal else 1) and not silence_allowed:
                self.ledger.other.append(f"'{text[:40]}' got {refusals} refusals")
            if first.has_goal:
                answered.append((first.header.stamp, text, first))
        self._judge_goals(answered, silence_allowed)
        self.asked.clear()
        self.repeats.clear()

    def _judge_goals(self, answered: list[Any], silence_allowed: bool) -> None:
        goals = self.robot.of("goal_pose")[self._judged_goals :]
        self._judged_goals += len(goals)
        if len(goals) > len(answered) or (len(goals) < len(answered) and not silence_allowed):
            self.ledger.wrong_goals.append(f"{len(goals)} goals, {len(answered)} answers")
        for goal in goals:
            texts = [text for stamp, text, _ in answered if stamp == goal.header.stamp]
            if not texts:
                self.ledger.wrong_goals.append("a goal without a decision")
            elif not any(right_place(text, goal) for text in texts):
                x = goal.pose.position.x
                self.ledger.wrong_goals.append(f"'{texts[0]}' led to x {x:.3f}")

    def missing_after_kill(self, killed: float) -> int:
        """Keyframes known a second before ``time.monotonic()`` ``killed`` that the file lacks."""
        known = [kept for at, kept in self.robot.heard_kept if at < killed - 1.0]
        with VideoMemory(self.memory, read_only=True) as memory:
            return max(0, max(known, default=0) - len(memory))


def right_place(text: str, goal: Any) -> bool:
    """Whether a goal is where what was asked for had been shown, flat and whole."""
    place, turn = goal.pose.position, goal.pose.orientation
    norm = math.sqrt(turn.x**2 + turn.y**2 + turn.z**2 + turn.w**2)
    sound = goal.header.frame_id == "map" and place.z == 0.0 and abs(norm - 1.0) < 1e-6
    places = [x for colour, x in TRUTH.items() if colour in text]
    return sound and any(abs(place.x - x) < 0.01 for x in places)
