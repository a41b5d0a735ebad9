"""The node's health as diagnostic_msgs, one status for each thing that can go wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from builtin_interfaces.msg import Time as TimeMsg
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from semflip_core.decision import Decision

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


@dataclass(slots=True)
class Health:
    """One status: the worst thing said about it wins."""

    name: str
    level: bytes = OK
    message: str = "ok"
    values: dict[str, str] = field(default_factory=dict)

    def note(self, level: bytes, message: str) -> None:
        """Raise the level; the message of the worst stays."""
        if level > self.level:
            self.level, self.message = level, message

    def put(self, values: Mapping[str, object]) -> None:
        """Add numbers and words to show."""
        self.values.update({key: _shown(value) for key, value in values.items()})


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest-rank percentile of a few numbers; NaN of none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def latency_values(latencies_s: Sequence[float]) -> dict[str, object]:
    """Query latencies as milliseconds at 50, 90 and 99 %."""
    return {
        f"latency_p{round(share * 100)}_ms": 1e3 * percentile(latencies_s, share)
        for share in (0.5, 0.9, 0.99)
    }


def decision_values(decision: Decision | None) -> dict[str, object]:
    """The last decision in a few words."""
    if decision is None:
        return {"last_decision": "none yet"}
    return {
        "last_decision": decision.verdict.value,
        "last_reason": decision.reason.value if decision.reason else "",
        "last_query_id": decision.query_id,
        "last_score": decision.score,
        "threshold": decision.threshold,
    }


def set_aside_values(why: Mapping[int, str], shown: int = 10) -> dict[str, object]:
    """Keyframes whose pictures cannot be read: how many, the newest by number, why the last."""
    newest = sorted(why)[-shown:]
    return {
        "pictures_set_aside": len(why),
        "set_aside_keyframes": " ".join(map(str, newest)),
        "set_aside_because": why[newest[-1]],
    }


def diagnostic_array(
    node_name: str, healths: Sequence[Health], stamp: TimeMsg, hardware_id: str = "semflip"
) -> DiagnosticArray:
    """The message for /diagnostics; statuses are named ``node: part``."""
    message = DiagnosticArray()
    message.header.stamp = stamp
    message.status = [
        DiagnosticStatus(
            level=health.level,
            name=f"{node_name}: {health.name}",
            message=health.message,
            hardware_id=hardware_id,
            values=[KeyValue(key=key, value=value) for key, value in health.values.items()],
        )
        for health in healths
    ]
    return message
