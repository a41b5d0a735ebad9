"""A dataset of coloured boxes, and a small experiment on it that runs in seconds."""

from __future__ import annotations

import json
from pathlib import Path

from semflip_train.run_directory import ExperimentSettings, RunDirectory
from support.colour_bag import START_NS, write_drive

COLOURS = ("red", "green", "blue")
WORDINGS = ("Where is the {} box?", "take me to the {} box")
SPLITS = {"train": ("a", "b"), "calibration": ("d",), "test": ("e",)}


def write_colour_dataset(root: Path) -> Path:
    """Four drives past red, green and blue boxes; the test also asks for yellow ones."""
    import yaml

    lines = []
    for split, names in SPLITS.items():
        for name in names:
            write_drive(root / "sequences" / name, frames=12, hz=2.0, speed=1.0 + ord(name) / 500)
            for w, wording in enumerate(WORDINGS):
                for c, colour in enumerate(COLOURS):
                    start = START_NS + c * 2_000_000_000
                    lines.append(
                        {
                            "id": f"{name}{w}{c}",
                            "sequence": name,
                            "question": wording.format(colour),
                            "answerable": True,
                            "referent": f"{colour} box",
                            "pair": f"p{w}" if split == "test" and colour == "red" else None,
                            "answer": {"visible": [[start, start + 2_000_000_000]]},
                        }
                    )
                if split == "test":
                    lines.append(
                        {
                            "id": f"{name}{w}n",
                            "sequence": name,
                            "question": wording.format("yellow"),
                            "answerable": False,
                            "category": "absent",
                            "pair": f"p{w}",
                        }
                    )
    info = {
        "name": "colours",
        "licence": "CC0-1.0",
        "task": "localization",
        "splits": {k: list(v) for k, v in SPLITS.items()},
    }
    (root / "dataset.yaml").write_text(yaml.safe_dump(info))
    (root / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root


def settings_for(dataset: Path, **changes: object) -> ExperimentSettings:
    """A small experiment on it."""
    values: dict[str, object] = {
        "name": "colours",
        "dataset": str(dataset),
        "encoder": "support.colours:ColourEncoder",
        "keyframes": {"min_translation_m": 0.1},
        "recall": {"recalled_frames": 6},
        "decision": {"min_peak": 1.0},
        "synthesis": {
            "strategies": ["false_premise", "object", "subjective"],
            "detector": "support.synthesis:DriveDetector",
            "inpainter": "mean",
            "lexicon_share": 0.0,
        },
        "training": {"seeds": [0, 1], "hidden": [8, 4], "max_epochs": 15, "batch": 16},
        "evaluation": {"bootstrap_draws": 20},
    }
    return ExperimentSettings.model_validate(values | changes)


def stages(run: RunDirectory) -> dict[str, list[dict]]:
    """Each stage's notes, one for each time that it ran."""
    return json.loads((run.root / "manifest.json").read_text())["stages"]
