"""Make mini's weights again: ``python -m semflip_train.projection`` (about 30 minutes, 2 cores).

Steps, each kept in a cache folder, so that a run that was stopped goes on where it was:

1. render furnished rooms and heaps of models, as they come and painted over, of the training
   libraries (never KatorLegaz, never a model that the benchmark keeps for its tests) with exact
   masks;
2. pool EfficientNet-Lite2 features over regions, of renders and of real photographs;
3. measure: train with one quarter of the categories held out, report AUROC on known and on held-out
   categories, beside plain ConSE;
4. train on everything, add the rooms and levels that presence is judged by
   (:mod:`~semflip_train.projection_rooms`), and write
   ``semflip_core/weights/mini_projection.safetensors``.

:mod:`semflip_train.projection_folds` makes the projections that training features are
cross-fitted with, from the same scenes.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.mini.assets import cache_folder
from semflip_core.encoders.mini.backbone import Backbone, resize
from semflip_core.encoders.mini.phrases import PARSER, PhraseParser
from semflip_core.encoders.mini.projection import DEFAULT_WEIGHTS, ProjectionWeights
from semflip_core.encoders.mini.regions import averages
from semflip_core.encoders.mini.text import TextEncoder
from semflip_core.errors import ConfigError
from semflip_train.engines import Engine, LocalEngine, load_engine
from semflip_train.projection_fit import FitSettings, Rows, build_bank, build_rows, fit
from semflip_train.projection_questions import questions
from semflip_train.projection_real import training_pictures
from semflip_train.projection_report import presence_auroc
from semflip_train.projection_rooms import add_rooms, render_reference
from semflip_train.projection_scenes import (
    POOLED_VERSION,
    Scene,
    SceneRegions,
    heap_scene,
    load_or_render,
    load_pooled,
    pool,
    pooled_file,
    room_scene,
)
from semflip_train.projection_vocabulary import ROOMS, Named, shown, split, vocabulary
from semflip_train.projection_weights import (
    base_tensors,
    complete,
    conse_of,
    half,
    reference_names,
    reference_pictures,
    sample_rows,
)
from semflip_train.projection_words import BACKGROUND, DISTRACTORS
from semflip_train.shown import steps
from semflip_train.simulation.catalogue import FurnitureCatalogue, find_furniture
from semflip_train.simulation.sequence import rooms_seen
from semflip_train.stores import content_hash

Array = NDArray[np.float32]
Progress = Callable[[str, int, int], None]

logger = logging.getLogger("semflip")

ROOM_SEED = 500_000
ROOM_VIEWS = 20
HEAP_VIEWS = 8
#: kind of scene -> how many are rendered.
COUNTS = {"room": 50, "heap": 120, "painted-room": 70, "painted-heap": 120}
#: kind of scene -> share of its things that is painted over, and offset of its seeds.
PAINTED_SCENES = {"painted-room": (0.8, 10_000), "painted-heap": (0.6, 10_000)}
#: Counts changes of the training itself, which make kept results stale.
FIT_VERSION = 2
#: Every so manieth scene is kept out of training, to measure on.
KEPT_OUT = 6
#: Scenes that similarities are judged against: every so manieth of these, never trained on.
REFERENCE_KIND, REFERENCE_EVERY = "painted-room", 7
#: Pictures kept of all of them and of the photographs, and how many regions of each.
REFERENCE_RENDERS = 30
REFERENCE_PHOTOGRAPHS = 35
REFERENCE_REGIONS = 40


@dataclass(frozen=True)
class Material:
    """What training reads.

    Args:
        words: every model that may be trained on.
        scenes: pooled regions of rendered scenes; conse: their ConSE vectors.
        reference: indices of the scenes that similarities are judged against; never trained on.
        real: features ``(n, 1280)`` and ConSE vectors ``(n, 384)`` of photographs' regions.
        photographs: features of all regions of each photograph.
        base: tensors that need no training.
        vectors: centred unit vector of each text.
        folder: the cache.
    """

    words: tuple[Named, ...]
    scenes: Sequence[SceneRegions]
    reference: Sequence[int]
    conse: Sequence[Array]
    real: tuple[Array, Array]
    photographs: Sequence[Array]
    base: Mapping[str, Array]
    vectors: dict[str, Array]
    folder: Path

    @property
    def trained(self) -> list[int]:
        """Indices of the scenes that the shipped projection is trained on."""
        return [i for i in range(len(self.scenes)) if i not in self.reference]

    def scenes_for(self, measuring: bool) -> list[int]:
        """Of those, the indices kept out for measuring, or of the others."""
        return [i for i in self.trained if (i % KEPT_OUT == 0) == measuring]


def scenes_folder() -> Path:
    """Where rendered scenes are kept."""
    return cache_folder() / "projection-scenes"


def gather(
    assets: Path | None,
    counts: Mapping[str, int],
    backbone: Backbone,
    folder: Path,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Material:
    """Render, pool and read everything that training needs; nothing is made twice.

    Args:
        counts: kind of scene -> how many.
        engine: renders several scenes at once; None: one after the other.
    """
    libraries = find_furniture(assets)
    catalogue = FurnitureCatalogue(libraries)
    named = vocabulary(catalogue)
    names = [f"{kind}-{seed:05d}" for kind, count in counts.items() for seed in range(count)]
    root = json.dumps([str(folder), str(libraries)])
    missing = [n for n in names if not pooled_file(folder / f"{n}.safetensors").is_file()]
    (engine or LocalEngine()).map(scene_unit, root, missing, progress)
    scenes = [load_pooled(folder / f"{name}.safetensors") for name in names]
    reference = [n for n, name in enumerate(names) if _judges(name)]
    words = shown(named, (model for scene in scenes for model in scene.models))
    text = TextEncoder()
    corpus = content_hash(json.dumps([PARSER, questions(), DISTRACTORS, BACKGROUND]))[:12]
    base = _kept(folder / f"base-{corpus}.safetensors", lambda: base_tensors(text, PhraseParser()))
    texts = sorted(
        {t for w in (*words, *ROOMS) for t in (*w.names, w.described)} | {*DISTRACTORS, *BACKGROUND}
    )
    raw = _kept(folder / "texts.safetensors", lambda: _by_text(texts, text), need=texts)
    centred = ProjectionWeights(base, {}).centred(np.stack([raw[t] for t in texts]))
    kept = folder / f"photographs{POOLED_VERSION}.safetensors"
    pooled = _kept(kept, lambda: _photographs(assets, backbone))
    pictures = [pooled[name] for name in sorted(pooled)]
    real = np.concatenate([np.concatenate([p[::3], p[-1:]]) for p in pictures])
    return Material(
        words=words,
        scenes=scenes,
        reference=tuple(reference),
        conse=[conse_of(s.pooled.astype(np.float32), backbone, base["labels"]) for s in scenes],
        real=(real, conse_of(real, backbone, base["labels"])),
        photographs=pictures,
        base=base,
        vectors=dict(zip(texts, centred, strict=True)),
        folder=folder,
    )


def scene_unit(root: str, name: str, progress: Progress | None = None) -> dict[str, Any]:
    """Render one scene, unless it is there, and pool it.

    Args:
        root: JSON of the cache folder and the folder of the furniture libraries.
        name: kind and number.
    """
    folder, libraries = json.loads(root)
    file = Path(folder) / f"{name}.safetensors"
    catalogue, named, backbone = _tools(libraries)
    kind, number = name.rsplit("-", 1)
    share, first = PAINTED_SCENES.get(kind, (0.0, 0))
    seed = first + int(number)

    room = ROOM_SEED + seed if kind.endswith("room") else None

    def render() -> Scene:
        if room is not None:
            return room_scene(catalogue, seed=room, views=ROOM_VIEWS, paint_share=share)
        return heap_scene(catalogue, named, seed=seed, views=HEAP_VIEWS, paint_share=share)

    rooms: tuple[str, ...] = ()
    if room is not None:
        rooms = rooms_seen(room, catalogue, frames=ROOM_VIEWS, paint_share=share)
    pool(file, load_or_render(file, render), backbone, rooms)
    return {"scene": name}


@lru_cache(maxsize=1)
def _tools(libraries: str) -> tuple[FurnitureCatalogue, tuple[Named, ...], Backbone]:
    catalogue = FurnitureCatalogue(Path(libraries))
    return catalogue, vocabulary(catalogue), Backbone(threads=1)


def _judges(name: str) -> bool:
    """Whether similarities are judged against a scene; it is never trained on then."""
    kind, number = name.rsplit("-", 1)
    return kind == REFERENCE_KIND and int(number) % REFERENCE_EVERY == 0


def _by_text(texts: Sequence[str], text: TextEncoder) -> dict[str, Array]:
    return dict(zip(texts, text.bulk_vectors(texts), strict=True))


def _photographs(assets: Path | None, backbone: Backbone) -> dict[str, Array]:
    pictures = training_pictures(assets or Path("/"))
    return {f"{n:04d}": averages(backbone.grid(resize(p))) for n, p in enumerate(pictures)}


def _kept(
    file: Path, make_tensors: Callable[[], dict[str, Array]], need: Sequence[str] = ()
) -> dict[str, Array]:
    """Tensors from a file of the cache, or made now and kept there; ``need`` must be among them."""
    from safetensors.numpy import load_file, save_file

    if file.is_file():
        found: dict[str, Array] = load_file(file)
        if set(need) <= found.keys():
            return found
    tensors = {name: np.ascontiguousarray(value) for name, value in make_tensors().items()}
    unfinished = file.with_suffix(".partial")
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, unfinished)
    unfinished.replace(file)
    return tensors


def train(
    material: Material, words: Sequence[Named], scenes: Sequence[int], settings: FitSettings
) -> dict[str, Array]:
    """Train the MLPs on some scenes with the words of some categories, and of rooms."""
    words = (*words, *ROOMS)
    known = {name for w in words for name in w.words}
    unknown = {n for w in material.words for n in w.names if n.lower() not in known}
    extra = [name for name in DISTRACTORS if name not in unknown]
    rows: Rows = build_rows(
        [material.scenes[i] for i in scenes], [material.conse[i] for i in scenes], words, settings
    )
    bank = build_bank(
        words, extra, BACKGROUND, material.vectors, material.base["labels"], settings.synonym
    )
    logger.info("training on %d regions, %d texts", len(rows.model), len(bank.vectors))
    key = content_hash(
        settings.model_dump_json(),
        *(a.tobytes() for a in (rows.model, rows.others, rows.conse, rows.features)),
        *(a.tobytes() for a in (bank.vectors, bank.positive, bank.masked, bank.background)),
        *(a.tobytes() for a in material.real),
    )
    return _kept(
        material.folder / f"mlp{FIT_VERSION}-{key[:16]}.safetensors",
        lambda: {n: half(v) for n, v in fit(rows, bank, material.real, settings).items()},
    )


def measure(material: Material, settings: FitSettings, folds: int = 4) -> dict[str, float]:
    """AUROC of presence in scenes kept out, with one fold of the categories held out.

    Returns:
        ``known`` and ``new`` categories by the projection and by ConSE (``_conse``), and how near
        regions of real photographs stay to their ConSE vectors (``real_cosine``).
    """
    inside, outside = split(material.words, folds, 0)
    scenes, kept = material.scenes_for(False), material.scenes_for(True)
    trained = ProjectionWeights(train(material, inside, scenes, settings), {})
    result: dict[str, float] = {}

    def projected(numbers: Sequence[int]) -> list[Array]:
        return [
            trained.project(material.scenes[i].pooled.astype(np.float32), material.conse[i])
            for i in numbers
        ]

    names = sorted({name for word in material.words for name in word.names})
    seen = trained.seen(np.stack([material.vectors[name] for name in names]))
    everything = {
        "": (
            projected(kept),
            sample_rows(projected(scenes), 1500, 0),
            dict(zip(names, seen, strict=True)),
        ),
        "_conse": (
            [material.conse[i] for i in kept],
            sample_rows([material.conse[i] for i in scenes], 1500, 0),
            material.vectors,
        ),
    }
    for suffix, (vectors, judged_by, texts) in everything.items():
        for name, words in (("known", inside), ("new", outside)):
            result[name + suffix] = presence_auroc(
                [material.scenes[i] for i in kept],
                vectors,
                material.words,
                texts,
                judged_by,
                frozenset(w.category for w in words),
            )
    moved = trained.project(*material.real)
    result["real_cosine"] = float((moved * material.real[1]).sum(axis=1).mean())
    return {name: round(value, 4) for name, value in result.items()}


def make(
    material: Material,
    words: Sequence[Named],
    settings: FitSettings,
    backbone: Backbone,
    header: Mapping[str, object],
) -> ProjectionWeights:
    """Train on every scene and complete the file."""
    mlp = train(material, words, material.trained, settings)
    photographs = material.photographs[
        :: max(1, len(material.photographs) // REFERENCE_PHOTOGRAPHS)
    ][:REFERENCE_PHOTOGRAPHS]
    reference = reference_pictures(
        [material.scenes[i] for i in material.reference],
        photographs,
        material.words,
        (REFERENCE_RENDERS, REFERENCE_REGIONS),
        seed=1,
    )
    tensors = {**material.base, **mlp, **reference_names(material.words, material.vectors)}
    return complete(tensors, reference, backbone, header)


def main() -> None:
    """Command line; see the module's text."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(prog="python -m semflip_train.projection")
    parser.add_argument("--assets", type=Path, help="root of unpacked Debian data packages")
    parser.add_argument("--out", type=Path, default=DEFAULT_WEIGHTS)
    parser.add_argument("--cache", type=Path, default=scenes_folder())
    for kind, count in COUNTS.items():
        parser.add_argument(f"--{kind}s", type=int, default=count)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--epochs", type=int, default=FitSettings().epochs)
    parser.add_argument("--skip-measure", action="store_true")
    arguments = parser.parse_args()
    counts = {kind: getattr(arguments, f"{kind}s".replace("-", "_")) for kind in COUNTS}
    if sum(counts.values()) < 2 * KEPT_OUT or not counts[REFERENCE_KIND]:
        raise ConfigError(f"at least {2 * KEPT_OUT} scenes are needed, and a painted room")
    settings = FitSettings(epochs=arguments.epochs)
    backbone = Backbone(2)
    engine = load_engine("local", workers=arguments.workers)
    with steps() as progress:
        material = gather(arguments.assets, counts, backbone, arguments.cache, engine, progress)
    measured = {} if arguments.skip_measure else measure(material, settings)
    logger.info("measured: %s", json.dumps(measured))
    header = {
        "training": ", ".join(f"{count} {kind}s" for kind, count in counts.items())
        + f", {len(material.words)} models and paintings of sweethome3d-furniture (CC0, CC-BY-3.0)",
        "settings": settings.model_dump(),
        "measured": measured,
    }
    make(material, material.words, settings, backbone, header).save(arguments.out)
    with steps() as progress:
        rooms = render_reference(arguments.cache, arguments.assets, engine, progress)
    (whole,) = add_rooms([arguments.out], rooms, arguments.cache / "reference-memories")
    whole.save(arguments.out)
    logger.info("wrote %s (%.1f MB)", arguments.out, arguments.out.stat().st_size / 1e6)


if __name__ == "__main__":
    main()
