"""``python -m faults.fuzz``: every parser of files and messages, fed with spoilt ones.

Property-based (hypothesis), for a bounded time. Each target starts from sound bytes and spoils
them; the parser may read them or raise the one error it promises, and nothing else: not another
exception, not a crash of the process, not gigabytes. Each runs in a process of its own. Seeds and
what failed are written down; what was found and mended is kept in ``test/faults/test_found.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from faults.suite import OUT, ROOT, write

Target = Callable[[bytes, Path], None]
EXAMPLES_A_ROUND = 200
#: Address space of a fuzzed process; a parser that wants more fails.
LARGEST_BYTES = 6_000_000_000
#: So much of a failure's traceback is kept.
FAILURE_CHARACTERS = 1500
SAMPLE = ROOT / "data" / "sample"


def image_message(data: bytes, _: Path) -> None:
    """A compressed picture from a camera."""
    from semflip_core.errors import ImageError
    from semflip_core.images import store_compressed
    from semflip_core.settings import KeyframeSettings

    with suppress(ImageError):
        store_compressed(data, KeyframeSettings())


def raw_image(data: bytes, _: Path) -> None:
    """The fields of an uncompressed picture, all from the bytes."""
    from semflip_core.errors import ImageError
    from semflip_core.image_encodings import LAYOUTS
    from semflip_core.images import decode_raw

    if len(data) < 10:
        return
    names = [*LAYOUTS, "rgb9", ""]
    width, height, step = (int.from_bytes(data[i : i + 2], "little") for i in (0, 2, 4))
    with suppress(ImageError):
        decode_raw(names[data[6] % len(names)], width, height, step, bool(data[7] & 1), data[8:])


def gate_file(data: bytes, folder: Path) -> None:
    """A gate."""
    from semflip_core.errors import GateError
    from semflip_core.gate import Gate

    file = folder / "gate.safetensors"
    file.write_bytes(data)
    with suppress(GateError):
        Gate.load(file)


def stored_features(data: bytes, _: Path) -> None:
    """Features from a memory."""
    from semflip_core.errors import EncoderError
    from semflip_core.frames import FrameFeatures

    with suppress(EncoderError):
        FrameFeatures.from_bytes(data).check()


def settings_file(data: bytes, folder: Path) -> None:
    """Settings in YAML."""
    from semflip_core.errors import ConfigError
    from semflip_core.settings import MemorySettings, read_settings_file

    file = folder / "settings.yaml"
    file.write_bytes(data)
    with suppress(ConfigError):
        read_settings_file(MemorySettings, file)


def dataset_file(data: bytes, folder: Path) -> None:
    """dataset.yaml."""
    _dataset(folder, data, (SAMPLE / "queries.jsonl").read_bytes()[:3000])


def questions_file(data: bytes, folder: Path) -> None:
    """queries.jsonl."""
    _dataset(folder, (SAMPLE / "dataset.yaml").read_bytes(), data)


def _dataset(folder: Path, info: bytes, questions: bytes) -> None:
    from semflip_core.errors import DatasetError
    from semflip_train.dataset import load_dataset

    (folder / "dataset.yaml").write_bytes(info)
    (folder / "queries.jsonl").write_bytes(questions)
    for name in ("train_0", "train_1", "calibration_0", "test_0"):
        (folder / "sequences" / name).mkdir(parents=True, exist_ok=True)
    with suppress(DatasetError):
        for sequence in load_dataset(folder).info.splits.get("test", ()):
            assert (folder / "sequences") in (folder / "sequences" / sequence).resolve().parents


def recording(data: bytes, folder: Path) -> None:
    """An mcap file, read to its end as keyframes."""
    _bag(folder / "drive.mcap", data)


def recording_sqlite(data: bytes, folder: Path) -> None:
    """A rosbag2 in SQLite."""
    _bag(folder / "drive.db3", data)


def _bag(file: Path, data: bytes) -> None:
    from semflip_core.bags import memory_from_bag
    from semflip_core.errors import BagError
    from semflip_core.memory import VideoMemory
    from semflip_core.settings import KeyframeSettings

    file.write_bytes(data)
    with suppress(BagError), VideoMemory() as memory:
        memory_from_bag(file, memory, keyframes=KeyframeSettings(), needs_pose=False)


def memory_file(data: bytes, folder: Path) -> None:
    """A memory: opened, or set aside, and then usable."""
    from semflip_core.errors import MemoryFileError
    from semflip_core.memory import VideoMemory
    from support.memories import fill

    for old in folder.glob("memory.db*"):
        old.unlink()
    file = folder / "memory.db"
    file.write_bytes(data)
    with suppress(MemoryFileError), VideoMemory(file) as memory:
        memory.check()
        for record in memory.records():
            with suppress(KeyError):
                memory.encoded_picture(record.id)
        fill(memory, 1)


def message_header(data: bytes, _: Path) -> None:
    """The first bytes of a message from the network."""
    from semflip_ros.messages import read_header

    read_header(data)


def question(data: bytes, _: Path) -> None:
    """A question from the network."""
    from semflip_core.errors import QuestionError
    from semflip_core.questions import clean_question, printable

    text = data.decode("utf-8", "surrogateescape")
    with suppress(QuestionError):
        cleaned = clean_question(text, 500)
        assert len(cleaned) <= 500 and cleaned.isprintable()
    assert printable(text).isprintable()


TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        image_message, raw_image, gate_file, stored_features, settings_file, dataset_file,
        questions_file, recording, recording_sqlite, memory_file, message_header, question,
    )
}  # fmt: skip


@cache
def sound(target: str) -> tuple[bytes, ...]:
    """Sound inputs that a target's spoilt ones are made from."""
    from support.colours import room_picture

    with tempfile.TemporaryDirectory() as name:
        return _sound(target, Path(name), room_picture("red", "blue").data)


