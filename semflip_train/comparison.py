"""Controls and baselines on the same test questions, each with a threshold from calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from semflip_core.gate import Gate
from semflip_train.baselines.detectors import (
    Baseline,
    Energy,
    LogisticProbe,
    Mahalanobis,
    Neighbours,
    Similarity,
    SmallGate,
)
from semflip_train.baselines.prompting import MODES, row_name
from semflip_train.calibration import CalibrationError, calibrate
from semflip_train.categories import never_synthesised, sources_of
from semflip_train.evaluation import Judged
from semflip_train.features import FeatureTable, load_table
from semflip_train.methods import Method
from semflip_train.metrics import Confusion, auroc
from semflip_train.run_directory import ExperimentSettings, RunDirectory
from semflip_train.stages import SINGLE
from semflip_train.stores import json_hash
from semflip_train.synthesis.samples import PUBLISHED, Sample
from semflip_train.training import Matrix, TrainingError, train_gate

Labels = NDArray[np.int64]
Scores = NDArray[np.float64]
GATE = "gate"
ALWAYS, BLIND, SINGLE_FRAME = "always refuse", "blind gate", "best single frame"
PAPER, Q_ALONE = "paper-protocol gate", "Q-Flip alone"
FITTED = "needs the training rows of the gate's run: evaluate --run RUN"
NO_MODEL = "no model configured: evaluation.prompting.model"


def best_threshold(labels: Labels, scores: Scores) -> float:
    """Threshold of best balanced accuracy for scores in any unit."""
    ordered = np.unique(scores)
    if len(ordered) < 2:
        return float(ordered[0]) if len(ordered) else 0.0
    edges = (ordered[1:] + ordered[:-1]) / 2.0
    quality = [Confusion.of(labels, scores > edge).balanced_accuracy for edge in edges]
    return float(edges[int(np.nanargmax(quality))])


def question_vectors(questions: Sequence[str]) -> Matrix:
    """``(n, 384)`` MiniLM vectors of whole questions: all that a blind gate may see."""
    from semflip_core.encoders.mini.text import TextEncoder

    return TextEncoder().bulk_vectors(list(questions))


@dataclass(frozen=True, slots=True)
class Tables:
    """Rows that controls are fitted on and get their thresholds from.

    Without a calibration split both are the training rows.
    """

    train: FeatureTable
    calibration: FeatureTable

    @classmethod
    def of(cls, run: RunDirectory, ending: str = "") -> Tables:
        """From a run's features."""
        train = load_table(run.features / f"train{ending}")
        folder = run.features / f"calibration{ending}"
        return cls(train, load_table(folder) if folder.is_dir() else train)


def gate_method(judged: Sequence[Judged], gate: Gate, untaught: tuple[str, ...] = ()) -> Method:
    """The gate itself; where it was not reached it refuses with score 1."""
    members = max((len(item.decision["member_scores"]) for item in judged), default=0)
    rows = [item.decision["member_scores"] or [1.0] * members for item in judged]
    return Method(
        GATE,
        np.array([item.score for item in judged], np.float64),
        np.array([item.gate_refused for item in judged], dtype=bool),
        gate.header.tau,
        np.array(rows, np.float64) if members else None,
        untaught=untaught,
    )


