"""Makes the shipped gate again, by one command: ``python -m semflip_train.ship``.

Renders rooms, makes the projections that features are cross-fitted with, and goes through
synthesis, features, training and calibration, all as ``config/experiments/shipped_gate.yaml`` says.
No test sequence is read. mini's projection itself is made by :mod:`semflip_train.projection`.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from semflip_core.errors import SemflipError
from semflip_core.loading import WEIGHTS
from semflip_train.engines import load_engine
from semflip_train.pipeline import make_gate
from semflip_train.run_directory import RunDirectory, read_experiment
from semflip_train.shown import print_counts, steps

CONFIG = Path("config/experiments/shipped_gate.yaml")


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, make the gate, and put it among the weights."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/shipped_gate"))
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--assets", type=Path, help="furniture libraries (*.sh3f)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--target", type=Path, help="default: the shipped weights")
    options = parser.parse_args(arguments)
    settings = read_experiment(options.config)
    run = RunDirectory.create(options.out, settings, options.out / "cache")
    engine = load_engine("local", workers=options.workers)
    with steps() as progress:
        gate, counts = make_gate(run, engine, progress, options.assets)
    print_counts("synthesised", counts)
    target = options.target or WEIGHTS / f"{settings.encoder}_gate.safetensors"
    gate.save(target)
    print(f"{target}: gate {gate.id}, {target.stat().st_size / 1e6:.2f} MB")
    print(gate.header.calibration)


if __name__ == "__main__":
    try:
        main()
    except SemflipError as error:
        sys.exit(f"semflip: {error}")
