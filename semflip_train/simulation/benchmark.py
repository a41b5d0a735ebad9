"""Whole datasets: render sequences for each split, label them, write questions and credits."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from semflip_core.errors import DatasetError
from semflip_core.settings import read_settings
from semflip_train.simulation.catalogue import CatalogueModel, FurnitureCatalogue
from semflip_train.simulation.labels import DriveLabels, FrameCover, measure
from semflip_train.simulation.questions import QuestionWriter
from semflip_train.simulation.referents import Seen
from semflip_train.simulation.sequence import CORRIDORS, HOMES, SequenceRun
from semflip_train.simulation.settings import SimulationSettings
from semflip_train.simulation.write import stamp_of, write_bag

#: Far apart, so that neighbouring dataset seeds share no scene.
SEED_STEP = 10_007
#: Folder of what is kept of each rendered sequence until the dataset is whole.
RENDERED = ".rendered"


@dataclass(frozen=True, slots=True)
class PlannedSequence:
    """A sequence before it is rendered."""

    name: str
    split: str
    slice: str
    seed: int
    kinds: tuple[str, ...]


def planned(settings: SimulationSettings) -> tuple[PlannedSequence, ...]:
    """Names, splits, seeds and rooms of a dataset's sequences.

    Kinds of rooms are dealt round, so that test sequences differ among each other.
    """
    result: list[PlannedSequence] = []
    parts = (
        ("train", "known", settings.train),
        ("calibration", "known", settings.calibration),
        ("test", "known", settings.test),
        ("test", "new", settings.new_things),
    )
    for split, kind, count in parts:
        stem = f"{split}_new" if kind == "new" else split
        for index in range(count):
            number = len(result)
            seed = settings.seed * SEED_STEP + number
            homes = CORRIDORS if _has_corridor(seed, settings.corridors) else HOMES
            rooms = homes[(settings.seed + number) % len(homes)]
            result.append(PlannedSequence(f"{stem}_{index}", split, kind, seed, rooms))
    return tuple(result)


def _has_corridor(seed: int, share: float) -> bool:
    return bool(np.random.default_rng([seed, 14]).random() < share)


def run_of(
    plan: PlannedSequence, settings: SimulationSettings, catalogue: FurnitureCatalogue
) -> SequenceRun:
    """The drive of a planned sequence; rendering it again gives the same pictures.

    ``run_of(...).frames(without=frozenset({label}))`` renders it as if an object never was there.
    """
    return SequenceRun(
        plan.seed,
        catalogue,
        split="new" if plan.slice == "new" else plan.split,
        kinds=plan.kinds,
        settings=settings.drive,
        density=settings.density,
        paint_share=settings.paint_share,
    )


def recorded_run(root: Path, sequence: str, catalogue: FurnitureCatalogue) -> SequenceRun:
    """The drive behind a sequence of a dataset that :func:`simulate` wrote, to render it again.

    The label of an object is its place in the sequence's ``objects`` in ``scenes.json``.

    Raises:
        DatasetError: ``root`` was not made by ``semflip simulate``, or has no such sequence.
    """
    file = root / "scenes.json"
    if not file.is_file():
        raise DatasetError(f"{file}: missing, so {root} cannot be rendered again")
    record = json.loads(file.read_text(encoding="utf-8"))
    settings = read_settings(SimulationSettings, record["settings"], str(file))
    for plan in planned(settings):
        if plan.name == sequence:
            return run_of(plan, settings, catalogue)
    known = ", ".join(record["sequences"])
    raise DatasetError(f"{file}: no sequence '{sequence}'; there are: {known}")


class ShownPictures:
    """Tells a progress bar of each sequence's pictures.

    Args:
        before: stands before sequences' names.
    """

    def __init__(self, progress: Callable[[str, int, int], None] | None, before: str = "") -> None:
        self._progress, self._before = progress, before
        self._name, self._done, self._total = "", 0, 0

    def start(self, sequence: str, frames: int) -> None:
        """The next sequence begins."""
        self._name, self._done, self._total = f"{self._before}{sequence}", 0, frames

    def advance(self) -> None:
        """One more picture."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._name, self._done, self._total)


