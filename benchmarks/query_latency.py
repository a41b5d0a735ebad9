"""What a question costs on Qwen2.5-VL: plain, with stored vision features, with the kept prefix.

    python benchmarks/query_latency.py --json -
    python benchmarks/query_latency.py --figure docs/query_latency.png

A random checkpoint of 46 million parameters stands in for the real one: the arithmetic is the same,
only smaller. All levels are timed in turns in one run, so that a busy machine slows them alike, and
each is compared with transformers' plain forward pass. ``naive_ms`` is that pass alone, pictures
already prepared and no vocabulary logits, which favours it. ``append_one_frame_ms`` has everything
that a new keyframe costs: its picture prepared, the vision tower, its tokens, and the question.
The exit status is 1 where a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

# On a machine that others use too, threads that spin while they wait for each other take the time
# of those they wait for. Read when torch starts its threads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "test")]

from semflip_core.encoders import load_encoder  # noqa: E402
from semflip_core.encoders.qwen2_5_vl.encoder import QwenEncoder  # noqa: E402
from semflip_core.frames import MemoryFrame  # noqa: E402
from semflip_core.gate import Gate, GateHeader  # noqa: E402
from support.plain_qwen import PlainQwen, scene, seen  # noqa: E402
from support.tiny_qwen import BENCHMARK, write_checkpoint  # noqa: E402

SIZE = (224, 336)  # height, width: 96 tokens
QUESTIONS = (
    "Where is the red fire extinguisher that stands next to the door?",
    "Which chair stands next to the table in the kitchen on the left?",
    "Is there a sofa in the bedroom on the left, or a piano?",
    "Where is the backpack, next to the piano or next to the door?",
)
BOUNDS = {"ratio_prefix": 30.0, "ratio_append": 10.0}
TOLERANCE = 1e-4
LEVELS = ("naive_ms", "vision_cached_ms", "append_one_frame_ms", "prefix_cached_ms")


def milliseconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def measured(
    encoder: QwenEncoder, plain: PlainQwen, frames: Sequence[MemoryFrame], repeats: int
) -> tuple[dict[str, float], float]:
    """Medians of each level in milliseconds, and the largest difference from the plain pass."""
    times: dict[str, list[float]] = {level: [] for level in LEVELS}
    difference = 0.0
    encoder.encode(QUESTIONS[0], frames)  # the first pass ever allocates
    for turn in range(repeats):
        question, other = QUESTIONS[turn % 4], QUESTIONS[(turn + 1) % 4]
        inputs = plain.inputs(question, frames)
        found: list[np.ndarray] = []

        def naive(inputs: dict[str, Any] = inputs, found: list[np.ndarray] = found) -> None:
            found.append(plain.final_state(inputs))

        def asked(question: str = question, found: list[np.ndarray] = found) -> None:
            found.append(encoder.encode(question, frames).vector)

        def appended(question: str = question, found: list[np.ndarray] = found) -> None:
            last = frames[-1]
            made = MemoryFrame(
                last.record, encoder.encode_frame(last.picture()), last.picture, last.prefix
            )
            found.append(encoder.encode(question, [*frames[:-1], made]).vector)

        times["naive_ms"].append(milliseconds(naive))
        encoder._cache.clear()
        times["vision_cached_ms"].append(milliseconds(asked))
        encoder.encode(other, frames)
        times["prefix_cached_ms"].append(milliseconds(asked))
        encoder.encode(other, frames[:-1])
        times["append_one_frame_ms"].append(milliseconds(appended))
        difference = max(difference, *(float(np.abs(v - found[0]).max()) for v in found[1:]))
    return {level: statistics.median(values) for level, values in times.items()}, difference


def gate_ms(dimension: int, repeats: int = 200) -> float:
    """Median of a whole verdict of a gate of the usual size: five members and the distance."""
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> np.ndarray:
        return rng.normal(0.0, 0.05, shape).astype(np.float32)

    members, first, second, rank = 5, 256, 64, 64
    tensors = {
        "input.mean": drawn(dimension),
        "input.scale": np.ones(dimension, np.float32),
        "layer1.weight": drawn(members, dimension, first),
        "layer1.bias": drawn(members, first),
        "layer2.weight": drawn(members, first, second),
        "layer2.bias": drawn(members, second),
        "layer3.weight": drawn(members, second, 2),
        "layer3.bias": drawn(members, 2),
        "distance.mean": drawn(dimension),
        "distance.basis": np.linalg.qr(drawn(dimension, rank))[0].T.copy(),
        "distance.variance": np.ones(rank, np.float32),
        "distance.floor": np.ones(1, np.float32),
    }
    header = GateHeader(
        fingerprint={"encoder.name": "benchmark"},
        dimension=dimension,
        members=members,
        tau=0.5,
        distance_limit=100.0,
    )
    gate = Gate(header, tensors)
    vector = drawn(dimension)

    def verdict() -> None:
        gate.member_scores(vector)
        gate.score(vector)
        gate.distance(vector)

    return statistics.median(milliseconds(verdict) for _ in range(repeats))


def growth(
    encoder: QwenEncoder, plain: PlainQwen, counts: Sequence[int], repeats: int
) -> list[dict[str, float]]:
    """Medians of each level for so many frames."""
    rows = []
    for count in counts:
        frames = [seen(encoder, number, SIZE) for number in range(count)]
        row, _ = measured(encoder, plain, frames, repeats)
        rows.append({"frames": float(count), "tokens": float(encoder.cached_tokens), **row})
        print(f"{count} frames: " + json.dumps(_rounded(row)), file=sys.stderr)
    return rows


def draw(rows: Sequence[dict[str, float]], file: Path) -> None:
    """Cost over frames, both axes logarithmic."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.0, 4.0), layout="constrained")
    names = {
        "naive_ms": "plain forward pass",
        "vision_cached_ms": "stored vision features",
        "append_one_frame_ms": "one frame appended",
        "prefix_cached_ms": "kept prefix, question only",
    }
    for level, label in names.items():
        axes.plot([r["frames"] for r in rows], [r[level] for r in rows], marker="o", label=label)
    axes.set(xscale="log", yscale="log", xlabel="frames of 96 tokens", ylabel="ms a question")
    axes.set_xticks([r["frames"] for r in rows], [f"{r['frames']:.0f}" for r in rows])
    axes.set_xticks([], minor=True)
    axes.set_title("Random Qwen2.5-VL, 46 M parameters, fp32, 2 CPU cores")
    axes.grid(alpha=0.3)
    axes.legend()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in values.items()}


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything, as one flat mapping with the growth rows."""
    import torch

    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory(prefix="semflip_query_latency_") as scratch:
        folder = write_checkpoint(Path(scratch), BENCHMARK)
        encoder = load_encoder("qwen2_5_vl", model=str(folder), dtype="float32")
        assert isinstance(encoder, QwenEncoder)
        plain = PlainQwen(folder)
    frames = [seen(encoder, number, SIZE) for number in range(arguments.frames)]
    medians, difference = measured(encoder, plain, frames, arguments.repeats)
    gate = gate_ms(encoder.dimension)
    result: dict[str, Any] = {
        "parameters": sum(p.numel() for p in plain.model.parameters()),
        "frames": len(frames),
        "tokens_per_frame": int(frames[0].features.arrays["tokens"].shape[0]),
        "tokens_before_question": encoder.cached_tokens,
        "question_tokens": [len(encoder._prompt.plain(q)) for q in QUESTIONS],
        "question_tokens_with_template": [len(encoder._prompt.question(q).ids) for q in QUESTIONS],
        "threads": arguments.threads,
        "repeats": arguments.repeats,
        **medians,
        "vision_ms_per_frame": statistics.median(
            milliseconds(partial(encoder.encode_frame, scene(n, *SIZE))) for n in range(8)
        ),
        "ratio_vision": medians["naive_ms"] / medians["vision_cached_ms"],
        "ratio_prefix": medians["naive_ms"] / medians["prefix_cached_ms"],
        "ratio_append": medians["naive_ms"] / medians["append_one_frame_ms"],
        "max_abs_diff": difference,
        "gate_ms": gate,
        "gate_share_of_naive": gate / medians["naive_ms"],
        "gate_share_of_repeated_query": gate / medians["prefix_cached_ms"],
    }
    if arguments.growth or arguments.figure:
        rows = growth(encoder, plain, arguments.growth or (4, 8, 16, 32, 64), arguments.turns)
        result["growth"] = [_rounded(row) for row in rows]
        if arguments.figure:
            draw(rows, arguments.figure)
    result["missed"] = [n for n, bound in BOUNDS.items() if result[n] < bound]
    if difference > TOLERANCE:
        result["missed"].append("max_abs_diff")
    if result["gate_share_of_naive"] > 0.01:
        result["missed"].append("gate_share_of_naive")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the results there; - is stdout")
    parser.add_argument("--figure", type=Path, help="draw cost over frames there")
    parser.add_argument("--growth", type=int, nargs="*", help="frame counts to measure cost over")
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--turns", type=int, default=3, help="repeats for each count of --growth")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    result = _rounded(run(arguments))
    text = json.dumps(result, indent=2)
    if arguments.json and arguments.json != "-":
        Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    else:
        print(text)
    if result["missed"]:
        print(f"missed: {', '.join(result['missed'])}", file=sys.stderr)
    return 1 if result["missed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
