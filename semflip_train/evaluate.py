"""The evaluation stage: every test question of one or several datasets is asked and judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from semflip_core.encoders import Encoder, Retriever
from semflip_core.errors import ConfigError
from semflip_core.gate import Gate
from semflip_core.loading import load_backends, shipped_gate
from semflip_train.baselines.prompting import Prompter
from semflip_train.categories import is_one_of
from semflip_train.comparison import compare, sham_control
from semflip_train.dataset import SPLITS, Dataset, Query, Split, load_dataset
from semflip_train.engines import Engine
from semflip_train.evaluation import Judged, SequenceEvaluation
from semflip_train.features import load_table
from semflip_train.memories import SequenceFrames, sequence_memory
from semflip_train.methods import Method
from semflip_train.predictions import write_predictions
from semflip_train.run_directory import ExperimentSettings, RunDirectory
from semflip_train.stages import backends
from semflip_train.stores import BlobStore, write_json
from semflip_train.summary import Questions, mean_and_spread, plain, summarise

Progress = Callable[[str, int, int], None]


def _step(progress: Progress | None, name: str) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(name, done, total)


def evaluate_stage(
    settings: ExperimentSettings,
    *,
    split: str,
    out: Path,
    gate_file: Path | None,
    cache: Path,
    training_run: RunDirectory | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Judge every question of a split; writes ``metrics.json`` and ``predictions.jsonl``.

    Returns what stands in ``metrics.json``, None for what nothing tells.

    Raises:
        ConfigError: the split has no such name, or two datasets have the same one.
        DatasetError: the split is empty.
    """
    if split not in SPLITS:
        raise ConfigError(f"unknown split '{split}'; known: {', '.join(SPLITS)}")
    datasets = test_datasets(settings, split)
    gate = Gate.load(gate_file or shipped_gate(settings.encoder))
    judged, asked = judge_all(
        datasets,
        settings,
        split=split,
        out=out,
        gate=gate,
        cache=cache,
        training_run=training_run,
        progress=progress,
    )
    write_predictions(out / "predictions.jsonl", judged)
    metrics = parts_of(judged, gate, *compare(judged, gate, settings, training_run), settings)
    metrics["sham"] = sham_control(gate, training_run)
    metrics["training"] = _training(training_run)
    metrics["asked_now"] = asked
    written: dict[str, Any] = plain(metrics)
    write_json(out / "metrics.json", written)
    return written


def test_datasets(settings: ExperimentSettings, split: Split) -> dict[str, Dataset]:
    """What is judged, by folder name: ``evaluation.datasets``, or the experiment's own.

    Raises:
        ConfigError: two have the same folder name.
        DatasetError: the split of one is empty.
    """
    found: dict[str, Dataset] = {}
    for folder in settings.evaluation.datasets or (settings.dataset,):
        dataset = load_dataset(folder)
        dataset.split(split)
        name = dataset.root.resolve().name
        if name in found:
            raise ConfigError(
                f"two datasets in folders named '{name}': results are told apart by that name; "
                "rename one, or link it under another name"
            )
        found[name] = dataset
    return found


def judge_all(
    datasets: Mapping[str, Dataset],
    settings: ExperimentSettings,
    *,
    split: Split,
    out: Path,
    gate: Gate,
    cache: Path,
    training_run: RunDirectory | None,
    progress: Progress | None,
) -> tuple[list[Judged], int]:
    """Every question of a split, and how many were asked now.

    Several datasets are judged together; their names then stand before ids, sequences and pairs.
    """
    loaded = load_backends(settings.encoder, settings.retriever, settings.encoder_options)
    judged: list[Judged] = []
    asked = 0
    with ExitStack() as stack:
        prompter = _prompter(settings, out, stack)
        for name, dataset in datasets.items():
            stage = _Judging(settings, gate, loaded, out, cache, training_run, prompter)
            found = stage.judge(dataset, split, progress)
            judged += found if len(datasets) == 1 else [_named(item, name) for item in found]
            asked += stage.asked_now
    return judged, asked


