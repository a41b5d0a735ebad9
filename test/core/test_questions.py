"""Questions as hostile as the middleware lets through."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semflip_core.errors import QuestionError
from semflip_core.questions import clean_question, printable


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("  Where is\tthe   lamp?\n", "Where is the lamp?"),
        ("Where\x00 is the lamp?", "Where is the lamp?"),
        ("\x1b[31mWhere is the lamp?", "[31mWhere is the lamp?"),
        ("Where is \u202ethe\u202c lamp?", "Where is the lamp?"),
        ("la\u200bmp", "lamp"),
        ("Wo ist die Lampe?", "Wo ist die Lampe?"),
        ("ランプはどこですか", "ランプはどこですか"),
        ("where is the \ud800lamp", "where is the lamp"),
        ("Ｗｈｅｒｅ is the lamp", "Where is the lamp"),
    ],
)
def test_what_hides_or_moves_the_cursor_is_dropped(raw: str, clean: str) -> None:
    assert clean_question(raw, 500) == clean


@pytest.mark.parametrize("raw", ["", "   ", "\n\t", "\x00", "🧯🧯", "???", "\u200b\u200b", "12 34"])
def test_what_holds_no_word_is_refused(raw: str) -> None:
    with pytest.raises(QuestionError, match="empty|no word"):
        clean_question(raw, 500)


def test_too_long_is_refused_before_work_is_done() -> None:
    with pytest.raises(QuestionError, match="100000 characters; at most 500"):
        clean_question("a" * 100_000, 500)
    with pytest.raises(QuestionError, match="501 characters"):
        clean_question("a" * 501, 500)
    assert len(clean_question("a" * 500, 500)) == 500


@given(st.text(max_size=300))
def test_the_result_is_one_printable_line_and_stable(raw: str) -> None:
    try:
        clean = clean_question(raw, 500)
    except QuestionError:
        return
    assert clean == " ".join(clean.split())
    assert not any(unicodedata.category(c) in {"Cc", "Cf", "Cs"} for c in clean)
    clean.encode("utf-8")
    assert clean_question(clean, 5000) == clean


@given(st.text(max_size=400))
def test_log_lines_cannot_be_forged(raw: str) -> None:
    shown = printable(raw, 100)
    assert "\n" not in shown and "\x1b" not in shown and len(shown) <= 101
    shown.encode("utf-8")
