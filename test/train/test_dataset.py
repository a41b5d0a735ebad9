"""A dataset that breaks its layout is refused with file, line, field and cure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from semflip_core.errors import DatasetError
from semflip_train.dataset import load_dataset

INFO = """name: tiny
licence: CC0-1.0
task: localization
splits:
  train: [a]
  calibration: []
  test: [b]
"""


def line(**changes: Any) -> str:
    query = {
        "id": "q1",
        "sequence": "a",
        "question": "Where is the lamp?",
        "answerable": True,
        "category": None,
        "referent": "lamp",
        "answer": {
            "position": [0.0, 1.0, 0.0],
            "yaw": 0.5,
            "object_position": [1.0, 1.0, 0.4],
            "visible": [[10, 20]],
        },
    }
    query.update(changes)
    return json.dumps({k: v for k, v in query.items() if v != "(leave out)"})


def write(root: Path, queries: str | bytes, info: str = INFO) -> Path:
    for sequence in ("a", "b"):
        (root / "sequences" / sequence).mkdir(parents=True, exist_ok=True)
    (root / "dataset.yaml").write_text(info)
    data = queries if isinstance(queries, bytes) else queries.encode()
    (root / "queries.jsonl").write_bytes(data)
    return root


def test_a_sound_dataset_is_read_whole(tmp_path):
    dataset = load_dataset(
        write(tmp_path, line() + "\n\n" + line(id="q2", sequence="b", answer=None))
    )
    assert dataset.info.task == "localization"
    assert [q.id for q in dataset.split("train")] == ["q1"]
    assert [q.id for q in dataset.split("test")] == ["q2"]
    answer = dataset.queries[0].answer
    assert answer is not None
    assert answer.object_position == (1.0, 1.0, 0.4)
    assert answer.visible == ((10, 20),)
    assert dataset.recording("a") == tmp_path / "sequences" / "a"


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (line(question="(leave out)"), r"queries\.jsonl:1: question: missing; add it"),
        (line(answerable="(leave out)"), r":1: answerable: missing"),
        (line() + "\n" + line(), r":2: id 'q1' is already on line 1"),
        (line(sequence="z"), r":1: sequence 'z' is in no split .*known: a, b"),
        (line(answerable="yes"), r":1: answerable: .*\(got 'yes'\)"),
        (line(colour="red"), r":1: colour: unknown field; known: .*question"),
        (line(question=5), r":1: question: .*string"),
        (
            line(answer={"position": [0.0, float("nan"), 0.0]}),
            r":1: answer: position .*nan.* is not three finite numbers",
        ),
        (line(answer={"visible": [[20, 10]]}), r"span \[20, 10\] ends before it starts"),
        (line(answer={"position": [1.0, 2.0]}), r":1: answer\.position"),
        (line(answer={"yaw": float("inf")}), r":1: answer\.yaw"),
        ('{"id": "q1", ', r":1: not one JSON object a line"),
        ("[1, 2]", r":1: expected a JSON object, got list"),
        ("", r"holds no question"),
        (line().encode() + b'\n{"id": "\xff"}', r":2: not UTF-8 \(byte 0xff"),
    ],
)
def test_broken_questions_are_named(tmp_path, queries, message):
    with pytest.raises(DatasetError, match=message):
        load_dataset(write(tmp_path, queries))


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (INFO.replace("test: [b]", "test: [a]"), r"'a' is in the splits 'train' and 'test'"),
        (INFO.replace("test: [b]", "test: [c]"), r"'c' has no recording .*there are: a, b"),
        (INFO.replace("task: localization", "task: dance"), r"task: .*localization"),
        (INFO.replace("licence: CC0-1.0\n", ""), r"licence: missing"),
        (INFO.replace("  test:", "  dev:"), r"splits.dev"),
        ("splits: [", r"not valid YAML"),
        ("hello", r"expected a mapping"),
    ],
)
def test_broken_descriptions_are_named(tmp_path, info, message):
    with pytest.raises(DatasetError, match=message):
        load_dataset(write(tmp_path, line(), info))


def test_an_empty_split_says_which_splits_there_are(tmp_path):
    dataset = load_dataset(write(tmp_path, line()))
    with pytest.raises(DatasetError, match=r"splits\.calibration is empty; .*train \(1\)"):
        dataset.split("calibration")
    with pytest.raises(DatasetError, match=r"no question about the test sequences \(b\)"):
        dataset.split("test")


def test_missing_files_are_named(tmp_path):
    with pytest.raises(DatasetError, match="no such dataset folder"):
        load_dataset(tmp_path / "nowhere")
    write(tmp_path, line())
    (tmp_path / "queries.jsonl").unlink()
    with pytest.raises(DatasetError, match=r"queries\.jsonl: missing"):
        load_dataset(tmp_path)


@pytest.mark.parametrize(
    "name", ["../../etc", "a/../../b", "/etc", ".", "..", ".hidden", "a\\b", "a b", "", "x" * 200]
)
def test_a_sequence_cannot_lead_out_of_its_dataset(tmp_path, name):
    """Its name is part of paths that are read, and of files that are made and removed."""
    write(tmp_path, line(), INFO.replace("[b]", json.dumps([name])))
    with pytest.raises(DatasetError, match="no plain name"):
        load_dataset(tmp_path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000])
def test_a_question_that_nests_without_end_is_named_with_its_line(tmp_path, text):
    with pytest.raises(DatasetError, match=r"jsonl:2: .*deep"):
        load_dataset(write(tmp_path, line() + "\n" + text))
