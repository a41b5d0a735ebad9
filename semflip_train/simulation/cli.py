"""``semflip simulate``: render furnished rooms into a dataset with exact labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semflip_core.errors import ConfigError

if TYPE_CHECKING:
    from semflip_train.simulation.settings import SimulationSettings

#: Without --split, of so many sequences one in six (at least one) is for calibration and a third
#: for test, as in 3 + 1 + 2.
DEFAULT_SEQUENCES = 6


def shares(sequences: int, split: str | None) -> tuple[int, int, int, int]:
    """Numbers of train, calibration, test and new-things sequences.

    Args:
        split: ``TRAIN,CALIBRATION,TEST[,NEW]``, or None to divide ``sequences``.

    Raises:
        ConfigError: not three or four whole numbers.
    """
    if split is None:
        calibration = max(1, sequences // 6)
        test = max(1, sequences // 3)
        return max(0, sequences - calibration - test), calibration, test, 0
    parts = split.split(",")
    if len(parts) not in (3, 4) or not all(part.strip().isdigit() for part in parts):
        raise ConfigError(
            f"--split {split}: expected TRAIN,CALIBRATION,TEST or TRAIN,CALIBRATION,TEST,NEW, "
            "for example 3,1,2 or 3,1,3,3"
        )
    numbers = [int(part) for part in parts]
    return numbers[0], numbers[1], numbers[2], numbers[3] if len(numbers) == 4 else 0


def simulate(
    out: Annotated[Path, typer.Argument(help="Folder of the dataset to write.")],
    seed: Annotated[int, typer.Option(help="Everything follows from it.")] = 0,
    sequences: Annotated[int, typer.Option(min=2, help="How many, where --split is not given.")] = (
        DEFAULT_SEQUENCES
    ),
    split: Annotated[
        str | None,
        typer.Option(
            help="TRAIN,CALIBRATION,TEST[,NEW] sequences; NEW ones show things never trained on."
        ),
    ] = None,
    questions: Annotated[
        int, typer.Option(min=3, help="Answerable questions a sequence; as many unanswerable.")
    ] = 45,
    assets: Annotated[
        Path | None, typer.Option(help="Furniture libraries (*.sh3f), or the unpacked package.")
    ] = None,
    quality: Annotated[int, typer.Option(min=40, max=100, help="JPEG quality.")] = 75,
    stops: Annotated[int, typer.Option(min=1, help="Most viewpoints in a room.")] = 6,
    balanced: Annotated[
        bool, typer.Option(help="Looks and relations as often in answerable questions as not.")
    ] = True,
    painted: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of what comes in any colour, repainted.")
    ] = 0.8,
    corridors: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of sequences with a corridor, by seed.")
    ] = 0.3,
    name: Annotated[str, typer.Option(help="Name of the dataset.")] = "semflip-rooms",
) -> None:
    """Render furnished rooms, drive through them, and ask questions with exact labels."""
    from semflip_train.simulation.settings import BagSettings, DriveSettings, SimulationSettings

    train, calibration, test, new_things = shares(sequences, split)
    settings = SimulationSettings(
        name=name,
        seed=seed,
        train=train,
        calibration=calibration,
        test=test,
        new_things=new_things,
        questions=questions,
        balanced=balanced,
        paint_share=painted,
        corridors=corridors,
        drive=DriveSettings(stops_per_room=stops),
        bag=BagSettings(jpeg_quality=quality),
    )
    render_dataset(out, settings, assets)


def render_dataset(out: Path, settings: SimulationSettings, assets: Path | None) -> None:
    """Render a dataset and show how far it is."""
    from semflip_train.shown import steps
    from semflip_train.simulation import benchmark
    from semflip_train.simulation.catalogue import FurnitureCatalogue, find_furniture

    typer.echo("looking for the furniture models (fetched once: 120 MB)", err=True)
    catalogue = FurnitureCatalogue(find_furniture(assets), held_out=settings.new_things > 0)
    with steps() as progress:
        shown = benchmark.ShownPictures(progress)
        benchmark.simulate(out, settings, catalogue, start=shown.start, advance=shown.advance)
    typer.echo(f"wrote {out} ({len(benchmark.planned(settings))} sequences)", err=True)


def register(app: typer.Typer) -> None:
    """Add the command to the ``semflip`` program."""
    app.command("simulate")(simulate)
