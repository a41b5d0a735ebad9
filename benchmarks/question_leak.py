"""Do the words of simulated questions give their answers away? A blind gate with true labels.

    python benchmarks/question_leak.py --seeds 1451 1452 1453 --sequences 5 [--assets DIR]
    python benchmarks/question_leak.py out/leak_1 out/leak_2 out/leak_3 [--json -]

For each seed or dataset a logistic regression on words and pairs of words is trained on the *true*
labels of all the others and scores the questions of this one: absent things and near misses against
answerable questions, outside pairs (in pairs the words are the same, so a blind gate has 0.5 by
construction). Scores of all of them are pooled; the interval is a bootstrap over sequences.
With --seeds nothing is written: drives are segmented at 160 x 120 pixels, without pictures.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from semflip_train.dataset import Query, load_dataset
from semflip_train.simulation.benchmark import questions_only
from semflip_train.simulation.catalogue import FurnitureCatalogue, find_furniture
from semflip_train.simulation.settings import SimulationSettings

HARD = ("absent", "near_miss")
ROUNDS = 1000


def from_seed(seed: int, sequences: int, catalogue: FurnitureCatalogue) -> list[Query]:
    """Test questions of as many sequences of each slice, without pictures."""
    settings = SimulationSettings(
        seed=seed, train=0, calibration=0, test=sequences, new_things=sequences, corridors=0.3
    )
    print(f"segmenting the drives of seed {seed}", file=sys.stderr)
    return [Query.model_validate(row) for row in questions_only(settings, catalogue)]


def hard(asked: list[Query], part: str) -> list[Query]:
    """Questions of a slice that only pictures can decide."""
    return [
        query
        for query in asked
        if query.slice == part and (query.answerable or query.category in HARD)
    ]


def blind_scores(train: list[Query], test: list[Query]) -> np.ndarray:
    """How unanswerable each test question's words look."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    words = TfidfVectorizer(ngram_range=(1, 2), lowercase=False, token_pattern=r"[^\s]+")
    model = make_pipeline(words, LogisticRegression(class_weight="balanced", max_iter=2000))
    model.fit([query.question for query in train], [not query.answerable for query in train])
    return np.asarray(model.decision_function([query.question for query in test]))


def measure(sets: list[list[Query]], part: str) -> dict[str, Any] | None:
    """AUROC of the blind gate on a slice, pooled over datasets, with its 95 % interval."""
    from sklearn.metrics import roc_auc_score

    by_set = [hard(asked, part) for asked in sets]
    if not all(by_set):
        return None
    scores, labels, places = [], [], []
    for index, asked in enumerate(by_set):
        rest = [query for other in by_set if other is not asked for query in other]
        alone = [query for query in asked if query.pair is None]
        scores.append(blind_scores(rest, alone))
        labels += [not query.answerable for query in alone]
        places += [(index, query.sequence) for query in alone]
    score, label = np.concatenate(scores), np.array(labels)
    groups = [
        np.array([i for i, place in enumerate(places) if place == name])
        for name in sorted(set(places))
    ]
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(ROUNDS):
        rows = np.concatenate([groups[i] for i in rng.integers(len(groups), size=len(groups))])
        if 0 < label[rows].sum() < len(rows):
            drawn.append(roc_auc_score(label[rows], score[rows]))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return {
        "slice": part,
        "questions": len(label),
        "unanswerable": int(label.sum()),
        "sequences": len(groups),
        "pairs": sum(len({query.pair for query in asked if query.pair}) for asked in by_set),
        "auroc": round(float(roc_auc_score(label, score)), 3),
        "low": round(float(low), 3),
        "high": round(float(high), 3),
    }


def main() -> None:
    """Print one line a slice."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("datasets", nargs="*", type=Path, help="Datasets of different seeds.")
    parser.add_argument("--seeds", nargs="*", type=int, default=[], help="Or only their labels.")
    parser.add_argument("--sequences", type=int, default=3, help="Of each slice, with --seeds.")
    parser.add_argument("--assets", type=Path, help="Furniture libraries (*.sh3f).")
    parser.add_argument("--json", help="Write the figures to this file, - for stdout.")
    arguments = parser.parse_args()
    if len(arguments.datasets) + len(arguments.seeds) < 2:
        parser.error("at least two datasets of different seeds are needed")
    sets = [list(load_dataset(root).split("test")) for root in arguments.datasets]
    if arguments.seeds:
        catalogue = FurnitureCatalogue(find_furniture(arguments.assets), held_out=True)
        sets += [from_seed(seed, arguments.sequences, catalogue) for seed in arguments.seeds]
    found = [measure(sets, part) for part in ("known", "new")]
    figures = [figure for figure in found if figure is not None]
    for figure in figures:
        print(
            f"{figure['slice']:<6} blind AUROC {figure['auroc']:.3f} "
            f"[{figure['low']:.3f}, {figure['high']:.3f}] on {figure['questions']} questions, "
            f"{figure['unanswerable']} unanswerable, {figure['sequences']} sequences; "
            f"{figure['pairs']} pairs beside them",
            file=sys.stderr if arguments.json == "-" else sys.stdout,
        )
    if arguments.json:
        text = json.dumps(figures, indent=1)
        if arguments.json == "-":
            print(text)
        else:
            Path(arguments.json).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
