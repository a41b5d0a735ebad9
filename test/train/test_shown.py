"""How long commands tell of their progress."""

from __future__ import annotations

import pytest

from semflip_train import shown


@pytest.fixture(autouse=True)
def nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)


def test_a_log_is_told_now_and_then_of_each_step(monkeypatch, capsys) -> None:
    now = [0.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    with shown.steps() as told:
        assert told is not None
        for second in range(0, 100, 10):
            now[0] = float(second)
            told("frames", second, 100)
            told("rows", 1, 0)
    lines = [line for line in capsys.readouterr().err.splitlines() if "frames" in line]
    assert lines == [f"{s} s: frames {s} of 100" for s in (30, 60, 90)]


def test_a_slow_step_is_told_of_when_its_first_part_is_done(monkeypatch, capsys) -> None:
    now = [0.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    with shown.steps() as told:
        assert told is not None
        for done in (1, 2):
            now[0] += 300.0
            told("sequences", done, 11)
        told("frames", 5, 100)
    assert capsys.readouterr().err == "300 s: sequences 1 of 11\n600 s: sequences 2 of 11\n"


@pytest.mark.parametrize("quiet", [True, False])
def test_ci_and_who_wants_quiet_are_told_nothing(monkeypatch, quiet: bool) -> None:
    if not quiet:
        monkeypatch.setenv("CI", "1")
    with shown.steps(quiet=quiet) as told:
        assert told is None


def test_what_is_soon_done_says_nothing(capsys) -> None:
    with shown.steps() as told:
        assert told is not None
        told("frames", 1, 2)
        told("frames", 2, 2)
    assert capsys.readouterr().err == ""