def compare(
    judged: Sequence[Judged],
    gate: Gate,
    settings: ExperimentSettings,
    training_run: RunDirectory | None,
) -> tuple[Method, list[Method]]:
    """The gate, and every control and baseline; one that cannot run says why.

    Without a training run only always-refuse and prompting can run: the others are fitted on
    training rows.
    """
    count = len(judged)
    rows = [Method(ALWAYS, np.ones(count), np.ones(count, dtype=bool), 0.0)]
    if not settings.evaluation.baselines:
        return gate_method(judged, gate), rows
    if training_run is None:
        names = (BLIND, SINGLE_FRAME, Similarity.name, LogisticProbe.name, Neighbours.name,
                 Mahalanobis.name, Energy.name, Q_ALONE, PAPER)  # fmt: skip
        rows += [Method.missing(name, count, FITTED) for name in names]
        return gate_method(judged, gate), rows + _prompting(judged, settings)
    tables = Tables.of(training_run)
    rows += _small_gates(judged, settings, tables, training_run)
    rows += _detectors(judged, gate, tables)
    rows += _other_gates(judged, settings, tables, training_run)
    rows += _prompting(judged, settings)
    untaught = never_synthesised(_categories(judged), sources_of(tables.train.samples))
    return gate_method(judged, gate, untaught), rows


def _categories(judged: Sequence[Judged]) -> list[str | None]:
    return [item.query.category for item in judged if item.label]


Inputs = tuple[Matrix, Matrix, Matrix]


def _fitted(baseline: Baseline, inputs: Inputs, tables: Tables, note: str = "") -> Method:
    """Fit on training rows, threshold from calibration rows, scores on test rows."""
    fitted, held, test = inputs
    baseline.fit(fitted, tables.train.y)
    tau = best_threshold(tables.calibration.y, baseline.score(held))
    reached = np.isfinite(test).all(axis=1)
    scores = np.full(len(test), np.nan)
    scores[reached] = baseline.score(test[reached])
    members = None
    if isinstance(baseline, SmallGate):
        members = np.full((len(test), baseline.members), np.nan)
        members[reached] = baseline.member_scores(test[reached])
    return Method.scored(baseline.name, scores, tau, members, note=note)


def _small_gates(
    judged: Sequence[Judged], settings: ExperimentSettings, tables: Tables, run: RunDirectory
) -> list[Method]:
    """Gates of the same shape on the words alone, and on the best frame alone."""
    sequences = tables.train.sequences.tolist()
    words: Inputs = (
        question_vectors([s.question for s in tables.train.samples]),
        question_vectors([s.question for s in tables.calibration.samples]),
        question_vectors([j.query.question for j in judged]),
    )
    rows = [
        _fitted(
            SmallGate(BLIND, settings.training, sequences), words, tables, "sees only the question"
        )
    ]
    if run.single_frame_recall is None:
        reason = "switched off: evaluation.single_frame"
        return [*rows, Method.missing(SINGLE_FRAME, len(judged), reason)]
    single = Tables.of(run, f"_{SINGLE}")
    frames: Inputs = (
        single.train.x, single.calibration.x, np.stack([j.single_vector for j in judged]),
    )  # fmt: skip
    gate = SmallGate(SINGLE_FRAME, settings.training, sequences)
    return [*rows, _fitted(gate, frames, tables, "one frame instead of the memory")]


def _detectors(judged: Sequence[Judged], gate: Gate, tables: Tables) -> list[Method]:
    """Threshold baselines on the gate's own inputs."""
    train, held = tables.train, tables.calibration
    rows = []
    if train.relevance is None or held.relevance is None:
        reason = "the run's features are older than this baseline: make them again"
        rows.append(Method.missing(Similarity.name, len(judged), reason))
    else:
        test = np.array([[j.relevance] for j in judged], np.float32)
        best: Inputs = (train.relevance[:, None], held.relevance[:, None], test)
        rows.append(_fitted(Similarity(), best, tables))
    seen: Inputs = (train.x, held.x, np.stack([j.vector for j in judged]))
    baselines: list[Baseline] = [LogisticProbe(), Neighbours(), Mahalanobis(), Energy(gate)]
    return [*rows, *(_fitted(baseline, seen, tables) for baseline in baselines)]


