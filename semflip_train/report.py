"""The report: one HTML file with charts, tables and pictures inside, fit for a reviewer."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from semflip_train.findings import findings
from semflip_train.predictions import read_predictions
from semflip_train.report_charts import category_bars, curves
from semflip_train.report_examples import examples
from semflip_train.run_directory import RunDirectory
from semflip_train.stores import StoreError, write_whole
from semflip_train.tables import as_html, as_latex, as_markdown, reason_rows, tables_of

Metrics = Mapping[str, Any]
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1180px; margin: 2em auto; padding: 0 1em;
  color: #222; }
h1 { font-size: 1.6em; } h2 { margin-top: 2em; border-bottom: 1px solid #ddd; }
h3 { margin: 1.4em 0 .4em; } p { margin: .4em 0; } .note { color: #555; max-width: 95ch; }
table { border-collapse: collapse; font-size: 12.5px; margin: .4em 0 1em; }
td, th { padding: 3px 8px; text-align: right; border-bottom: 1px solid #eee;
  font-variant-numeric: tabular-nums; white-space: nowrap; } th:first-child { text-align: left;
  font-weight: 500; white-space: normal; } thead th { border-bottom: 2px solid #999; }
thead th:first-child { min-width: 9em; } .results tbody tr:first-child { background: #f1f6fa; }
.below th, .below td { color: #666; font-size: 11.5px; } .below th:first-child {
  padding-left: 1.8em; } td.missing { text-align: left; color: #888; font-style: italic; }
.fits { background: #dff0e8; font-weight: 600; }
.charts { display: flex; flex-wrap: wrap; gap: 12px; align-items: flex-start; }
.chart { width: 372px; font-size: 10.5px; fill: #333; } .chart .title { font-size: 12.5px;
  font-weight: 600; } .grid { stroke: #e8e8e8; }
.findings { list-style: none; padding: 0; max-width: 110ch; } .findings li { padding: 2px 0 2px
  1.7em; text-indent: -1.7em; } .findings b { display: inline-block; width: 1.7em;
  text-indent: 0; } .yes b { color: #009e73; } .no b { color: #d55e00; } .open b { color: #888; }
.examples { display: grid; gap: 12px; grid-template-columns: repeat(4, 1fr); }
.example { border: 1px solid #ddd; border-top: 4px solid #009e73; border-radius: 4px; padding: 8px;
  font-size: 13px; line-height: 1.35; } .example.wrong { border-top-color: #d55e00; }
.example p { margin: 2px 0; } .small { color: #666; font-size: 11.5px; }
.seen { position: relative; margin-bottom: 6px; } .seen img { width: 100%; display: block;
  border-radius: 3px; } .seen i { position: absolute; border: 2px solid #fff;
  outline: 2px solid #d55e00; box-sizing: border-box; } .right .seen i { outline-color: #009e73; }
.sheet { max-width: 100%; } pre { font-size: 12px; white-space: pre-wrap; }
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
    predictions = read_predictions(run.evaluation / "predictions.jsonl")
    write_whole(run.root / "results.md", as_markdown(metrics))
    write_whole(run.root / "results.tex", as_latex(metrics))
    body = "".join(
        [
            _head(run, metrics),
            _findings(metrics),
            _results(metrics),
            _final(metrics),
            f"<h2>Curves</h2><div class=charts>{curves(metrics, predictions)}</div>",
            _categories(metrics),
            _calibration(run, metrics),
            "<h2>Examples</h2><p class=note>The frame that the decision rests on, or would have "
            "rested on, with the region that matches best.</p>",
            examples(predictions, run.memories),
            _synthesis(run, metrics),
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


def _head(run: RunDirectory, metrics: Metrics) -> str:
    s, counts = run.settings, metrics["counts"]
    judged = ", ".join(s.evaluation.datasets) or s.dataset
    made = sum(n for name, n in metrics["training"].items() if name.startswith(("qflip", "vflip")))
    return (
        f"<p class=note>Encoder <b>{html.escape(s.encoder)}</b> (frozen), tested on "
        f"<b>{html.escape(judged)}</b>: {counts['answerable']} answerable and "
        f"{counts['unanswerable']} unanswerable questions, {counts['pairs']} pairs. The gate "
        f"learned from {metrics['training'].get('answerable', 0)} answerable pairs of "
        f"{html.escape(s.dataset)} and {made} unanswerable ones synthesised from them (Q-Flip: "
        f"{html.escape(', '.join(s.synthesis.strategies).replace('_', ' '))}; V-Flip: "
        f"{html.escape(s.synthesis.inpainter) if s.synthesis.vflip else 'off'}); it never saw a "
        "real refusal.</p>"
    )


def _findings(metrics: Metrics) -> str:
    marks = {True: ("yes", "✓"), False: ("no", "✗"), None: ("open", "?")}
    items = "".join(
        f"<li class={marks[f.holds][0]}><b>{marks[f.holds][1]}</b>{html.escape(f.text)}</li>"
        for f in findings(metrics)
    )
    return (
        "<h2>What the numbers carry</h2><p class=note>✓ the 95 % interval carries the sentence, "
        f"✗ it does not, ? too little data.</p><ul class=findings>{items}</ul>"
        if items
        else ""
    )


def _results(metrics: Metrics) -> str:
    blocks = [
        "<h2>Results</h2><p class=note>Positive class: unanswerable. All columns judge the gate's "
        "verdict (score against threshold). Brackets: 95 % bootstrap intervals over sequences "
        "joined by pairs, or over pairs and single questions where there are fewer than five "
        "such groups. Pairs: the same words asked of two memories, both right (coin flips: 0.25, "
        "words alone: 0). Last column: AUROC of the gate minus that of the row, on the same "
        "draws.</p>"
    ]
    for table in tables_of(metrics):
        title = table.title[:1].upper() + table.title[1:]
        blocks.append(
            f"<h3>{html.escape(title)}</h3><p class=note>{html.escape(table.note)}</p>"
            f"{as_html(table)}"
        )
    return "".join(blocks)


def _final(metrics: Metrics) -> str:
    names = (
        "evidence_recall", "goal_success", "evidence_accuracy", "end_to_end", "verdict_recall",
        "verdict_specificity",
    )  # fmt: skip
    slices: Mapping[str, Metrics] = metrics["slices"] or {}
    shown = slices if len(slices) > 1 else {"all questions": metrics}
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in names)
    rows = "".join(
        f"<tr><th>{html.escape(title)}</th>"
        + "".join(f"<td>{_with_interval(part, name)}</td>" for name in names)
        + "</tr>"
        for title, part in shown.items()
    )
    return (
        "<h2>Final verdict</h2><p class=note>After all checks of the robot's agent. Goal success: "
        "within 2 m of a place from which the referent was visible, and turned towards it within "
        "45°. Evidence: its frame shows the referent. End to end: a refusal where it is due, else "
        "a goal that succeeds. Without labelled places: -.</p>"
        f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _with_interval(part: Metrics, name: str) -> str:
    if part.get(name) is None:
        return "-"
    low, high = part["intervals"].get(name, (None, None))
    return f"{part[name]:.3f}" + ("" if low is None else f" [{low:.2f}, {high:.2f}]")


def _categories(metrics: Metrics) -> str:
    rows = reason_rows(metrics)
    table = ""
    if rows:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
        body = "".join(
            "<tr>"
            + f"<th>{html.escape(row[0].replace('_', ' '))}</th>"
            + "".join(_reason_cell(cell) for cell in row[1:])
            + "</tr>"
            for row in rows[1:]
        )
        confusion = metrics["reason_confusion"]
        accuracy = confusion["accuracy"]
        table = (
            "<h3>Reasons</h3><p class=note>What the reason head says (across) of each unanswerable "
            "question by its category (down), whether it was refused or not; marked: the reason "
            f"that fits. Right in {'-' if accuracy is None else f'{accuracy:.2f}'} of "
            f"{confusion['count']}. The reason never influences the verdict.</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )
    return f"<h2>Categories</h2><div class=charts>{category_bars(metrics)}</div>{table}"


def _reason_cell(cell: str) -> str:
    if cell.startswith("["):
        return f"<td class=fits>{cell.strip('[]')}</td>"
    return f"<td>{'·' if cell == '0' else html.escape(cell)}</td>"


def _calibration(run: RunDirectory, metrics: Metrics) -> str:
    file = run.root / "calibration.json"
    text = f"<h2>Threshold</h2><p class=note>{html.escape(metrics['gate']['calibration'])}</p>"
    if not file.is_file():
        return text
    made = json.loads(file.read_text(encoding="utf-8"))
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{values['answered']:.3f}</td>"
        f"<td>{values['count']}</td></tr>"
        for name, values in made["answered_by_sequence"].items()
    )
    return (
        f"{text}<p class=note>Temperature {made['temperature']:.3f}, fitted before and on other "
        "source questions. Share of synthesised unanswerable questions that are answered, by "
        f"calibration sequence ({html.escape(made['spread'])}):</p><table><thead><tr>"
        "<th>sequence</th><th>answered</th><th>of</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _synthesis(run: RunDirectory, metrics: Metrics) -> str:
    counts_file = run.synth / "counts.json"
    if not counts_file.is_file():
        return ""
    counts = json.loads(counts_file.read_text(encoding="utf-8"))
    sheet_file = run.synth / "contact_sheet.jpg"
    sheet = ""
    if sheet_file.is_file():
        data = base64.b64encode(sheet_file.read_bytes()).decode()
        sheet = (
            "<p class=note>Erased frames: before, mask, after.</p>"
            f'<img class=sheet alt="erased frames" src="data:image/jpeg;base64,{data}">'
        )
    return (
        "<h2>Synthesis</h2><p class=note>Every rewrite and erasure was checked before use.</p>"
        f"{_counts('training pairs by kind', metrics['training'])}"
        f"{_counts('made and rejected, by reason', counts)}{_sham(metrics)}{sheet}"
    )


def _sham(metrics: Metrics) -> str:
    sham = metrics["sham"]
    if not sham:
        return ""
    return (
        "<p class=note>Shams: an object that the question does not mention is erased with the same "
        f"operator. AUROC of {sham['shams']} shams against {sham['clean']} clean answerable pairs "
        f"of the {sham['split']} sequences: <b>{_number(sham['auroc'])}</b>; against the clean "
        f"pair of the same question the sham scores higher in {_number(sham['paired'])}. 0.5 in "
        "both: erasing leaves no trace that the gate reads.</p>"
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _counts(title: str, counts: Mapping[str, int]) -> str:
    rows: Sequence[str] = [
        f"<tr><th>{html.escape(name.replace('_', ' '))}</th><td>{count}</td></tr>"
        for name, count in counts.items()
    ]
    return f"<details><summary>{title}</summary><table>{''.join(rows)}</table></details>"


def _manifest(run: RunDirectory) -> str:
    file = run.root / "manifest.json"
    if not file.is_file():
        return ""
    text = html.escape(file.read_text(encoding="utf-8"))
    return (
        "<h2>Manifest</h2><details><summary>versions, hashes, timings</summary>"
        f"<pre>{text}</pre></details>"
    )
