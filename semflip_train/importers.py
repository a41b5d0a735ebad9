"""Other people's data -> datasets of our layout; nothing is downloaded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from semflip_core.errors import DatasetError, MissingExtraError
from semflip_core.settings import Settings
from semflip_train.dataset import Dataset, Split, load_dataset
from semflip_train.stores import write_whole

Splits = Mapping[str, Sequence[str]]
PICTURES = (".jpg", ".jpeg", ".png", ".webp")


def write_dataset(
    root: Path,
    *,
    name: str,
    licence: str,
    task: Literal["localization", "eqa"],
    splits: Splits,
    queries: Iterable[Mapping[str, Any]],
    topics: Mapping[str, str | None] | None = None,
    map_frame: str = "map",
    description: str = "",
) -> Dataset:
    """Write ``dataset.yaml`` and ``queries.jsonl`` beside recordings already there, and check."""
    import yaml

    info = {
        "name": name,
        "version": "1",
        "licence": licence,
        "task": task,
        "map_frame": map_frame,
        "topics": dict(topics or {}),
        "splits": {split: list(names) for split, names in splits.items()},
        "description": description,
    }
    lines = [json.dumps(dict(query), ensure_ascii=False) for query in queries]
    write_whole(root / "queries.jsonl", "".join(line + "\n" for line in lines))
    write_whole(root / "dataset.yaml", yaml.safe_dump(info, sort_keys=False, allow_unicode=True))
    return load_dataset(root)


def read_questions(file: Path) -> list[dict[str, Any]]:
    """Questions about an imported recording: JSON lines, or one plain question a line.

    Plain lines are answerable; JSON objects may carry any field of ``queries.jsonl`` but ``id`` and
    ``sequence``.

    Raises:
        DatasetError: the file is missing or a JSON line is broken.
    """
    if not file.is_file():
        raise DatasetError(f"{file}: no such file of questions")
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.strip()
        if not text:
            continue
        if text.startswith("{"):
            try:
                rows.append({"answerable": True, **json.loads(text)})
            except json.JSONDecodeError as error:
                raise DatasetError(f"{file}:{number}: not a JSON object: {error.msg}") from error
        else:
            rows.append({"question": text, "answerable": True})
    if not rows:
        raise DatasetError(f"{file}: holds no question")
    return rows


def import_bag(
    recordings: Sequence[Path],
    questions: Path,
    out: Path,
    *,
    name: str,
    licence: str,
    split: Split = "train",
    image_topic: str | None = None,
    pose_topic: str | None = None,
    map_frame: str = "map",
) -> Dataset:
    """Copy recordings of a robot and attach questions to each of them.

    Questions may name their recording by ``"sequence"`` (its folder's name); those that do not
    belong to every one.

    Raises:
        BagError: a recording cannot be read, or has no camera or pose topic.
    """
    from semflip_core.bag_topics import choose_image_topic, choose_pose_source
    from semflip_core.bags import open_bag

    rows = read_questions(questions)
    names = []
    for recording in recordings:
        with open_bag(recording) as bag:
            choose_image_topic(bag, image_topic)
            choose_pose_source(bag, pose_topic, required=True)
        target = out / "sequences" / recording.stem
        target.parent.mkdir(parents=True, exist_ok=True)
        if recording.is_dir():
            shutil.copytree(recording, target, dirs_exist_ok=True)
        else:
            target.mkdir(exist_ok=True)
            shutil.copy2(recording, target / recording.name)
        names.append(recording.stem)
    return write_dataset(
        out,
        name=name,
        licence=licence,
        task="localization",
        splits={split: names},
        queries=_attached(rows, names),
        topics={"image": image_topic, "pose": pose_topic},
        map_frame=map_frame,
    )


def _attached(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    queries = []
    for number, row in enumerate(rows):
        named = row.get("sequence")
        if named is not None and named not in names:
            raise DatasetError(
                f"question {number + 1}: sequence '{named}' is not imported; "
                f"imported: {', '.join(names)}"
            )
        for name in [named] if named else names:
            queries.append({**row, "id": f"{name}_{number:03d}", "sequence": name})
    return queries


def import_video(
    videos: Sequence[Path],
    questions: Path,
    out: Path,
    *,
    name: str,
    licence: str,
    split: Split = "train",
    rate: float = 2.0,
) -> Dataset:
    """Turn video files into recordings without poses (task ``eqa``) and attach questions.

    Args:
        rate: pictures a second that are kept.

    Raises:
        BagError: a file is no video.
    """
    rows = read_questions(questions)
    names = []
    for video in videos:
        write_picture_bag(_video_frames(video, rate), out / "sequences" / video.stem)
        names.append(video.stem)
    return write_dataset(
        out,
        name=name,
        licence=licence,
        task="eqa",
        splits={split: names},
        queries=_attached(rows, names),
        topics={"image": IMAGE_TOPIC},
    )


IMAGE_TOPIC = "/camera/image_raw/compressed"


def _video_frames(video: Path, rate: float) -> Iterable[tuple[int, bytes]]:
    """``(stamp_ns, jpeg)`` of a video at a lower rate."""
    from semflip_core.errors import BagError

    try:
        import cv2
    except ImportError as error:
        raise MissingExtraError("cv2", "cpu", "reading video files") from error
    from semflip_train.pictures import jpeg

    capture = cv2.VideoCapture(str(video))
    try:
        if not video.is_file() or not capture.isOpened():
            raise BagError(f"{video}: not a video that OpenCV can read")
        fps = capture.get(cv2.CAP_PROP_FPS) or 25.0
        number, following = 0, 0.0
        while capture.grab():
            time_s = number / fps
            number += 1
            if time_s + 1e-9 >= following:
                following = time_s + 1.0 / rate
                done, bgr = capture.retrieve()
                if done:
                    rgb = np.ascontiguousarray(bgr[..., ::-1]).astype(np.uint8)
                    yield 1 + round(time_s * 1e9), jpeg(rgb, 90)
    finally:
        capture.release()


def picture_frames(files: Sequence[Path], rate: float) -> Iterable[tuple[int, bytes]]:
    """``(stamp_ns, bytes)`` of picture files, ``rate`` a second; bytes as they are."""
    for number, file in enumerate(files):
        yield 1 + round(number * 1e9 / rate), file.read_bytes()


def write_picture_bag(frames: Iterable[tuple[int, bytes]], folder: Path) -> int:
    """Write pictures as a rosbag2 (mcap) of sensor_msgs/CompressedImage; returns how many."""
    try:
        from rosbags.rosbag2 import StoragePlugin, Writer
        from rosbags.typesys import Stores, get_typestore
    except ImportError as error:
        raise MissingExtraError("rosbags", "cpu", "writing recordings") from error
    if folder.exists():
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    store = get_typestore(Stores.ROS2_JAZZY)
    kind = "sensor_msgs/msg/CompressedImage"
    types: Any = store.types
    count = 0
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection(IMAGE_TOPIC, kind, typestore=store)
        for stamp_ns, data in frames:
            header = types["std_msgs/msg/Header"](
                stamp=types["builtin_interfaces/msg/Time"](
                    sec=stamp_ns // 1_000_000_000, nanosec=stamp_ns % 1_000_000_000
                ),
                frame_id="camera",
            )
            form = "png" if data[:4] == b"\x89PNG" else "jpeg"
            message = types[kind](
                header=header, format=form, data=np.frombuffer(data, dtype=np.uint8)
            )
            writer.write(connection, stamp_ns, store.serialize_cdr(message, kind))
            count += 1
    return count


class MappedQuery(Settings):
    """How a field mapping names the fields of an unreleased dataset."""

    id: str = "id"
    sequence: str = "sequence"
    question: str = "question"
    answerable: str = "answerable"
    category: str = "category"
    referent: str = "referent"
    pair: str = "pair"
    answer: str = "answer"


class FieldMapping(Settings):
    """A YAML file that says how to read SpaceReject's release, whatever its fields are called.

    Args:
        queries: file of questions in the release, JSON lines or one JSON list.
        recordings: folder of recordings, one for each sequence, named like the sequence.
        fields: name of each of our fields there.
        answerable_values: values of ``answerable`` that mean yes.
        categories: their category -> ours.
    """

    queries: str
    recordings: str = "sequences"
    licence: str = Field(min_length=1)
    fields: MappedQuery = MappedQuery()
    answerable_values: tuple[str | int | bool, ...] = (True, 1, "yes", "answerable")
    categories: dict[str, str] = Field(default_factory=dict)
    splits: dict[str, tuple[str, ...]] = Field(
        default={"train": ("0", "1", "2"), "test": ("3", "4", "5")}
    )


def import_spacereject(
    release: Path, mapping: FieldMapping, out: Path, *, name: str = "spacereject"
) -> Dataset:
    """Read SpaceReject or SpaceRejectExtra through a field mapping.

    Raises:
        DatasetError: a field that the mapping names is not there; says which are.
    """
    rows = _release_rows(release / mapping.queries)
    queries = [
        _mapped(row, mapping, f"{release / mapping.queries}:{i}") for i, row in enumerate(rows, 1)
    ]
    for sequence in sorted({s for names in mapping.splits.values() for s in names}):
        source = release / mapping.recordings / sequence
        if not source.exists():
            raise DatasetError(f"{source}: no recording of sequence '{sequence}'")
        shutil.copytree(source, out / "sequences" / sequence, dirs_exist_ok=True)
    return write_dataset(
        out,
        name=name,
        licence=mapping.licence,
        task="localization",
        splits=mapping.splits,
        queries=queries,
    )


def _release_rows(file: Path) -> list[dict[str, Any]]:
    if not file.is_file():
        raise DatasetError(f"{file}: missing; the mapping's 'queries' names it")
    text = file.read_text(encoding="utf-8")
    try:
        if text.lstrip().startswith("["):
            values = json.loads(text)
        else:
            values = [json.loads(line) for line in text.splitlines() if line.strip()]
    except json.JSONDecodeError as error:
        raise DatasetError(f"{file}: not JSON: {error}") from error
    if not all(isinstance(row, dict) for row in values):
        raise DatasetError(f"{file}: expected objects, one for each question")
    return list(values)


def _mapped(row: Mapping[str, Any], mapping: FieldMapping, where: str) -> dict[str, Any]:
    names = mapping.fields.model_dump()
    for needed in ("id", "sequence", "question", "answerable"):
        if names[needed] not in row:
            raise DatasetError(
                f"{where}: no field '{names[needed]}' (our '{needed}'); there are: "
                f"{', '.join(sorted(row))}: mend the mapping's 'fields'"
            )
    category = row.get(names["category"])
    answer = row.get(names["answer"])
    return {
        "id": str(row[names["id"]]),
        "sequence": str(row[names["sequence"]]),
        "question": str(row[names["question"]]),
        "answerable": row[names["answerable"]] in mapping.answerable_values,
        "category": mapping.categories.get(str(category), category),
        "referent": row.get(names["referent"]),
        "pair": row.get(names["pair"]),
        "answer": answer if isinstance(answer, dict) else None,
    }
