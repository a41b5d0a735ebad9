"""Nothing reaches for a network at run time, whatever the user's environment says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BAG = ROOT / "data" / "sample" / "sequences" / "test_0"

#: Runs semflip with every look-up and every connection beyond this machine forbidden.
GUARDED = """
import sys

def forbid(event, arguments):
    here = (None, "localhost", "127.0.0.1", "::1")
    if event == "socket.getaddrinfo" and arguments[0] not in here:
        sys.exit(f"looked up {arguments[0]!r}")
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        if not str(arguments[1][0]).startswith(("127.", "::1")):
            sys.exit(f"connected to {arguments[1]!r}")

sys.addaudithook(forbid)
"""
ASK = """
from semflip_train.cli import main
sys.argv = ["semflip", "ask", "--json", "--bag", BAG, "Where is the sofa?"]
main()
"""
REACH_OUT = """
import socket
socket.create_connection(("example.org", 80), timeout=1)
"""


def guarded(code: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "TRANSFORMERS_"))}
    program = GUARDED + f"BAG = {str(BAG)!r}\n" + code
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=env,
        timeout=180,
        check=False,
    )


def test_the_guard_itself_notices() -> None:
    done = guarded(REACH_OUT)
    assert done.returncode != 0
    assert "example.org" in done.stderr


def test_asking_a_recording_opens_no_connection() -> None:
    pytest.importorskip("onnxruntime", reason='needs the extra "cpu"')
    done = guarded(ASK)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] in ("answer", "refuse")
