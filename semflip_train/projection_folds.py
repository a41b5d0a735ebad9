"""Make the projections that training features are cross-fitted with, by one command.

``python -m semflip_train.projection_folds --out out/projection_folds`` (about 20 minutes on two
idle cores) trains mini's projection several times on the scenes of :mod:`semflip_train.projection`,
each time without one fold of the kinds of thing and without a third of the models of the others,
and adds the rooms that presence is judged by. Experiments name the folder as ``cross_fit``
(:mod:`semflip_train.cross_fit`); nothing of it is shipped.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from semflip_core.encoders.mini.backbone import Backbone
from semflip_core.encoders.mini.projection import ProjectionWeights
from semflip_core.errors import SemflipError
from semflip_train.cross_fit import FOLD_COUNT, HELD_OUT
from semflip_train.engines import Engine, load_engine
from semflip_train.projection import COUNTS, Material, gather, make, scenes_folder
from semflip_train.projection_fit import FitSettings
from semflip_train.projection_rooms import add_rooms, render_reference
from semflip_train.projection_vocabulary import split, without_some_models
from semflip_train.shown import steps

FOLDS = 4
Progress = Callable[[str, int, int], None]

logger = logging.getLogger("semflip")


def fold_file(folder: Path, fold: int) -> Path:
    """Where a fold's projection is."""
    return folder / f"fold{fold}.safetensors"


def missing_folds(folder: Path) -> list[int]:
    """Folds whose projection is not there yet."""
    return [fold for fold in range(FOLDS) if not fold_file(folder, fold).is_file()]


def make_folds(
    folder: Path,
    assets: Path | None = None,
    scenes: Path | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> None:
    """Train what is missing of the folds; nothing is made twice.

    Args:
        assets: furniture libraries.
        scenes: cache folder of the rendered scenes, shared with :mod:`semflip_train.projection`.
    """
    missing = missing_folds(folder)
    if not missing:
        return
    scenes = scenes or scenes_folder()
    backbone = Backbone()
    material = gather(assets, COUNTS, backbone, scenes, engine, progress)
    rooms = render_reference(scenes, assets, engine, progress)
    bare = {fold: folder / "without_rooms" / fold_file(folder, fold).name for fold in missing}
    for fold, file in bare.items():
        if not file.is_file():
            logger.info("fold %d of %d", fold + 1, FOLDS)
            train_fold(material, fold, backbone).save(file)
    whole = add_rooms(list(bare.values()), rooms, scenes / "reference-memories")
    for fold, weights in zip(bare, whole, strict=True):
        weights.save(fold_file(folder, fold))


def train_fold(material: Material, fold: int, backbone: Backbone) -> ProjectionWeights:
    """A projection that has not met one fold of the kinds of thing."""
    inside, outside = split(material.words, FOLDS, fold)
    names = sorted({name for word in outside for name in word.names})
    header = {HELD_OUT: names, FOLD_COUNT: FOLDS}
    known = without_some_models(inside, fold)
    return make(material, known, FitSettings(), backbone, header)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and make the folds."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/projection_folds"))
    parser.add_argument("--assets", type=Path, help="root of unpacked Debian data packages")
    parser.add_argument("--cache", type=Path, default=scenes_folder())
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    engine = load_engine("local", workers=options.workers)
    with steps() as progress:
        make_folds(options.out, options.assets, options.cache, engine, progress)


if __name__ == "__main__":
    try:
        main()
    except SemflipError as error:
        sys.exit(f"semflip: {error}")
