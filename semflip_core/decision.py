"""What a question becomes: a goal, or "I do not know" with a reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from semflip_core.poses import Pose

STATEMENT = "I do not know"


class Verdict(str, Enum):
    """Answer with a goal, or refuse."""

    ANSWER = "answer"
    REFUSE = "refuse"


class Reason(str, Enum):
    """Why a question was refused. It never influences the verdict.

    The first six are the categories of the refusal benchmarks; the rest are the system's own.
    """

    ABSENT = "ABSENT"
    AMBIGUOUS = "AMBIGUOUS"
    FALSE_PREMISE = "FALSE_PREMISE"
    UNAVAILABLE = "UNAVAILABLE"
    SUBJECTIVE = "SUBJECTIVE"
    NEEDS_ACTION = "NEEDS_ACTION"
    NOT_ACTIVE = "NOT_ACTIVE"
    EMPTY_MEMORY = "EMPTY_MEMORY"
    NO_POSE = "NO_POSE"
    INVALID_QUESTION = "INVALID_QUESTION"
    OVERLOADED = "OVERLOADED"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    OUT_OF_DISTRIBUTION = "OUT_OF_DISTRIBUTION"
    INTERNAL_ERROR = "INTERNAL_ERROR"


#: The reasons that a gate's reason head can be trained on.
LEARNED_REASONS: tuple[Reason, ...] = (
    Reason.ABSENT,
    Reason.AMBIGUOUS,
    Reason.FALSE_PREMISE,
    Reason.UNAVAILABLE,
    Reason.SUBJECTIVE,
    Reason.NEEDS_ACTION,
)

SENTENCES: Mapping[Reason, str] = {
    Reason.ABSENT: "Nothing that I saw matches it.",
    Reason.AMBIGUOUS: "What I saw does not tell which one is meant.",
    Reason.FALSE_PREMISE: "The question assumes something that I did not see.",
    Reason.UNAVAILABLE: "What is asked cannot be seen in pictures of this place.",
    Reason.SUBJECTIVE: "This asks for an opinion, not for a place that I saw.",
    Reason.NEEDS_ACTION: "Knowing this needs an action that I have not taken.",
    Reason.NOT_ACTIVE: "The refusal node is not active.",
    Reason.EMPTY_MEMORY: "I have not seen anything yet.",
    Reason.NO_POSE: "I saw something, but I do not know where I stood on the current map.",
    Reason.INVALID_QUESTION: "This is not a question that I can read.",
    Reason.OVERLOADED: "Too many questions are waiting.",
    Reason.TIMEOUT: "I could not decide in time.",
    Reason.CANCELLED: "The question was cancelled.",
    Reason.OUT_OF_DISTRIBUTION: "This is too unlike anything that my gate was trained on.",
    Reason.INTERNAL_ERROR: "Something failed inside; the log has the details.",
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """A frame that supports the decision, best first.

    Args:
        keyframe_id: number in the memory.
        stamp_ns: header stamp, nanoseconds.
        relevance: as the encoder gave it.
        pose: of ``base_frame`` when it was taken, or None.
        region: ``x0, y0, x1, y1`` in [0, 1] of the picture where the referent would be, or None.
    """

    keyframe_id: int
    stamp_ns: int
    relevance: float
    pose: Pose | None
    region: tuple[float, float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The one outcome of one query.

    Args:
        query_id: the query's id.
        question: as asked, cleaned of control characters.
        verdict: after all invariants; ANSWER exactly when ``goal`` is set.
        gate_verdict: score against threshold only; None where the gate was not reached.
        score: P(unanswerable) in [0, 1]; NaN where the gate was not reached.
        threshold: tau; NaN where no gate was loaded.
        member_scores: each ensemble member's score, as far as reached.
        reason, sentence: why it refused; ``reason`` is None on an answer.
        goal: pose of ``base_frame`` on the floor of ``global_frame``; metres.
        evidence: best first, also on refusals.
        answer: the encoder's own short words, where it has any; never a source of numbers.
        timings_ms: name of each step -> milliseconds.
        encoder_id, gate_id: name and short hash.
        threshold_overridden: tau was set by hand, the calibration statement does not hold.
    """

    query_id: str
    question: str
    verdict: Verdict
    gate_verdict: Verdict | None = None
    score: float = math.nan
    threshold: float = math.nan
    member_scores: tuple[float, ...] = ()
    reason: Reason | None = None
    sentence: str = ""
    goal: Pose | None = None
    evidence: tuple[Evidence, ...] = ()
    answer: str = ""
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    encoder_id: str = ""
    gate_id: str = ""
    threshold_overridden: bool = False

    def __post_init__(self) -> None:
        answered = self.verdict is Verdict.ANSWER
        if answered != (self.goal is not None) or answered == (self.reason is not None):
            raise ValueError("a decision has either a goal (answer) or a reason (refuse)")

    @property
    def statement(self) -> str:
        """What the robot says: empty on an answer, else "I do not know"."""
        return "" if self.verdict is Verdict.ANSWER else STATEMENT

    def to_json(self) -> dict[str, Any]:
        """Plain values for ``json.dumps``; NaN becomes None."""

        def number(value: float) -> float | None:
            return value if math.isfinite(value) else None

        goal = self.goal and {
            "frame_id": self.goal.frame_id,
            "position": list(self.goal.position),
            "orientation": list(self.goal.orientation),
        }
        return {
            "id": self.query_id,
            "question": self.question,
            "verdict": self.verdict.value,
            "gate_verdict": self.gate_verdict and self.gate_verdict.value,
            "score": number(self.score),
            "threshold": number(self.threshold),
            "member_scores": list(self.member_scores),
            "reason": self.reason and self.reason.value,
            "statement": self.statement,
            "sentence": self.sentence,
            "goal": goal,
            "evidence": [
                {
                    "stamp_ns": item.stamp_ns,
                    "position": list(item.pose.position) if item.pose else None,
                    "relevance": item.relevance,
                    "region": list(item.region) if item.region else None,
                }
                for item in self.evidence
            ],
            "answer": self.answer,
            "timings_ms": dict(self.timings_ms),
            "encoder": self.encoder_id,
            "gate": self.gate_id,
            "threshold_overridden": self.threshold_overridden,
        }


def refuse(
    query_id: str, question: str, reason: Reason, sentence: str = "", **rest: Any
) -> Decision:
    """A refusal with the reason's standard sentence, or a more telling one."""
    return Decision(
        query_id=query_id,
        question=question,
        verdict=Verdict.REFUSE,
        reason=reason,
        sentence=sentence or SENTENCES[reason],
        **rest,
    )
