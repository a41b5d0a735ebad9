"""The report: one HTML file with charts, tables and pictures inside, fit for a reviewer."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from semflip_train import charts
from semflip_train.metrics import Confusion, risk_coverage, roc_curve
from semflip_train.pictures import jpeg, thumbnail
from semflip_train.run_directory import RunDirectory
from semflip_train.stores import StoreError, write_whole
from semflip_train.tables import as_html, as_latex, as_markdown

EXAMPLES = 4
THUMBNAIL = 280
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1120px; margin: 2em auto; padding: 0 1em;
  color: #222; }
h1 { font-size: 1.6em; } h2 { margin-top: 2em; border-bottom: 1px solid #ddd; }
table { border-collapse: collapse; font-size: 13px; } td, th { padding: 3px 9px; text-align: right;
  border-bottom: 1px solid #eee; font-variant-numeric: tabular-nums; } th:first-child {
  text-align: left; font-weight: 500; } thead th { border-bottom: 2px solid #999; }
.charts { display: flex; flex-wrap: wrap; gap: 12px; } .chart { width: 360px; font-size: 10px;
  fill: #333; } .chart .title { font-size: 12px; font-weight: 600; } .grid { stroke: #e8e8e8; }
.examples { display: grid; gap: 14px;
  grid-template-columns: repeat(auto-fill, minmax(280px, 1fr)); }
.example { border: 1px solid #ddd; border-radius: 6px; padding: 8px; font-size: 13px; }
.example img, .sheet { width: 100%; border-radius: 4px; } .right { border-left: 5px solid #009e73; }
.wrong { border-left: 5px solid #d55e00; } .note { color: #555; max-width: 75ch; }
"""


def write_report(run: RunDirectory) -> Path:
    """Write ``report.html``, ``results.md`` and ``results.tex``.

    Raises:
        StoreError: the run was not evaluated.
    """
    file = run.evaluation / "metrics.json"
    if not file.is_file():
        raise StoreError(f"{file}: not there; evaluate the run first: semflip run")
    metrics = json.loads(file.read_text(encoding="utf-8"))
    lines = (run.evaluation / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    predictions = [json.loads(line) for line in lines]
    write_whole(run.root / "results.md", as_markdown(metrics))
    write_whole(run.root / "results.tex", as_latex(metrics))
    body = "".join(
        [
            _head(run, metrics),
            "<h2>Results</h2>",
            "<p class=note>Positive class: unanswerable. Gate verdict (score against threshold) "
            "for all columns; brackets are bootstrap intervals over sequences joined by pairs, or "
            f"over pairs where there are fewer than five ({_groups(metrics)}).</p>",
            as_html(metrics),
            _final(metrics),
            f"<h2>Curves</h2><div class=charts>{_charts(metrics, predictions)}</div>",
            "<h2>Examples</h2>",
            _examples(run, predictions),
            _synthesis(run),
            _manifest(run),
        ]
    )
    title = f"semflip: {html.escape(run.settings.name)}"
    page = (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{title}</title>"
        f"<style>{STYLE}</style></head><body><h1>{title}</h1>{body}</body></html>\n"
    )
    target = run.root / "report.html"
    write_whole(target, page)
    return target


def _groups(metrics: Mapping[str, Any]) -> str:
    count = metrics["counts"]["resampled_groups"]
    return f"{count} groups here"


def _head(run: RunDirectory, metrics: Mapping[str, Any]) -> str:
    s, counts = run.settings, metrics["counts"]
    return (
        f"<p class=note>Encoder <b>{html.escape(s.encoder)}</b> on "
        f"<b>{html.escape(s.dataset)}</b>: "
        f"{counts['answerable']} answerable and {counts['unanswerable']} unanswerable test "
        f"questions, {counts['pairs']} pairs. Trained on answerable questions only; refusals were "
        f"synthesised (Q-Flip: {html.escape(', '.join(s.synthesis.strategies))}; V-Flip: "
        f"{html.escape(s.synthesis.inpainter) if s.synthesis.vflip else 'off'}).</p>"
        f"<p class=note>{html.escape(metrics['gate']['calibration'])}</p>"
    )


def _final(metrics: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><th>{key.replace('_', ' ')}</th><td>{_number(metrics.get(key))}</td></tr>"
        for key in (
            "goal_success",
            "evidence_accuracy",
            "end_to_end",
            "verdict_recall",
            "verdict_specificity",
            "aurc",
        )
    )
    return (
        "<h2>Final verdict</h2><p class=note>After all checks of the robot's agent: a goal within "
        "2 m of a place from which the referent was visible and turned towards it; evidence is "
        f"right if its frame shows the referent.</p><table>{rows}</table>"
    )


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.3f}"


