"""A memory file that is damaged, foreign, or on a full disk."""

from __future__ import annotations

import os
import resource
import sqlite3

import pytest

from semflip_core.errors import MemoryFileError
from semflip_core.memory import VideoMemory
from semflip_core.settings import MemorySettings
from support.driving import SECOND, small_picture
from support.memories import QUICK, fill, numbers, wait_for


def damaged(path, how: str) -> bytes:
    with VideoMemory(path) as memory:
        fill(memory, 60)
    data = bytearray(path.read_bytes())
    if how == "cut":
        del data[len(data) * 6 // 10 :]
    elif how == "header":
        data[:100] = os.urandom(100)
    elif how == "zeros":
        data[: 2 * 8192] = bytes(2 * 8192)
    elif how == "text":
        data = bytearray(b"this was never a database, or is not one any more\n" * 100)
    elif how == "records":
        with sqlite3.connect(path) as connection:
            query = "SELECT rootpage FROM sqlite_master WHERE name = 'keyframes'"
            (page,) = connection.execute(query).fetchone()
        start = (page - 1) * 8192
        data[start : start + 4096] = os.urandom(4096)
    path.write_bytes(data)
    return bytes(data)


@pytest.mark.parametrize("how", ["cut", "header", "zeros", "text", "records"])
def test_a_damaged_file_is_set_aside_whole_and_a_new_one_begun(path, how):
    before = damaged(path, how)
    with VideoMemory(path) as memory:
        assert len(memory) == 0
        assert "damaged" in memory.notice and "set aside as memory.sqlite.damaged-" in memory.notice
        assert fill(memory, 2) == [1, 2]
    (aside,) = path.parent.glob("memory.sqlite.damaged-*[0-9]")
    assert aside.read_bytes() == before
    with VideoMemory(path) as memory:
        assert len(memory) == 2 and memory.notice == ""


def test_damage_that_every_read_survives_is_found_too(path):
    """Two rows change places inside their page: SQLite reads it without a word."""
    with VideoMemory(path) as memory:
        fill(memory, 10)
    with sqlite3.connect(path) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'keyframes'"
        (page,) = connection.execute(query).fetchone()
    data = bytearray(path.read_bytes())
    start = (page - 1) * 8192
    assert data[start] == 0x0D, "one leaf page"
    first, second = data[start + 8 : start + 10], data[start + 10 : start + 12]
    data[start + 8 : start + 12] = second + first
    path.write_bytes(data)
    with VideoMemory(path) as memory:
        assert "set aside" in memory.notice and len(memory) == 0


def test_two_damaged_files_of_one_second_do_not_overwrite_each_other(path):
    kept = set()
    for _ in range(3):
        kept.add(damaged(path, "header"))
        VideoMemory(path).close()
        path.unlink()
    asides = list(path.parent.glob("memory.sqlite.damaged-*"))
    assert {aside.read_bytes() for aside in asides} == kept


def test_a_damaged_file_is_not_touched_by_a_reader(path):
    before = damaged(path, "header")
    with pytest.raises(MemoryFileError, match=r"memory\.sqlite"):
        VideoMemory(path, read_only=True)
    assert path.read_bytes() == before


def test_one_damaged_picture_costs_that_keyframe_only(path):
    with VideoMemory(path) as memory:
        ids = fill(memory, 20)
        memory.put_features(ids[3], "a", numbers(3))
    data = bytearray(path.read_bytes())
    for needle in (small_picture(7).data[-90:-10], numbers(3).to_bytes()[-100:]):
        assert data.count(needle) == 1
        position = data.find(needle) + 40
        data[position] ^= 0xFF
    path.write_bytes(data)
    with VideoMemory(path) as memory:
        assert len(memory) == 20
        with pytest.raises(KeyError):
            memory.picture(ids[7])
        assert len(memory) == 19
        assert memory.features(ids[3], "a") is None
        assert ids[3] in memory.missing_features("a"), "features are made again"
        assert memory.picture(ids[8]).shape == (24, 32, 3)
    with VideoMemory(path) as memory:
        assert ids[7] not in [r.id for r in memory.records()]


def test_a_stored_pose_that_is_no_pose_costs_the_pose_only(path):
    with VideoMemory(path) as memory:
        fill(memory, 3)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE keyframes SET qw = 7.0 WHERE id = 2")
        connection.execute("UPDATE keyframes SET px = NULL WHERE id = 3")
    with VideoMemory(path) as memory:
        assert [record.pose is None for record in memory.records()] == [False, True, True]


def test_another_sqlite_file_is_not_ours_to_touch(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(MemoryFileError, match="not a video memory"):
        VideoMemory(path)
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused_by_number_and_left_alone(path):
    VideoMemory(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(MemoryFileError, match="schema version 99"):
        VideoMemory(path)
    assert path.exists() and not list(path.parent.glob("*damaged*"))


def test_an_empty_file_is_a_new_memory(path):
    path.write_bytes(b"")
    with VideoMemory(path) as memory:
        assert memory.notice == "" and fill(memory, 1) == [1]


# A full disk.


def limit_file_size(nbytes: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))


@pytest.fixture
def full_disk(path):
    """A memory whose file cannot grow any more: real refusals of the operating system."""
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    memory = VideoMemory(path, QUICK)
    ids = fill(memory, 20)
    memory.flush()
    limit_file_size(path.stat().st_size + 50_000)
    yield memory, ids
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    memory.close()
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_keeps_the_memory_serving_and_loses_nothing_stored(full_disk, path, caplog):
    memory, ids = full_disk
    more = [
        memory.add(small_picture(k), stamp_ns=k * SECOND, pose=None, map_id="m")
        for k in range(100, 400)
    ]
    memory.put_features(more[-1], "a", numbers(1))
    with pytest.raises(MemoryFileError, match="cannot be written"):
        memory.flush()
    assert "cannot be written" in memory.degraded and str(path) in memory.degraded
    assert len(memory) == 320
    assert memory.encoded_picture(more[5]) == small_picture(105).data
    assert memory.encoded_picture(ids[3]) == small_picture(3).data
    assert memory.features(more[-1], "a") is not None
    wait_for(lambda: "kept in RAM" in caplog.text)
    assert caplog.text.count("kept in RAM") == 1, "said once, not at every try"
    with VideoMemory(path, read_only=True) as reader:
        assert {r.id for r in reader.records()} >= set(ids)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    memory.flush()
    assert memory.degraded == ""
    memory.close()
    with VideoMemory(path) as again:
        assert len(again) == 320
        assert again.encoded_picture(more[5]) == small_picture(105).data


def test_with_a_full_disk_ram_stays_bounded_and_the_stored_stay(path):
    settings = MemorySettings(commit_interval_s=0.05, max_unsaved_bytes=1_000_000)
    memory = VideoMemory(path, settings)
    ids = fill(memory, 5)
    memory.flush()
    writer = memory._store._writer
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {pages}")
    size = len(small_picture(0).data)
    for k in range(1_500_000 // size):
        keyframe = memory.add(small_picture(k), stamp_ns=k * SECOND, pose=None, map_id="m")
        memory.put_features(keyframe, "a", numbers(k, 2000))
    assert "full" in memory.degraded
    assert memory._store.unsaved_bytes() <= 1_100_000
    assert keyframe in [r.id for r in memory.records()], "the newest stays"
    assert set(ids) <= {r.id for r in memory.records()}, "the stored stay"
    writer.execute("PRAGMA max_page_count = 1000000")
    memory.flush()
    count = len(memory)
    memory.close()
    with VideoMemory(path) as again:
        assert len(again) == count
