"""Units of work whose process is killed in the middle, once, for tests of engines."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from semflip_train.stages import features_unit, synthesise_unit

VICTIM = "b"


def _killing(root: str, stage: str, word: str) -> Callable[[str, int, int], None]:
    marker = Path(root) / f"killed_{stage}"

    def progress(name: str, done: int, total: int) -> None:
        if word in name and done == 2 and not marker.exists():
            marker.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)

    return progress


def synthesise_killed(root: str, sequence: str) -> dict[str, Any]:
    """The synthesis of one sequence; its first worker dies after two questions."""
    progress = _killing(root, "synth", "flips") if sequence == VICTIM else None
    return synthesise_unit(root, sequence, progress)


def features_killed(root: str, sequence: str) -> dict[str, Any]:
    """The features of one sequence; its first worker dies after two pairs."""
    progress = _killing(root, "features", "features") if sequence == VICTIM else None
    return features_unit(root, sequence, progress)


def always_killed(root: str, sequence: str) -> dict[str, Any]:
    """Dies each time."""
    with (Path(root) / "deaths").open("a") as log:
        log.write(f"{sequence} {os.getpid()}\n")
    os.kill(os.getpid(), signal.SIGKILL)
    return {}
