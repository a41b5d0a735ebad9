"""``predictions.jsonl``: what became of each question, one line each."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from semflip_train.evaluation import Judged
from semflip_train.stores import StoreError, write_whole


def prediction(judged: Judged) -> dict[str, Any]:
    """One line: id, score, verdict, reason and goal first, then what explains them."""
    decision = judged.decision
    goal = judged.goal
    evidence = decision["evidence"][0] if decision["evidence"] else None
    return {
        "id": judged.query.id,
        "score": decision["score"],
        "verdict": decision["verdict"],
        "reason": decision["reason"],
        "goal": decision["goal"],
        "gate_verdict": decision["gate_verdict"],
        "threshold": decision["threshold"],
        "member_scores": decision["member_scores"],
        "head_reason": judged.head_reason,
        "dataset": judged.dataset,
        "sequence": judged.query.sequence,
        "question": judged.query.question,
        "answerable": judged.query.answerable,
        "category": judged.query.category,
        "slice": judged.query.slice,
        "pair": judged.query.pair,
        "goal_distance_m": None if goal is None else round(goal.distance_m, 4),
        "goal_bearing_deg": _finite(goal.bearing_deg) if goal is not None else None,
        "goal_success": _finite(judged.goal_success),
        "evidence_stamp_ns": evidence["stamp_ns"] if evidence else None,
        "evidence_region": evidence["region"] if evidence else None,
        "evidence_right": judged.evidence_right,
        "memory": judged.memory,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def write_predictions(path: Path, judged: Sequence[Judged]) -> None:
    """Write ``predictions.jsonl`` whole."""
    lines = (json.dumps(prediction(item), ensure_ascii=False, allow_nan=False) for item in judged)
    write_whole(path, "".join(line + "\n" for line in lines))


def read_predictions(path: Path) -> list[dict[str, Any]]:
    """Read what :func:`write_predictions` wrote.

    Raises:
        StoreError: the file is missing or damaged.
    """
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read: {error}; evaluate the run again") from error
