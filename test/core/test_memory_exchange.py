"""Memories exported as plain files and merged into one another."""

from __future__ import annotations

import json

import numpy as np
import pytest

from semflip_core.errors import MemoryFileError
from semflip_core.images import decode_compressed
from semflip_core.memory import VideoMemory
from semflip_core.memory.exchange import Merged, export_memory, merge_memory
from semflip_core.settings import MemorySettings
from support.driving import SECOND, small_picture
from support.memories import MOUNT, awkward_pose, fill, numbers


def test_an_export_holds_every_picture_and_every_digit(tmp_path):
    memory = VideoMemory()
    pose = awkward_pose(3)
    memory.add(small_picture(1), stamp_ns=2**60 + 1, pose=pose, map_id="m", mount=MOUNT)
    memory.add(small_picture(2), stamp_ns=7, pose=None, map_id="n", segment=4)
    told = []
    assert export_memory(memory, tmp_path / "out", lambda *done: told.append(done)) == 2
    assert told == [(1, 2), (2, 2)]
    lines = (tmp_path / "out" / "keyframes.jsonl").read_text().splitlines()
    first, second = (json.loads(line) for line in lines)
    assert first["stamp_ns"] == 2**60 + 1
    assert tuple(first["pose"]["orientation"]) == pose.orientation
    assert tuple(first["mount"]["position"]) == MOUNT.position
    assert second["pose"] is None and second["segment"] == 4
    written = (tmp_path / "out" / second["file"]).read_bytes()
    assert written == small_picture(2).data and second["file"].endswith(".jpg")
    assert decode_compressed(written).shape == (24, 32, 3)


def test_an_export_never_mixes_with_what_is_there(tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(MemoryFileError, match="not empty"):
        export_memory(VideoMemory(), tmp_path)


def test_merging_brings_frames_poses_features_and_segments(tmp_path):
    target, source = VideoMemory(), VideoMemory(tmp_path / "source.sqlite")
    fill(target, 3, map_id="a", segment=2)
    ids = fill(source, 2, map_id="b")
    pose = awkward_pose(1)
    ids.append(
        source.add(
            small_picture(9), stamp_ns=9 * SECOND, pose=pose, map_id="b", segment=1, mount=MOUNT
        )
    )
    source.put_features(ids[2], "d", numbers(5))
    assert merge_memory(target, source) == Merged(added=3, known=0, damaged=0, spared=0)
    record = target.records()[-1]
    assert (record.pose, record.mount, record.map_id, record.segment) == (pose, MOUNT, "b", 4)
    assert target.encoded_picture(record.id) == small_picture(9).data
    got = target.features(record.id, "d").arrays["v"]
    np.testing.assert_array_equal(got, numbers(5).arrays["v"])
    assert [r.segment for r in target.records()] == [2, 2, 2, 3, 3, 4]
    source.close()


def test_merging_twice_changes_nothing():
    target, source = VideoMemory(), VideoMemory()
    fill(source, 5)
    merge_memory(target, source)
    before = target.records()
    assert merge_memory(target, source) == Merged(added=0, known=5, damaged=0, spared=0)
    assert target.records() == before


def test_what_does_not_fit_is_said():
    target, source = VideoMemory(settings=MemorySettings(max_keyframes=4)), VideoMemory()
    fill(source, 10)
    merged = merge_memory(target, source)
    assert len(target) == 4 and merged == Merged(added=4, known=0, damaged=0, spared=6)


def test_the_same_place_on_two_maps_stays_two_maps():
    target, source = VideoMemory(), VideoMemory()
    fill(target, 2, map_id="yesterday")
    fill(source, 2, map_id="today")
    merge_memory(target, source)
    assert target.info().maps == {"yesterday": 2, "today": 2}
