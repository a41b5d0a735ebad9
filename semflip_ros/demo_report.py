"""The demo's results as a table for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table

from semflip_ros.demo_truth import Result, seen_elsewhere
from semflip_train.dataset import Dataset

COLUMNS = ("question", "verdict", "score, threshold", "goal, or why not", "against the truth")


def results_table(dataset: Dataset, results: Sequence[Result]) -> Table:
    """One row a question, in the order asked."""
    table = Table(title="What the robot was asked, and what it decided", title_justify="left")
    for name in COLUMNS:
        table.add_column(name)
    for result in results:
        table.add_row(
            result.decision.question,
            _verdict(result),
            _numbers(result),
            _outcome(result),
            _truth(dataset, result),
        )
        table.add_section()
    return table


def _verdict(result: Result) -> str:
    mark = f"[red]wrong: {result.fault}[/]" if result.fault else "[green]right[/]"
    return f"{'refuse' if result.decision.goal is None else 'goal'}\n{mark}"


def _numbers(result: Result) -> str:
    score, threshold = result.decision.score, result.decision.threshold
    if math.isnan(score):
        return "gate not reached"
    return f"{score:.3f} {'<=' if score <= threshold else '>'} {threshold:.3f}"


def _outcome(result: Result) -> str:
    decision = result.decision
    if decision.goal is None:
        reason = decision.reason.value if decision.reason else ""
        return f"{decision.statement}: {reason}\n{decision.sentence}"
    x, y, _ = decision.goal.position
    turn = math.degrees(decision.goal.yaw)
    return f"x {x:.2f} m, y {y:.2f} m,\nfacing {turn:.0f} deg in {decision.goal.frame_id}"


def _truth(dataset: Dataset, result: Result) -> str:
    if result.error is not None:
        error = result.error
        return (
            f"{error.distance_m:.2f} m from where it was seen,\n"
            f"{error.bearing_deg:.0f} deg off, {error.object_m:.1f} m before it"
        )
    if result.query.answerable:
        return "it is here"
    places = ", ".join(seen_elsewhere(dataset, result.query))
    return "not here" + (f", but in {places}" if places else "")
