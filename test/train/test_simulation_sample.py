"""The committed sample dataset is what DESIGN section 8 and its own labels say."""

from __future__ import annotations

import itertools
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from semflip_core.bags import memory_from_bag, open_bag
from semflip_core.images import decode_compressed
from semflip_core.memory import VideoMemory
from semflip_core.settings import KeyframeSettings
from semflip_train.dataset import Dataset, load_dataset
from semflip_train.simulation.things import all_things

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample"
SEQUENCES = ("train_0", "train_1", "calibration_0", "test_0")


@cache
def dataset() -> Dataset:
    return load_dataset(SAMPLE)


@cache
def scenes() -> dict[str, Any]:
    record: dict[str, Any] = json.loads((SAMPLE / "scenes.json").read_text(encoding="utf-8"))
    return record["sequences"]


@cache
def recording(sequence: str) -> tuple[dict[int, bytes], dict[int, tuple[float, float, float]]]:
    """Pictures and base poses ``(x, y, yaw)`` by header stamp."""
    pictures: dict[int, bytes] = {}
    poses: dict[int, tuple[float, float, float]] = {}
    with open_bag(SAMPLE / "sequences" / sequence) as bag:
        for message in bag.messages():
            decoded: Any = message.decode()
            header = decoded.header
            stamp = header.stamp.sec * 10**9 + header.stamp.nanosec
            if message.topic == "/odom":
                assert (header.frame_id, decoded.child_frame_id) == ("map", "base_link")
                pose = decoded.pose.pose
                yaw = 2.0 * math.atan2(pose.orientation.z, pose.orientation.w)
                poses[stamp] = (pose.position.x, pose.position.y, yaw)
            else:
                assert message.topic == "/camera/image_raw/compressed"
                assert message.msgtype == "sensor_msgs/msg/CompressedImage"
                pictures[stamp] = bytes(decoded.data)
    return pictures, poses


def test_the_sample_is_small_enough_to_commit() -> None:
    size = sum(file.stat().st_size for file in SAMPLE.rglob("*") if file.is_file())
    assert size <= 9_000_000


def test_splits_are_the_four_sequences_and_disjoint() -> None:
    info = dataset().info
    assert info.splits == {
        "train": ("train_0", "train_1"),
        "calibration": ("calibration_0",),
        "test": ("test_0",),
    }
    assert info.task == "localization"
    seeds = [scenes()[name]["seed"] for name in SEQUENCES]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_pictures_are_sound_and_posed(sequence: str) -> None:
    pictures, poses = recording(sequence)
    assert list(pictures) == sorted(pictures)
    assert set(pictures) <= set(poses), "each picture has a pose of its own stamp"
    stamps = sorted(poses)
    gaps = [(b - a) / 1e9 for a, b in itertools.pairwise(stamps)]
    assert max(gaps) <= 0.11, "odometry at 10 Hz or more"
    for data in list(pictures.values())[::20]:
        assert decode_compressed(data).shape == (480, 640, 3)


def test_the_test_sequence_has_enough_keyframes_objects_and_rooms() -> None:
    with VideoMemory(None) as memory:
        memory_from_bag(SAMPLE / "sequences" / "test_0", memory, keyframes=KeyframeSettings())
        assert len(memory) >= 60
    scene = scenes()["test_0"]
    well_seen = {item["name"] for item in scene["objects"] if item["largest_share"] >= 0.01}
    assert len(well_seen) >= 12
    assert len(scene["rooms"]) == 2
    assert 1.0 <= scene["camera"]["height_m"] <= 1.4


def test_answers_are_complete_and_agree_with_the_recording() -> None:
    for query in dataset().queries:
        if not query.answerable:
            assert query.answer is None
            assert query.category
            continue
        answer = query.answer
        assert answer is not None
        assert answer.position is not None
        assert answer.object_position is not None
        assert answer.yaw is not None
        assert answer.visible
        assert answer.text
        pictures, poses = recording(query.sequence)
        for start, end in answer.visible:
            assert start in pictures
            assert end in pictures
        seen_from = [poses[stamp] for stamp in pictures if _within(stamp, answer.visible)]
        assert len(seen_from) >= 3, f"{query.id}: shown in too few frames"
        nearest = min(seen_from, key=lambda pose: math.dist(pose[:2], answer.position[:2]))
        assert math.dist(nearest[:2], answer.position[:2]) < 0.01, "the best view is a real pose"
        bearing = math.atan2(
            answer.object_position[1] - answer.position[1],
            answer.object_position[0] - answer.position[0],
        )
        off = abs(math.remainder(bearing - answer.yaw, 2 * math.pi))
        assert off < math.radians(45), f"{query.id}: the best view does not face its object"


def _within(stamp: int, spans: tuple[tuple[int, int], ...]) -> bool:
    return any(start <= stamp <= end for start, end in spans)


def test_objects_of_answers_stand_where_the_scene_has_them() -> None:
    for query in dataset().queries:
        if query.answer is None or query.answer.object_position is None:
            continue
        gaps = {
            item["name"]: math.dist(item["position"], query.answer.object_position)
            for item in scenes()[query.sequence]["objects"]
        }
        name = min(gaps, key=lambda key: gaps[key])
        assert gaps[name] < 0.01
        words = next(thing for thing in all_things() if thing.name == name).names
        assert query.referent is not None
        assert any(word in query.referent for word in words), f"{query.id}: {query.referent}"


def test_only_the_test_sequence_has_unanswerable_questions_and_as_many() -> None:
    for name in SEQUENCES[:3]:
        asked = [query for query in dataset().queries if query.sequence == name]
        assert 20 <= len(asked) <= 45
        assert all(query.answerable for query in asked)
    test = dataset().split("test")
    refused = [query for query in test if not query.answerable]
    assert len(refused) * 2 == len(test)
    categories = {query.category for query in refused}
    assert {"absent", "near_miss", "subjective", "unavailable", "needs_action"} <= categories


def test_absent_things_have_no_pixel_and_no_name_in_the_scene() -> None:
    words = {thing.name: thing.words for thing in all_things()}
    present = {word for item in scenes()["test_0"]["objects"] for word in words[item["name"]]}
    absent = [query for query in dataset().split("test") if query.category == "absent"]
    assert absent
    for query in absent:
        assert query.referent is not None
        named = {
            word
            for thing in all_things()
            for word in thing.names
            if query.referent == word or query.referent.endswith(" " + word)
        }
        noun = max(named, key=len)
        assert noun.lower() not in present, f"{query.id}: {noun} might be said of something here"


def test_pairs_ask_the_same_words_of_a_memory_that_supports_them() -> None:
    pairs: dict[str, list[Any]] = {}
    for query in dataset().queries:
        if query.pair:
            pairs.setdefault(query.pair, []).append(query)
    assert len(pairs) >= 8
    for members in pairs.values():
        assert len(members) == 2
        assert {member.answerable for member in members} == {True, False}
        assert members[0].question == members[1].question
        assert members[0].sequence != members[1].sequence


def test_no_held_out_model_is_shown_and_every_author_is_credited() -> None:
    credits = (SAMPLE / "ATTRIBUTION.md").read_text(encoding="utf-8")
    used = {item["model"] for scene in scenes().values() for item in scene["objects"]}
    assert not any(model.startswith("kator/") for model in used)
    for model in used:
        assert f"`{model}`" in credits
