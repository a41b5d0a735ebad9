"""The table of results as HTML, Markdown and LaTeX, from ``metrics.json``."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from semflip_train.shown import COLUMNS

Row = tuple[str, list[str]]


def table_rows(metrics: Mapping[str, Any]) -> list[Row]:
    """The gate with its interval, members, slices, controls and baselines."""
    rows = [("gate (ensemble)", _cells(metrics, metrics.get("intervals")))]
    members = metrics.get("members") or {}
    if members:
        mean, spread = members["mean"], members["spread"]
        cells = [
            f"{mean[k]:.3f} ± {spread[k]:.3f}" if mean.get(k) is not None else "-" for k in COLUMNS
        ]
        rows.append((f"single members (mean of {len(members['each'])} seeds)", cells))
    for name, values in (metrics.get("slices") or {}).items():
        rows.append((f"gate, slice '{name}'", _cells(values, values.get("intervals"))))
    for name, values in (metrics.get("controls") or {}).items():
        rows.append((name, _cells(values, None)))
    return rows


def _cells(values: Mapping[str, Any], intervals: Mapping[str, Any] | None) -> list[str]:
    cells = []
    for key in COLUMNS:
        value = values.get(key)
        if value is None:
            cells.append("-")
            continue
        text = f"{value:.3f}"
        if intervals and key in intervals:
            low, high = intervals[key]
            text += f" [{low:.2f}, {high:.2f}]"
        cells.append(text)
    return cells


def as_markdown(metrics: Mapping[str, Any]) -> str:
    """A Markdown table."""
    lines = ["| | " + " | ".join(COLUMNS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(cells) + " |" for name, cells in table_rows(metrics)]
    return "\n".join(lines) + "\n"


def as_latex(metrics: Mapping[str, Any]) -> str:
    """A LaTeX tabular."""
    head = " & ".join(["", *COLUMNS.values()]) + r" \\"
    body = [
        " & ".join([_tex(name), *(_tex(cell) for cell in cells)]) + r" \\"
        for name, cells in table_rows(metrics)
    ]
    return "\n".join(
        [
            r"\begin{tabular}{l" + "r" * len(COLUMNS) + "}",
            r"\hline",
            head,
            r"\hline",
            *body,
            r"\hline",
            r"\end{tabular}",
            "",
        ]
    )


def _tex(text: str) -> str:
    for char in "&%_#":
        text = text.replace(char, "\\" + char)
    return text.replace("±", r"$\pm$")


def as_html(metrics: Mapping[str, Any]) -> str:
    """An HTML table."""
    head = "".join(f"<th>{html.escape(title)}</th>" for title in ("", *COLUMNS.values()))
    body = "".join(
        f"<tr><th>{html.escape(name)}</th>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, cells in table_rows(metrics)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
