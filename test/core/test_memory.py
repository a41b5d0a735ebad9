"""What the memory promises, in RAM and in a file alike."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from semflip_core.errors import ImageError
from semflip_core.images import StoredPicture, decode_compressed
from semflip_core.memory import VideoMemory
from semflip_core.settings import MemorySettings
from support.driving import SECOND, small_picture
from support.memories import MOUNT, awkward_pose, fill, numbers


@pytest.fixture(params=["ram", "file"])
def memory(request, tmp_path):
    path = tmp_path / "memory.sqlite" if request.param == "file" else None
    with VideoMemory(path) as made:
        yield made


def test_what_is_added_comes_back_as_it_was(memory):
    picture, pose = small_picture(3), awkward_pose(1)
    first = memory.add(picture, stamp_ns=5 * SECOND, pose=pose, map_id="m", segment=2, mount=MOUNT)
    second = memory.add(small_picture(4), stamp_ns=6 * SECOND, pose=None, map_id="n", segment=3)
    assert second > first
    record = memory.record(first)
    assert (record.stamp_ns, record.pose, record.map_id) == (5 * SECOND, pose, "m")
    assert (record.segment, record.mount, record.width, record.height) == (2, MOUNT, 32, 24)
    assert memory.record(second).pose is None
    assert [r.id for r in memory.records()] == [first, second]
    assert memory.encoded_picture(first) == picture.data
    np.testing.assert_array_equal(memory.picture(first), decode_compressed(picture.data))
    assert len(memory) == 2


@pytest.mark.parametrize("flushed", [True, False])
def test_pictures_and_features_are_there_before_and_after_they_reach_the_disk(memory, flushed):
    ids = fill(memory, 3)
    memory.put_features(ids[1], "a", numbers(1))
    if flushed:
        memory.flush()
    assert memory.encoded_picture(ids[2]) == small_picture(2).data
    np.testing.assert_array_equal(memory.features(ids[1], "a").arrays["v"], numbers(1).arrays["v"])
    assert memory.features(ids[0], "a") is None
    assert memory.features(ids[1], "b") is None
    assert memory.missing_features("a") == [ids[0], ids[2]]


def test_putting_features_again_replaces_them(memory):
    (keyframe,) = fill(memory, 1)
    for flush in (False, True, False):
        memory.put_features(keyframe, "a", numbers(1))
        if flush:
            memory.flush()
        memory.put_features(keyframe, "a", numbers(2, 800))
        memory.flush()
        got = memory.features(keyframe, "a").arrays["v"]
        np.testing.assert_array_equal(got, numbers(2, 800).arrays["v"])
    assert memory.info().feature_bytes == len(numbers(2, 800).to_bytes())


def test_removing_takes_picture_and_features_along(memory):
    ids = fill(memory, 3)
    memory.put_features(ids[0], "a", numbers(1))
    memory.flush()
    memory.remove([ids[0], 999])
    for ask in (memory.record, memory.encoded_picture, memory.picture):
        with pytest.raises(KeyError):
            ask(ids[0])
    assert memory.features(ids[0], "a") is None
    assert memory.missing_features("a") == ids[1:]
    assert memory.info().feature_bytes == 0


def test_features_of_a_keyframe_that_is_gone_are_not_kept(memory):
    (keyframe,) = fill(memory, 1)
    memory.remove([keyframe])
    memory.put_features(keyframe, "a", numbers(1))
    assert memory.info().feature_bytes == 0


def test_numbers_are_never_used_again(memory):
    ids = fill(memory, 3)
    memory.remove([ids[-1]])
    assert fill(memory, 1)[0] > ids[-1]
    last = fill(memory, 1)[0]
    assert memory.clear() == 4
    assert len(memory) == 0 and memory.records() == ()
    assert fill(memory, 1)[0] > last


def test_every_change_changes_the_revision(memory):
    seen = [memory.revision]
    ids = fill(memory, 2)
    seen.append(memory.revision)
    memory.remove(ids[:1])
    seen.append(memory.revision)
    memory.clear()
    seen.append(memory.revision)
    assert len(set(seen)) == 4


def test_info_tells_what_it_holds(memory):
    fill(memory, 2, map_id="a")
    ids = fill(memory, 3, map_id="b", segment=4)
    memory.add(small_picture(9), stamp_ns=99 * SECOND, pose=None, map_id="b", segment=5)
    memory.put_features(ids[0], "d", numbers(1))
    memory.flush()
    info = memory.info()
    assert (info.keyframes, info.with_pose, info.segments) == (6, 5, 3)
    assert info.maps == {"a": 2, "b": 4} and info.digests == {"d": 1}
    assert (info.first_ns, info.last_ns) == (SECOND, 99 * SECOND)
    assert info.picture_bytes == sum(len(memory.encoded_picture(r.id)) for r in memory.records())
    assert memory.next_segment() == 6


def test_a_picture_that_cannot_be_decoded_is_not_stored(memory):
    with pytest.raises(ImageError):
        memory.add(StoredPicture(b"junk", 32, 24), stamp_ns=1, pose=None, map_id="m")
    assert len(memory) == 0 and fill(memory, 1) == [1]


def test_the_feature_budget_evicts_and_does_not_ask_for_the_evicted_again(tmp_path):
    size = len(numbers(0, 400_000).to_bytes())
    tight = MemorySettings(max_feature_bytes=3 * size + 10)
    path = tmp_path / "m.sqlite"
    with VideoMemory(path, tight) as memory:
        ids = fill(memory, 5)
        for keyframe in ids[:3]:
            memory.put_features(keyframe, "a", numbers(keyframe, 400_000))
        memory.features(ids[0], "a")  # used: the next to go is the second
        memory.put_features(ids[3], "a", numbers(4, 400_000))
        assert [memory.features(i, "a") is not None for i in ids] == [1, 0, 1, 1, 0]
        assert memory.missing_features("a") == [ids[4]]
        assert memory.info().feature_bytes <= tight.max_feature_bytes
    with VideoMemory(path, tight) as memory:
        assert memory.missing_features("a") == [ids[4]]
        memory.put_features(ids[1], "a", numbers(2, 400_000))  # made again when it was needed
        assert memory.features(ids[1], "a") is not None


def test_features_of_an_encoder_no_longer_used_go_first(tmp_path):
    size = len(numbers(0, 400_000).to_bytes())
    path = tmp_path / "m.sqlite"
    with VideoMemory(path) as memory:
        ids = fill(memory, 3)
        for keyframe in ids:
            memory.put_features(keyframe, "old", numbers(keyframe, 400_000))
    with VideoMemory(path, MemorySettings(max_feature_bytes=3 * size + 10)) as memory:
        for keyframe in ids:
            memory.put_features(keyframe, "new", numbers(keyframe, 400_000))
        assert memory.info().digests == {"new": 3}


def test_small_features_outlive_large_ones():
    """Region vectors of every keyframe are needed by recall; token caches are made again."""
    with VideoMemory(settings=MemorySettings(max_feature_bytes=1_000_000)) as memory:
        for keyframe in fill(memory, 20):
            memory.put_features(keyframe, "regions", numbers(keyframe, 10_000))
            memory.put_features(keyframe, "tokens", numbers(keyframe, 200_000))
        digests = memory.info().digests
        assert digests["regions"] == 20 and 1 <= digests["tokens"] < 5


def test_capacity_in_bytes_is_kept():
    sizes = len(small_picture(0).data)
    settings = MemorySettings(max_bytes=1_000_000)
    with VideoMemory(settings=settings) as memory:
        count = settings.max_bytes // sizes + 50
        fill(memory, count)
        assert memory.info().picture_bytes <= settings.max_bytes
        assert len(memory) < count


def test_reading_and_writing_at_once_loses_nothing(memory):
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            for record in memory.records()[-20:]:
                assert memory.encoded_picture(record.id)
                memory.features(record.id, "a")

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        try:
            for k in range(150):
                keyframe = memory.add(
                    small_picture(k), stamp_ns=(k + 1) * SECOND, pose=None, map_id="m"
                )
                memory.put_features(keyframe, "a", numbers(k))
                if k % 20 == 0:
                    memory.flush()
        finally:
            stop.set()
        for reader in readers:
            reader.result()
    assert len(memory) == 150 and memory.missing_features("a") == []
