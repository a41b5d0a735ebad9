"""A memory whose file is taken away while it is in use says so, and claims nothing."""

from __future__ import annotations

import pytest

from semflip_core.errors import EncoderError, MemoryFileError
from semflip_core.frames import FrameFeatures
from semflip_core.memory import VideoMemory
from support.memories import fill, numbers


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_deleted_or_replaced_in_use_is_no_place_to_save(tmp_path, replaced):
    path = tmp_path / "memory.sqlite"
    memory = VideoMemory(path)
    fill(memory, 2)
    memory.flush()
    path.unlink()
    if replaced:
        path.write_bytes(b"another file")
    with pytest.raises(MemoryFileError, match="deleted or replaced.*start the node again"):
        memory.flush()
    fill(memory, 1)
    assert "deleted or replaced" in memory.degraded
    assert len(memory) == 3
    assert memory.encoded_picture(1)
    memory.close()


def test_a_lock_file_of_any_bytes_does_not_keep_a_memory_from_opening(tmp_path):
    path = tmp_path / "memory.sqlite"
    (tmp_path / "memory.sqlite.lock").write_bytes(b"\xff\xfe\x00" * 50)
    with VideoMemory(path) as memory:
        assert fill(memory, 1) == [1]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_features_that_would_spoil_every_question_are_not_kept(value):
    bad = FrameFeatures({"v": numbers(1).arrays["v"] * 0 + value})
    with VideoMemory() as memory:
        fill(memory, 1)
        for features in (bad, FrameFeatures({})):
            with pytest.raises(EncoderError, match="features"):
                memory.put_features(1, "d", features)
        assert memory.features(1, "d") is None
