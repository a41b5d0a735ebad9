"""Small feature tables with a known answer, for tests of training and calibration."""

from __future__ import annotations

import numpy as np

from semflip_core.decision import Reason
from semflip_train.features import FeatureTable
from semflip_train.synthesis.samples import Sample
from semflip_train.training import TrainingSettings

DIMENSION = 12
FINGERPRINT = {"encoder.name": "gaussian", "recall.frames": 4}


def small_settings(**changes: object) -> TrainingSettings:
    """Training that takes a second."""
    values: dict[str, object] = {
        "seeds": (0, 1),
        "hidden": (16, 8),
        "max_epochs": 30,
        "learning_rate": 5e-3,
        "dropout": 0.0,
        "noise": 0.05,
    }
    return TrainingSettings(**(values | changes))  # type: ignore[arg-type]


def gaussian_table(
    *, seed: int, sequences: int, sources: int, prefix: str = "train", gap: float = 2.0
) -> FeatureTable:
    """Two Gaussians ``gap`` apart in the first dimension; the second tells the reason.

    Each source question gives one answerable and one unanswerable row.
    """
    rng = np.random.default_rng(seed)
    rows, samples = [], []
    for s in range(sequences):
        for q in range(sources):
            for label in (0, 1):
                x = rng.normal(size=DIMENSION)
                reason = None
                if label:
                    x[0] += gap
                    reason = Reason.ABSENT if q % 2 else Reason.SUBJECTIVE
                    x[1] += 3.0 if q % 2 else -3.0
                rows.append(x)
                samples.append(
                    Sample(
                        id=f"{prefix}_{s}/{q}/{label}",
                        source=f"{prefix}_{s}/{q}",
                        sequence=f"{prefix}_{s}",
                        question="Where is it?",
                        label=label,
                        kind="qflip" if label else "answerable",
                        strategy="object" if label else "",
                        reason=reason,
                    )
                )
    return FeatureTable(np.array(rows, np.float32), tuple(samples), FINGERPRINT)
