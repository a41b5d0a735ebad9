"""What the detector's labels file is made from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from semflip_core.encoders.mini.labels import LabelTable
from semflip_core.encoders.mini.projection import ProjectionWeights
from semflip_core.encoders.mini.text import TextEncoder
from semflip_core.frames import Picture
from semflip_train import detector_labels

SAMPLE = Path(__file__).parents[2] / "data" / "sample"


def test_photographs_and_rooms_count_alike_and_the_file_knows_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photographs = [np.full((64, 96, 3), shade, np.uint8) for shade in (40, 120, 200)]

    def training_pictures(assets: Path) -> Iterator[Picture]:
        yield from photographs

    monkeypatch.setattr(detector_labels, "training_pictures", training_pictures)
    pictures = list(detector_labels.reference_pictures(tmp_path, SAMPLE))
    assert [p.shape for p in pictures] == [(64, 96, 3)] * 3 + [(480, 640, 3)] * 3
    monkeypatch.setattr(detector_labels, "reference_pictures", lambda *_: iter(pictures))
    out = tmp_path / "labels.safetensors"
    detector_labels.main(assets=tmp_path, sample=SAMPLE, out=out)
    weights = ProjectionWeights.load()
    made, shipped = LabelTable(weights.centred, out), LabelTable(weights.centred)
    settee = weights.centred(TextEncoder().vectors(["settee"]))[0]
    assert (made.meaning(settee).classes == shipped.meaning(settee).classes).all()
    assert made.digest != shipped.digest
