"""Datasets on disk: recordings and questions, read and checked before any stage uses them.

Layout: ``dataset.yaml``, ``sequences/SEQ/`` (a recording each) and ``queries.jsonl``. Every error
names the file, the line, the field and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, StrictBool, ValidationError, model_validator

from semflip_core.errors import ConfigError, DatasetError
from semflip_core.plain_text import read_json, read_yaml
from semflip_core.settings import Settings

Split = Literal["train", "calibration", "test"]
SPLITS: tuple[Split, ...] = ("train", "calibration", "test")
Coordinates = tuple[float, float, float]
#: A sequence's name is part of file names, here and where its memory is kept: no path leads out.
PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")


class Topics(Settings):
    """Topics of a dataset's recordings; None lets the reader find them."""

    image: str | None = None
    pose: str | None = None


class DatasetInfo(Settings):
    """``dataset.yaml``."""

    name: str = Field(min_length=1)
    version: str = Field(default="1", coerce_numbers_to_str=True)
    licence: str = Field(min_length=1)
    task: Literal["localization", "eqa"]
    map_frame: str = Field(default="map", min_length=1)
    topics: Topics = Topics()
    splits: dict[Split, tuple[str, ...]]
    description: str = ""

    @model_validator(mode="after")
    def _each_sequence_once(self) -> DatasetInfo:
        seen: dict[str, str] = {}
        for split, sequences in self.splits.items():
            for sequence in sequences:
                if not PLAIN_NAME.fullmatch(sequence):
                    raise ValueError(
                        f"sequence {sequence!r:.80} is no plain name: a folder of sequences/, "
                        "of letters, digits, '_', '-' and '.', not starting with '.'"
                    )
                if sequence in seen:
                    raise ValueError(
                        f"sequence '{sequence}' is in the splits '{seen[sequence]}' and '{split}': "
                        "pictures of one place must be on one side only; list it once"
                    )
                seen[sequence] = split
        return self


class Answer(Settings):
    """Where and when the referent is; any part may be unknown.

    Args:
        position, yaw: of ``base_frame`` at the labelled best view; metres and radians in the map.
        object_position: of the referent, metres in the map.
        visible: ``(start_ns, end_ns)`` spans in which it is in the picture.
        text: the answer in words (task ``eqa``).
    """

    position: Coordinates | None = Field(default=None)
    yaw: float | None = Field(default=None, allow_inf_nan=False)
    object_position: Coordinates | None = None
    visible: tuple[tuple[int, int], ...] | None = None
    text: str | None = None

    @model_validator(mode="after")
    def _sound(self) -> Answer:
        for name in ("position", "object_position"):
            value = getattr(self, name)
            if value is not None and not all(abs(v) < float("inf") for v in value):
                raise ValueError(f"{name} {value} is not three finite numbers")
        for start, end in self.visible or ():
            if end < start:
                raise ValueError(f"visible span [{start}, {end}] ends before it starts")
        return self


class Query(Settings):
    """One line of ``queries.jsonl``.

    Args:
        category: of an unanswerable question (``absent``, ``near_miss``...); None if answerable.
        referent: the words for what is asked about, where known.
        pair: links the same words asked of a memory that supports them and of one that does not.
    """

    id: str = Field(min_length=1)
    sequence: str = Field(min_length=1)
    question: str = Field(min_length=1)
    answerable: StrictBool
    category: str | None = None
    referent: str | None = None
    pair: str | None = None
    slice: str | None = Field(default=None, description="Part reported on its own.")
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """A checked dataset."""

    root: Path
    info: DatasetInfo
    queries: tuple[Query, ...]

    def sequences(self, split: Split) -> tuple[str, ...]:
        """Sequences of a split.

        Raises:
            DatasetError: the split is empty.
        """
        found = self.info.splits.get(split, ())
        if not found:
            have = ", ".join(f"{k} ({len(v)})" for k, v in self.info.splits.items()) or "none"
            raise DatasetError(
                f"{self.root / 'dataset.yaml'}: splits.{split} is empty; splits here: {have}"
            )
        return found

    def split(self, split: Split) -> tuple[Query, ...]:
        """Questions of a split.

        Raises:
            DatasetError: the split has no sequence or no question.
        """
        names = set(self.sequences(split))
        found = tuple(query for query in self.queries if query.sequence in names)
        if not found:
            raise DatasetError(
                f"{self.root / 'queries.jsonl'}: no question about the {split} sequences "
                f"({', '.join(sorted(names))}); add some or change splits.{split}"
            )
        return found

    def recording(self, sequence: str) -> Path:
        """The recording of a sequence."""
        return self.root / "sequences" / sequence


