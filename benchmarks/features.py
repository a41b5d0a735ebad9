"""What the feature stage saves: frames encoded once, against every question encoding its frames.

    python benchmarks/features.py --json -

Both sides answer the same questions about the same recording with the same encoder. The naive side
encodes the memory again for each question; it is measured on a few questions and scaled, because
all of them would take very long. Embeddings of both sides are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from semflip_core.agent import RefusalAgent
from semflip_core.bags import memory_from_bag
from semflip_core.encoders import fingerprint_digest
from semflip_core.images import StoredPicture
from semflip_core.loading import load_backends
from semflip_core.memory import VideoMemory
from semflip_core.settings import KeyframeSettings, RecallSettings
from semflip_train.dataset import load_dataset


def copied(memory: VideoMemory) -> VideoMemory:
    """The same keyframes without any features."""
    made = VideoMemory()
    for record in memory.records():
        made.add(
            StoredPicture(memory.encoded_picture(record.id), record.width, record.height),
            stamp_ns=record.stamp_ns,
            pose=record.pose,
            map_id=record.map_id,
            segment=record.segment,
        )
    return made


def main() -> None:
    """Measure and print or write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", type=Path, default=Path("data/sample"))
    parser.add_argument("--sequence", default="test_0")
    parser.add_argument("--encoder", default="mini")
    parser.add_argument("--questions", type=int, default=45)
    parser.add_argument("--naive", type=int, default=2, help="questions measured the naive way")
    parser.add_argument("--json", default="", help="file, or - for standard output")
    options = parser.parse_args()
    dataset = load_dataset(options.dataset)
    pool = [q.question for q in dataset.queries if q.sequence == options.sequence]
    questions = [pool[i % len(pool)] for i in range(options.questions)]
    encoder, retriever = load_backends(options.encoder)
    memory = VideoMemory()
    memory_from_bag(
        dataset.recording(options.sequence), memory, keyframes=KeyframeSettings(), map_id="bench"
    )
    encoder.encode_frame(memory.picture(memory.records()[0].id))  # load everything first

    started = time.perf_counter()
    agent = RefusalAgent(memory, encoder, None, retriever=retriever, recall=RecallSettings())
    agent.catch_up()
    encoded = time.perf_counter() - started
    cached = [agent.embed(question).joint.vector for question in questions]
    cached_s = time.perf_counter() - started

    each = []
    same = 0.0
    for question, vector in zip(questions[: options.naive], cached, strict=False):
        fresh = copied(memory)
        started = time.perf_counter()
        naive = RefusalAgent(fresh, encoder, None, retriever=retriever, recall=RecallSettings())
        again = naive.embed(question).joint.vector
        each.append(time.perf_counter() - started)
        same = max(same, float(np.abs(again - vector).max()))
    naive_s = statistics.median(each) * len(questions)
    result = {
        "encoder": options.encoder,
        "frame_features": fingerprint_digest(encoder.frame_fingerprint()),
        "questions": len(questions),
        "keyframes": len(memory),
        "encode_frames_s": round(encoded, 3),
        "cached_s": round(cached_s, 3),
        "naive_s": round(naive_s, 3),
        "naive_measured_questions": len(each),
        "largest_difference": same,
        "ratio": round(naive_s / cached_s, 2),
    }
    text = json.dumps(result, indent=2)
    if options.json == "-":
        print(text)
    elif options.json:
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    else:
        print(f"{result['ratio']} times cheaper than naive ({naive_s:.0f} s)", file=sys.stderr)


if __name__ == "__main__":
    main()
