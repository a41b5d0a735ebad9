"""What mini costs: a keyframe at ingest, and a question over a long memory, beside the naive way.

    python benchmarks/mini.py [--keyframes 1000] [--questions 20] [--threads 2]

The naive way encodes every stored picture again for each question; it is timed on a sample of the
pictures and scaled to the memory, as printed. Pictures are noise-free scenes drawn here: the time
of a convolution does not depend on what it sees.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from semflip_core.agent import RefusalAgent
from semflip_core.encoders import fingerprint_digest
from semflip_core.encoders.mini import MiniEncoder
from semflip_core.encoders.mini.detector import Detector
from semflip_core.frames import Picture
from semflip_core.images import store_raw
from semflip_core.memory import VideoMemory
from semflip_core.poses import Pose
from semflip_core.settings import KeyframeSettings, RecallSettings

QUESTIONS = (
    "Where is the {}?",
    "Take me to the {} next to the door",
    "can you see a red {} anywhere",
)
THINGS = ("sofa", "printer", "fire extinguisher", "plant", "backpack", "microwave", "piano", "lamp")


def picture(number: int) -> Picture:
    """A 640x480 scene of coloured boxes."""
    rng = np.random.default_rng(number)
    shown = np.full((480, 640, 3), rng.integers(90, 220, 3), np.uint8)
    for _ in range(12):
        y, x = rng.integers(0, 400), rng.integers(0, 560)
        shown[y : y + rng.integers(20, 200), x : x + rng.integers(20, 200)] = rng.integers(
            0, 255, 3
        )
    return shown


def milliseconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def shown(name: str, values: list[float]) -> None:
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    print(f"{name:<58} median {statistics.median(values):8.1f} ms   p95 {p95:8.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keyframes", type=int, default=1000)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--distinct", type=int, default=60, help="pictures that differ")
    arguments = parser.parse_args()
    print(f"first start: {milliseconds(MiniEncoder) / 1e3:.1f} s")
    encoder = MiniEncoder(threads=arguments.threads)
    settings = KeyframeSettings()
    pictures = [picture(n) for n in range(arguments.distinct)]
    stored = [store_raw(p, settings) for p in pictures]
    encoder.encode_frame(pictures[0])
    ingest = [milliseconds(lambda p=p: encoder.encode_frame(p)) for p in pictures]  # type: ignore[misc]
    detector = Detector(threads=arguments.threads)
    detector.detect(pictures[0])
    detect = [milliseconds(lambda p=p: detector.detect(p)) for p in pictures]  # type: ignore[misc]
    features = [encoder.encode_frame(p) for p in pictures]
    with VideoMemory() as memory:
        agent = RefusalAgent(memory, encoder, None, recall=RecallSettings(), map_id="bench")
        digest = fingerprint_digest(encoder.frame_fingerprint())
        for n in range(arguments.keyframes):
            pose = Pose("map", (0.3 * (n % 60), 0.3 * (n // 60), 0.0), (0.0, 0.0, 0.0, 1.0))
            keyframe = memory.add(
                stored[n % len(stored)], stamp_ns=n * 10**9, pose=pose, map_id="bench"
            )
            memory.put_features(keyframe, digest, features[n % len(features)])
        asked = [
            QUESTIONS[n % len(QUESTIONS)].format(THINGS[n % len(THINGS)])
            for n in range(arguments.questions)
        ]
        first = milliseconds(lambda: agent.embed("Where is the chair?"))
        cold = [milliseconds(lambda q=q: agent.embed(q)) for q in asked]  # type: ignore[misc]
        naive_each = statistics.median(ingest)
        shown("keyframe at ingest (scale, network, regions, colours)", ingest)
        shown("COCO detector alone (scale, network, boxes, colours)", detect)
        print(f"{'features of a keyframe':<58} {max(len(f.to_bytes()) for f in features):8d} bytes")
        print(f"{'first question after a start (builds the index)':<58} {first:15.1f} ms")
        shown(f"question over {arguments.keyframes} keyframes (recall and embed)", cold)
        naive = naive_each * arguments.keyframes
        print(f"{'the naive way: encode all frames for each question':<58} {naive:15.0f} ms")
        print(f"{'times cheaper':<58} {naive / statistics.median(cold):15.0f}")


if __name__ == "__main__":
    main()
