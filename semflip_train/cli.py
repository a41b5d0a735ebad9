"""The ``semflip`` command; each command's work lives in a module of its own."""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from semflip_core.errors import MissingExtraError, SemflipError

try:
    import typer
except ImportError as _error:
    raise MissingExtraError("typer", "cpu", "the semflip command") from _error

app = typer.Typer(
    name="semflip",
    help="Refusal for embodied question answering: a goal for what was seen, or 'I do not know'.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

#: Modules of other parts that bring a command of their own: ``register(app)`` adds it.
PARTS = (
    "semflip_train.stage_cli",
    "semflip_train.import_cli",
    "semflip_train.simulation.cli",
    "semflip_train.memory_cli",
    "semflip_train.doctor",
)
#: Exit status when semflip itself says what is wrong.
FAILED = 2


@app.callback()
def _options(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what is done.")] = False,
) -> None:
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(levelname)s %(message)s",
        stream=sys.stderr,
        force=True,
    )


@app.command()
def ask(
    questions: Annotated[list[str], typer.Argument(help="Questions, each in quotes.")],
    bag: Annotated[
        Path | None, typer.Option(help="Recording: rosbag2 directory or ROS 1 .bag.")
    ] = None,
    video: Annotated[Path | None, typer.Option(help="Video file; no poses, so no goals.")] = None,
    memory: Annotated[Path | None, typer.Option(help="Video memory that a node stored.")] = None,
    encoder: Annotated[str, typer.Option(help="Name of the encoder.")] = "mini",
    encoder_options: Annotated[
        str, typer.Option(help="Its options, YAML: '{model: /models/qwen}'.")
    ] = "",
    retriever: Annotated[
        str | None, typer.Option(help="Name of the retriever; default: the encoder's own.")
    ] = None,
    prefix_frames: Annotated[
        int | None, typer.Option(min=0, help="Frames of every question; as the gate was trained.")
    ] = None,
    recalled_frames: Annotated[
        int | None, typer.Option(min=1, help="Frames of this question; as the gate was trained.")
    ] = None,
    gate: Annotated[Path | None, typer.Option(help="Gate file; default: the one shipped.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Override tau; voids its calibration.")
    ] = None,
    image_topic: Annotated[str | None, typer.Option(help="Camera topic of the bag.")] = None,
    pose_topic: Annotated[str | None, typer.Option(help="Pose topic of the bag.")] = None,
    global_frame: Annotated[str, typer.Option(help="Frame that goals are expressed in.")] = "map",
    evidence: Annotated[
        Path | None, typer.Option(help="Folder for a picture of the evidence per question.")
    ] = None,
    json_lines: Annotated[
        bool, typer.Option("--json", help="One JSON object a question, one a line.")
    ] = False,
) -> None:
    """Ask a recording, a video or a stored memory, as one would ask the robot."""
    from semflip_train import ask as asking
    from semflip_train.encoder_options import encoder_options as read_encoder_options
    from semflip_train.shown import print_decision, print_json, steps

    source = asking.Source(bag, video, memory, image_topic, pose_topic)
    with (
        steps(quiet=json_lines) as progress,
        asking.open_agent(
            source,
            encoder=encoder,
            encoder_options=read_encoder_options(encoder_options),
            retriever=retriever,
            recall=asking.recall_settings(prefix_frames, recalled_frames),
            gate=gate,
            threshold=threshold,
            global_frame=global_frame,
            progress=progress,
        ) as agent,
    ):
        decisions = asking.ask_all(agent, questions)
        pictures = asking.write_evidence(agent, decisions, evidence) if evidence else []
    for decision in decisions:
        if json_lines:
            print_json(decision.to_json())
        else:
            print_decision(decision)
    if pictures and not json_lines:
        typer.echo(f"{len(pictures)} evidence picture(s) in {evidence}")


def _mount_parts() -> None:
    """Add the commands of parts that are installed; a part that is not there is not listed."""
    for name in PARTS:
        try:
            found = find_spec(name)
        except ModuleNotFoundError:
            found = None
        if found is not None:
            import_module(name).register(app)


_mount_parts()


def main() -> None:
    """Entry point: errors of semflip are one clear message, not a traceback."""
    try:
        app()
    except SemflipError as error:
        print(f"semflip: {error}", file=sys.stderr)
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
