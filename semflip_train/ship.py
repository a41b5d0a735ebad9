"""Makes the shipped gate again, by one command: ``python -m semflip_train.ship``.

Renders rooms of another seed. The first of them are what mini judges resemblance by and go into its
projection's file; the others, joined with the sample's training and calibration sequences, go
through synthesis, features, training and calibration. The sample's test sequence is never read.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from semflip_core.encoders.mini.projection import DEFAULT_WEIGHTS, ProjectionWeights
from semflip_core.errors import SemflipError
from semflip_core.loading import WEIGHTS
from semflip_train.dataset import load_dataset
from semflip_train.engines import load_engine
from semflip_train.pipeline import calibrate_stage, train_stage
from semflip_train.projection_rooms import add_rooms
from semflip_train.run_directory import RunDirectory, read_experiment
from semflip_train.shown import print_counts, steps
from semflip_train.stages import SYNTHESISED, embed, synthesise
from semflip_train.stores import write_whole

CONFIG = Path("config/experiments/shipped_gate.yaml")
SAMPLE = Path("data/sample")
#: Rooms beside the sample's own; the sample itself is another seed.
SEED, TRAIN, CALIBRATION = 910, 12, 3
#: The first so many of the training rooms are what resemblance is judged by
#: (:mod:`semflip_train.projection_rooms`); the gate does not learn from them.
REFERENCE = 7


def render(folder: Path, assets: Path | None) -> Path:
    """Rooms of :data:`SEED`; rendered once."""
    from semflip_train.simulation import benchmark
    from semflip_train.simulation.catalogue import FurnitureCatalogue, find_furniture
    from semflip_train.simulation.settings import SimulationSettings

    if not (folder / "dataset.yaml").is_file():
        settings = SimulationSettings(
            name="shipped-gate-rooms", seed=SEED, train=TRAIN, calibration=CALIBRATION, test=0
        )
        benchmark.simulate(folder, settings, FurnitureCatalogue(find_furniture(assets)))
    return folder


def join(
    sources: dict[str, Path],
    target: Path,
    most: dict[str, int] | None = None,
    without: dict[str, Collection[str]] | None = None,
) -> Path:
    """One dataset of the training and calibration sequences of several.

    Args:
        sources: prefix of the sequences' new names -> dataset.
        most: split -> most sequences taken of each source.
        without: prefix -> sequences left out.
    """
    import yaml

    splits: dict[str, list[str]] = {split: [] for split in SYNTHESISED}
    lines: list[str] = []
    info: dict[str, Any] = {}
    shutil.rmtree(target, ignore_errors=True)
    (target / "sequences").mkdir(parents=True)
    for prefix, root in sources.items():
        dataset = load_dataset(root)
        info = info or dataset.info.model_dump(mode="json")
        for split in SYNTHESISED:
            left_out = (without or {}).get(prefix, ())
            names = [n for n in dataset.info.splits.get(split, ()) if n not in left_out]
            for sequence in names[: (most or {}).get(split, len(names))]:
                name = f"{prefix}_{sequence}"
                splits[split].append(name)
                (target / "sequences" / name).symlink_to(dataset.recording(sequence).resolve())
                for query in dataset.queries:
                    # A question that twins a test question has the test's wording.
                    if query.sequence == sequence and query.pair is None:
                        row = query.model_dump(mode="json")
                        row |= {"id": f"{prefix}_{query.id}", "sequence": name}
                        lines.append(json.dumps(row, ensure_ascii=False))
    info |= {"name": "shipped-gate", "splits": splits}
    write_whole(target / "queries.jsonl", "\n".join(lines) + "\n")
    write_whole(target / "dataset.yaml", yaml.safe_dump(info, sort_keys=False))
    return target


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, make the gate, and put it among the weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/shipped_gate"))
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--assets", type=Path, help="furniture libraries (*.sh3f)")
    parser.add_argument("--rendered", type=Path, help="dataset rendered before")
    parser.add_argument("--train", type=int, default=TRAIN, help="most training sequences")
    parser.add_argument("--calibration", type=int, default=CALIBRATION)
    parser.add_argument("--keep-projection", action="store_true", help="take its rooms as they are")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--target", type=Path, help="default: the shipped weights")
    options = parser.parse_args(arguments)
    rendered = options.rendered or render(options.out / "rendered", options.assets)
    reference = load_dataset(rendered).info.splits["train"][:REFERENCE]
    if not options.keep_projection:
        weights = ProjectionWeights.load(DEFAULT_WEIGHTS)
        add_rooms(weights, rendered, reference, options.out / "rooms").save(DEFAULT_WEIGHTS)
    dataset = join(
        {"rendered": rendered, "sample": SAMPLE},
        options.out / "dataset",
        {"train": options.train, "calibration": options.calibration},
        {"rendered": reference},
    )
    settings = read_experiment(options.config).model_copy(update={"dataset": str(dataset)})
    run = RunDirectory.create(options.out / "run", settings, options.out / "cache")
    engine = load_engine("local", workers=options.workers)
    with steps() as progress:
        print_counts("synthesised", synthesise(run, engine, progress))
        embed(run, engine, progress)
        train_stage(run, progress)
    gate = calibrate_stage(run)
    target = options.target or WEIGHTS / f"{settings.encoder}_gate.safetensors"
    gate.save(target)
    print(f"{target}: gate {gate.id}, {target.stat().st_size / 1e6:.2f} MB")
    print(gate.header.calibration)


if __name__ == "__main__":
    try:
        main()
    except SemflipError as error:
        sys.exit(f"semflip: {error}")
