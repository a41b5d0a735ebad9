"""The benchmarks of ingest and recall run, and what they measure holds with room to spare."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def run(root, name: str, *arguments: str) -> dict:
    done = subprocess.run(
        [sys.executable, root / "benchmarks" / name, "--json", "-", *arguments],
        capture_output=True,
        text=True,
        cwd=root,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_skipped_message_costs_a_small_part_of_a_decoded_one(root):
    pytest.importorskip("rosbags", reason="serialises the messages")
    measured = run(root, "ingest.py", "--frames", "20", "--no-middleware")
    full = measured["1920x1080"]
    assert full["skipped_by_rate_us"] < full["kept_raw_us"] / 100
    assert measured["skip_to_decode_ratio"] < 0.1  # 0.02 on a machine that does nothing else
