"""Examples in the report: right and wrong decisions with the frame that each rests on."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from semflip_train.pictures import jpeg, thumbnail

EACH = 4
THUMBNAIL = 260
QUALITY = 75
Prediction = Mapping[str, Any]
GROUPS: Mapping[str, tuple[str, Callable[[Prediction], bool]]] = {
    "Answered, rightly": (
        "right",
        lambda p: p["answerable"] and _answered(p) and p["evidence_right"] is not False,
    ),
    "Refused, rightly": ("right", lambda p: not p["answerable"] and not _answered(p)),
    "Answered from the wrong frame": (
        "wrong",
        lambda p: p["answerable"] and _answered(p) and p["evidence_right"] is False,
    ),
    "Answered though unanswerable": ("wrong", lambda p: not p["answerable"] and _answered(p)),
    "Refused though answerable": ("wrong", lambda p: p["answerable"] and not _answered(p)),
}


def _answered(p: Prediction) -> bool:
    return bool(p["gate_verdict"] == "answer")


def examples(predictions: Sequence[Prediction], memories: Path) -> str:
    """Of each outcome a few, spread over categories, chosen by order alone.

    Args:
        memories: folder of the sequences' memories.
    """
    blocks = []
    for title, (kind, belongs) in GROUPS.items():
        found = [p for p in predictions if belongs(p)]
        if not found:
            continue
        shown = "".join(_example(p, kind, memories) for p in spread(found, EACH))
        blocks.append(f"<h3>{title} ({len(found)})</h3><div class=examples>{shown}</div>")
    return "".join(blocks)


def spread(found: Sequence[Prediction], most: int) -> list[Prediction]:
    """A few of them: categories in turn, evenly spaced within each."""
    by_category: dict[str, list[Prediction]] = {}
    for p in found:
        by_category.setdefault(f"{p['slice']} {p['category']}", []).append(p)
    chosen: list[Prediction] = []
    rounds = -(-most // len(by_category))
    for number in range(rounds):
        for items in by_category.values():
            index = number * len(items) // rounds
            if len(chosen) < most and items[index] not in chosen:
                chosen.append(items[index])
    return chosen


def _example(p: Prediction, kind: str, memories: Path) -> str:
    score = "not reached" if p["score"] is None else f"{p['score']:.2f}"
    truth = "answerable" if p["answerable"] else str(p["category"] or "unanswerable")
    truth = truth.replace("_", " ")
    place = p["sequence"] if not p["slice"] else f"{p['sequence']}, {p['slice']}"
    return (
        f'<div class="example {kind}">{_picture(p, memories)}<b>{html.escape(p["question"])}</b>'
        f"<p>{html.escape(_outcome(p))}</p><p class=small>truth: {html.escape(truth)}; "
        f"P(unanswerable) {score}; {html.escape(place)}</p></div>"
    )


def _outcome(p: Prediction) -> str:
    if not p["goal"]:
        text = f"“I do not know”: {p['reason']}"
        return f"{text} (the gate would answer)" if _answered(p) else text
    x, y, _ = p["goal"]["position"]
    text = f"Goal at x {x:.2f} m, y {y:.2f} m"
    if p["goal_distance_m"] is not None:
        text += f", {p['goal_distance_m']:.2f} m from where it was visible"
    if p["goal_success"] == 0.0:
        text += "; missed"
    return text


def _picture(p: Prediction, memories: Path) -> str:
    """The evidence frame with the region boxed; nothing where there is none."""
    from semflip_core.memory import VideoMemory

    file = memories / str(p["memory"])
    if p["evidence_stamp_ns"] is None or not p["memory"] or not file.is_file():
        return ""
    with VideoMemory(file, read_only=True) as memory:
        ids = [r.id for r in memory.records() if r.stamp_ns == p["evidence_stamp_ns"]]
        if not ids:
            return ""
        data = jpeg(thumbnail(memory.picture(ids[0]), THUMBNAIL), QUALITY)
    box = ""
    if p["evidence_region"]:
        x0, y0, x1, y1 = (100.0 * value for value in p["evidence_region"])
        box = (
            f'<i style="left:{x0:.1f}%;top:{y0:.1f}%;width:{x1 - x0:.1f}%;height:{y1 - y0:.1f}%">'
            "</i>"
        )
    source = base64.b64encode(data).decode()
    return f'<div class=seen><img alt="evidence" src="data:image/jpeg;base64,{source}">{box}</div>'