def _charts(metrics: Mapping[str, Any], predictions: Sequence[Mapping[str, Any]]) -> str:
    labels = np.array([int(not p["answerable"]) for p in predictions])
    scores = np.array([1.0 if p["score"] is None else p["score"] for p in predictions])
    tau = float(metrics["gate"]["tau"])
    coverage, risk = risk_coverage(labels, scores)
    grid = np.linspace(0.0, 1.0, 101)
    sweep = [Confusion.of(labels, scores > t) for t in grid]
    categories = {
        name: (values["recall"], f"(n = {int(values['count'])})")
        for name, values in metrics["per_category"].items()
        if values["recall"] is not None
    }
    c = metrics["confusion"]
    share = max(1, c["tp"] + c["fn"]), max(1, c["tn"] + c["fp"])
    confusion = {
        "refused, right": (c["tp"] / share[0], f"({c['tp']})"),
        "answered, wrong": (c["fn"] / share[0], f"({c['fn']})"),
        "answered, right": (c["tn"] / share[1], f"({c['tn']})"),
        "refused, wrong": (c["fp"] / share[1], f"({c['fp']})"),
    }
    return "".join(
        [
            charts.lines(
                "ROC",
                "answerable refused",
                "unanswerable refused",
                {
                    f"gate {_number(metrics['auroc'])}": roc_curve(labels, scores),
                    "chance": ([0.0, 1.0], [0.0, 1.0]),
                },
            ),
            charts.lines(
                "Risk against coverage",
                "share answered",
                "of these unanswerable",
                {f"AURC {_number(metrics['aurc'])}": (coverage, risk)},
            ),
            charts.histogram(
                "Scores",
                "P(unanswerable)",
                {
                    "answerable": scores[labels == 0].tolist(),
                    "unanswerable": scores[labels == 1].tolist(),
                },
                marker=tau,
            ),
            charts.lines(
                "Threshold",
                "threshold",
                "",
                {
                    "balanced accuracy": (grid, _filled([s.balanced_accuracy for s in sweep])),
                    "recall": (grid, _filled([s.recall for s in sweep])),
                    "specificity": (grid, _filled([s.specificity for s in sweep])),
                },
                marker=tau,
            ),
            charts.bars("Recall by category", categories),
            charts.bars("Confusion (share of its class)", confusion),
        ]
    )


def _filled(values: Sequence[float]) -> list[float]:
    return [0.0 if value != value else value for value in values]


def _examples(run: RunDirectory, predictions: Sequence[Mapping[str, Any]]) -> str:
    groups: dict[str, Callable[[Mapping[str, Any]], bool]] = {
        "Answered, rightly": lambda p: p["answerable"] and p["verdict"] == "answer",
        "Refused, rightly": lambda p: not p["answerable"] and p["verdict"] != "answer",
        "Answered though unanswerable": lambda p: not p["answerable"] and p["verdict"] == "answer",
        "Refused though answerable": lambda p: p["answerable"] and p["verdict"] != "answer",
    }
    parts = []
    for number, (title, belongs) in enumerate(groups.items()):
        found = [p for p in predictions if belongs(p)]
        step = max(1, len(found) // EXAMPLES)
        shown = "".join(
            _example(run, p, "right" if number < 2 else "wrong") for p in found[::step][:EXAMPLES]
        )
        parts.append(f"<h3>{title} ({len(found)})</h3><div class=examples>{shown}</div>")
    return "".join(parts)


def _example(run: RunDirectory, p: Mapping[str, Any], kind: str) -> str:
    picture = _evidence(run, p)
    image = f'<img alt="evidence" src="data:image/jpeg;base64,{picture}">' if picture else ""
    goal = ""
    if p["goal"]:
        x, y, _ = p["goal"]["position"]
        goal = f"goal {x:.2f}, {y:.2f}"
        if p["goal_distance_m"] is not None:
            goal += f", {p['goal_distance_m']:.2f} m from a true view"
    outcome = goal or f"I do not know: {p['reason']}"
    score = "-" if p["score"] is None else f"{p['score']:.3f}"
    return (
        f'<div class="example {kind}">{image}<b>{html.escape(p["question"])}</b><br>'
        f"{html.escape(outcome)}<br>score {score}; "
        f"{html.escape(p['category'] or 'answerable')}; {html.escape(p['sequence'])}</div>"
    )


def _evidence(run: RunDirectory, p: Mapping[str, Any]) -> str:
    import cv2

    from semflip_core.memory import VideoMemory

    files = sorted(run.memories.glob(f"{p['sequence']}-*.ready"))
    if p["evidence_stamp_ns"] is None or not files:
        return ""
    with VideoMemory(files[-1].with_suffix(".sqlite"), read_only=True) as memory:
        ids = [r.id for r in memory.records() if r.stamp_ns == p["evidence_stamp_ns"]]
        if not ids:
            return ""
        rgb = thumbnail(memory.picture(ids[0]), THUMBNAIL).copy()
    if p["evidence_region"]:
        height, width = rgb.shape[:2]
        x0, y0, x1, y1 = p["evidence_region"]
        corner, opposite = (
            (round(x0 * width), round(y0 * height)),
            (round(x1 * width), round(y1 * height)),
        )
        cv2.rectangle(rgb, corner, opposite, (0, 158, 115), 2)
    return base64.b64encode(jpeg(rgb, 75)).decode()


def _synthesis(run: RunDirectory) -> str:
    counts_file = run.synth / "counts.json"
    if not counts_file.is_file():
        return ""
    counts = json.loads(counts_file.read_text(encoding="utf-8"))
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{count}</td></tr>" for name, count in counts.items()
    )
    sheet_file = run.synth / "contact_sheet.jpg"
    sheet = ""
    if sheet_file.is_file():
        data = base64.b64encode(sheet_file.read_bytes()).decode()
        sheet = f'<img class=sheet alt="erased frames" src="data:image/jpeg;base64,{data}">'
    return (
        "<h2>Synthesis</h2><p class=note>Every rewrite and erasure was checked before use; "
        "rejections by reason. Below: before, mask, after.</p>"
        f"<details><summary>counts</summary><table>{rows}</table></details>{sheet}"
    )


def _manifest(run: RunDirectory) -> str:
    file = run.root / "manifest.json"
    if not file.is_file():
        return ""
    text = html.escape(file.read_text(encoding="utf-8"))
    return (
        "<h2>Manifest</h2><details><summary>versions, hashes, timings</summary>"
        f"<pre>{text}</pre></details>"
    )