def simulate(
    out: Path,
    settings: SimulationSettings,
    catalogue: FurnitureCatalogue,
    *,
    start: Callable[[str, int], None] = lambda name, frames: None,
    advance: Callable[[], None] = lambda: None,
) -> Path:
    """Write a dataset (DESIGN section 8) and return its folder.

    Args:
        start: called with the name and number of pictures of each sequence.
        advance: called after each picture.

    Raises:
        DatasetError: ``out`` holds something that is no dataset of this command.
    """
    _claim(out)
    seen: list[Seen] = []
    scenes: dict[str, Any] = {}
    plans = planned(settings)
    for plan in plans:
        run, covers = render(out, plan, settings, catalogue, start=start, advance=advance)
        seen.append(seen_on(plan, run, settings, covers))
        scenes[plan.name] = _scene_record(plan, run, seen[-1].labels)
    writer = QuestionWriter(seen, settings.questions, settings.seed, settings.balanced)
    rows = writer.write()
    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    (out / "queries.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    record = {"settings": settings.model_dump(mode="json"), "sequences": scenes}
    text = json.dumps(record, indent=1, ensure_ascii=False)
    (out / "scenes.json").write_text(text + "\n", encoding="utf-8")
    used = {item.model for one in seen for item in one.objects}
    models = [catalogue.models[key] for key in sorted(used)]
    (out / "ATTRIBUTION.md").write_text(credits(models), encoding="utf-8")
    _write_info(out, settings, plans)
    shutil.rmtree(out / RENDERED, ignore_errors=True)
    return out


def _claim(out: Path) -> None:
    """Make the dataset's folder, unless somebody else's files are there."""
    ours = (out / "scenes.json").is_file() or (out / RENDERED).is_dir()
    if out.exists() and any(out.iterdir()) and not ours:
        raise DatasetError(f"{out}: not empty and not made by `semflip simulate`; choose another")
    (out / RENDERED).mkdir(parents=True, exist_ok=True)


def render(
    out: Path,
    plan: PlannedSequence,
    settings: SimulationSettings,
    catalogue: FurnitureCatalogue,
    *,
    start: Callable[[str, int], None] = lambda name, frames: None,
    advance: Callable[[], None] = lambda: None,
) -> tuple[SequenceRun, list[FrameCover]]:
    """Record one sequence, unless it is recorded; what it shows. Others may do so beside it.

    Raises:
        DatasetError: as for :func:`simulate`.
    """
    _claim(out)
    run = run_of(plan, settings, catalogue)
    start(plan.name, len(run.camera_poses))
    return run, _rendered(plan, run, settings, out, advance)


def seen_on(
    plan: PlannedSequence,
    run: SequenceRun,
    settings: SimulationSettings,
    covers: Sequence[FrameCover],
) -> Seen:
    """What questions can be asked about, from what each picture of a drive shows."""
    stamps = [stamp_of(timed.time_s, settings.bag) for timed in run.camera_poses]
    labels = DriveLabels(run.camera_poses, stamps, covers, settings.labels)
    return Seen(plan.name, plan.split, plan.slice, run.scene.objects, run.scene.plan, labels)


def questions_only(
    settings: SimulationSettings, catalogue: FurnitureCatalogue, size: tuple[int, int] = (160, 120)
) -> list[dict[str, Any]]:
    """Rows of ``queries.jsonl`` from segmented pictures of this width and height alone.

    Seconds a sequence instead of a minute. Pictures of another size cut some objects' shares a
    little differently, so rows are not those of :func:`simulate`, but as good to study the words.
    """
    seen = []
    for plan in planned(settings):
        run = run_of(plan, settings, catalogue)
        covers = [measure(labels, len(run.scene.objects)) for labels in run.segmented(size)]
        seen.append(seen_on(plan, run, settings, covers))
    return QuestionWriter(seen, settings.questions, settings.seed, settings.balanced).write()


def _rendered(
    plan: PlannedSequence,
    run: SequenceRun,
    settings: SimulationSettings,
    out: Path,
    advance: Callable[[], None],
) -> list[FrameCover]:
    """What a sequence's pictures show; what was recorded before a kill is not rendered again."""
    from safetensors.numpy import load_file, save_file

    file = out / RENDERED / f"{sequence_key(plan, settings)}.safetensors"
    if file.is_file():
        stored = load_file(file)
        for _ in run.camera_poses:
            advance()
        return [FrameCover(*row) for row in zip(stored["share"], stored["offset"], strict=True)]
    covers = write_bag(run, out / "sequences" / plan.name, settings.bag, advance)
    partial = file.with_suffix(".partial")
    save_file(
        {
            "share": np.stack([cover.share for cover in covers]),
            "offset": np.stack([cover.offset for cover in covers]),
        },
        partial,
    )
    partial.replace(file)
    return covers


def sequence_key(plan: PlannedSequence, settings: SimulationSettings) -> str:
    """Names what is kept of a rendered sequence: anything that changes its pictures changes it."""
    looks = settings.model_dump(
        mode="json", include={"drive", "bag", "density", "paint_share"}
    ) | asdict(plan)
    digest = hashlib.sha256(json.dumps(looks, sort_keys=True).encode()).hexdigest()
    return f"{plan.name}-{digest[:12]}"


def _scene_record(plan: PlannedSequence, run: SequenceRun, labels: DriveLabels) -> dict[str, Any]:
    """What is needed to check the labels, and to render the scene again."""
    return {
        "split": plan.split,
        "slice": plan.slice,
        "seed": plan.seed,
        "rooms": list(plan.kinds),
        "camera": run.camera.model_dump(mode="json"),
        "objects": [
            {
                "name": item.thing.name,
                "look": item.look,
                "model": item.model,
                "paint": item.paint,
                "position": [round(value, 3) for value in item.centre],
                "room": item.room,
                "on": item.on,
                "frames": int((labels.share[:, label] > 0).sum()),
                "largest_share": round(float(labels.share[:, label].max()), 4),
            }
            for label, item in enumerate(run.scene.objects)
        ],
    }


def _write_info(out: Path, settings: SimulationSettings, plans: Iterable[PlannedSequence]) -> None:
    splits: dict[str, list[str]] = {"train": [], "calibration": [], "test": []}
    for plan in plans:
        splits[plan.split].append(plan.name)
    info = {
        "name": settings.name,
        "version": "1",
        "licence": "CC-BY-3.0 (rendered furniture: see ATTRIBUTION.md)",
        "task": "localization",
        "map_frame": "map",
        "topics": {"image": settings.bag.image_topic, "pose": settings.bag.pose_topic},
        "splits": splits,
        "description": "Rendered rooms with exact labels; made by `semflip simulate`.",
    }
    text = yaml.safe_dump(info, sort_keys=False, allow_unicode=True, default_flow_style=None)
    (out / "dataset.yaml").write_text(text, encoding="utf-8")


def credits(models: Iterable[CatalogueModel]) -> str:
    """Authors and licences of the furniture shown, as Markdown."""
    lines = [
        "# Furniture shown in these recordings",
        "",
        "The 3D models come from the Sweet Home 3D furniture libraries (Debian package",
        "`sweethome3d-furniture`). They were converted, lit and rendered in rooms of our own;",
        "floors, walls, windows and paintings are generated. Attribution as the licences ask:",
        "",
        "| model | title | author | licence |",
        "|---|---|---|---|",
    ]
    for model in models:
        licence = f"[{model.library.licence}]({model.library.url})"
        lines.append(f"| `{model.key}` | {model.name} | {model.author} | {licence} |")
    return "\n".join(lines) + "\n"
