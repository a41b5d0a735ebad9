"""Question benchmarks about pictures (task ``eqa``): OpenEQA, AbstainEQA, HARDBench.

Their pictures are not ours to ship: each importer reads a local folder of frames and says which it
misses.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from semflip_core.errors import DatasetError
from semflip_core.settings import Settings
from semflip_train.dataset import Dataset
from semflip_train.importers import PICTURES, picture_frames, write_dataset, write_picture_bag

#: OpenEQA's frames are taken to be this far apart; only their order matters.
FRAME_RATE = 1.0
#: AbstainEQA on HM3D: so many answerable and as many unanswerable questions.
HM3D_QUESTIONS, HM3D_SEED = 190, 42


class OpenEqaRow(Settings):
    """A row of ``open-eqa-v0.json``."""

    question: str
    answer: str
    category: str
    question_id: str
    episode_history: str
    extra_answers: tuple[str, ...] = ()


class Rewrite(Settings):
    """A line of AbstainEQA's ``--rewrites``: an OpenEQA question that no longer has an answer.

    Args:
        question_id: of the OpenEQA row.
        question: rewritten.
        category: of abstention, for example ``referential underspecification``.
    """

    question_id: str
    question: str = Field(min_length=1)
    category: str = Field(min_length=1)


class HardBenchRow(Settings):
    """A line of HARDBench: a picture and a question, perhaps changed in one word.

    Args:
        image: file, relative to the folder of pictures.
        change: what was changed so that the picture no longer answers it; None where answerable.
        source: id of the question it was changed from; links the pair.
    """

    id: str
    image: str
    question: str = Field(min_length=1)
    answer: str | None = None
    change: Literal["object", "relation", "attribute"] | None = None
    source: str | None = None
    split: Literal["train", "calibration", "test"] = "test"


def read_openeqa(file: Path) -> list[OpenEqaRow]:
    """Rows of OpenEQA's own file.

    Raises:
        DatasetError: names the row and field that is wrong.
    """
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DatasetError(f"{file}: cannot be read as JSON: {error}") from error
    rows = []
    for number, value in enumerate(values, start=1):
        try:
            rows.append(OpenEqaRow.model_validate(value))
        except ValidationError as error:
            item = error.errors()[0]
            raise DatasetError(
                f"{file}: row {number}: {'.'.join(map(str, item['loc']))}: {item['msg']}"
            ) from error
    return rows


def _lines(file: Path, kind: type[Settings]) -> list[Any]:
    if not file.is_file():
        raise DatasetError(f"{file}: no such file")
    rows = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            rows.append(kind.model_validate_json(line))
        except ValidationError as error:
            item = error.errors()[0]
            raise DatasetError(
                f"{file}:{number}: {'.'.join(map(str, item['loc'])) or 'line'}: {item['msg']}"
            ) from error
    return rows


def sequence_name(episode: str) -> str:
    """Episode ``hm3d-v0/000-hm3d-BFRyYbPCCPE`` as the name of a sequence."""
    return episode.replace("/", "__")


def scene_of(episode: str) -> str:
    """The place an episode was recorded in.

    ``hm3d-v0/000-hm3d-BFRyYbPCCPE`` and ``scannet-v0/188-scannet-scene0593_01``: the running
    number is the episode's, and ScanNet's ending counts scans of one room.
    """
    name = re.sub(r"^\d+-", "", episode.rsplit("/", 1)[-1])
    return re.sub(r"^(scannet-scene\d{4})_\d\d$", r"\1", name)


def split_by_episode(
    episodes: Sequence[str], seed: int, shares: Mapping[str, float]
) -> dict[str, list[str]]:
    """Episodes dealt to splits with all others of their scene, so that no scene is on two sides."""
    scenes = sorted({scene_of(episode) for episode in episodes})
    random.Random(seed).shuffle(scenes)
    splits: dict[str, list[str]] = {}
    start = 0.0
    for split, share in shares.items():
        low, start = round(start * len(scenes)), start + share
        chosen = set(scenes[low : round(start * len(scenes))])
        splits[split] = sorted({e for e in episodes if scene_of(e) in chosen})
    return splits


def inside(folder: Path, name: str, where: str) -> Path:
    """A file or folder in another one.

    Raises:
        DatasetError: the name leads out of it.
    """
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        raise DatasetError(f"{where}: {name!r:.80} leads out of {folder}; name what is inside it")
    return folder / path


DEFAULT_SHARES: Mapping[str, float] = {"train": 0.5, "calibration": 0.1, "test": 0.4}


def _write_episodes(
    episodes: Sequence[str], frames: Path, out: Path, progress: Callable[[int, int], None] | None
) -> None:
    missing = [e for e in episodes if not _pictures(inside(frames, e, "episode_history"))]
    if missing:
        raise DatasetError(
            f"{frames}: no pictures of {len(missing)} of {len(episodes)} episodes (first: "
            f"{missing[0]}/*.png or .jpg); extract OpenEQA's frames there, or give --episodes to "
            "import only some"
        )
    for number, episode in enumerate(episodes, start=1):
        target = out / "sequences" / sequence_name(episode)
        if not (target / "metadata.yaml").is_file():
            write_picture_bag(picture_frames(_pictures(frames / episode), FRAME_RATE), target)
        if progress is not None:
            progress(number, len(episodes))


def _pictures(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in PICTURES)


def import_openeqa(
    file: Path,
    frames: Path,
    out: Path,
    *,
    episodes: Sequence[str] = (),
    seed: int = HM3D_SEED,
    shares: Mapping[str, float] = DEFAULT_SHARES,
    progress: Callable[[int, int], None] | None = None,
) -> Dataset:
    """OpenEQA (Majumdar et al. 2024): every question is answerable.

    Args:
        frames: folder with ``<episode_history>/*.png``.
        episodes: only these; empty for all.
    """
    rows = [r for r in read_openeqa(file) if not episodes or r.episode_history in set(episodes)]
    if not rows:
        raise DatasetError(f"{file}: no question about the episodes given")
    used = sorted({row.episode_history for row in rows})
    _write_episodes(used, frames, out, progress)
    splits = split_by_episode(used, seed, shares)
    return write_dataset(
        out,
        name="openeqa",
        licence="MIT (questions); pictures as their owners license them",
        task="eqa",
        splits={k: [sequence_name(e) for e in v] for k, v in splits.items()},
        queries=[_openeqa_query(row) for row in rows],
    )


def _openeqa_query(row: OpenEqaRow) -> dict[str, Any]:
    return {
        "id": row.question_id,
        "sequence": sequence_name(row.episode_history),
        "question": row.question,
        "answerable": True,
        "answer": {"text": row.answer},
    }


def import_abstaineqa(
    file: Path,
    rewrites: Path,
    frames: Path,
    out: Path,
    *,
    count: int = HM3D_QUESTIONS,
    seed: int = HM3D_SEED,
    shares: Mapping[str, float] = DEFAULT_SHARES,
    progress: Callable[[int, int], None] | None = None,
) -> Dataset:
    """AbstainEQA on HM3D: OpenEQA questions and their rewrites, ``count`` of each.

    The authors' own selection of 190 + 190 is not published; this draws as many by seed from the
    rewrites given, one for each source question, so that numbers compare only roughly.

    Raises:
        DatasetError: there are too few rewrites, or one names an unknown question.
    """
    rows = {r.question_id: r for r in read_openeqa(file)}
    hm3d: list[Rewrite] = []
    for rewrite in _lines(rewrites, Rewrite):
        if rewrite.question_id not in rows:
            raise DatasetError(
                f"{rewrites}: question_id '{rewrite.question_id}' is not in {file.name}"
            )
        if rows[rewrite.question_id].episode_history.startswith("hm3d"):
            hm3d.append(rewrite)
    by_source: dict[str, list[Rewrite]] = {}
    for rewrite in hm3d:
        by_source.setdefault(rewrite.question_id, []).append(rewrite)
    if len(by_source) < count:
        raise DatasetError(
            f"{rewrites}: rewrites of {len(by_source)} HM3D questions; {count} are needed"
        )
    rng = random.Random(seed)
    chosen = sorted(rng.sample(sorted(by_source), count))
    queries: list[dict[str, Any]] = []
    for source in chosen:
        row, rewrite = rows[source], rng.choice(by_source[source])
        queries.append(_openeqa_query(row))
        queries.append(
            {
                "id": f"{source}-rewritten",
                "sequence": sequence_name(row.episode_history),
                "question": rewrite.question,
                "answerable": False,
                "category": rewrite.category,
            }
        )
    episodes = sorted({rows[source].episode_history for source in chosen})
    _write_episodes(episodes, frames, out, progress)
    splits = split_by_episode(episodes, seed, shares)
    return write_dataset(
        out,
        name="abstaineqa-hm3d",
        licence="as AbstainEQA and OpenEQA license theirs",
        task="eqa",
        splits={k: [sequence_name(e) for e in v] for k, v in splits.items()},
        queries=queries,
    )


def import_hardbench(
    rows_file: Path, pictures: Path, out: Path, *, ratio: float = 3.0, seed: int = HM3D_SEED
) -> Dataset:
    """HARDBench: a picture is a sequence of one frame; answerable to unanswerable 3:1 in training.

    Args:
        ratio: answerable for each unanswerable question of the training split.
    """
    rows: list[HardBenchRow] = _lines(rows_file, HardBenchRow)
    train = [r for r in rows if r.split == "train"]
    changed = [r for r in train if r.change is not None]
    allowed = int((len(train) - len(changed)) / ratio)
    kept = set(random.Random(seed).sample([r.id for r in changed], min(allowed, len(changed))))
    rows = [r for r in rows if r.split != "train" or r.change is None or r.id in kept]
    splits: dict[str, list[str]] = {"train": [], "calibration": [], "test": []}
    for row in rows:
        name = sequence_name(Path(row.image).with_suffix("").as_posix())
        source = inside(pictures, row.image, f"row '{row.id}': image")
        if not source.is_file():
            raise DatasetError(f"{rows_file}: question '{row.id}': no picture {source}")
        if name not in splits[row.split]:
            splits[row.split].append(name)
            write_picture_bag(picture_frames([source], FRAME_RATE), out / "sequences" / name)
    return write_dataset(
        out,
        name="hardbench",
        licence="as HARDBench licenses it",
        task="eqa",
        splits=splits,
        queries=[
            {
                "id": row.id,
                "sequence": sequence_name(Path(row.image).with_suffix("").as_posix()),
                "question": row.question,
                "answerable": row.change is None,
                "category": row.change,
                "pair": None,
                "answer": {"text": row.answer} if row.answer and row.change is None else None,
            }
            for row in rows
        ],
    )
