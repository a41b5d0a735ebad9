"""Recall from long memories, beside what encoding one frame costs; and opening their files.

    python benchmarks/memory_recall.py [--keyframes 1000 10000 100000] [--questions 20] [--json -]

One memory file grows to each size; it is closed and opened again, its index is read back, and
questions are asked. Questions go through the real ``mini``: parsing, text vectors, index, and every
region of the shortlisted frames read from the file. What the index holds of each frame is random,
because 100,000 pictures cannot be encoded here in a sensible time, and full features are stored for
the frames that the questions shortlist only: neither changes what a search costs. Pictures are
small (``--picture-px``): opening a memory reads its records, not its pictures.

``recall_100k_to_encode_ratio`` is the median recall at 100,000 keyframes over the median
``encode_frame`` of one 640x480 picture in the same process with the same threads.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from semflip_core.encoders.registry import load_retriever
from semflip_core.frames import FrameFeatures
from semflip_core.images import store_raw
from semflip_core.memory import VideoMemory
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_core.recall import Recall
from semflip_core.settings import KeyframeSettings, MemorySettings, RecallSettings

THINGS = ("sofa", "printer", "fire extinguisher", "plant", "backpack", "microwave", "piano", "lamp")
WORDINGS = ("Where is the {}?", "Take me to the {} next to the door", "Did you see a red {}?")
SETTINGS = MemorySettings(max_keyframes=10_000_000, commit_interval_s=1.0)


def seconds(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def boxes(width: int, height: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rgb = np.full((height, width, 3), rng.integers(80, 220, 3), np.uint8)
    for _ in range(10):
        y, x = rng.integers(0, height), rng.integers(0, width)
        rgb[y : y + height // 4, x : x + width // 5] = rng.integers(0, 256, 3)
    return rgb


class Growing:
    """A memory file that grows; its index rows are random, its poses a drive through a building."""

    def __init__(self, path: Path, retriever: Any, picture_px: int) -> None:
        self.path = path
        self.retriever = retriever
        self.settings = RecallSettings()
        self.pictures = [
            store_raw(boxes(picture_px, picture_px * 3 // 4, seed), KeyframeSettings())
            for seed in range(20)
        ]
        self.full = [retriever.encode_frame(boxes(640, 480, seed)) for seed in range(20)]
        self.rng = np.random.default_rng(1)

    def grow_to(self, count: int) -> float:
        """Add keyframes up to a number; seconds."""
        start = time.perf_counter()
        with VideoMemory(self.path, SETTINGS) as memory:
            digest = Recall(memory, self.retriever, self.settings).index_digest
            shape = (self.settings.index_vectors, self.settings.index_dimensions)
            for number in range(len(memory), count):
                rows = self.rng.normal(size=shape)
                rows *= 100.0 / np.linalg.norm(rows, axis=1, keepdims=True)
                pose = Pose(
                    "map",
                    (0.25 * (number % 400), 2.0 * (number // 400 % 50), 0.0),
                    quaternion_from_yaw(0.7 * number % 6.2),
                )
                keyframe = memory.add(
                    self.pictures[number % len(self.pictures)],
                    stamp_ns=(number + 1) * 10**9,
                    pose=pose,
                    map_id="bench",
                )
                features = FrameFeatures({"rows": np.rint(rows).astype(np.int8)})
                memory.put_features(keyframe, digest, features)
        return time.perf_counter() - start

    def measure(self, questions: list[str]) -> dict[str, float]:
        before = resident_bytes()
        opened = seconds(lambda: VideoMemory(self.path, SETTINGS).close())
        with VideoMemory(self.path, SETTINGS) as memory:
            recall = Recall(memory, self.retriever, self.settings)
            indexed = seconds(recall.refresh)
            for question in questions:
                for keyframe in recall.shortlist(question):
                    if memory.features(keyframe, recall.digest) is None:
                        features = self.full[keyframe % len(self.full)]
                        memory.put_features(keyframe, recall.digest, features)
            memory.flush()
            recall.choose("Where is the cat?")
            spent = [seconds(lambda q=q: recall.choose(q)) for q in questions]  # type: ignore[misc]
            search = [seconds(lambda q=q: recall.shortlist(q)) for q in questions]  # type: ignore[misc]
            return {
                "keyframes": len(memory),
                "open_s": opened,
                "index_s": indexed,
                "recall_ms_median": statistics.median(spent) * 1e3,
                "recall_ms_worst": max(spent) * 1e3,
                "of_it_search_ms_median": statistics.median(search) * 1e3,
                "index_bytes": recall.nbytes,
                "resident_growth_bytes": resident_bytes() - before,
                "file_bytes": memory.info().file_bytes,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--keyframes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--picture-px", type=int, default=64, help="width of stored pictures")
    parser.add_argument("--folder", default=None, help="where the file goes; default: temporary")
    parser.add_argument("--json", default="", help="write JSON to this file; - is stdout")
    arguments = parser.parse_args()
    questions = [
        WORDINGS[n % len(WORDINGS)].format(THINGS[n % len(THINGS)])
        for n in range(arguments.questions)
    ]
    retriever = load_retriever("mini")
    result: dict[str, Any] = {"sizes": []}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        growing = Growing(Path(folder) / "memory.sqlite", retriever, arguments.picture_px)
        for count in sorted(arguments.keyframes):
            grown = growing.grow_to(count)
            result["sizes"].append(growing.measure(questions) | {"grow_s": grown})
            print(json.dumps(result["sizes"][-1]), file=sys.stderr)
        picture = boxes(640, 480, 99)
        encode = [seconds(lambda: retriever.encode_frame(picture)) for _ in range(9)]
    result["encode_ms_median"] = statistics.median(encode) * 1e3
    by_size = {size["keyframes"]: size for size in result["sizes"]}
    if 100_000 in by_size:
        result["recall_100k_to_encode_ratio"] = (
            by_size[100_000]["recall_ms_median"] / result["encode_ms_median"]
        )
    if 10_000 in by_size:
        result["open_10k_s"] = by_size[10_000]["open_s"]
    text = json.dumps(result, indent=2)
    if arguments.json and arguments.json != "-":
        Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
