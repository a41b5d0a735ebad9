"""``python -m faults.soak``: more than it can do, for a long time, and then one more question.

Pictures of four cameras and ten questions a second are offered to an encoder that answers about
four. Memory and queue must stay, every question gets its decision, those that are too many at once.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faults.suite import OUT, own_domain, write

if TYPE_CHECKING:
    from faults.stage import Stage

CAMERAS_HZ = 4 * 15.0
QUERIES_HZ = 10.0
QUEUE = 8
#: What the promise allows.
OVERLOADED_WITHIN_S = 0.1
SLOPE_MB_A_MINUTE = 1.0
#: Share of the time after which memory counts; before, caches fill.
WARM = 0.3


class Load:
    """Offers pictures and questions at their rates, and notes when each was decided."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.sent: dict[str, float] = {}
        self.decided: dict[str, tuple[float, str]] = {}
        self.memory: list[tuple[float, float]] = []
        self.waiting: list[int] = []

    def run(self, seconds: float) -> None:
        """Until the time is up; late ticks are made up for, so that the rates hold."""
        robot = self.stage.robot
        robot.on_decision = self._note
        began = time.monotonic()
        pictures = questions = looks = 0
        while (now := time.monotonic() - began) < seconds:
            if pictures < now * CAMERAS_HZ:
                robot.drive(30.0 + pictures % 60 * 0.5, robot.picture)
                pictures += 1
            if questions < now * QUERIES_HZ:
                colour = ("red", "green", "blue", "yellow")[questions % 4]
                name = f"soak-{questions}"
                self.sent[name] = time.monotonic()
                self.stage.send(f"Where is the {colour} thing?", name)
                questions += 1
            if looks < now:
                self._look(now)
                looks += 1
            time.sleep(0.002)
        self.pictures = pictures

    def _note(self, decision: Any) -> None:
        self.decided.setdefault(decision.query_id, (time.monotonic(), decision.reason))

    def _look(self, now: float) -> None:
        status = Path(f"/proc/{self.stage.process.child.pid}/status").read_text()
        self.memory.append((now, int(status.split("VmRSS:")[1].split()[0]) / 1024))
        self.waiting.append(int(self.stage.robot.value("queries", "waiting") or 0))

    def figures(self, seconds: float) -> dict[str, Any]:
        """What was measured."""
        latencies: dict[str, list[float]] = {}
        for name, (at, reason) in self.decided.items():
            if name in self.sent:
                latencies.setdefault(reason or "answered", []).append(at - self.sent[name])
        late = [pair for pair in self.memory if pair[0] >= WARM * seconds]
        thought = sorted(v for r, vs in latencies.items() if r != "OVERLOADED" for v in vs)
        overloaded = latencies.get("OVERLOADED", [])
        return {
            "seconds": round(seconds),
            "pictures offered": self.pictures,
            "questions offered": len(self.sent),
            "decisions": len(self.decided.keys() & self.sent.keys()),
            "by reason": dict(Counter({r: len(v) for r, v in latencies.items()})),
            "memory MB at the end": round(self.memory[-1][1], 1),
            "memory slope MB a minute": round(60 * slope(late), 3),
            "longest queue": max(self.waiting, default=0),
            "overloaded refused in, median s": _shown(overloaded, 50),
            "overloaded refused in, p99 s": _shown(overloaded, 99),
            "decided in, p50 s": _shown(thought, 50),
            "decided in, p90 s": _shown(thought, 90),
            "decided in, p99 s": _shown(thought, 99),
        }


def slope(pairs: Sequence[tuple[float, float]]) -> float:
    """Least-squares slope of values over time; 0 of fewer than two."""
    if len(pairs) < 2:
        return 0.0
    return statistics.linear_regression(*zip(*pairs, strict=True)).slope


def _shown(values: Sequence[float], share: int) -> float | None:
    from semflip_ros.diagnostics import percentile

    return round(percentile(values, share / 100), 4) if values else None


def broken_promises(figures: dict[str, Any], *, short: bool) -> list[str]:
    """What is not as promised; a short run, where others work too, judges no time and no slope."""
    found = []
    if figures["decisions"] != figures["questions offered"]:
        found.append(f"{figures['decisions']} decisions of {figures['questions offered']}")
    if figures["longest queue"] > QUEUE:
        found.append(f"the queue grew to {figures['longest queue']}")
    median = figures["overloaded refused in, median s"]
    if median is None:
        found.append("nothing was refused as OVERLOADED")
    elif not short and median > OVERLOADED_WITHIN_S:
        found.append(f"overload was refused in {median} s")
    if not short and figures["memory slope MB a minute"] > SLOPE_MB_A_MINUTE:
        found.append(f"memory grew by {figures['memory slope MB a minute']} MB a minute")
    return found


def soak(folder: Path, seconds: float) -> tuple[dict[str, Any], list[str]]:
    """Load a node of its own for so long; figures and what is not as promised."""
    from faults.stage import ENCODER, Stage
    from support.colours import write_gate
    from support.live import wait_until

    gate = write_gate(folder / "gate.safetensors", ENCODER)
    stage = Stage(folder / "soak", gate, on_file=True, query_queue=QUEUE, memory__max_keyframes=300)
    try:
        load = Load(stage)
        stage.control.set(encode="slow")
        load.run(seconds)
        wait_until(lambda: len(load.decided) >= len(load.sent), 60.0, "the last decisions")
        stage.control.set()
        figures = load.figures(seconds)
        stage.show_truth()
        stage.check_health()
        stage.judge()
    finally:
        stage.close()
    short = seconds < 120
    return figures, [*broken_promises(figures, short=short), *stage.ledger.problems()]


def main() -> int:
    """Run it, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    with own_domain() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="semflip_soak_")))
        figures, problems = soak(folder, 60 * given.minutes)
    for name, value in figures.items():
        print(f"{name:35} {value}")
    for problem in problems:
        print(f"BROKEN: {problem}")
    write("soak", figures | {"problems": problems}, given.out)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
