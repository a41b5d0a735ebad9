"""Do the words of simulated questions give their answers away? A blind gate with true labels.

    semflip simulate out/leak_1 --seed 611 --split 0,0,4,3      # and two more seeds
    python benchmarks/question_leak.py out/leak_1 out/leak_2 out/leak_3 [--json -]

For each dataset a logistic regression on words and pairs of words is trained on the *true* labels
of all the others and scores the questions of this one: absent things and near misses against
answerable questions, outside pairs (in pairs the words are the same, so a blind gate has 0.5 by
construction). Scores of all datasets are pooled; the interval is a bootstrap over sequences.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from semflip_train.dataset import Query, load_dataset

HARD = ("absent", "near_miss")
ROUNDS = 1000


def questions(root: Path, part: str) -> list[Query]:
    """Test questions of a slice that only pictures can decide."""
    return [
        query
        for query in load_dataset(root).split("test")
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


def measure(roots: list[Path], part: str) -> dict[str, Any] | None:
    """AUROC of the blind gate on a slice, pooled over datasets, with its 95 % interval."""
    from sklearn.metrics import roc_auc_score

    by_root = [questions(root, part) for root in roots]
    if not all(by_root):
        return None
    scores, labels, places = [], [], []
    for index, asked in enumerate(by_root):
        rest = [query for other in by_root if other is not asked for query in other]
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
        "auroc": round(float(roc_auc_score(label, score)), 3),
        "low": round(float(low), 3),
        "high": round(float(high), 3),
    }


def main() -> None:
    """Print one line a slice."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("datasets", nargs="+", type=Path, help="Datasets of different seeds.")
    parser.add_argument("--json", help="Write the figures to this file, - for stdout.")
    arguments = parser.parse_args()
    if len(arguments.datasets) < 2:
        parser.error("at least two datasets of different seeds are needed")
    found = [measure(arguments.datasets, part) for part in ("known", "new")]
    figures = [figure for figure in found if figure is not None]
    for figure in figures:
        print(
            f"{figure['slice']:<6} blind AUROC {figure['auroc']:.3f} "
            f"[{figure['low']:.3f}, {figure['high']:.3f}] on {figure['questions']} questions, "
            f"{figure['unanswerable']} unanswerable, {figure['sequences']} sequences",
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
