"""The tables of results as HTML, Markdown and LaTeX, from ``metrics.json``.

One table for each part of a test, every method in it: the gate, its seeds, controls and baselines.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from semflip_train.shown import COLUMNS

Metrics = Mapping[str, Any]
LEAD = "gate's AUROC lead"
GATE_ROW = "gate (ensemble)"


class Row(NamedTuple):
    """A row: its name, a cell for each column, and whether it belongs to the one above.

    ``not_run`` says why it has no cells.
    """

    name: str
    cells: tuple[str, ...] = ()
    below: bool = False
    not_run: str = ""


class Table(NamedTuple):
    """A table: its title, what stands under it, the heads of its columns, its rows."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: list[Row]


class Part(NamedTuple):
    """A part of the test with its own table."""

    title: str
    kind: Literal["grounded", "all", "words_alone"]
    metrics: Metrics


def parts(metrics: Metrics) -> list[Part]:
    """What is reported apart: each slice, without and with what words alone decide.

    The first part of each slice is its headline.
    """
    slices: Mapping[str, Metrics] = metrics.get("slices") or {}
    found = []
    for name, part in slices.items() if len(slices) > 1 else [("", metrics)]:
        start = f"{name}: " if name else ""
        if part.get("grounded"):
            title = f"{start}without what words alone decide"
            found.append(Part(title, "grounded", part["grounded"]))
        found.append(Part(f"{start}all questions", "all", part))
        if part.get("words_alone"):
            title = f"{start}what words alone decide"
            found.append(Part(title, "words_alone", part["words_alone"]))
    return found


def tables_of(metrics: Metrics) -> list[Table]:
    """Every table: the parts', recall by category, the mean over datasets."""
    heads = (*COLUMNS.values(), LEAD)
    made: list[Table] = []
    for part in parts(metrics):
        rows = _rows(part.metrics)
        if made:  # what was not run is said once
            rows = [row for row in rows if not row.not_run]
        made.append(Table(part.title, _counted(part.metrics), heads, rows))
    for part in parts(metrics):
        if part.kind == "all" and part.metrics["per_category"]:
            made.append(_category_table(part))
    if over := metrics.get("over_datasets"):
        rows = [Row(name, _mean_cells(values)) for name, values in over.items()]
        title = f"mean ± standard deviation over {len(metrics['datasets'])} datasets"
        note = ", ".join(metrics["datasets"])
        made.append(Table(title, note, tuple(COLUMNS.values()), rows))
    return made


def _counted(metrics: Metrics) -> str:
    c = metrics["counts"]
    return (
        f"{c['answerable']} answerable, {c['unanswerable']} unanswerable, {c['pairs']} pairs, "
        f"{c['resampled_groups']} groups resampled"
    )


def _methods(metrics: Metrics) -> dict[str, Metrics]:
    return {GATE_ROW: metrics, **(metrics.get("controls") or {})}


def _rows(metrics: Metrics) -> list[Row]:
    return [row for name, values in _methods(metrics).items() for row in _rows_of(name, values)]


def _rows_of(name: str, values: Metrics) -> Iterator[Row]:
    if values.get("not_run"):
        yield Row(name, not_run=str(values["not_run"]))
        return
    lead = (values.get("gate_leads_by") or {}).get("auroc")
    cells = [_cell(values, key) for key in COLUMNS]
    yield Row(name, (*cells, "" if lead is None else _signed(lead)))
    if members := values.get("members"):
        title = f"its {len(members['each'])} seeds, mean ± deviation"
        yield Row(title, (*_mean_cells(members), ""), True)
    untaught = values.get("untaught")
    if untaught and untaught["count"]:
        names = ", ".join(untaught["categories"]).replace("_", " ")
        title = f"recall on what it was never shown ({names}; n = {untaught['count']})"
        cells = [""] * len(COLUMNS)
        cells[list(COLUMNS).index("recall")] = _cell(values, "untaught_recall")
        yield Row(title, (*cells, ""), True)


def _cell(values: Metrics, key: str) -> str:
    value = values.get(key)
    if value is None:
        return "-"
    interval = (values.get("intervals") or {}).get(key)
    ends = "" if not interval or None in interval else f" [{interval[0]:.2f}, {interval[1]:.2f}]"
    return f"{value:.3f}{ends}"


def _signed(lead: Sequence[float | None]) -> str:
    value, *interval = lead
    if value is None:
        return "-"
    if len(interval) < 2 or None in interval:
        return f"{value:+.3f}"
    return f"{value:+.3f} [{interval[0]:+.2f}, {interval[1]:+.2f}]"


