"""What fuzzing and the fault suite found, kept; and every parser for a second."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from faults import fuzz
from faults.mutants import MUTANTS
from semflip_core.bags import BagMessage, open_bag
from semflip_core.errors import BagError, ConfigError
from semflip_core.settings import MemorySettings, read_settings_file


@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_spoilt_input_is_read_or_refused_with_the_one_error(target, tmp_path) -> None:
    from hypothesis import HealthCheck, given, settings

    @settings(
        max_examples=12, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(fuzz.spoilt(target))
    def try_one(data: bytes) -> None:
        fuzz.TARGETS[target](data, tmp_path)

    try_one()
    assert fuzz.sound(target), "there is something to spoil"


@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_the_sound_input_of_a_target_is_accepted(target, tmp_path) -> None:
    for data in fuzz.sound(target):
        fuzz.TARGETS[target](data, tmp_path)
    assert len(set(fuzz.sound(target))) == len(fuzz.sound(target)) > 0


@pytest.mark.parametrize("size", range(12))
def test_a_message_too_short_for_a_header_has_no_stamp(size) -> None:
    message = BagMessage("/x", "sensor_msgs/msg/Image", 7, b"\0\1\0\0" * 3, lambda *_: None)
    short = BagMessage(message.topic, message.msgtype, 7, message.cdr[:size], lambda *_: None)
    assert short.header_ns == 0


@pytest.mark.parametrize(
    "text", ["a: &a [x]\nb: *a", "max_keyframes: 2001-99-99", "[" * 4000, "a: !!python/name:os.x"]
)
def test_settings_that_trap_the_parser_are_one_error(tmp_path, text) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match="settings.yaml"):
        read_settings_file(MemorySettings, file)


@pytest.mark.parametrize("column", ["name", "type"])
def test_a_recording_whose_topics_are_damaged_says_so(tmp_path, column: str) -> None:
    file = tmp_path / "drive.db3"
    file.write_bytes(fuzz.sound("recording_sqlite")[0])
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE damaged AS SELECT * FROM topics")
        database.execute("DROP TABLE topics")
        database.execute("ALTER TABLE damaged RENAME TO topics")
        database.execute(f"UPDATE topics SET {column} = NULL")
    with pytest.raises(BagError, match="drive.db3.*cannot be read"):
        open_bag(file)


def test_each_mutants_text_is_there_once(root: Path) -> None:
    """`make mutants` takes minutes; that its table is not stale is seen at once."""
    for mutant in MUTANTS:
        text = (root / mutant.file).read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, f"{mutant.guard}: {mutant.old}"
        assert mutant.old != mutant.new
    assert len({mutant.guard for mutant in MUTANTS}) == len(MUTANTS) >= 30
