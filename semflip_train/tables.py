"""The table of results as HTML, Markdown and LaTeX, from ``metrics.json``.

One table for each part of a test, every method in it: the gate, its seeds, controls and baselines.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from semflip_train.shown import COLUMNS

Metrics = Mapping[str, Any]
LEAD = "gate's AUROC lead"
TITLES = (*COLUMNS.values(), LEAD)


class Row(NamedTuple):
    """A row: its name, a cell for each of :data:`TITLES`, and whether it belongs to the one above.

    ``not_run`` says why it has no cells.
    """

    name: str
    cells: tuple[str, ...] = ()
    below: bool = False
    not_run: str = ""


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


def table_rows(metrics: Metrics) -> list[Row]:
    """The gate, its seeds, controls and baselines, with intervals."""
    rows = list(_rows_of("gate (ensemble)", metrics))
    for name, values in (metrics.get("controls") or {}).items():
        rows += _rows_of(name, values)
    return rows


def _rows_of(name: str, values: Metrics) -> Iterator[Row]:
    if values.get("not_run"):
        yield Row(name, not_run=str(values["not_run"]))
        return
    lead = (values.get("gate_leads_by") or {}).get("auroc")
    yield Row(name, (*_cells(values), "" if lead is None else _signed(lead)))
    if members := values.get("members"):
        yield Row(f"its {len(members['each'])} seeds, mean ± deviation", _seeds(members), True)
    if untaught := values.get("untaught"):
        names = ", ".join(untaught["categories"])
        title = f"recall on what it was never shown ({names}; n = {untaught['count']})"
        cells = [""] * len(TITLES)
        cells[list(COLUMNS).index("recall")] = _cell(values, "untaught_recall")
        yield Row(title, tuple(cells), True)


def _cells(values: Metrics) -> list[str]:
    return [_cell(values, key) for key in COLUMNS]


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


def _seeds(members: Metrics) -> tuple[str, ...]:
    mean, spread = members["mean"], members["spread"]
    cells = [
        "-" if mean.get(key) is None else f"{mean[key]:.3f} ± {spread[key]:.3f}" for key in COLUMNS
    ]
    return (*cells, "")


def dataset_rows(metrics: Metrics) -> list[Row]:
    """Mean and deviation of each method over several datasets; empty for one."""
    over: Mapping[str, Metrics] = metrics.get("over_datasets") or {}
    rows = []
    for name, made in over.items():
        mean, spread = made["mean"], made["spread"]
        cells = [
            "-" if mean.get(key) is None else f"{mean[key]:.3f} ± {spread[key]:.3f}"
            for key in COLUMNS
        ]
        rows.append(Row(name, (*cells, "")))
    return rows


def tables_of(metrics: Metrics) -> list[tuple[str, list[Row]]]:
    """Every table with its title."""
    made = [
        (f"{part.title} ({_counted(part.metrics)})", table_rows(part.metrics))
        for part in parts(metrics)
    ]
    if rows := dataset_rows(metrics):
        made.append((f"mean ± deviation over {len(metrics['datasets'])} datasets", rows))
    return made


def _counted(metrics: Metrics) -> str:
    c = metrics["counts"]
    return (
        f"{c['answerable']} answerable, {c['unanswerable']} unanswerable, {c['pairs']} pairs, "
        f"{c['resampled_groups']} groups resampled"
    )


def as_markdown(metrics: Metrics) -> str:
    """Markdown tables, and the reason head's confusion."""
    blocks = []
    for title, rows in tables_of(metrics):
        lines = [f"**{title}**", "", "| | " + " | ".join(TITLES) + " |"]
        lines.append("|---" + "|---:" * len(TITLES) + "|")
        for row in rows:
            name = f"… {row.name}" if row.below else row.name
            cells = row.cells or (f"not run: {row.not_run}", *[""] * (len(TITLES) - 1))
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        blocks.append("\n".join(lines))
    if reasons := reason_rows(metrics):
        head, *body = reasons
        lines = ["**Reason head: category (down) and what it says (across)**", ""]
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
        cells = [str(counts.get(name, 0)) for name in trained]
        marked = [
            f"[{cell}]" if name == fitting else cell
            for name, cell in zip(trained, cells, strict=True)
        ]
        rows.append([category, *marked, *("-" for _ in missing)])
    return rows


def as_latex(metrics: Metrics) -> str:
    """A LaTeX tabular for each table."""
    made = []
    for title, rows in tables_of(metrics):
        body = []
        for row in rows:
            name = (r"\quad " if row.below else "") + _tex(row.name)
            if row.not_run:
                text = f"not run: {_tex(row.not_run)}"
                body.append(rf"{name} & \multicolumn{{{len(TITLES)}}}{{l}}{{{text}}} \\")
            else:
                body.append(" & ".join([name, *map(_tex, row.cells)]) + r" \\")
        head = " & ".join(["", *map(_tex, TITLES)]) + r" \\"
        made.append(
            "\n".join(
                [
                    f"% {title}",
                    r"\begin{tabular}{l" + "r" * len(TITLES) + "}",
                    r"\hline",
                    head,
                    r"\hline",
                    *body,
                    r"\hline",
                    r"\end{tabular}",
                ]
            )
        )
    return "\n\n".join(made) + "\n"


def _tex(text: str) -> str:
    for char in "&%_#":
        text = text.replace(char, "\\" + char)
    return text.replace("±", r"$\pm$").replace("…", r"\ldots{}")


def as_html(rows: Sequence[Row]) -> str:
    """An HTML table."""
    head = "".join(f"<th>{html.escape(title)}</th>" for title in ("", *TITLES))
    body = []
    for row in rows:
        kind = " class=below" if row.below else ""
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in row.cells)
        if row.not_run:
            text = html.escape(row.not_run)
            cells = f"<td class=missing colspan={len(TITLES)}>not run: {text}</td>"
        body.append(f"<tr{kind}><th>{html.escape(row.name)}</th>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
