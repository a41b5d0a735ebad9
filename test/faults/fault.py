"""What a fault is, and how one is tried at one moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from faults.moments import IDLE, MOMENTS, during
from faults.stage import Stage

Step = Callable[[Stage], None]


def nothing(_: Stage) -> None:
    """Nothing needs to be mended."""


def see_again(stage: Stage) -> None:
    """The map is another one, or pictures are gone: drive past the colours again."""
    stage.show_truth()


@dataclass(frozen=True)
class Fault:
    """One way in which something around the node breaks.

    Args:
        seam: where: ``camera``, ``poses``, ``encoder``...
        name: what.
        inject: breaks it.
        mend: makes it whole again, after which the next question must be answered as ever.
        moments: when it is tried.
        under: what a question asked while it is broken must give: ``answer``, ``refuse``,
            ``any``, or empty where none is asked.
        setting: which stage it needs.
        by_hand: its injection drives the transition itself, so the moment needs no help.
    """

    seam: str
    name: str
    inject: Step
    mend: Step = nothing
    moments: tuple[str, ...] = MOMENTS
    under: str = ""
    setting: str = "compressed"
    by_hand: bool = False


@dataclass
class Tried:
    """One fault at one moment, and what came of it."""

    seam: str
    fault: str
    moment: str
    seconds: float = 0.0
    wrong_goals: int = 0
    undecided: int = 0
    deaths: int = 0
    keyframes_lost: int = 0
    problems: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return dict(vars(self))


def note(tried: Tried, stage: Stage) -> None:
    """Take over what the stage's ledger holds, and empty it."""
    ledger = stage.ledger
    tried.wrong_goals += len(ledger.wrong_goals)
    tried.undecided += len(ledger.undecided)
    tried.deaths += len(ledger.deaths)
    tried.keyframes_lost += len(ledger.lost)
    tried.problems += ledger.problems()
    for found in (
        ledger.wrong_goals,
        ledger.undecided,
        ledger.deaths,
        ledger.lost,
        ledger.other,
    ):
        found.clear()


@contextmanager
def trial(seam: str, name: str, moment: str, stage: Stage) -> Iterator[Tried]:
    """What comes of the block: all that the stage's ledger holds after it, and the time it took."""
    tried = Tried(seam, name, moment)
    began = time.monotonic()
    yield tried
    note(tried, stage)
    tried.seconds = round(time.monotonic() - began, 2)


def attempt(fault: Fault, moment: str, stage: Stage) -> Tried:
    """Break it at that moment, and hold the node against its promise."""
    with trial(fault.seam, fault.name, moment, stage) as tried:
        try:
            with during(stage, IDLE if fault.by_hand else moment):
                fault.inject(stage)
            if fault.under and stage.alive():
                decision = stage.ask("Where is the red thing?")
                if decision is not None and fault.under not in ("any", decision.verdict):
                    stage.ledger.other.append(
                        f"under it, a question gave {decision.verdict} {decision.reason}"
                    )
            fault.mend(stage)
            if stage.alive():
                stage.check_health()
        except AssertionError as error:
            stage.ledger.other.append(f"waited in vain: {error} {stage.process.text()[-300:]}")
            stage.control.set()
        if not stage.alive():
            code = stage.process.child.returncode
            stage.ledger.deaths.append(f"the node ended with {code}: {stage.process.text()[-300:]}")
            stage.control.set()
            stage.restore_gate()
            stage.restart()
        stage.judge()
    if tried.problems:
        stage.restart()  # the next one starts from what is known
    return tried