def _sound(target: str, folder: Path, picture: bytes) -> tuple[bytes, ...]:
    import numpy as np

    from faults.camera import payloads
    from faults.hostile import questions
    from semflip_core.frames import FrameFeatures
    from support.colour_bag import write_drive
    from support.colours import write_gate

    if target == "image_message":
        return (picture, *(data for data in payloads().values() if data))
    if target == "raw_image":
        return (b"\x10\0\x10\0\x30\0\0\0" + bytes(16 * 48), bytes(2000))
    if target == "gate_file":
        return (write_gate(folder / "gate.safetensors").read_bytes(),)
    if target == "stored_features":
        return (FrameFeatures({"a": np.ones((4, 5), np.float32)}).to_bytes(),)
    if target == "settings_file":
        return (b"max_keyframes: 100\nmax_bytes: 5000000\nredundant_distance_m: 1.5\n",)
    if target == "dataset_file":
        return ((SAMPLE / "dataset.yaml").read_bytes(),)
    if target == "questions_file":
        return ((SAMPLE / "queries.jsonl").read_bytes()[:3000],)
    if target == "recording":
        return (next(write_drive(folder / "drive", frames=6).glob("*.mcap")).read_bytes(),)
    if target == "recording_sqlite":
        return (_sqlite_drive(folder),)
    if target == "memory_file":
        return (_memory_of(folder),)
    if target == "message_header":
        return (b"\0\1\0\0" + bytes(8) + b"\4\0\0\0cam\0" + bytes(50),)
    return tuple(text.encode("utf-8", "replace")[:2000] for _, text in questions())[::7]


def _sqlite_drive(folder: Path) -> bytes:
    from rosbags.rosbag2 import Reader, StoragePlugin, Writer

    from support.colour_bag import STORE, write_drive

    source = write_drive(folder / "drive", frames=6)
    with (
        Reader(source) as reader,
        Writer(folder / "other", version=9, storage_plugin=StoragePlugin.SQLITE3) as writer,
    ):
        made = {
            c.id: writer.add_connection(c.topic, c.msgtype, typestore=STORE)
            for c in reader.connections
        }
        for connection, stamp, raw in reader.messages():
            writer.write(made[connection.id], stamp, raw)
    return next((folder / "other").glob("*.db3")).read_bytes()


def _memory_of(folder: Path) -> bytes:
    from semflip_core.memory import VideoMemory
    from support.memories import fill, numbers

    with VideoMemory(folder / "memory.db") as memory:
        for keyframe in fill(memory, 6):
            memory.put_features(keyframe, "d", numbers(keyframe))
    return (folder / "memory.db").read_bytes()


