"""How right the reasons are: what the reason head says of each unanswerable question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from semflip_train.categories import expected_reason
from semflip_train.evaluation import Judged

UNLABELLED = "unlabelled"


def reasons_given(judged: Sequence[Judged]) -> dict[str, dict[str, int]]:
    """Category of each refused unanswerable question -> reason in the decision -> count.

    The system's own reasons (no pose, no peak...) are among them.
    """
    table: dict[str, dict[str, int]] = {}
    for item in judged:
        if item.label and item.refused:
            row = table.setdefault(item.query.category or UNLABELLED, {})
            reason = str(item.decision["reason"])
            row[reason] = row.get(reason, 0) + 1
    return dict(sorted(table.items()))


def reason_confusion(judged: Sequence[Judged]) -> dict[str, Any]:
    """The reason head on every unanswerable question, refused or not.

    Returns:
        ``table`` (category -> reason -> count), ``expected`` (category -> the reason that fits),
        ``accuracy`` over questions whose category has a fitting reason, and their ``count``;
        empty where the gate has no reason head.
    """
    table: dict[str, dict[str, int]] = {}
    right = count = 0
    for item in judged:
        if not item.label or item.head_reason is None:
            continue
        category = item.query.category or UNLABELLED
        row = table.setdefault(category, {})
        row[item.head_reason] = row.get(item.head_reason, 0) + 1
        fitting = expected_reason(item.query.category)
        if fitting is not None:
            count += 1
            right += item.head_reason == fitting.value
    if not table:
        return {}
    expected = {name: reason.value for name in table if (reason := expected_reason(name))}
    return {
        "table": dict(sorted(table.items())),
        "expected": dict(sorted(expected.items())),
        "accuracy": right / count if count else float("nan"),
        "count": count,
    }
