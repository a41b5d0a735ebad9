"""The reliability page is made by a command, and the commands it names are the Makefile's."""

from __future__ import annotations

import re

import pytest

from faults import page, suite

TRIAL = {
    "seam": "camera", "fault": "raw no_data", "moment": "idle", "seconds": 0.1, "wrong_goals": 0,
    "undecided": 0, "deaths": 0, "keyframes_lost": 0, "problems": [],
}  # fmt: skip


def results(**changes: object) -> dict:
    trials = [TRIAL, {**TRIAL, "moment": "save"}, {**TRIAL, "seam": "poses", **changes}]
    return {"faults": {"trials": trials, "seconds": 9, "summary": {}}}


def test_a_fault_counts_once_for_each_moment() -> None:
    made = page.faults_table(results()["faults"])
    assert "| camera | 1 | 2 | 2 | 0 | 0 | 0 | 0 | 0 |" in made
    assert "| **all** | 2 | 2 | 3 | 0 | 0 | 0 | 0 | 0 |" in made
    assert "| **all** | 2 | 2 | 3 | 1 | 0 | 2 | 0 | 1 |" in page.faults_table(
        results(wrong_goals=1, deaths=2, problems=["x"])["faults"]
    )


def test_the_page_is_made_of_tables_between_its_markers(root) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    made = page.rewritten(text, results())
    assert page.rewritten(made, results()) == made
    assert made.split(page.BEGIN)[0] == text.split(page.BEGIN)[0]
    with pytest.raises(ValueError, match="marker"):
        page.rewritten("no page", results())
    inside = text.split(page.BEGIN)[1].split(page.END)[0]
    kept = [line for line in inside.splitlines() if line and not line.startswith(("|", "### "))]
    assert all(re.fullmatch(r"\d+ s in all; .*", line) for line in kept), "written by hand"


def test_its_commands_are_targets_and_its_table_has_todays_columns(root) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z]+)`", text))
    assert {"faults", "soak", "fuzz", "mutants", "reliability"} <= named <= targets
    if "### Faults" in text:
        assert page.table(page.FAULT_COLUMNS, []).splitlines()[0] in text


def test_the_summary_fails_for_each_broken_promise() -> None:
    from faults.fault import Tried

    whole = Tried("camera", "x", "idle")
    assert set(suite.summary([whole]).values()) == {1, 0}
    for name in ("wrong_goals", "undecided", "deaths", "keyframes_lost"):
        broken = Tried("camera", "x", "idle", problems=["told"])
        setattr(broken, name, 1)
        assert sum(suite.summary([broken]).values()) == 3