def _other_gates(
    judged: Sequence[Judged], settings: ExperimentSettings, tables: Tables, run: RunDirectory
) -> list[Method]:
    """Gates trained on less: the published protocol, and Q-Flip without V-Flip."""
    variants: Mapping[str, tuple[Callable[[Sample], bool], str]] = {
        Q_ALONE: (lambda s: s.kind in ("answerable", "qflip"), "no V-Flip, no shams"),
        PAPER: (
            lambda s: s.kind != "qflip" or s.strategy in PUBLISHED,
            f"Q-Flip {', '.join(PUBLISHED)}, and V-Flip",
        ),
    }
    rows = []
    for name, (keep, note) in variants.items():
        less = Tables(tables.train.where(keep), tables.calibration.where(keep))
        try:
            gate = trained_on(less, settings, run)
        except (TrainingError, CalibrationError) as error:
            rows.append(Method.missing(name, len(judged), str(error)))
            continue
        untaught = never_synthesised(_categories(judged), sources_of(less.train.samples))
        unlearned = ", ".join(r.value for r in gate.header.untrained_reasons)
        note = f"{note}; reasons not trained: {unlearned}" if unlearned else note
        x = np.stack([j.vector for j in judged])
        rows.append(Method.of_gate(name, gate, x, untaught=untaught, note=note))
    return rows


def trained_on(tables: Tables, settings: ExperimentSettings, run: RunDirectory) -> Gate:
    """A gate trained on these rows, kept in the run for the next time, and calibrated on them.

    Raises:
        TrainingError, CalibrationError: a class is missing among the rows.
    """
    key = json_hash([tables.train.data_hash(), settings.training.model_dump(mode="json")])
    file = run.root / "controls" / f"{key[:16]}.safetensors"
    if file.is_file():
        gate = Gate.load(file)
    else:
        gate = train_gate(tables.train, settings.training)
        gate.save(file)
    return calibrate(gate, tables.calibration, settings.calibration).gate


def _prompting(judged: Sequence[Judged], settings: ExperimentSettings) -> list[Method]:
    chosen = settings.evaluation.prompting
    if chosen is None:
        return [Method.missing(row_name(mode), len(judged), NO_MODEL) for mode in MODES]
    rows = []
    for mode in MODES:
        name = row_name(mode, chosen.sees)
        if mode not in chosen.modes:
            rows.append(Method.missing(name, len(judged), "left out: evaluation.prompting.modes"))
            continue
        replies = [item.replies.get(mode) for item in judged]
        scores = np.array([np.nan if r is None else float(r.refused) for r in replies])
        unread = sum(r is not None and not r.parsed for r in replies)
        note = f"{chosen.model}; {unread} replies not in the form asked for count as answers"
        rows.append(Method.scored(name, scores, 0.5, note=note))
    return rows


def sham_control(gate: Gate, run: RunDirectory | None) -> dict[str, object]:
    """Whether the gate tells erased pictures from clean ones where the answer is the same.

    A sham has an object erased that the question does not mention. ``auroc`` is the chance that a
    sham scores above a clean answerable pair (0.5: erasing leaves no trace), ``paired`` the same
    against the clean pair of its own question; on calibration sequences, which trained nothing.
    """
    if run is None or not (run.features / "calibration").is_dir():
        return {}
    table = load_table(run.features / "calibration")
    scores = np.asarray(gate.score(table.x), np.float64)
    clean = {s.source: i for i, s in enumerate(table.samples) if s.kind == "answerable"}
    shams = [i for i, s in enumerate(table.samples) if s.kind == "sham"]
    if not shams or not clean:
        return {}
    rows = [*clean.values(), *shams]
    labels = np.array([0] * len(clean) + [1] * len(shams))
    own = [(i, clean[source]) for i in shams if (source := table.samples[i].source) in clean]
    above = [float(scores[i] > scores[j]) + 0.5 * float(scores[i] == scores[j]) for i, j in own]
    return {
        "auroc": auroc(labels, scores[rows]),
        "paired": float(np.mean(above)) if above else float("nan"),
        "shams": len(shams),
        "clean": len(clean),
        "split": "calibration",
    }
