"""A memory file outlives restarts, has one writer, and any number of readers."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from semflip_core.errors import MemoryFileError
from semflip_core.memory import VideoMemory
from semflip_core.settings import MemorySettings
from support.driving import small_picture
from support.memories import MOUNT, QUICK, awkward_pose, fill, numbers, wait_for

# Restarts.


def test_a_restart_keeps_everything_to_the_last_bit(path):
    poses = [awkward_pose(k) for k in range(50)]
    with VideoMemory(path) as memory:
        for k, pose in enumerate(poses):
            memory.add(
                small_picture(k),
                stamp_ns=1_700_000_000_123_456_789 + k,
                pose=pose if k % 5 else None,
                map_id="m",
                segment=k // 10,
                mount=MOUNT if k % 2 else None,
            )
        memory.put_features(7, "a", numbers(7))
        records = memory.records()
    with VideoMemory(path) as memory:
        assert memory.records() == records
        assert [r.pose and r.pose.orientation for r in memory.records()] == [
            p.orientation if k % 5 else None for k, p in enumerate(poses)
        ]
        assert memory.encoded_picture(9) == small_picture(8).data
        np.testing.assert_array_equal(memory.features(7, "a").arrays["v"], numbers(7).arrays["v"])
        assert memory.next_segment() == 5
        assert memory.notice == "" and memory.degraded == ""


def test_numbers_go_on_after_a_restart_even_when_the_last_was_removed(path):
    with VideoMemory(path) as memory:
        ids = fill(memory, 4)
        memory.remove(ids[2:])
    with VideoMemory(path) as memory:
        assert fill(memory, 1) == [ids[-1] + 1]
        memory.clear()
    with VideoMemory(path) as memory:
        assert fill(memory, 1) == [ids[-1] + 2]


def test_it_is_written_within_the_interval_without_being_told(path):
    with VideoMemory(path, QUICK) as memory:
        ids = fill(memory, 3)
        wait_for(lambda: len(VideoMemory(path, read_only=True)) == 3)
        with VideoMemory(path, read_only=True) as seen:
            assert [record.id for record in seen.records()] == ids
            assert seen.encoded_picture(ids[2]) == memory.encoded_picture(ids[2])


def test_clear_gives_the_space_back(path):
    with VideoMemory(path) as memory:
        fill(memory, 200)
        memory.flush()
        memory.clear()
        assert memory.info().file_bytes < 200_000
    with VideoMemory(path) as memory:
        assert len(memory) == 0


def test_a_smaller_capacity_holds_at_the_next_start(path):
    with VideoMemory(path) as memory:
        fill(memory, 30)
    with VideoMemory(path, MemorySettings(max_keyframes=10)) as memory:
        assert len(memory) == 10


# One writer, many readers.


def test_a_second_writer_is_refused_and_told_who_has_it(path):
    with VideoMemory(path) as memory:
        fill(memory, 1)
        with pytest.raises(MemoryFileError, match=f"already open.*process {os.getpid()}"):
            VideoMemory(path)
        other = subprocess.run(
            [sys.executable, "-c", OPEN, str(path)], capture_output=True, text=True, check=False
        )
        assert other.returncode == 1 and "already open for writing" in other.stderr
        assert len(memory) == 1
    VideoMemory(path).close()


OPEN = "import sys; from semflip_core.memory import VideoMemory; VideoMemory(sys.argv[1])"


def test_a_reader_may_look_while_it_is_written_and_cannot_change_it(path):
    with VideoMemory(path) as memory:
        fill(memory, 3)
        memory.flush()
        with VideoMemory(path, read_only=True) as reader:
            assert [r.id for r in reader.records()] == [1, 2, 3]
            assert reader.encoded_picture(2) == small_picture(1).data
            for change in (
                lambda: fill(reader, 1),
                reader.clear,
                lambda: reader.remove([1]),
            ):
                with pytest.raises(MemoryFileError, match="read-only"):
                    change()


def test_a_reader_keeps_features_it_computes_to_itself(path):
    """Asking the memory of a running node works even where its features are not written yet."""
    with VideoMemory(path) as memory:
        fill(memory, 3)
        memory.flush()
        settings = MemorySettings(max_unsaved_bytes=1_000_000)
        with VideoMemory(path, settings, read_only=True) as reader:
            assert reader.missing_features("a") == [1, 2, 3]
            reader.put_features(2, "a", numbers(5))
            got = reader.features(2, "a").arrays["v"]
            np.testing.assert_array_equal(got, numbers(5).arrays["v"])
            reader.flush()
            for keyframe in (1, 3):
                reader.put_features(keyframe, "a", numbers(1, 900_000))
            assert reader.missing_features("a") == [], "over its bound they are not asked for again"
        assert memory.missing_features("a") == [1, 2, 3]
    with VideoMemory(path, read_only=True) as reader:
        assert reader.missing_features("a") == [1, 2, 3]


def test_reading_what_is_not_there_makes_no_file(path):
    with pytest.raises(MemoryFileError, match="no such memory file"):
        VideoMemory(path, read_only=True)
    assert not path.exists()


def test_a_closed_memory_says_so(path):
    memory = VideoMemory(path)
    (keyframe,) = fill(memory, 1)
    memory.close()
    memory.close()
    with pytest.raises(MemoryFileError, match="closed"):
        fill(memory, 1)
    with pytest.raises(MemoryFileError, match="closed"):
        memory.picture(keyframe)


def test_a_directory_that_cannot_be_made_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(MemoryFileError, match="file"):
        VideoMemory(tmp_path / "file" / "memory.sqlite")


# A directory that cannot be written.


def refuse_index(monkeypatch) -> None:
    """SQLite as it is where the WAL's index cannot be made; root ignores permissions."""
    connect = sqlite3.connect

    def refused(target, *arguments, **options):
        if str(target).endswith("?mode=ro"):
            raise sqlite3.OperationalError("unable to open database file")
        return connect(target, *arguments, **options)

    monkeypatch.setattr(sqlite3, "connect", refused)


def test_a_whole_file_is_read_even_where_nothing_can_be_written(path, monkeypatch):
    with VideoMemory(path) as memory:
        fill(memory, 3)
    refuse_index(monkeypatch)
    with VideoMemory(path, read_only=True) as memory:
        assert len(memory) == 3 and memory.picture(1).shape == (24, 32, 3)


def test_a_file_without_its_last_changes_is_not_passed_off_as_whole(path, monkeypatch):
    with VideoMemory(path) as memory:
        fill(memory, 3)
    path.with_name(path.name + "-wal").write_bytes(b"changes")
    refuse_index(monkeypatch)
    with pytest.raises(MemoryFileError, match=r"together with memory\.sqlite-wal"):
        VideoMemory(path, read_only=True)
