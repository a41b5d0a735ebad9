"""What the numbers allow one to say, each sentence with its figures, also where it is bad news."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from semflip_train.comparison import ALWAYS, BLIND, PAPER, Q_ALONE, SINGLE_FRAME
from semflip_train.tables import parts

Metrics = Mapping[str, Any]
#: Pair accuracy of coin flips.
CHANCE = 0.25
#: Fewer shams than this tell nothing; an AUROC this near to 0.5 counts as no trace.
ENOUGH_SHAMS, NO_TRACE = 20, 0.1


class Finding(NamedTuple):
    """A claim: whether the numbers carry it (None: they cannot tell), and the sentence."""

    holds: bool | None
    text: str


def findings(metrics: Metrics) -> list[Finding]:
    """Claims about each part that needs looking; what words alone decide claims nothing."""
    found = []
    for part in parts(metrics):
        title = part.title[:1].upper() + part.title[1:]
        if part.kind == "grounded" or (part.kind == "all" and not part.metrics.get("grounded")):
            found += _of_part(title, part.metrics)
    sham = metrics.get("sham") or {}
    if sham:
        found.append(
            Finding(
                abs(sham["auroc"] - 0.5) <= NO_TRACE if sham["shams"] >= ENOUGH_SHAMS else None,
                f"Erasing leaves no trace: AUROC of {sham['shams']} shams against {sham['clean']} "
                f"clean pairs is {sham['auroc']:.3f} (0.5 would be none; above: erased pictures "
                "look unanswerable to the gate, below: more answerable than clean ones).",
            )
        )
    return found


def _of_part(title: str, part: Metrics) -> list[Finding]:
    controls: Mapping[str, Metrics] = part["controls"]
    found = []
    for name, claim in (
        (BLIND, "It looks: the gate beats a blind one"),
        (SINGLE_FRAME, "The memory helps: the gate beats one frame"),
        (Q_ALONE, "V-Flip helps: Q-Flip and V-Flip beat Q-Flip alone"),
    ):
        if (lead := _lead(controls, name)) is not None:
            found.append(Finding(_above(lead), f"{title}. {claim}: {_shown(lead)}."))
    elsewhere = {ALWAYS, BLIND, SINGLE_FRAME, Q_ALONE, PAPER}
    leads = {
        name: lead
        for name in controls
        if name not in elsewhere
        if (lead := _lead(controls, name)) is not None
    }
    if leads:
        nearest = min(leads, key=lambda name: leads[name][0])
        found.append(
            Finding(
                _above(leads[nearest]),
                f"{title}. The gate beats every other baseline; the nearest is {nearest}: "
                f"{_shown(leads[nearest])}.",
            )
        )
    if part["counts"]["pairs"] and part["pair_accuracy"] is not None:
        low = (part["intervals"].get("pair_accuracy") or [None])[0]
        found.append(
            Finding(
                None if low is None else low > CHANCE,
                f"{title}. Pairs are told apart better than by coin flips ({CHANCE}): "
                f"{part['pair_accuracy']:.3f} of {part['counts']['pairs']} pairs.",
            )
        )
    return found


def _lead(controls: Mapping[str, Metrics], name: str) -> list[float] | None:
    lead = (controls.get(name) or {}).get("gate_leads_by", {}).get("auroc")
    return None if not lead or lead[0] is None else list(lead)


def _above(lead: list[float]) -> bool | None:
    return lead[1] > 0.0 if len(lead) == 3 and lead[1] is not None else None


def _shown(lead: list[float]) -> str:
    if len(lead) == 3 and None not in lead:
        return f"AUROC {lead[0]:+.3f} [{lead[1]:+.3f}, {lead[2]:+.3f}]"
    return f"AUROC {lead[0]:+.3f}, no interval"
