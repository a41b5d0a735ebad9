"""From relevance to evidence frames and a goal: geometry and recorded poses only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from semflip_core.decision import Evidence
from semflip_core.encoders.contract import JointEmbedding, Vector
from semflip_core.frames import KeyframeRecord
from semflip_core.poses import Pose

#: Of the recalled frames, the share that must support the answer less than the best one does.
LESS_SHARE = 0.1


def has_peak(relevance: Vector, min_peak: float) -> bool:
    """Whether relevance says where: the best frame against the tenth that is least relevant.

    Relevance that is alike everywhere points nowhere, whatever its height. The least relevant
    frames are the measure, not the median, because a thing that the robot lived beside is plain in
    most frames recalled for it; and a tenth of them, not the least alone, so that a single black
    frame among many makes no peak of all others. A single frame has nothing to stand out from; it
    only needs to be relevant at all.

    Args:
        relevance: ``(frames,)``, not negative.
        min_peak: at least 1; how many times the least relevant the best must be.
    """
    if relevance.size == 0 or not np.isfinite(relevance).all():
        return False
    best = float(relevance.max())
    if best <= 0.0:
        return False
    if relevance.size == 1:
        return True
    return best >= min_peak * float(np.quantile(relevance, LESS_SHARE, method="lower"))


def rank_evidence(
    records: Sequence[KeyframeRecord], joint: JointEmbedding, count: int
) -> tuple[Evidence, ...]:
    """The ``count`` most relevant frames, best first; ties go to the later frame."""
    order = sorted(range(len(records)), key=lambda i: (-float(joint.relevance[i]), -records[i].id))
    found = []
    for index in order[:count]:
        record = records[index]
        region = None
        if joint.regions is not None and np.isfinite(joint.regions[index]).all():
            x0, y0, x1, y1 = (float(v) for v in np.clip(joint.regions[index], 0.0, 1.0))
            region = (x0, y0, x1, y1)
        found.append(
            Evidence(
                keyframe_id=record.id,
                stamp_ns=record.stamp_ns,
                relevance=float(joint.relevance[index]),
                pose=record.pose,
                region=region,
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Place:
    """A goal, or the sentence that says why there is none."""

    goal: Pose | None
    evidence: Evidence | None
    problem: str = ""


def choose_goal(
    ranked: Sequence[Evidence],
    records: Sequence[KeyframeRecord],
    *,
    global_frame: str,
    map_id: str,
    stand_in: float,
) -> Place:
    """The base pose from which the best evidence on the current map was seen, flat on the floor.

    The robot has stood there; keeping its heading keeps the camera's recorded bearing to the
    referent.

    Args:
        ranked: evidence, best first.
        records: the frames of the decision, in any order.
        global_frame: the frame that goals are expressed in.
        map_id: the map that the robot is on now.
        stand_in: a frame may stand in for a better one that has no usable pose only if its
            relevance is at least this share of the best.
    """
    by_id = {record.id: record for record in records}
    problem = "no frame supports it"
    for item in ranked:
        if item.relevance < stand_in * ranked[0].relevance:
            break
        record = by_id[item.keyframe_id]
        if record.pose is None:
            why = "the robot's pose was not known when it was seen"
        elif record.pose.frame_id != global_frame:
            why = f"it was seen in frame '{record.pose.frame_id}', goals are in '{global_frame}'"
        elif record.map_id != map_id:
            why = f"it was seen on another map ('{record.map_id}', now '{map_id}')"
        else:
            return Place(record.pose.flattened(), item)
        if item is ranked[0]:
            problem = why
    return Place(None, None, problem)
