"""A run whose process is killed in the middle of one stage: ``python -m support.killed_run``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from semflip_train.engines import LocalEngine
from semflip_train.pipeline import run_experiment
from semflip_train.run_directory import RunDirectory

#: Stages that show progress -> word in the name of the step, and after how much of it to die.
DURING = {"synth": ("flips", 2), "features": ("features", 3), "train": ("members", 1),
          "evaluate": ("questions", 3)}  # fmt: skip


def die() -> None:
    """No cleaning up, no goodbye."""
    os.kill(os.getpid(), signal.SIGKILL)


def main(root: str, victim: str) -> None:
    """Go on with a run and die in a stage; the others die when their work is not yet noted."""
    whole = RunDirectory.stage

    @contextmanager
    def stage(self: RunDirectory, name: str) -> Iterator[dict[str, Any]]:
        with whole(self, name) as notes:
            yield notes
            if name == victim:
                die()

    def progress(name: str, done: int, total: int) -> None:
        word, after = DURING.get(victim, ("", 0))
        if word and word in name and done == after:
            die()

    RunDirectory.stage = stage  # type: ignore[method-assign, assignment]
    run_experiment(RunDirectory.open(Path(root)), LocalEngine(), progress)


if __name__ == "__main__":
    main(*sys.argv[1:])
