"""Importers write datasets that the reader accepts, and say what they miss."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rosbags")

from semflip_core.bags import memory_from_bag
from semflip_core.errors import BagError, DatasetError
from semflip_core.memory import VideoMemory
from semflip_core.settings import KeyframeSettings
from semflip_train.importers import FieldMapping, import_bag, import_spacereject, import_video
from semflip_train.importers_eqa import (
    import_abstaineqa,
    import_hardbench,
    import_openeqa,
    scene_of,
    split_by_episode,
)
from semflip_train.pictures import jpeg
from support.colour_bag import write_drive


@pytest.fixture
def questions(tmp_path):
    file = tmp_path / "questions.txt"
    file.write_text('Where is the red box?\n\n{"question": "And the sofa?", "answerable": false}\n')
    return file


def pictures(folder: Path, count: int) -> None:
    folder.mkdir(parents=True)
    for i in range(count):
        (folder / f"{i:03d}.jpg").write_bytes(jpeg(np.full((48, 64, 3), 40 * i + 20, np.uint8)))


def test_bags_keep_their_recording_and_get_questions(tmp_path, questions):
    drive = write_drive(tmp_path / "drive", frames=6)
    made = import_bag([drive], questions, tmp_path / "out", name="mine", licence="CC0-1.0")
    assert [(q.id, q.answerable) for q in made.queries] == [
        ("drive_000", True),
        ("drive_001", False),
    ]
    with VideoMemory() as memory:
        memory_from_bag(
            made.recording("drive"), memory, keyframes=KeyframeSettings(min_translation_m=0.01)
        )
        assert len(memory) > 1


def test_a_bag_without_a_camera_is_refused(tmp_path, questions):
    with pytest.raises(BagError, match="no such recording"):
        import_bag([tmp_path / "none"], questions, tmp_path / "out", name="x", licence="x")


def test_questions_about_unknown_recordings_are_named(tmp_path):
    drive = write_drive(tmp_path / "drive", frames=6)
    file = tmp_path / "q.jsonl"
    file.write_text('{"question": "Where?", "sequence": "other"}\n')
    with pytest.raises(DatasetError, match="sequence 'other' is not imported; imported: drive"):
        import_bag([drive], file, tmp_path / "out", name="x", licence="x")


def test_videos_become_recordings_without_poses(tmp_path, questions):
    import cv2

    file = tmp_path / "walk.avi"
    writer = cv2.VideoWriter(str(file), cv2.VideoWriter_fourcc(*"MJPG"), 10.0, (64, 48))
    for i in range(30):
        writer.write(np.full((48, 64, 3), 8 * i, np.uint8))
    writer.release()
    made = import_video([file], questions, tmp_path / "out", name="v", licence="CC0-1.0", rate=2.0)
    assert made.info.task == "eqa"
    with VideoMemory() as memory:
        ingest = memory_from_bag(
            made.recording("walk"), memory, keyframes=KeyframeSettings(), needs_pose=False
        )
        assert len(memory) == 6
        assert ingest.counters["kept"] == 6
    with pytest.raises(BagError, match="not a video"):
        import_video([questions], questions, tmp_path / "o2", name="v", licence="x")


def openeqa_file(tmp_path: Path, episodes: int, each: int) -> Path:
    rows = [
        {
            "question": f"What is number {q}?",
            "answer": "A lamp",
            "category": "object recognition",
            "question_id": f"e{e}q{q}",
            "episode_history": f"hm3d-v0/{e:03d}-hm3d-x{e}",
        }
        for e in range(episodes)
        for q in range(each)
    ]
    file = tmp_path / "open-eqa-v0.json"
    file.write_text(json.dumps(rows))
    return file


def test_openeqa_splits_by_episode_and_names_missing_frames(tmp_path):
    file = openeqa_file(tmp_path, episodes=10, each=2)
    frames = tmp_path / "frames"
    with pytest.raises(DatasetError, match="no pictures of 10 of 10 episodes"):
        import_openeqa(file, frames, tmp_path / "out")
    for e in range(10):
        pictures(frames / "hm3d-v0" / f"{e:03d}-hm3d-x{e}", 2)
    made = import_openeqa(file, frames, tmp_path / "out")
    assert len(made.queries) == 20
    assert {k: len(v) for k, v in made.info.splits.items()} == {
        "train": 5, "calibration": 1, "test": 4,
    }  # fmt: skip
    assert made.queries[0].answer is not None
    assert made.queries[0].answer.text == "A lamp"


def test_episodes_are_on_one_side_only():
    splits = split_by_episode([f"e{i}" for i in range(63)] * 3, 42, {"train": 0.5, "test": 0.5})
    assert not set(splits["train"]) & set(splits["test"])
    assert len(splits["train"]) + len(splits["test"]) == 63
    assert splits == split_by_episode([f"e{i}" for i in range(63)], 42, {"train": 0.5, "test": 0.5})


def test_two_scans_of_one_room_are_on_one_side():
    episodes = [f"scannet-v0/{n:03d}-scannet-scene{n // 2:04d}_0{n % 2}" for n in range(90)]
    for seed in range(5):
        splits = split_by_episode(episodes, seed, {"train": 0.5, "calibration": 0.1, "test": 0.4})
        assert sum(map(len, splits.values())) == len(episodes)
        scenes = [{scene_of(e) for e in names} for names in splits.values()]
        assert not scenes[0] & scenes[1]
        assert not scenes[0] & scenes[2]
        assert not scenes[1] & scenes[2]
    assert scene_of("scannet-v0/188-scannet-scene0593_01") == "scannet-scene0593"
    assert scene_of("hm3d-v0/000-hm3d-BFRyYbPCCPE") == "hm3d-BFRyYbPCCPE"


@pytest.mark.parametrize("name", ["../secret.jpg", "/etc/passwd", "a/../../b.jpg"])
def test_a_picture_cannot_lead_out_of_its_folder(tmp_path, name):
    row = {"id": "1", "image": name, "question": "Where is the lamp?", "split": "train"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(DatasetError, match=r"row '1': image: .* leads out of"):
        import_hardbench(tmp_path / "rows.jsonl", tmp_path, tmp_path / "out")


def test_abstaineqa_draws_as_many_of_each_and_the_same_twice(tmp_path):
    file = openeqa_file(tmp_path, episodes=5, each=4)
    for e in range(5):
        pictures(tmp_path / "frames" / "hm3d-v0" / f"{e:03d}-hm3d-x{e}", 1)
    rewrites = tmp_path / "rewrites.jsonl"
    rewrites.write_text(
        "".join(
            json.dumps({"question_id": f"e{e}q{q}", "question": "Which one?", "category": "vague"})
            + "\n"
            for e in range(5)
            for q in range(4)
        )
    )
    made = import_abstaineqa(file, rewrites, tmp_path / "frames", tmp_path / "o", count=12)
    assert sum(q.answerable for q in made.queries) == 12
    assert sum(not q.answerable for q in made.queries) == 12
    again = import_abstaineqa(file, rewrites, tmp_path / "frames", tmp_path / "o2", count=12)
    assert again.queries == made.queries
    with pytest.raises(DatasetError, match="rewrites of 20 HM3D questions; 190 are needed"):
        import_abstaineqa(file, rewrites, tmp_path / "frames", tmp_path / "o3")
    rewrites.write_text('{"question_id": "nope", "question": "?", "category": "x"}\n')
    with pytest.raises(DatasetError, match="'nope' is not in"):
        import_abstaineqa(file, rewrites, tmp_path / "frames", tmp_path / "o3", count=1)
    rewrites.write_text('{"question_id": "e0q0"}\n')
    with pytest.raises(DatasetError, match=r"rewrites\.jsonl:1: question"):
        import_abstaineqa(file, rewrites, tmp_path / "frames", tmp_path / "o3", count=1)


def test_hardbench_trains_three_to_one(tmp_path):
    pictures(tmp_path / "pictures", 4)
    rows = [
        {
            "id": f"{split}{i}{change or ''}",
            "image": f"{0 if split == 'train' else 1:03d}.jpg",
            "question": "Is it red?",
            "change": change,
            "split": split,
        }
        for split in ("train", "test")
        for i in range(9)
        for change in (None, "attribute")
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    made = import_hardbench(file, tmp_path / "pictures", tmp_path / "out")
    train, test = made.split("train"), made.split("test")
    assert [sum(not q.answerable for q in part) for part in (train, test)] == [3, 9]
    assert [sum(q.answerable for q in part) for part in (train, test)] == [9, 9]
    assert {q.category for q in test} == {None, "attribute"}


def test_spacereject_is_read_through_a_mapping(tmp_path):
    for name in ("0", "3"):
        write_drive(tmp_path / "release" / "bags" / name, frames=6)
    rows = [
        {"qid": 1, "scene": "0", "text": "Where is it?", "label": "answerable", "type": ""},
        {"qid": 2, "scene": "3", "text": "And that?", "label": "no", "type": "OA"},
    ]
    (tmp_path / "release" / "questions.json").write_text(json.dumps(rows))
    mapping = FieldMapping.model_validate(
        {
            "queries": "questions.json",
            "recordings": "bags",
            "licence": "unknown",
            "fields": {
                "id": "qid", "sequence": "scene", "question": "text", "answerable": "label",
                "category": "type",
            },
            "categories": {"OA": "absent", "": None} | {"": "none"},
            "splits": {"train": ["0"], "test": ["3"]},
        }
    )  # fmt: skip
    made = import_spacereject(tmp_path / "release", mapping, tmp_path / "out")
    assert [(q.id, q.answerable, q.category) for q in made.queries][1] == ("2", False, "absent")
    broken = mapping.model_copy(update={"fields": mapping.fields.model_copy(update={"id": "nr"})})
    with pytest.raises(DatasetError, match=r"no field 'nr' \(our 'id'\); there are: label, qid"):
        import_spacereject(tmp_path / "release", broken, tmp_path / "out2")
