"""What is true in the demo's recording, what was decided, and whether the two agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semflip_core.bag_topics import choose_pose_source
from semflip_core.bags import open_bag
from semflip_core.decision import Decision, Evidence, Reason, Verdict
from semflip_core.errors import DatasetError
from semflip_core.poses import Pose, wrap_angle
from semflip_train.dataset import Dataset, Query

#: Goal success: so near to a base pose that saw it, and turned so far from it at most.
NEAR_M, FACING_DEG = 2.0, 45.0


@dataclass(frozen=True, slots=True)
class GoalError:
    """How far a goal is from the truth.

    Args:
        distance_m: to the nearest base pose from which the object was in the picture.
        bearing_deg: between the goal's heading and the direction to the object.
        object_m: from the goal to the object itself.
    """

    distance_m: float
    bearing_deg: float
    object_m: float

    @property
    def success(self) -> bool:
        """Goal success of DESIGN section 9."""
        return self.distance_m <= NEAR_M and self.bearing_deg <= FACING_DEG


def base_poses(recording: Path, topic: str | None) -> list[tuple[int, Pose]]:
    """``(stamp_ns, pose)`` of the robot's base over a whole recording.

    Raises:
        BagError: the recording cannot be read or has no poses.
    """
    found: list[tuple[int, Pose]] = []
    with open_bag(recording) as bag:
        source = choose_pose_source(bag, topic, required=True)
        assert source is not None
        for message in bag.messages(source.topics):
            found.extend(source.read(message))
    return found


def goal_error(goal: Pose, query: Query, poses: Sequence[tuple[int, Pose]]) -> GoalError:
    """Compare a goal with the labels of an answerable query.

    Raises:
        DatasetError: the query lacks ``object_position`` or ``visible``.
    """
    answer = query.answer
    if answer is None or answer.object_position is None or not answer.visible:
        raise DatasetError(f"query '{query.id}': answer needs object_position and visible")
    x, y, _ = goal.position
    distances = [
        math.dist((x, y), pose.position[:2])
        for stamp_ns, pose in poses
        if any(start <= stamp_ns <= end for start, end in answer.visible)
    ]
    ahead_x, ahead_y = answer.object_position[0] - x, answer.object_position[1] - y
    turn = wrap_angle(math.atan2(ahead_y, ahead_x) - goal.yaw)
    return GoalError(
        distance_m=min(distances, default=math.inf),
        bearing_deg=abs(math.degrees(turn)),
        object_m=math.hypot(ahead_x, ahead_y),
    )


def seen_elsewhere(dataset: Dataset, query: Query) -> tuple[str, ...]:
    """Other sequences that do support an unanswerable query: its pair's other side."""
    return tuple(
        sorted(
            {
                other.sequence
                for other in dataset.queries
                if query.pair is not None
                and other.pair == query.pair
                and other.answerable
                and other.sequence != query.sequence
            }
        )
    )


@dataclass(frozen=True, slots=True)
class Result:
    """One question with its decision and how far its goal is from the truth."""

    query: Query
    decision: Decision
    error: GoalError | None

    @property
    def fault(self) -> str:
        """What is wrong with it; empty when it is right."""
        expected = Verdict.ANSWER if self.query.answerable else Verdict.REFUSE
        if self.decision.verdict is not expected:
            return f"should {expected.value}"
        if self.error is not None and not self.error.success:
            return "goal is off"
        return ""


def decision_from_json(values: dict[str, Any], keyframes: dict[int, int]) -> Decision:
    """A decision from what ``ask --json`` prints, as far as it is shown here.

    Args:
        keyframes: stamp in nanoseconds -> keyframe id.
    """
    goal = values["goal"]
    nan = float("nan")
    return Decision(
        query_id=values["id"],
        question=values["question"],
        verdict=Verdict(values["verdict"]),
        gate_verdict=Verdict(values["gate_verdict"]) if values["gate_verdict"] else None,
        score=nan if values["score"] is None else values["score"],
        threshold=nan if values["threshold"] is None else values["threshold"],
        reason=Reason(values["reason"]) if values["reason"] else None,
        sentence=values["sentence"],
        goal=goal and Pose(goal["frame_id"], tuple(goal["position"]), tuple(goal["orientation"])),
        evidence=tuple(
            Evidence(
                keyframe_id=keyframes[item["stamp_ns"]],
                stamp_ns=item["stamp_ns"],
                relevance=item["relevance"],
                pose=None,
                region=tuple(item["region"]) if item["region"] else None,
            )
            for item in values["evidence"]
        ),
    )