def load_dataset(root: str | Path) -> Dataset:
    """Read and check a dataset; recordings are opened only when used.

    Raises:
        DatasetError: names file, line, field and cure.
    """
    folder = Path(root)
    if not folder.is_dir():
        raise DatasetError(f"{folder}: no such dataset folder")
    info = _read_info(folder / "dataset.yaml")
    known = {sequence for names in info.splits.values() for sequence in names}
    for sequence in sorted(known):
        if not (folder / "sequences" / sequence).exists():
            have = sorted(p.name for p in (folder / "sequences").glob("*")) or ["none"]
            raise DatasetError(
                f"{folder / 'dataset.yaml'}: splits: sequence '{sequence}' has no recording at "
                f"sequences/{sequence}; there are: {', '.join(have)}"
            )
    return Dataset(folder, info, read_queries(folder / "queries.jsonl", known))


def _read_info(file: Path) -> DatasetInfo:
    try:
        values = read_yaml(_text(file))
    except ConfigError as error:
        raise DatasetError(f"{file}: {error}") from error
    if not isinstance(values, dict):
        raise DatasetError(f"{file}: expected a mapping with name, licence, task, splits")
    return _checked(DatasetInfo, values, str(file))


def read_queries(file: Path, sequences: set[str]) -> tuple[Query, ...]:
    """Questions of a file, each about one of the sequences.

    Raises:
        DatasetError: names file, line, field and cure.
    """
    queries: list[Query] = []
    lines_of: dict[str, int] = {}
    for number, line in enumerate(_text(file).splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            values = read_json(line)
        except ConfigError as error:
            raise DatasetError(f"{where}: not one JSON object a line: {error}") from error
        if not isinstance(values, dict):
            raise DatasetError(f"{where}: expected a JSON object, got {type(values).__name__}")
        query = _checked(Query, values, where)
        if query.id in lines_of:
            raise DatasetError(
                f"{where}: id '{query.id}' is already on line {lines_of[query.id]}; "
                "give each question its own"
            )
        if query.sequence not in sequences:
            raise DatasetError(
                f"{where}: sequence '{query.sequence}' is in no split of dataset.yaml; "
                f"known: {', '.join(sorted(sequences)) or 'none'}"
            )
        lines_of[query.id] = number
        queries.append(query)
    if not queries:
        raise DatasetError(f"{file}: holds no question")
    return tuple(queries)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise DatasetError(f"{file}: missing; a dataset needs it") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DatasetError(
            f"{file}:{line}: not UTF-8 (byte {error.object[error.start]:#04x} at offset "
            f"{error.start}); save it as UTF-8"
        ) from error
    except OSError as error:
        raise DatasetError(f"{file}: cannot be read: {error.strerror}") from error


SettingsT = TypeVar("SettingsT", bound=Settings)


def _checked(kind: type[SettingsT], values: Mapping[str, Any], where: str) -> SettingsT:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        lines = []
        for item in error.errors():
            path = ".".join(str(part) for part in item["loc"]) or "(whole)"
            message = item["msg"].removeprefix("Value error, ")
            if item["type"] == "extra_forbidden":
                known = ", ".join(sorted(kind.model_fields))
                message = f"unknown field; known: {known}"
            elif item["type"] == "missing":
                message = "missing; add it"
            else:
                message = f"{message} (got {item.get('input')!r:.80})"
            lines.append(f"{where}: {path}: {message}")
        raise DatasetError("\n".join(lines)) from error
