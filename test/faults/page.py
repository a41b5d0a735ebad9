"""``python -m faults.page``: the tables of docs/reliability.md, from the results of the last runs.

Written between two markers, never by hand.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from typing import Any

from faults.suite import OUT, ROOT

PAGE = ROOT / "docs" / "reliability.md"
BEGIN = (
    "<!-- made by python -m faults.page from the results of make faults, soak, fuzz, mutants -->"
)
END = "<!-- end of results -->"
FAULT_COLUMNS = (
    "seam", "distinct faults", "moments", "tried (fault and moment)", "goals wrongly published",
    "queries without a decision", "node deaths", "keyframes lost", "other",
)  # fmt: skip


def table(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def faults_table(results: dict[str, Any]) -> str:
    """One row a seam, and the sum."""
    by_seam: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for trial in results["trials"]:
        if trial["moment"]:
            by_seam[trial["seam"]].append(trial)
    rows: list[tuple[Any, ...]] = []
    everything: list[dict[str, Any]] = []
    for seam, trials in by_seam.items():
        rows.append(_row(seam, trials))
        everything += trials
    rows.append(_row("**all**", everything))
    return table(FAULT_COLUMNS, rows)


def _row(seam: str, trials: list[dict[str, Any]]) -> tuple[Any, ...]:
    pairs = {(t["seam"], t["fault"], t["moment"]) for t in trials}
    counts = [
        sum(t[key] for t in trials)
        for key in ("wrong_goals", "undecided", "deaths", "keyframes_lost")
    ]
    broken = sum(bool(t["problems"]) for t in trials)
    return (
        seam,
        len({(t["seam"], t["fault"]) for t in trials}),
        len({t["moment"] for t in trials}),
        len(pairs),
        *counts,
        broken,
    )


def figures(values: dict[str, Any], left_out: tuple[str, ...] = ("problems",)) -> str:
    """Name and value of what was measured."""
    rows: list[tuple[Any, ...]] = [
        (
            name,
            ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value,
        )
        for name, value in values.items()
        if name not in left_out
    ]
    problems = values.get("problems") or []
    return table(("measured", "value"), [*rows, ("broken promises", len(problems))])


def section(results: dict[str, Any]) -> str:
    """Everything between the markers."""
    parts = [BEGIN]
    if "faults" in results:
        seconds = results["faults"]["seconds"]
        told = f'{seconds} s in all; "other" counts trials with anything else unexpected.'
        parts += ["### Faults (`make faults`)", faults_table(results["faults"]), told]
    if "hostile" in results:
        parts += ["### Hostile questions (`make faults`)", figures(results["hostile"])]
    if "lifecycle" in results:
        parts += ["### Random lifecycles under traffic (`make faults`)",
                  figures(results["lifecycle"])]  # fmt: skip
    if "soak" in results:
        parts += ["### Load (`make soak`)", figures(results["soak"])]
    if "fuzz" in results:
        fuzz = results["fuzz"]
        rows = [
            (t["target"], t["first_seed"], t["examples"], t["seconds"],
             "nothing" if not t["failure"] else "**a failure**")
            for t in fuzz["targets"]
        ]  # fmt: skip
        parts += [
            "### Fuzzing (`make fuzz`)",
            table(("parser", "first seed", "examples", "seconds", "found"), rows),
        ]
    if "mutants" in results:
        rows = [
            (r["guard"], f"`{r['file']}`", f"`{r['noticed by']}`" if r["noticed by"] else "**no**")
            for r in results["mutants"]["rows"]
        ]
        parts += [
            "### Guards taken out (`make mutants`)",
            table(("guard", "in", "noticed first by"), rows),
        ]
    return "\n\n".join([*parts, END])


def rewritten(page: str, results: dict[str, Any]) -> str:
    """The page with its section replaced.

    Raises:
        ValueError: a marker is missing.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks the markers '{BEGIN}' and '{END}'")
    return before + section(results) + after


def main() -> int:
    """Rewrite the page from the results file."""
    if not OUT.is_file():
        print(f"{OUT} is missing: run make faults first", file=sys.stderr)
        return 1
    results = json.loads(OUT.read_text(encoding="utf-8"))
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
