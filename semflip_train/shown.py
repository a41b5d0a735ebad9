"""How the command shows what it does: progress, decisions and tables."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semflip_core.decision import Decision


#: Where nobody watches a bar, a step that lasts is told of this often; seconds.
LINE_INTERVAL_S = 30.0


@contextmanager
def steps(quiet: bool = False) -> Iterator[Callable[[str, int, int], None] | None]:
    """Progress, told (step, done, in all); None where quiet, and in CI.

    A bar with rate and remaining time on a terminal, elsewhere (a log, a pipe) now and then a line.
    """
    if quiet or os.environ.get("CI"):
        yield None
        return
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
    )

    tasks: dict[str, TaskID] = {}
    with Progress(
        TextColumn("{task.description:>12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as bar:

        def told(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=total or None, rate="")
            speed = bar.tasks[list(tasks).index(step)].speed
            rate = f"{speed:.1f}/s" if speed else ""
            bar.update(tasks[step], completed=done, total=total or None, rate=rate)

        yield told


def _lines() -> Callable[[str, int, int], None]:
    """A line of each step every LINE_INTERVAL_S, its first after so long without any line."""
    start = time.monotonic()
    last = start
    said: dict[str, float] = {}

    def told(step: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - said.setdefault(step, last) < LINE_INTERVAL_S:
            return
        said[step] = last = now
        of_all = f" of {total}" if total else ""
        print(f"{now - start:.0f} s: {step} {done}{of_all}", file=sys.stderr, flush=True)

    return told


def print_json(value: Mapping[str, Any]) -> None:
    """One line of JSON on standard output."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False))


def print_decision(decision: Decision) -> None:
    """A decision as a panel."""
    from rich.console import Console
    from rich.markup import escape
    from rich.panel import Panel

    answered = decision.goal is not None
    colour = "green" if answered else "red"
    lines = []
    if decision.goal is not None:
        x, y, _ = decision.goal.position
        lines.append(
            f"[bold green]Goal[/]  x {x:.2f} m, y {y:.2f} m, heading {decision.goal.yaw:.2f} rad "
            f"in '{escape(decision.goal.frame_id)}'"
        )
    else:
        reason = decision.reason.value if decision.reason else ""
        lines.append(f"[bold red]{decision.statement}[/]  {reason}: {escape(decision.sentence)}")
    lines.append(f"P(unanswerable) {decision.score:.3f}, threshold {decision.threshold:.3f}")
    if decision.answer:
        lines.append(escape(decision.answer))
    for item in decision.evidence:
        where = "pose unknown"
        if item.pose is not None:
            where = f"from x {item.pose.position[0]:.2f}, y {item.pose.position[1]:.2f}"
        lines.append(
            f"[dim]saw at {item.stamp_ns / 1e9:.2f} s {where}, relevance {item.relevance:.3f}[/]"
        )
    lines.append(f"[dim]{decision.timings_ms.get('total', 0.0):.0f} ms[/]")
    Console().print(
        Panel("\n".join(lines), title=escape(decision.question), border_style=colour, expand=False)
    )


def print_counts(title: str, counts: Mapping[str, int]) -> None:
    """Counts by name, as a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, count in sorted(counts.items()):
        table.add_row(name, str(count))
    Console().print(table)


#: Columns of the table of results, and their titles.
COLUMNS = {
    "f1": "F1",
    "balanced_accuracy": "BalAcc",
    "recall": "recall",
    "specificity": "specificity",
    "auroc": "AUROC",
    "pair_accuracy": "pairs",
}


def print_metrics(metrics: Mapping[str, Any]) -> None:
    """The headline of each slice: the gate, controls and baselines, without intervals."""
    from rich.console import Console
    from rich.table import Table

    from semflip_train.tables import GATE_ROW, parts

    console = Console()
    shown = parts(metrics)
    for part in shown:
        if part.kind == "words_alone":
            continue
        table = Table(title=f"{part.title}; positive class: unanswerable")
        table.add_column("")
        for title in COLUMNS.values():
            table.add_column(title, justify="right")
        for name, values in {GATE_ROW: part.metrics, **part.metrics["controls"]}.items():
            if "not_run" not in values:
                table.add_row(name, *(_cell(values.get(key)) for key in COLUMNS))
        console.print(table)
    for name, values in metrics["controls"].items():
        if "not_run" in values:
            console.print(f"not run: {name}: {values['not_run']}", style="dim", highlight=False)
    for key in ("goal_success", "evidence_accuracy", "end_to_end"):
        console.print(f"{key.replace('_', ' ')}: {_cell(metrics.get(key))}")


def _cell(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) and value == value else "-"
