"""The whole demo with its processes, in a coloured world whose truth is known."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rich.console import Console
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

pytest.importorskip("rclpy", reason="the demo starts real nodes")
pytest.importorskip("semflip", reason="the messages are not built: run `make build`")

from semflip_core.poses import quaternion_from_yaw
from semflip_ros.demo import Demo, DemoSettings
from support.colours import room_picture, write_gate
from support.live import COLOURS_ENCODER, TEST_ROOT

pytestmark = pytest.mark.live

START_NS = 1_700_000_000_000_000_000
SPEED, LENGTH_S = 0.5, 20.0
#: Seen while x is in [start, start + 1) metres, a grey wall elsewhere; the thing is 3 m from start.
SEEN = {"red": 1.0, "green": 4.0, "blue": 7.0}
STORE = get_typestore(Stores.ROS2_KILTED)
IMAGE, ODOMETRY = "sensor_msgs/msg/CompressedImage", "nav_msgs/msg/Odometry"


def stamp(seconds: float) -> int:
    return START_NS + round(seconds * 1e9)


def header(stamp_ns: int, frame: str) -> Any:
    time = STORE.types["builtin_interfaces/msg/Time"](stamp_ns // 10**9, stamp_ns % 10**9)
    return STORE.types["std_msgs/msg/Header"](time, frame)


def odometry(stamp_ns: int, x: float) -> Any:
    types = STORE.types
    point = types["geometry_msgs/msg/Point"](x, 0.0, 0.0)
    turn = types["geometry_msgs/msg/Quaternion"](*quaternion_from_yaw(0.0))
    none = types["geometry_msgs/msg/Vector3"](0.0, 0.0, 0.0)
    still = types["geometry_msgs/msg/Twist"](none, none)
    return types[ODOMETRY](
        header(stamp_ns, "map"),
        "base_link",
        types["geometry_msgs/msg/PoseWithCovariance"](
            types["geometry_msgs/msg/Pose"](point, turn), np.zeros(36)
        ),
        types["geometry_msgs/msg/TwistWithCovariance"](still, np.zeros(36)),
    )


def picture(stamp_ns: int, x: float) -> Any:
    seen = [name for name, start in SEEN.items() if start <= x < start + 1.0]
    data = np.frombuffer(room_picture(*seen).data, np.uint8)
    return STORE.types[IMAGE](header(stamp_ns, "camera"), "jpeg", data)


def write_recording(folder: Path) -> None:
    """A straight drive along x past three coloured blocks, pictures at 5 Hz, odometry at 20 Hz."""
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        camera = writer.add_connection("/camera/image_raw/compressed", IMAGE, typestore=STORE)
        poses = writer.add_connection("/odom", ODOMETRY, typestore=STORE)
        for tick in range(round(LENGTH_S * 20)):
            at, x = stamp(tick / 20), SPEED * tick / 20
            writer.write(poses, at, bytes(STORE.serialize_cdr(odometry(at, x), ODOMETRY)))
            if tick % 4 == 0:
                writer.write(camera, at, bytes(STORE.serialize_cdr(picture(at, x), IMAGE)))


def question(identity: str, thing: str, sequence: str, seen: bool) -> dict[str, object]:
    answer = None
    if seen and thing in SEEN:
        start = SEEN[thing]
        span = [stamp(start / SPEED), stamp((start + 1.0) / SPEED) - 1]
        answer = {"object_position": [start + 3.0, 0.0, 0.5], "visible": [span]}
    return {
        "id": identity,
        "sequence": sequence,
        "question": f"Where is the {thing} block?",
        "answerable": seen,
        "referent": thing,
        "pair": "p" if thing == "yellow" else None,
        "answer": answer,
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    (folder / "sequences" / "train_0").mkdir(parents=True)
    write_recording(folder / "sequences" / "test_0")
    info = {
        "name": "colours",
        "licence": "CC0-1.0",
        "task": "localization",
        "topics": {"image": "/camera/image_raw/compressed", "pose": "/odom"},
        "splits": {"train": ["train_0"], "test": ["test_0"]},
    }
    (folder / "dataset.yaml").write_text(yaml.safe_dump(info))
    lines = [question(thing, thing, "test_0", True) for thing in SEEN]
    lines += [
        question(f"no {t}", t, "test_0", False) for t in ("yellow", "yellow toy", "small yellow")
    ]
    lines.append(question("elsewhere", "yellow", "train_0", True))
    lines.append(question("mislabelled", "green", "test_0", False))
    (folder / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def run(world: Path, folder: Path, queries: list[str]) -> tuple[list[str], str]:
    """Faults and output of one demo."""
    settings = DemoSettings(
        dataset=world,
        sequence="test_0",
        rate=8.0,
        queries=tuple(queries),
        encoder=COLOURS_ENCODER,
        gate=write_gate(folder / "gate.safetensors"),
    )
    output = io.StringIO()
    console = Console(file=output, width=160, force_terminal=False)
    work = folder / "work"
    work.mkdir()
    return Demo(settings, folder / "out", work, console).run(), output.getvalue()


@pytest.fixture
def _node_finds_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{TEST_ROOT}{os.pathsep}{path}")


@pytest.mark.usefixtures("_node_finds_the_encoder")
def test_goals_for_what_was_seen_and_refusals_for_what_was_not(world: Path, tmp_path: Path) -> None:
    asked = ["red", "no yellow", "green", "no yellow toy", "blue", "no small yellow"]
    faults, output = run(world, tmp_path, asked)
    assert faults == [], output
    assert "not here, but in train_0" in output
    assert output.count("right") == 6
    pictures = sorted(path.name for path in (tmp_path / "out").iterdir())
    answered = [name for name in pictures if name.endswith("_answer.jpg")]
    assert answered == ["1_answer.jpg", "3_answer.jpg", "5_answer.jpg"]
    assert "overview.png" in pictures


@pytest.mark.usefixtures("_node_finds_the_encoder")
def test_a_wrong_verdict_is_a_fault(world: Path, tmp_path: Path) -> None:
    asked = ["red", "green", "blue", "no yellow", "no yellow toy", "mislabelled"]
    faults, output = run(world, tmp_path, asked)
    assert faults == ["mislabelled: should refuse"]
    assert "wrong: should refuse" in output
