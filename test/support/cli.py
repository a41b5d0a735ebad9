"""The ``semflip`` command inside the test's own process, and the environment of other ones."""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

TEST = Path(__file__).resolve().parents[1]


def with_support() -> dict[str, str]:
    """Environment of a process that imports this checkout and what supports its tests."""
    paths = [str(TEST.parent), str(TEST), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def semflip(*arguments: object) -> CompletedProcess[str]:
    """What a user would type after ``semflip``, without loading Python and libraries again."""
    from semflip_train.cli import main

    words = ["semflip", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with mock.patch.object(sys, "argv", words), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            status = int(ended.code or 0)
    return CompletedProcess(words, status, out.getvalue(), err.getvalue())