def _prompter(settings: ExperimentSettings, out: Path, stack: ExitStack) -> Prompter | None:
    chosen = settings.evaluation.prompting
    if chosen is None:
        return None
    from semflip_train.baselines.talkers import load_talker

    cache = stack.enter_context(BlobStore(out / "replies.sqlite"))
    return Prompter(chosen, load_talker(chosen), cache)


def _named(judged: Judged, dataset: str) -> Judged:
    """With the dataset's name before ids, sequences and pairs, which may repeat in others."""
    query = judged.query
    pair = None if query.pair is None else f"{dataset}/{query.pair}"
    changed = query.model_copy(
        update={
            "id": f"{dataset}/{query.id}",
            "sequence": f"{dataset}/{query.sequence}",
            "pair": pair,
        }
    )
    return replace(judged, query=changed, dataset=dataset)


class _Judging:
    """One gate and encoder over the sequences of a dataset."""

    def __init__(
        self,
        settings: ExperimentSettings,
        gate: Gate,
        loaded: tuple[Encoder, Retriever | None],
        out: Path,
        cache: Path,
        training_run: RunDirectory | None,
        prompter: Prompter | None,
    ) -> None:
        self._settings, self._gate = settings, gate
        self._encoder, self._retriever = loaded
        self._out, self._cache = out, cache
        self._single = training_run.single_frame_recall if training_run else None
        self._prompter = prompter
        self.asked_now = 0

    def judge(self, dataset: Dataset, split: Split, progress: Progress | None) -> list[Judged]:
        """Every question of a split."""
        queries = dataset.split(split)
        judged: list[Judged] = []
        for sequence in dataset.sequences(split):
            here = [q for q in queries if q.sequence == sequence]
            judged += self.judge_sequence(dataset, sequence, here, progress)
        return judged

    def judge_sequence(
        self,
        dataset: Dataset,
        sequence: str,
        queries: Sequence[Query],
        progress: Progress | None,
    ) -> list[Judged]:
        """These questions of a sequence."""
        s = self._settings
        memory = sequence_memory(
            dataset, sequence, s.keyframes, self._cache / "memories", _step(progress, sequence)
        )
        with (
            memory,
            BlobStore(self._cache / f"derived-{sequence}.sqlite") as derived,
            BlobStore(self._out / f"decisions-{sequence}.sqlite") as decisions,
        ):
            frames = SequenceFrames(memory, self._encoder, derived)
            frames.encode_missing(_step(progress, f"{sequence} frames"))
            work = SequenceEvaluation(
                dataset,
                frames,
                frames.content(),
                self._gate,
                decisions,
                self._encoder,
                self._retriever,
                s.recall,
                s.decision,
                s.evaluation.goal_distance_m,
                s.evaluation.bearing_deg,
                self._single,
                self._prompter,
                Path(memory.info().path or "").name,
            )
            judged = work.judge(queries, _step(progress, f"{sequence} questions"))
            self.asked_now += work.asked_now
        return judged


def judge_ahead(run: RunDirectory, engine: Engine, progress: Progress | None = None) -> int:
    """Ask a run's test questions of several sequences at once; how many were asked.

    Decisions are kept where :func:`judge_all` looks for them. A prompted model is not asked here.
    """
    datasets = test_datasets(run.settings, "test").values()
    names = dict.fromkeys(name for dataset in datasets for name in dataset.sequences("test"))
    results = engine.map(judge_unit, str(run.root), list(names), progress)
    return sum(result["questions_asked_now"] for result in results)


