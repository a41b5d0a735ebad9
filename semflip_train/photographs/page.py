"""``docs/photographs.md``: what the shipped gate says about real pictures, right and wrong.

``python -m semflip_train.photographs.page docs`` asks as ``semflip ask`` does and writes the page
and its contact sheet. What is asked is fixed before any verdict: of each photograph of the
development part the first question that it can answer and the first that it cannot, and every
question of ``page_films.yaml``. No picture of a test part is asked about.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from semflip_core.agent import RefusalAgent
from semflip_core.bags import memory_from_bag
from semflip_core.errors import SemflipError
from semflip_core.footage import memory_from_video
from semflip_core.frames import Picture
from semflip_core.gate import Gate
from semflip_core.images import decode_compressed
from semflip_core.loading import load_backends, shipped_gate
from semflip_core.memory import VideoMemory
from semflip_core.settings import KeyframeSettings, Settings, read_settings_file
from semflip_train.ask import ask_all
from semflip_train.importers import write_picture_bag
from semflip_train.photographs.packages import PackagedPicture, PicturePackage, find_pictures
from semflip_train.photographs.sheet import Cell, contact_sheet
from semflip_train.photographs.slice import DATA, PictureSlice, frames, read_slice
from semflip_train.stores import write_whole

if TYPE_CHECKING:
    from semflip_core.decision import Decision

#: Frames of a photograph's memory; as many as the gate's training memories give a question.
VIEWS = 16
#: Of a film one frame in two seconds is enough here, and the page is made in minutes.
FILM_KEYFRAMES = KeyframeSettings(min_interval_s=2.0)
ENCODER = "mini"
PAGE = "photographs.md"
SHEET = "photographs.jpg"
SAID = {"answer": "answers", "refuse": '"I do not know"'}


class FilmQuestion(Settings):
    """A question about a film."""

    question: str = Field(min_length=1)
    answerable: bool


class Film(Settings):
    """A film that the page asks about, the number of the frame that it shows, and the questions."""

    film: PackagedPicture
    shown: int = Field(ge=0)
    questions: tuple[FilmQuestion, ...]


class Films(Settings):
    """``page_films.yaml``."""

    films: tuple[Film, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, whether its picture supports it, and what the gate said (``answer``, ``refuse``).

    ``said`` is None where the gate was not reached; that is never right.
    """

    name: str
    question: str
    answerable: bool
    said: str | None
    score: float

    @property
    def right(self) -> bool:
        return self.said == ("answer" if self.answerable else "refuse")


def read_films() -> tuple[Film, ...]:
    """The films of ``page_films.yaml``, checked."""
    return read_settings_file(Films, DATA / "page_films.yaml").films


def chosen(content: PictureSlice) -> dict[str, tuple[FilmQuestion, FilmQuestion]]:
    """Of each photograph of the development part the first question of each kind that pairs ask.

    Photographs that lack one of the two are left out.
    """
    photographs = [
        p.name for p in content.listed.pictures if p.split == "calibration" and p.frames is None
    ]
    found: dict[str, dict[bool, FilmQuestion]] = {name: {} for name in photographs}
    for query in content.queries:
        if query.pair is not None and query.sequence in found:
            question = FilmQuestion(question=query.question, answerable=query.answerable)
            found[query.sequence].setdefault(query.answerable, question)
    return {name: (q[True], q[False]) for name, q in found.items() if len(q) == 2}


def ask_pictures(
    assets: Path | None,
    gate: Path | None,
    *,
    download: bool = True,
    progress: Callable[[str], None] | None = None,
) -> tuple[list[Asked], list[Cell], str]:
    """Every question of the page asked; with a cell of the contact sheet a picture, and the gate.

    Args:
        assets: as for :func:`~.packages.find_pictures`.
        progress: told what is being asked about.

    Raises:
        AssetError: a package is not here and cannot be fetched, or holds other pictures.
        GateError: the gate file is no gate, or was made for another pipeline.
    """
    content = read_slice("first")
    photographs = chosen(content)
    listed = [p for p in content.listed.pictures if p.name in photographs]
    films = read_films()
    wanted = [*listed, *(film.film for film in films)]
    files = _files(content.listed.packages, wanted, assets, download)
    judge = Gate.load(gate or shipped_gate(ENCODER))
    encoder, _ = load_backends(ENCODER)
    asked: list[Asked] = []
    cells: list[Cell] = []
    try:
        for number, picture in enumerate(listed, start=1):
            if progress is not None:
                progress(f"{picture.name} ({number} of {len(listed)} photographs)")
            views = list(frames(picture, files[picture.name], VIEWS))
            with VideoMemory() as memory:
                remember(views, memory)
                agent = RefusalAgent(memory, encoder, judge)
                rows = ask(picture.name, agent, photographs[picture.name])
            asked += rows
            cells.append(_cell(decode_compressed(views[0][1]), rows))
        for film in films:
            if progress is not None:
                progress(f"{film.film.name} (film)")
            file = files[film.film.name]
            with VideoMemory() as memory:
                memory_from_video(file, memory, keyframes=FILM_KEYFRAMES)
                rows = ask(film.film.name, RefusalAgent(memory, encoder, judge), film.questions)
            asked += rows
            shown = film.film.model_copy(update={"frames": (film.shown,)})
            cells.append(_cell(decode_compressed(next(iter(frames(shown, file, 1)))[1]), rows))
    finally:
        encoder.close()
    return asked, cells, judge.id


