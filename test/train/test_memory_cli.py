"""``semflip memory`` as a user types it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from semflip_core.errors import MemoryFileError
from semflip_core.memory import VideoMemory
from semflip_train.memory_cli import memory_app
from support.driving import small_picture
from support.memories import fill


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "memory.sqlite"
    with VideoMemory(file) as memory:
        fill(memory, 5, map_id="hall")
    return file


def run(*arguments: object, answer: str | None = None):
    return CliRunner().invoke(memory_app, [str(a) for a in arguments], input=answer)


def test_info_speaks_to_people_and_to_programs(path):
    shown = run("info", path)
    assert shown.exit_code == 0, shown.output
    assert "5 (5 with a pose)" in shown.output and "'hall': 5 keyframes" in shown.output
    found = json.loads(run("info", path, "--json").stdout)
    assert found["keyframes"] == 5 and found["maps"] == {"hall": 5}


def test_info_works_while_a_node_records(path):
    with VideoMemory(path) as memory:
        fill(memory, 1)
        assert run("info", path).exit_code == 0


def test_a_check_finds_one_flipped_byte(path):
    assert run("info", path, "--check").exit_code == 0
    data = bytearray(path.read_bytes())
    position = data.find(small_picture(3).data[-90:-10])
    data[position + 40] ^= 0xFF
    path.write_bytes(data)
    checked = run("info", path, "--check")
    assert checked.exit_code == 1 and "keyframe 4: picture missing or damaged" in checked.output
    assert run("info", path, "--check", "--json").exit_code == 1


def test_export_writes_files(path, tmp_path):
    done = run("export", path, tmp_path / "out")
    assert done.exit_code == 0 and "5 keyframes" in done.output
    assert len(list((tmp_path / "out" / "pictures").iterdir())) == 5


def test_merge_joins_and_says_what_it_did(path, tmp_path):
    other = tmp_path / "other.sqlite"
    with VideoMemory(other) as memory:
        fill(memory, 7, map_id="kitchen")
    joined = tmp_path / "joined.sqlite"
    done = run("merge", joined, path, other, path)
    assert done.exit_code == 0, done.output
    assert "7 keyframes added" in done.output and "5 were there" in done.output
    with VideoMemory(joined, read_only=True) as memory:
        assert memory.info().maps == {"hall": 5, "kitchen": 7}


def test_a_memory_is_not_merged_into_itself(path):
    assert isinstance(run("merge", path, path).exception, MemoryFileError)


def test_clear_asks_first(path):
    assert run("clear", path, answer="n\n").exit_code == 1
    with VideoMemory(path, read_only=True) as memory:
        assert len(memory) == 5
    assert run("clear", path, answer="y\n").exit_code == 0
    with VideoMemory(path, read_only=True) as memory:
        assert len(memory) == 0


@pytest.mark.parametrize("command", ["info", "export", "clear"])
def test_a_wrong_path_is_named_and_not_made(command, tmp_path):
    wrong = tmp_path / "no.sqlite"
    arguments = [command, wrong, tmp_path / "out"] if command == "export" else [command, wrong]
    error = run(*arguments).exception
    assert isinstance(error, MemoryFileError) and "no.sqlite" in str(error)
    assert not wrong.exists()
