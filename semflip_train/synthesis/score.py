"""V-Flip against exact truth: what was erased against segmentation, the fill against a render.

Only for sequences that ``semflip simulate`` wrote: they can be rendered again with the label of
every pixel, and as if an object never had been there. ``python -m semflip_train.synthesis.score
DATASET`` prints the figures.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semflip_core.errors import DatasetError, SemflipError
from semflip_core.frames import Picture
from semflip_train.dataset import Dataset, Query, load_dataset
from semflip_train.run_directory import ExperimentSettings, RunDirectory, read_experiment
from semflip_train.simulation.sequence import SequenceRun
from semflip_train.synthesis.vflip import Erased

Labels = NDArray[np.int16]
#: Least share of a picture's pixels from which on an object counts as shown.
SHOWN = 0.002
#: A sample keeps its promise when no frame shows more of the referent than this.
LEFT = 0.01


@dataclass(frozen=True, slots=True)
class Score:
    """One V-Flip sample against the truth; shares in [0, 1].

    Args:
        question, phrase, sequence: which one.
        changed: frames changed.
        showing: frames that truly show the referent.
        frame_recall: share of the showing frames that were changed.
        frame_precision: share of the changed frames that show it.
        pixel_recall: share of the referent's pixels, over all frames, that lie under a mask.
        largest_left: most of a picture that the referent still fills, over all frames.
        hit: the strongest showing frame has most of the referent under its mask.
        nearer: share of the erased referent's pixels that the fill brings nearer to the render
            without it than the original was; None without such a render.
        error_before, error_after: mean absolute difference to that render under the masks, in
            grey levels, of original and fill.
    """

    question: str
    phrase: str
    sequence: str
    changed: int
    showing: int
    frame_recall: float
    frame_precision: float
    pixel_recall: float
    largest_left: float
    hit: bool
    nearer: float | None = None
    error_before: float | None = None
    error_after: float | None = None

    @property
    def honest(self) -> bool:
        """The referent is gone: nowhere more of it than a question would need."""
        return self.largest_left < LEFT


def score_masks(shown: NDArray[np.bool_], erased: Sequence[Erased]) -> dict[str, Any]:
    """What the masks of a sample cover of the referent.

    Args:
        shown: ``(frames, height, width)``, True where the referent is.

    Raises:
        DatasetError: no frame shows it, so there is nothing to erase.
    """
    share = shown.mean(axis=(1, 2))
    showing = set(np.flatnonzero(share >= SHOWN).tolist())
    if not showing:
        raise DatasetError("no frame shows the referent; its segmentation is another object's")
    changed = {frame.index for frame in erased}
    covered = {f.index: float((shown[f.index] & f.mask).mean()) for f in erased}
    left = share - np.array([covered.get(i, 0.0) for i in range(len(share))])
    strongest = int(np.argmax(share))
    return {
        "changed": len(changed),
        "showing": len(showing),
        "frame_recall": len(showing & changed) / len(showing),
        "frame_precision": len(showing & changed) / max(1, len(changed)),
        "pixel_recall": float(sum(covered.values()) / share.sum()),
        "largest_left": float(left.max()),
        "hit": covered.get(strongest, 0.0) > 0.5 * float(share[strongest]),
    }


def score_fill(
    shown: NDArray[np.bool_],
    erased: Sequence[Erased],
    original: Mapping[int, Picture],
    without: Mapping[int, Picture],
) -> dict[str, Any]:
    """How near the fill is to the render without the referent, under the masks.

    Args:
        shown: ``(frames, height, width)``, True where the referent is.
        original, without: pictures by index of the frame.
    """
    from semflip_core.images import decode_compressed

    before, after, nearer = [], [], []
    for frame in erased:
        truth = without[frame.index].astype(np.float32)
        first = np.abs(original[frame.index].astype(np.float32) - truth).mean(axis=2)
        second = np.abs(decode_compressed(frame.jpeg).astype(np.float32) - truth).mean(axis=2)
        gone = shown[frame.index] & frame.mask
        before.append(first[gone])
        after.append(second[gone])
        nearer.append(second[gone] < first[gone])
    if not sum(len(part) for part in before):
        return {}
    return {
        "nearer": float(np.concatenate(nearer).mean()),
        "error_before": float(np.concatenate(before).mean()),
        "error_after": float(np.concatenate(after).mean()),
    }


def summary(scores: Sequence[Score], dropped: Mapping[str, int]) -> dict[str, Any]:
    """Figures over all samples: the filter's yield and honesty, and the fill's nearness."""
    if not scores:
        return {"kept": 0, "dropped": dict(dropped)}
    filled = [s for s in scores if s.nearer is not None]

    def mean(name: str, over: Sequence[Score]) -> float | None:
        return round(float(np.mean([getattr(s, name) for s in over])), 3) if over else None

    return {
        "questions": len(scores) + sum(dropped.values()),
        "kept": len(scores),
        "dropped": dict(dropped),
        "referent_hit": mean("hit", scores),
        "honest": mean("honest", scores),
        **{
            name: mean(name, scores)
            for name in ("frame_recall", "frame_precision", "pixel_recall", "largest_left")
        },
        "frames_changed": mean("changed", scores),
        **{name: mean(name, filled) for name in ("nearer", "error_before", "error_after")},
    }


@dataclass(frozen=True, slots=True)
class Truth:
    """A rendered sequence beside its memory's keyframes.

    Args:
        run: renders it again.
        numbers: of the drive's picture behind each keyframe.
        objects: records of ``scenes.json``, by label.
    """

    run: SequenceRun
    numbers: tuple[int, ...]
    objects: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, root: Path, sequence: str, stamps: Sequence[int], assets: Path | None) -> Truth:
        """Of a sequence that ``semflip simulate`` wrote.

        Args:
            stamps: of the memory's keyframes, nanoseconds.
        """
        from semflip_train.simulation.benchmark import recorded_run
        from semflip_train.simulation.catalogue import FurnitureCatalogue, find_furniture
        from semflip_train.simulation.settings import BagSettings
        from semflip_train.simulation.write import stamp_of

        held_out = sequence.startswith("test_new")
        catalogue = FurnitureCatalogue(find_furniture(assets), held_out=held_out)
        run = recorded_run(root, sequence, catalogue)
        record = json.loads((root / "scenes.json").read_text(encoding="utf-8"))
        bag = BagSettings(**record["settings"]["bag"])
        number = {stamp_of(p.time_s, bag): i for i, p in enumerate(run.camera_poses)}
        return cls(run, tuple(number[s] for s in stamps), record["sequences"][sequence]["objects"])

    def labels(self) -> Labels:
        """``(keyframes, height, width)`` object of each pixel."""
        wanted = set(self.numbers)
        seen = {i: f.labels for i, f in enumerate(self.run.frames()) if i in wanted}
        return np.stack([seen[i] for i in self.numbers])

    def without(self, labels: frozenset[int], indices: Sequence[int]) -> dict[int, Picture]:
        """Keyframes rendered as if objects never had been there."""
        wanted = {self.numbers[i]: i for i in indices}
        return {
            wanted[i]: frame.rgb for i, frame in enumerate(self.run.frames(labels)) if i in wanted
        }

    def referents(self, query: Query) -> frozenset[int]:
        """Labels of what a question asks about: the object at its place, and its namesakes."""
        place = query.answer.object_position if query.answer else None
        if place is None:
            return frozenset()
        away = [float(np.linalg.norm(np.subtract(o["position"], place))) for o in self.objects]
        name = self.objects[int(np.argmin(away))]["name"]
        return frozenset(i for i, o in enumerate(self.objects) if o["name"] == name)


def score_sequence(
    run: RunDirectory,
    dataset: Dataset,
    sequence: str,
    *,
    assets: Path | None = None,
    fills: int = 4,
) -> tuple[list[Score], Counter[str]]:
    """Erase every answerable question's referent and score what happened.

    Args:
        fills: samples whose fill is compared with a render, which takes a render of the drive.

    Returns:
        Scores of the kept samples, and the dropped ones by reason.
    """
    from semflip_train.stages import OpenSequence
    from semflip_train.synthesis.erasing import MemoryEraser, phrase_to_erase

    queries = [q for q in dataset.queries if q.sequence == sequence and q.answerable]
    scores: list[Score] = []
    dropped: Counter[str] = Counter()
    with OpenSequence(run, dataset, sequence, None) as opened:
        stamps = [record.stamp_ns for record in opened.memory.records()]
        truth = Truth.of(dataset.root, sequence, stamps, assets)
        labels = truth.labels()
        eraser = MemoryEraser(
            opened.frames, queries, run.settings.synthesis, run.settings.keyframes
        )
        for query in queries:
            phrase, referents = phrase_to_erase(query), truth.referents(query)
            if not phrase or not referents:
                dropped["no referent with a place"] += 1
                continue
            erased, problem = eraser.erase(phrase)
            if problem is not None:
                dropped[problem] += 1
                continue
            shown = np.isin(labels, list(referents))
            values = score_masks(shown, erased)
            if len(scores) < fills:
                original = {f.index: eraser.seen.views[f.index].picture for f in erased}
                render = truth.without(referents, [f.index for f in erased])
                values |= score_fill(shown, erased, original, render)
            scores.append(Score(query.question, phrase, sequence, **values))
    return scores, dropped


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("dataset", type=Path, help="made by: semflip simulate")
    parser.add_argument("--config", type=Path, help="experiment, for its synthesis section")
    parser.add_argument("--split", default="train")
    parser.add_argument("--sequences", type=int, default=2, help="most sequences")
    parser.add_argument("--fills", type=int, default=2, help="fills compared, for each sequence")
    parser.add_argument("--assets", type=Path, help="furniture libraries (*.sh3f)")
    parser.add_argument("--out", type=Path, help="run directory to keep memories in")
    parser.add_argument("--json", type=Path, help="write every score here")
    options = parser.parse_args(arguments)
    settings = (
        read_experiment(options.config)
        if options.config
        else ExperimentSettings(name="score", dataset=str(options.dataset))
    ).model_copy(update={"dataset": str(options.dataset)})
    dataset = load_dataset(options.dataset)
    scores: list[Score] = []
    dropped: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory.create(options.out or Path(folder), settings)
        for sequence in dataset.sequences(options.split)[: options.sequences]:
            made, lost = score_sequence(
                run, dataset, sequence, assets=options.assets, fills=options.fills
            )
            scores += made
            dropped += lost
    if options.json:
        rows = [asdict(s) | {"honest": s.honest} for s in scores]
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    print(json.dumps(summary(scores, dropped), indent=2))


if __name__ == "__main__":
    try:
        main()
    except SemflipError as error:
        sys.exit(f"semflip: {error}")
