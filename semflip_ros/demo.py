"""The real job, end to end: a robot's recording, a refusal node, questions, goals and refusals.

Replay, node and client are operating-system processes of their own, in a ROS domain of their own on
this machine only; this process starts them, drives the node's lifecycle, listens, and compares what
came out with what is true. It exits 1 when a verdict is wrong, a goal fails, a question got no
decision or not exactly one goal or refusal, or a keyframe was lost on the way.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from semflip_core.bag_topics import choose_image_topic, choose_pose_source
from semflip_core.bags import memory_from_bag, open_bag
from semflip_core.decision import Decision, Verdict
from semflip_core.errors import ConfigError, SemflipError
from semflip_core.evidence import draw_evidence
from semflip_core.frames import KeyframeRecord
from semflip_core.memory import VideoMemory
from semflip_core.settings import KeyframeSettings, Settings, read_settings_file
from semflip_ros import shared_memory
from semflip_ros.demo_overview import Asked, write_overview
from semflip_ros.demo_report import results_table
from semflip_ros.demo_truth import (
    Result,
    base_poses,
    decision_from_json,
    goal_error,
    seen_elsewhere,
)
from semflip_ros.domain import OwnDomain, local_environment
from semflip_ros.observer import Observer
from semflip_ros.programs import Program
from semflip_train.dataset import Dataset, Query, load_dataset

ROOT = Path(__file__).resolve().parent.parent
"""The checkout: the demo runs from one, its data is not installed."""


#: A node that cannot read its command line has ended by then; seconds.
STARTING_S = 1.0


class DemoSettings(Settings):
    """``config/demo.yaml``."""

    dataset: Path = Field(description="Dataset folder, from the checkout's root.")
    sequence: str = Field(description="Recording that is replayed.")
    rate: float = Field(gt=1.0, le=100.0, description="Replay speed; times real time.")
    encoder: str = Field("mini", min_length=1, description="Encoder, as the node's parameter.")
    gate: Path | None = Field(None, description="Gate file; none: the one shipped.")
    queries: tuple[str, ...] = Field(min_length=6, description="Ids of the questions to ask.")
    start_s: float = Field(60.0, gt=0.0, description="Longest that a lifecycle step may take; s.")
    store_s: float = Field(10.0, gt=0.0, description="Longest until the last frame is stored; s.")
    encode_s: float = Field(240.0, gt=0.0, description="Longest until all frames are encoded; s.")
    answer_s: float = Field(60.0, gt=0.0, description="Deadline of a question; s.")


class DemoError(SemflipError):
    """The demo cannot go on; the message says where it stopped."""


class Demo:
    """One run of the demo, in the ROS domain of this process' environment.

    Args:
        settings: what is played and asked.
        out: folder for pictures; emptied first.
        work: folder for the memory and logs.
        console: prints progress and results.
        to_the_end: see :class:`~semflip_ros.observer.Observer`.
    """

    def __init__(
        self,
        settings: DemoSettings,
        out: Path,
        work: Path,
        console: Console,
        *,
        to_the_end: bool = False,
    ) -> None:
        self._to_the_end = to_the_end
        self._settings = settings
        self._out = out
        self._work = work
        self._console = console
        self._memory_file = work / "memory.db"
        self._dataset = load_dataset(ROOT / settings.dataset)
        self._recording = self._dataset.recording(settings.sequence)
        self._queries = chosen_queries(self._dataset, settings)
        with open_bag(self._recording) as bag:
            self._image_topic = choose_image_topic(bag, self._dataset.info.topics.image).name
            poses = choose_pose_source(bag, self._dataset.info.topics.pose, required=True)
            assert poses is not None
            (self._pose_topic,) = poses.topics
            self._length_s = (bag.end_ns - bag.start_ns) / 1e9

    def run(self) -> list[str]:
        """Everything; returns what was wrong, nothing on success.

        Raises:
            DemoError: a process failed or took too long.
            SemflipError: data or weights are missing.
        """
        if lack := shared_memory.lack_of_room():
            raise DemoError(lack)
        environment = os.environ | {"ROS_LOG_DIR": str(self._work / "ros_log")}
        try:
            with (
                self._node(environment) as node,
                Observer(to_the_end=self._to_the_end) as observer,
            ):
                self._told("configuring the refusal node", lambda: observer.configure(self._limit))
                self._told("activating it (encoder, gate)", lambda: observer.activate(self._limit))
                self._replay(environment)
                faults = self._check_keyframes(observer)
                self._wait_for_features(node)
                decisions = self._ask(environment)
                check_alive(node)
                faults += self._check_published(observer, decisions)
                self._told("deactivating it", lambda: observer.deactivate(self._limit))
        finally:
            shared_memory.sweep()
        results = self._judge(decisions)
        self._console.print(results_table(self._dataset, results))
        self._draw(results)
        return faults + [f"{r.query.id}: {r.fault}" for r in results if r.fault]

    @property
    def _limit(self) -> float:
        return self._settings.start_s

    def _told(self, what: str, step: Callable[[], None]) -> None:
        began = time.monotonic()
        step()
        self._console.print(f"  {what}: {time.monotonic() - began:.1f} s")

    @contextmanager
    def _node(self, environment: dict[str, str]) -> Iterator[Program]:
        parameters = {
            "image_transport": "compressed",
            "image_reliability": "reliable",  # with replay's receipts: no frame is lost
            "pose_reliability": "reliable",
            "image_depth": 500,  # a node that the machine keeps waiting still gets every message
            "pose_depth": 5000,
            "keyframes.max_waiting_frames": 500,  # poses may come in one late burst
            "pose_source": "odometry",
            "memory_path": str(self._memory_file),
            "map_id": "demo",
            "encoder": self._settings.encoder,
            "query_deadline_s": self._settings.answer_s,
        }
        if self._settings.gate:  # rcl takes no empty value on a command line
            parameters["gate"] = str(self._settings.gate)
        command = [program("refusal_node"), "--ros-args"]
        command += ["--params-file", str(ROOT / "config" / "refusal_node.yaml")]
        for name, value in parameters.items():
            command += ["-p", f"{name}:={value}"]
        command += [
            "-r",
            f"image/compressed:={self._image_topic}",
            "-r",
            f"odom:={self._pose_topic}",
        ]
        with Program(command, self._work / "refusal_node.log", environment) as node:
            try:
                time.sleep(STARTING_S)
                check_alive(node)  # a node that ends at once is not waited for
                yield node
            except (SemflipError, TimeoutError) as error:
                raise DemoError(f"{error}\nthe node's last words:\n{node.tail()}") from error
            check_alive(node)
            if code := node.stop(self._limit):
                raise DemoError(f"the node did not end in order (exit {code}):\n{node.tail()}")

    def _replay(self, environment: dict[str, str]) -> None:
        began = time.monotonic()
        command = [program("replay"), str(self._recording), "--ros-args"]
        command += ["-p", f"rate:={self._settings.rate}", "-p", "clock:=none"]
        with Program(command, self._work / "replay.log", environment) as replay:
            code = replay.wait(self._length_s + 60.0)
            if code != 0:
                raise DemoError(f"replay failed (exit {code}):\n{replay.tail()}")
        took = time.monotonic() - began
        self._console.print(
            f"  replaying {self._length_s:.0f} s of driving: {took:.1f} s "
            f"({self._length_s / took:.1f} times real time)"
        )

    def _check_keyframes(self, observer: Observer) -> list[str]:
        """Whether the live node kept exactly the frames that offline ingest keeps."""
        with VideoMemory() as offline:
            memory_from_bag(
                self._recording,
                offline,
                keyframes=KeyframeSettings(),
                image_topic=self._image_topic,
                pose_topic=self._pose_topic,
            )
            expected = [record.stamp_ns for record in offline.records()]
        until = time.monotonic() + self._settings.store_s
        while (kept := [r.stamp_ns for r in self._records()]) != expected:
            if time.monotonic() > until:
                lost = sorted(set(expected) - set(kept))
                when = ", ".join(f"{(stamp - expected[0]) / 1e9:.2f}" for stamp in lost[:8])
                return [
                    f"{len(lost)} of {len(expected)} keyframes are missing (at {when} s ...) "
                    f"and {len(set(kept) - set(expected))} others were kept; "
                    f"the node's camera: {observer.health('camera')}"
                ]
            time.sleep(0.2)
        self._console.print(f"  {len(kept)} keyframes kept, the same as offline")
        return []

    def _records(self) -> tuple[KeyframeRecord, ...]:
        with VideoMemory(self._memory_file, read_only=True) as memory:
            return memory.records()

    def _wait_for_features(self, node: Program) -> None:
        until = time.monotonic() + self._settings.encode_s
        columns = TextColumn("  encoding them"), BarColumn(), TimeElapsedColumn()
        with Progress(*columns, console=self._console) as bar:
            task = bar.add_task("encoding")
            while not bar.finished:
                with VideoMemory(self._memory_file, read_only=True) as memory:
                    info = memory.info()
                done = max(info.digests.values(), default=0)
                bar.update(task, completed=done, total=info.keyframes)
                if time.monotonic() > until:
                    raise DemoError(
                        f"only {done} of {info.keyframes} keyframes were encoded in time"
                    )
                time.sleep(0.3)

    def _ask(self, environment: dict[str, str]) -> list[Decision]:
        began = time.monotonic()
        questions = [query.question for query in self._queries]
        command = [program("ask"), "--json", "--timeout", str(self._settings.answer_s + 5.0)]
        with Program([*command, "--", *questions], self._work / "ask.log", environment) as client:
            client.wait(self._settings.answer_s * len(questions) + 30.0)
            lines = [line for line in client.tail(1000).splitlines() if line.startswith("{")]
            if len(lines) != len(questions):
                raise DemoError(
                    f"{len(questions)} questions, {len(lines)} decisions:\n{client.tail()}"
                )
        self._console.print(f"  {len(questions)} questions: {time.monotonic() - began:.1f} s")
        stamps = {record.stamp_ns: record.id for record in self._records()}
        return [decision_from_json(json.loads(line), stamps) for line in lines]

    def _check_published(self, observer: Observer, decisions: Sequence[Decision]) -> list[str]:
        """Whether each question brought one decision, and exactly one of goal and refusal."""
        answered = sum(d.verdict is Verdict.ANSWER for d in decisions)
        expected = (len(decisions), answered, len(decisions) - answered)
        seen = observer.counts(at_least=expected, patience_s=3.0)
        if seen == expected:
            return []
        return [f"decisions, goals, refusals published: {seen}; expected {expected}"]

    def _judge(self, decisions: Sequence[Decision]) -> list[Result]:
        poses = base_poses(self._recording, self._pose_topic)
        results = []
        for query, decision in zip(self._queries, decisions, strict=True):
            compared = decision.goal is not None and query.answerable
            error = goal_error(decision.goal, query, poses) if compared and decision.goal else None
            results.append(Result(query, decision, error))
        return results

    def _draw(self, results: Sequence[Result]) -> None:
        import cv2

        shutil.rmtree(self._out, ignore_errors=True)
        self._out.mkdir(parents=True)
        asked = []
        with VideoMemory(self._memory_file, read_only=True) as memory:
            for number, result in enumerate(results, start=1):
                decision, picture = result.decision, None
                if decision.evidence:
                    best = decision.evidence[0]
                    picture = memory.picture(best.keyframe_id)
                    drawn = draw_evidence(picture, best, decision)
                    file = self._out / f"{number}_{decision.verdict.value}.jpg"
                    if not cv2.imwrite(str(file), cv2.cvtColor(drawn, cv2.COLOR_RGB2BGR)):
                        raise DemoError(f"{file}: cannot be written")
                asked.append(Asked(number, result.query, decision, picture))
            poses = base_poses(self._recording, self._pose_topic)
            write_overview(self._out / "overview.png", poses, memory.records(), asked)
        self._console.print(f"pictures of the evidence: {self._out}/ (overview.png shows all)")


def check_alive(node: Program) -> None:
    """See that the node still runs.

    Raises:
        DemoError: it ended by itself.
    """
    if (code := node.poll()) is not None:
        raise DemoError(f"the node ended by itself (exit {code}):\n{node.tail()}")


def program(name: str) -> str:
    """Path of an installed program of the package.

    Raises:
        DemoError: the package is not built.
    """
    path = ROOT / "install" / "semflip" / "lib" / "semflip" / name
    if not path.exists():
        raise DemoError(f"{path} is missing: build the package first (make build)")
    return str(path)


def chosen_queries(dataset: Dataset, settings: DemoSettings) -> tuple[Query, ...]:
    """The queries to ask, in the order of the settings.

    Raises:
        ConfigError: an id is unknown or of another sequence, or the choice shows too little.
    """
    known = {query.id: query for query in dataset.queries if query.sequence == settings.sequence}
    if unknown := [name for name in settings.queries if name not in known]:
        raise ConfigError(
            f"demo: no query {', '.join(unknown)} about {settings.sequence}; "
            f"known: {', '.join(sorted(known))}"
        )
    queries = tuple(known[name] for name in settings.queries)
    answerable = sum(query.answerable for query in queries)
    if min(answerable, len(queries) - answerable) < 3:
        raise ConfigError("demo: choose three answerable and three unanswerable queries at least")
    if not any(not q.answerable and seen_elsewhere(dataset, q) for q in queries):
        raise ConfigError("demo: one query must be about a thing that only another sequence shows")
    return queries


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``make demo``; the process must end by ``os._exit`` after it."""
    parser = argparse.ArgumentParser(prog="semflip demo", description=__doc__)
    parser.add_argument("--config", type=Path, default=ROOT / "config" / "demo.yaml")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "demo")
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    began = time.monotonic()
    domain = OwnDomain()
    os.environ.update(local_environment(domain.id, ROOT / "config" / "dds_loopback.xml"))
    with tempfile.TemporaryDirectory(prefix="semflip_demo_") as work:
        try:
            settings = read_settings_file(DemoSettings, options.config)
            demo = Demo(settings, options.out, Path(work), console, to_the_end=True)
            faults = demo.run()
        except (SemflipError, TimeoutError) as error:
            print(f"demo: {error}", file=sys.stderr)
            return 1
    for fault in faults:
        console.print(f"[red]wrong: {fault}[/]")
    if not faults:
        console.print(f"all right, in {time.monotonic() - began:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