def spoilt(target: str) -> Any:
    """A hypothesis strategy of spoilt inputs: cut, overwritten, repeated, swapped, or anything."""
    from hypothesis import strategies as st

    seeds = sound(target)

    @st.composite
    def make(draw: Any) -> bytes:
        data = bytearray(draw(st.sampled_from(seeds)))
        for _ in range(draw(st.integers(0, 6))):
            at = draw(st.integers(0, max(0, len(data) - 1)))
            what = draw(
                st.sampled_from(("bits", "bytes", "cut", "insert", "zeros", "repeat", "number"))
            )
            if what == "bits" and data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            elif what == "bytes":
                new = draw(st.binary(min_size=1, max_size=16))
                data[at : at + len(new)] = new
            elif what == "cut":
                del data[at : at + draw(st.integers(1, 2000))]
            elif what == "insert":
                data[at:at] = draw(st.binary(min_size=1, max_size=64))
            elif what == "zeros":
                data[at : at + 64] = bytes(64)
            elif what == "repeat":
                data[at:at] = data[at : at + 200] * draw(st.integers(1, 20))
            else:
                size = draw(st.sampled_from((1, 2, 4, 8)))
                top = 2 ** (8 * size)
                value = draw(st.sampled_from((0, 1, top - 1, top // 2, top // 2 - 1)))
                data[at : at + size] = value.to_bytes(
                    size, draw(st.sampled_from(("little", "big")))
                )
        return bytes(data)

    return st.one_of(make(), st.binary(max_size=300))


def work(target: str, seconds: float, first_seed: int, found: Path) -> dict[str, Any]:
    """Rounds of examples until the time is up; what was tried, and the first failure."""
    import logging

    from hypothesis import HealthCheck, Phase, given, seed, settings

    logging.getLogger("semflip").addHandler(logging.NullHandler())
    logging.getLogger("semflip").propagate = False
    resource.setrlimit(resource.RLIMIT_AS, (LARGEST_BYTES, LARGEST_BYTES))
    end, round_, examples = time.monotonic() + seconds, 0, 0
    last = b""
    with tempfile.TemporaryDirectory() as name:
        while time.monotonic() < end:

            @seed(first_seed + round_)
            @settings(
                max_examples=EXAMPLES_A_ROUND,
                deadline=None,
                database=None,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            )
            @given(spoilt(target))
            def try_one(data: bytes) -> None:
                nonlocal examples, last
                examples += 1
                last = data
                found.with_suffix(".trying").write_bytes(data)
                TARGETS[target](data, Path(name))

            try:
                try_one()
            except Exception as error:  # whatever a parser raised is what fuzzing is for
                found.write_bytes(last)
                text = "".join(traceback.format_exception(error)[-6:])
                return _report(target, first_seed, round_, examples, seconds, text)
            round_ += 1
    return _report(target, first_seed, round_, examples, seconds, "")


def _report(
    target: str, seed: int, rounds: int, examples: int, seconds: float, failure: str
) -> dict[str, Any]:
    return {
        "target": target,
        "first_seed": seed,
        "rounds": rounds,
        "examples": examples,
        "seconds": round(seconds),
        # Hypothesis ends with the whole failing input, which lies in a file of its own.
        "failure": failure[:FAILURE_CHARACTERS],
    }


def _child(target: str, seconds: float, seed: int, folder: Path) -> dict[str, Any]:
    """One target in a process of its own, which may crash."""
    found = folder / f"{target}-{seed}.bin"
    done = subprocess.run(
        [sys.executable, "-m", "faults.fuzz", "--target", target, "--seconds", str(seconds),
         "--seed", str(seed), "--found", str(found)],
        capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=seconds + 300,
    )  # fmt: skip
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        report: dict[str, Any] = json.loads(lines[-1])
        return report
    failure = f"the process ended with {done.returncode}: {done.stderr[-500:]}"
    return _report(target, seed, 0, 0, seconds, failure)


def main() -> int:
    """All targets for so many minutes together, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="in total")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000)
    parser.add_argument("--only", choices=TARGETS, help="only this target")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--target", choices=TARGETS, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--found", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.target:
        print(json.dumps(work(given.target, given.seconds, given.seed, given.found)))
        return 0
    folder = given.out.parent / "fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    names = [given.only] if given.only else list(TARGETS)
    reports = []
    for name in names:
        report = _child(name, 60 * given.minutes / len(names), given.seed, folder)
        reports.append(report)
        print(f"{name:18} seed {given.seed} {report['examples']:7d} examples "
              f"{report['failure'] or 'nothing found'}", flush=True)  # fmt: skip
    write("fuzz", {"minutes": given.minutes, "seed": given.seed, "targets": reports}, given.out)
    return 1 if any(report["failure"] for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
