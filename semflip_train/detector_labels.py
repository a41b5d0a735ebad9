"""Makes what mini needs beside the detector: its classes' words as vectors, and its usual scores.

``python -m semflip_train.detector_labels --assets DIR`` writes
``semflip_core/weights/coco_labels.safetensors``. What pictures at large reach for each class is
taken from photographs of Debian's opencv-doc that may be trained on (a third of them, see
:mod:`semflip_train.projection_real`) and from the training recordings of the sample, an equal
number of each. No label is used.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from semflip_core.encoders.mini.coco_names import KINDS, WORDS
from semflip_core.encoders.mini.detector import Detector
from semflip_core.encoders.mini.labels import DEFAULT_LABELS, reference_of, save_labels
from semflip_core.encoders.mini.text import TextEncoder
from semflip_core.frames import Picture
from semflip_core.settings import KeyframeSettings
from semflip_train.dataset import load_dataset
from semflip_train.memories import sequence_memory
from semflip_train.projection_real import training_pictures

SAMPLE = Path("data/sample")


def reference_pictures(assets: Path, sample: Path = SAMPLE) -> Iterator[Picture]:
    """Photographs, then as many frames of the sample's training recordings, evenly spread.

    Raises:
        AssetError: no photographs below ``assets``; names the package that brings them.
        DatasetError: the sample is not there.
    """
    count = 0
    for count, photograph in enumerate(training_pictures(assets), start=1):  # noqa: B007
        yield photograph
    dataset = load_dataset(sample)
    with tempfile.TemporaryDirectory() as scratch:
        memories = [
            sequence_memory(dataset, name, KeyframeSettings(), Path(scratch))
            for name in dataset.info.splits["train"]
        ]
        frames = [(memory, record.id) for memory in memories for record in memory.records()]
        step = max(1, len(frames) // max(1, count))
        for memory, keyframe in frames[::step][:count]:
            yield memory.picture(keyframe)
        for memory in memories:
            memory.close()


def main(
    assets: Annotated[Path, typer.Option(help="Folder with opencv-doc unpacked.")] = Path("/"),
    sample: Annotated[Path, typer.Option(help="The sample dataset.")] = SAMPLE,
    out: Annotated[Path, typer.Option(help="The file to write.")] = DEFAULT_LABELS,
) -> None:
    """Make the vectors of the classes' words and the scores that pictures reach at large."""
    detector = Detector()
    seen = [detector.detect(picture) for picture in reference_pictures(assets, sample)]
    text = TextEncoder()
    save_labels(
        out,
        text.bulk_vectors(list(WORDS)),
        text.bulk_vectors(list(KINDS)),
        reference_of(seen),
    )
    typer.echo(f"{out}: {len(WORDS)} words, {len(KINDS)} kinds, {len(seen)} reference pictures")


if __name__ == "__main__":
    typer.run(main)