def _mean_cells(made: Metrics) -> tuple[str, ...]:
    mean, spread = made["mean"], made["spread"]
    return tuple(
        "-" if mean.get(key) is None else f"{mean[key]:.3f} ± {spread[key]:.3f}" for key in COLUMNS
    )


def _category_table(part: Part) -> Table:
    """Recall of every method by category, and specificity beside it."""
    categories = part.metrics["per_category"]
    heads = tuple(
        f"{name.replace('_', ' ')} ({int(values['count'])})" for name, values in categories.items()
    )
    rows = []
    for name, values in _methods(part.metrics).items():
        recalls = values.get("per_category")
        if recalls:
            cells = [f"{recalls[c]['recall']:.3f}" for c in categories]
            rows.append(Row(name, (*cells, f"{values['specificity'] or 0.0:.3f}")))
    title = part.title.replace("all questions", "recall by category")
    return Table(title, "in brackets: how many questions", (*heads, "specificity"), rows)


def as_markdown(metrics: Metrics) -> str:
    """Markdown tables, and the reason head's confusion."""
    blocks = []
    for table in tables_of(metrics):
        lines = [f"**{table.title}** ({table.note})", "", "| | " + " | ".join(table.columns) + " |"]
        lines.append("|---" + "|---:" * len(table.columns) + "|")
        for row in table.rows:
            name = f"… {row.name}" if row.below else row.name
            empty = [""] * (len(table.columns) - 1)
            cells = row.cells or (f"not run: {row.not_run}", *empty)
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        blocks.append("\n".join(lines))
    if reasons := reason_rows(metrics):
        head, *body = reasons
        lines = ["**reason head: category (down), what it says (across), [what fits]**", ""]
        lines += ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
        blocks.append("\n".join([*lines, *("| " + " | ".join(row) + " |" for row in body)]))
    return "\n\n".join(blocks) + "\n"


def reason_rows(metrics: Metrics) -> list[list[str]]:
    """The reason head's confusion as text, its head first; the fitting reason in brackets."""
    confusion = metrics.get("reason_confusion") or {}
    if not confusion:
        return []
    trained = list(metrics["gate"]["trained_reasons"])
    missing = list(metrics["gate"]["untrained_reasons"])
    rows = [["", *trained, *(f"{name}: not trained" for name in missing)]]
    for category, counts in confusion["table"].items():
        fitting = confusion["expected"].get(category)
        cells = [
            f"[{counts.get(name, 0)}]" if name == fitting else str(counts.get(name, 0))
            for name in trained
        ]
        rows.append([category.replace("_", " "), *cells, *("-" for _ in missing)])
    return rows


def as_latex(metrics: Metrics) -> str:
    """A LaTeX tabular for each table."""
    return "\n\n".join(_tabular(table) for table in tables_of(metrics)) + "\n"


def _tabular(table: Table) -> str:
    body = []
    for row in table.rows:
        name = (r"\quad " if row.below else "") + _tex(row.name)
        if row.not_run:
            text = f"not run: {_tex(row.not_run)}"
            body.append(rf"{name} & \multicolumn{{{len(table.columns)}}}{{l}}{{{text}}} \\")
        else:
            body.append(" & ".join([name, *map(_tex, row.cells)]) + r" \\")
    return "\n".join(
        [
            f"% {table.title} ({table.note})",
            r"\begin{tabular}{l" + "r" * len(table.columns) + "}",
            r"\hline",
            " & ".join(["", *map(_tex, table.columns)]) + r" \\",
            r"\hline",
            *body,
            r"\hline",
            r"\end{tabular}",
        ]
    )


def _tex(text: str) -> str:
    for char in "&%_#":
        text = text.replace(char, "\\" + char)
    return text.replace("±", r"$\pm$")


def as_html(table: Table) -> str:
    """An HTML table."""
    head = "".join(f"<th>{html.escape(title)}</th>" for title in ("", *table.columns))
    body = []
    for row in table.rows:
        kind = " class=below" if row.below else ""
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in row.cells)
        if row.not_run:
            text = html.escape(row.not_run)
            cells = f"<td class=missing colspan={len(table.columns)}>not run: {text}</td>"
        body.append(f"<tr{kind}><th>{html.escape(row.name)}</th>{cells}</tr>")
    return (
        f"<table class=results><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    )