def judge_unit(root: str, sequence: str, progress: Progress | None = None) -> dict[str, Any]:
    """Ask the questions about the sequences of one name, which share their files of decisions."""
    run = RunDirectory.open(Path(root))
    gate, asked = Gate.load(run.gate), 0
    for dataset in test_datasets(run.settings, "test").values():
        here = [query for query in dataset.split("test") if query.sequence == sequence]
        if here:
            stage = _Judging(
                run.settings, gate, backends(run), run.evaluation, run.cache_root, run, None
            )
            stage.judge_sequence(dataset, sequence, here, progress)
            asked += stage.asked_now
    return {"sequence": sequence, "questions_asked_now": asked}


def parts_of(
    judged: Sequence[Judged],
    gate: Gate,
    mine: Method,
    others: Sequence[Method],
    settings: ExperimentSettings,
) -> dict[str, Any]:
    """All metrics: of all questions, of each slice, of each dataset; the others beside each."""
    whole = Questions(judged)
    metrics = _part(whole, mine, others, settings)
    slices = sorted({j.query.slice for j in judged if j.query.slice})
    metrics["slices"] = {
        name: _part(*_among(whole, mine, others, [j.query.slice == name for j in judged]), settings)
        for name in slices
    }
    metrics |= _datasets(whole, mine, others)
    metrics["gate"] = {
        "id": gate.id,
        "tau": gate.header.tau,
        "calibration": gate.header.calibration,
        "trained_reasons": [r.value for r in gate.header.reasons],
        "untrained_reasons": [r.value for r in gate.header.untrained_reasons],
    }
    return metrics


Part = tuple[Questions, Method, list[Method]]


def _among(
    questions: Questions, gate: Method, others: Sequence[Method], keep: Sequence[bool]
) -> Part:
    part, rows = questions.where(np.array(keep, dtype=bool))
    return part, gate.among(rows), [method.among(rows) for method in others]


def _part(
    questions: Questions, gate: Method, others: Sequence[Method], settings: ExperimentSettings
) -> dict[str, Any]:
    """One part of the test as a whole, and split by whether words alone decide.

    ``grounded`` leaves out the categories that words alone decide; ``words_alone`` holds those
    against the same answerable questions.
    """
    e = settings.evaluation

    def summed(part: Questions, mine: Method, rest: Sequence[Method]) -> dict[str, Any]:
        return summarise(part, mine, rest, draws=e.bootstrap_draws, confidence=e.confidence)

    metrics = summed(questions, gate, others)
    by_words = np.array([is_one_of(c, e.words_alone) for c in questions.categories], dtype=bool)
    answerable = questions.labels == 0
    for name, keep in (("grounded", ~by_words), ("words_alone", by_words | answerable)):
        both = by_words.any() and (~by_words & ~answerable).any()
        metrics[name] = summed(*_among(questions, gate, others, keep.tolist())) if both else None
    return metrics


def _datasets(questions: Questions, gate: Method, others: Sequence[Method]) -> dict[str, Any]:
    """Each dataset's values without intervals, and their mean and spread; empty for one."""
    names = sorted({item.dataset for item in questions.judged})
    if len(names) < 2:
        return {"datasets": {}, "over_datasets": {}}
    each: dict[str, dict[str, dict[str, float]]] = {}
    for name in names:
        part, mine, rest = _among(
            questions, gate, others, [item.dataset == name for item in questions.judged]
        )
        found = summarise(part, mine, rest, draws=0, confidence=0.95)
        each[name] = {gate.name: _numbers(found)} | {
            row: _numbers(values)
            for row, values in found["controls"].items()
            if "not_run" not in values
        }
    rows = each[names[0]].keys()
    over = {row: mean_and_spread([each[name][row] for name in names]) for row in rows}
    return {"datasets": each, "over_datasets": over}


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    return {key: value for key, value in values.items() if isinstance(value, float)}


def _training(run: RunDirectory | None) -> dict[str, int]:
    """How many training pairs of which kind the gate learned from."""
    if run is None:
        return {}
    counts: dict[str, int] = {}
    for sample in load_table(run.features / "train").samples:
        name = f"{sample.kind} {sample.strategy}".strip()
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))