def ask(name: str, agent: RefusalAgent, questions: Sequence[FilmQuestion]) -> list[Asked]:
    """Ask all of one memory, as ``semflip ask`` does."""
    agent.catch_up()
    decisions = ask_all(agent, [q.question for q in questions])
    return [_asked(name, q, d) for q, d in zip(questions, decisions, strict=True)]


def remember(views: Iterable[tuple[int, bytes]], memory: VideoMemory) -> None:
    """Put pictures ``(stamp_ns, jpeg)`` into a memory, without poses, as a recording gives them."""
    with tempfile.TemporaryDirectory() as scratch:
        bag = Path(scratch) / "bag"
        write_picture_bag(views, bag)
        memory_from_bag(bag, memory, keyframes=KeyframeSettings(), needs_pose=False)


def _asked(name: str, question: FilmQuestion, decision: Decision) -> Asked:
    said = decision.gate_verdict and decision.gate_verdict.value
    return Asked(name, question.question, question.answerable, said, decision.score)


def _files(
    packages: Mapping[str, PicturePackage],
    pictures: Sequence[PackagedPicture],
    assets: Path | None,
    download: bool,
) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for name in dict.fromkeys(p.package for p in pictures):
        wanted = [p for p in pictures if p.package == name]
        found |= find_pictures(name, packages[name], wanted, assets, download=download)
    return found


def _cell(rgb: Picture, rows: Sequence[Asked]) -> Cell:
    """The first question of each kind stands below the picture."""
    first = {row.answerable: row for row in reversed(rows)}
    shown = [first[kind] for kind in (True, False)]
    return Cell(
        rgb,
        [
            (f"{row.question} - {_said(row)}: {'right' if row.right else 'WRONG'}", row.right)
            for row in shown
        ],
    )


def _said(row: Asked) -> str:
    return SAID.get(row.said or "", "no verdict")


def page(asked: Sequence[Asked], gate_id: str) -> str:
    """The page in Markdown: totals, the contact sheet, and a row a question."""
    can = [row for row in asked if row.answerable]
    cannot = [row for row in asked if not row.answerable]
    films = {film.film.name for film in read_films()}
    lines = [
        "# Photographs and footage, with verdicts",
        "",
        "What the shipped gate of `mini` says about real pictures that packages carry. Asked as "
        "`semflip ask` asks;",
        "a photograph's memory is the whole and windows of it, as a turning camera sees them; a "
        "film's, a frame in",
        f"{FILM_KEYFRAMES.min_interval_s:.0f} seconds.",
        "",
        "**The grounding of `mini` in real pictures is limited.** It is a stand-in that learned "
        "from rendered rooms,",
        "and here it is right only as often as this table shows; do not drive a robot among "
        "people by it.",
        "",
        f"![pictures with two questions each; green is right, red is wrong]({SHEET})",
        "",
        "Green is right, red is wrong. Below a film are the first two of its questions.",
        "",
        f"| gate {gate_id[:12]} | right | of |",
        "|---|---|---|",
        f"| the picture has the answer: it answers | {_count(can)} | {len(can)} |",
        f'| the picture lacks it: "I do not know" | {_count(cannot)} | {len(cannot)} |',
        f"| both | {_count(asked)} | {len(asked)} |",
        "",
        "Chosen before any verdict was seen: of each photograph of the development part of "
        "[real_pictures.md](real_pictures.md)",
        "the first question of its pairs that it can answer and the first that it cannot, and all "
        "questions of two films.",
        "So these are no test figures: this part may be tuned on; that page has the test. A pose "
        "is missing",
        "everywhere, so the verdict is the gate's, and no goal would follow.",
        "",
        "| picture | question | has it | the gate says | P(unanswerable) | |",
        "|---|---|---|---|---|---|",
        *(_row(row, film=row.name in films) for row in asked),
        "",
        "Pictures: `opencv-doc` (Debian), `scikit-image` (PyPI), three templates of Creative Tim "
        "(npm), scaled down; licences",
        "and origin: [ORIGIN.md](../semflip_train/photographs/data/ORIGIN.md). Made by",
        "`python -m semflip_train.photographs.page docs`.",
        "",
    ]
    return "\n".join(lines)


def _row(row: Asked, *, film: bool) -> str:
    name = f"{row.name} (film)" if film and "film" not in row.name else row.name
    return (
        f"| {name.replace('_', ' ')} | {row.question} | {'yes' if row.answerable else 'no'} "
        f"| {_said(row)} | {row.score:.2f} | {'right' if row.right else '**wrong**'} |"
    )


def _count(rows: Sequence[Asked]) -> int:
    return sum(row.right for row in rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, ask, and write page and contact sheet."""
    parser = argparse.ArgumentParser(description="Write the page of photographs with verdicts.")
    parser.add_argument("out", type=Path, help=f"folder that gets {PAGE} and {SHEET}")
    parser.add_argument("--assets", type=Path, help="as for 'semflip import real-pictures'")
    parser.add_argument("--gate", type=Path, help="default: the shipped one")
    options = parser.parse_args(arguments)
    asked, cells, gate_id = ask_pictures(
        options.assets, options.gate, progress=lambda line: print(line, file=sys.stderr)
    )
    write_whole(options.out / SHEET, contact_sheet(cells))
    write_whole(options.out / PAGE, page(asked, gate_id))
    print(f"{options.out / PAGE}: {_count(asked)} of {len(asked)} right")


if __name__ == "__main__":
    try:
        main()
    except SemflipError as error:
        sys.exit(f"semflip: {error}")
