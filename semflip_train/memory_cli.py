"""``semflip memory``: look into stored memories, copy, join and empty them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from semflip_core.errors import MemoryFileError
from semflip_core.memory import MemoryInfo, VideoMemory
from semflip_core.memory.exchange import Progress, export_memory, merge_memory
from semflip_core.settings import MemorySettings

memory_app = typer.Typer(
    help="Stored video memories: info, export, merge, clear.", no_args_is_help=True
)

_ALL = 2**62

MemoryFile = Annotated[Path, typer.Argument(help="Memory file, as a node or 'ask' stored it.")]


def register(app: typer.Typer) -> None:
    """Add ``memory`` to the ``semflip`` command."""
    app.add_typer(memory_app, name="memory")


@memory_app.command()
def info(
    file: MemoryFile,
    check: Annotated[bool, typer.Option(help="Read the whole file and every picture.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say what a memory holds; it may be in use by a node."""
    with VideoMemory(file, read_only=True) as memory:
        found = memory.info()
        problems = memory.check() if check else []
    if as_json:
        typer.echo(json.dumps(asdict(found) | ({"problems": problems} if check else {})))
    else:
        for name, value in _lines(found):
            typer.echo(f"{name:12} {value}")
        for problem in problems:
            typer.echo(f"{'problem':12} {problem}")
        if check and not problems:
            typer.echo(f"{'check':12} every page and picture is sound")
    if problems:
        raise typer.Exit(1)


@memory_app.command()
def export(
    file: MemoryFile,
    directory: Annotated[Path, typer.Argument(help="New directory for the files.")],
) -> None:
    """Write the pictures as files and the records as keyframes.jsonl."""
    with VideoMemory(file, read_only=True) as memory, _bar("export") as progress:
        count = export_memory(memory, directory, progress)
    typer.echo(f"{count} keyframes in {directory}")


@memory_app.command()
def merge(
    target: Annotated[Path, typer.Argument(help="Memory to add to; made if there is none.")],
    sources: Annotated[list[Path], typer.Argument(help="Memories to copy from; not changed.")],
    max_keyframes: Annotated[
        int | None, typer.Option(min=1, help="Keep no more; redundant views go. Default: all.")
    ] = None,
) -> None:
    """Copy the keyframes of memories into one; those already there are not doubled."""
    for source in sources:
        if source.resolve() == target.resolve():
            raise MemoryFileError(f"{source}: is the target itself")
    settings = MemorySettings(
        max_keyframes=max_keyframes or _ALL, max_bytes=_ALL, max_feature_bytes=_ALL
    )
    with VideoMemory(target, settings) as memory:
        for source in sources:
            with VideoMemory(source, read_only=True) as other, _bar("merge") as progress:
                done = merge_memory(memory, other, progress)
            typer.echo(
                f"{source}: {done.added} keyframes added, {done.known} were there, "
                f"{done.damaged} damaged, {done.spared} did not fit"
            )
        memory.flush()


@memory_app.command()
def clear(
    file: MemoryFile,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Forget every keyframe of a memory, for good."""
    if not file.is_file():
        raise MemoryFileError(f"{file}: no such memory file")
    if not yes:
        with VideoMemory(file, read_only=True) as memory:
            count = len(memory)
        typer.confirm(f"Forget {count} keyframes of {file} for good?", abort=True)
    with VideoMemory(file) as memory:
        count = memory.clear()
    typer.echo(f"{count} keyframes forgotten")


def _lines(found: MemoryInfo) -> list[tuple[str, str]]:
    lines = [
        ("file", f"{found.path} ({found.file_bytes / 1e6:.1f} MB, schema {found.schema_version})"),
        ("keyframes", f"{found.keyframes} ({found.with_pose} with a pose)"),
        ("pictures", f"{found.picture_bytes / 1e6:.1f} MB"),
        ("features", f"{found.feature_bytes / 1e6:.1f} MB"),
        ("segments", str(found.segments)),
    ]
    if found.created_ns:
        made = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(found.created_ns / 1e9))
        lines.append(("created", made))
    if found.keyframes:
        lines.append(("stamps", f"{found.first_ns / 1e9:.3f} to {found.last_ns / 1e9:.3f} s"))
    lines += [("map", f"'{name}': {count} keyframes") for name, count in found.maps.items()]
    lines += [("encoder", f"{name}: {count} keyframes") for name, count in found.digests.items()]
    return lines


@contextmanager
def _bar(what: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
