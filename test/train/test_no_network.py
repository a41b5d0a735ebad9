"""Nothing reaches for a network at run time, whatever the user's environment says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.colour_bag import write_drive

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
sys.argv = ["semflip", "ask", "--json", "--bag", {bag!r}, "Where is the red box?"]
main()
"""
REACH_OUT = """
import socket
socket.create_connection(("example.org", 80), timeout=1)
"""


def guarded(code: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "TRANSFORMERS_"))}
    return subprocess.run(
        [sys.executable, "-c", GUARDED + code],
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


def test_asking_a_recording_opens_no_connection(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason='needs the extra "cpu"')
    bag = tmp_path / "drive"
    write_drive(bag, frames=4, hz=2.0)
    done = guarded(ASK.format(bag=str(bag)))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] in ("answer", "refuse")
