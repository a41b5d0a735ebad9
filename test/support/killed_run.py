"""A run that is killed in each of some stages: ``python -m support.killed_run RUN STAGE...``.

One process loads the libraries and forks; each child goes on with the run and dies in its stage.
Prints the stage, the child's exit code, and whether the run was finished.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from semflip_core.encoders.mini.english import english
from semflip_train.engines import LocalEngine
from semflip_train.pipeline import run_experiment
from semflip_train.run_directory import RunDirectory

#: Stages that show progress -> word in the name of the step, and after how much of it to die.
DURING = {"synth": ("flips", 2), "features": ("features", 3), "train": ("members", 1),
          "evaluate": ("questions", 3)}  # fmt: skip
#: Loaded once, before the first child.
SHARED = ("torch", "cv2", "pyarrow.parquet", "sklearn.covariance", "scipy.stats",
          "matplotlib.pyplot", "support.colours", "support.synthesis")  # fmt: skip


def die() -> None:
    """No cleaning up, no goodbye."""
    os.kill(os.getpid(), signal.SIGKILL)


def go_on(root: Path, victim: str) -> None:
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
    run_experiment(RunDirectory.open(root), LocalEngine(), progress)


def main(root: Path, victims: list[str]) -> None:
    """One child after the other."""
    for name in SHARED:
        import_module(name)
    english()
    for victim in victims:
        child = os.fork()
        if child == 0:
            go_on(root, victim)
            os._exit(0)  # it was to die before
        _, status = os.waitpid(child, 0)
        print(victim, os.waitstatus_to_exitcode(status), (root / "done").exists(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
