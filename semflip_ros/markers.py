"""RViz markers: where keyframes were taken, which ones were evidence, and the goal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from builtin_interfaces.msg import Time as TimeMsg
from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from semflip_core.decision import Decision
from semflip_core.frames import KeyframeRecord
from semflip_core.poses import Pose

#: At most so many keyframes are drawn, evenly chosen; RViz slows down beyond.
MOST_KEYFRAMES = 5000
HEADING_M = 0.25
CURRENT = ColorRGBA(r=0.0, g=0.45, b=0.70, a=0.9)
OTHER_MAP = ColorRGBA(r=0.6, g=0.6, b=0.6, a=0.4)
EVIDENCE = ColorRGBA(r=0.90, g=0.62, b=0.0, a=1.0)
GOAL = ColorRGBA(r=0.0, g=0.62, b=0.45, a=1.0)


def _marker(
    name: str, number: int, kind: int, frame: str, stamp: TimeMsg, color: ColorRGBA
) -> Marker:
    marker = Marker(ns=name, id=number, type=kind, action=Marker.ADD, color=color)
    marker.header.frame_id = frame
    marker.header.stamp = stamp
    marker.pose.orientation.w = 1.0
    return marker


def _heading(pose: Pose) -> tuple[Point, Point]:
    x, y, z = pose.position
    tip = Point(x=x + HEADING_M * math.cos(pose.yaw), y=y + HEADING_M * math.sin(pose.yaw), z=z)
    return Point(x=x, y=y, z=z), tip


def _keyframes(
    records: Sequence[KeyframeRecord], frame: str, map_id: str, stamp: TimeMsg
) -> list[Marker]:
    here = [r for r in records if r.pose is not None and r.pose.frame_id == frame]
    step = max(1, math.ceil(len(here) / MOST_KEYFRAMES))
    lines = [
        _marker("keyframes", 0, Marker.LINE_LIST, frame, stamp, CURRENT),
        _marker("keyframes_of_other_maps", 0, Marker.LINE_LIST, frame, stamp, OTHER_MAP),
    ]
    for record in here[::step]:
        if record.pose is not None:
            start, tip = _heading(record.pose)
            lines[0 if record.map_id == map_id else 1].points.extend((start, tip))
    for line in lines:
        line.scale.x = 0.03
        if not line.points:
            line.action = Marker.DELETE
    return lines


def _last_decision(decision: Decision | None, frame: str, stamp: TimeMsg) -> list[Marker]:
    seen = _marker("evidence", 0, Marker.SPHERE_LIST, frame, stamp, EVIDENCE)
    seen.scale.x = seen.scale.y = seen.scale.z = 0.2
    arrow = _marker("goal", 0, Marker.ARROW, frame, stamp, GOAL)
    arrow.scale.x, arrow.scale.y, arrow.scale.z = 0.6, 0.1, 0.1
    for item in decision.evidence if decision else ():
        if item.pose is not None and item.pose.frame_id == frame:
            seen.points.append(_heading(item.pose)[0])
    if not seen.points:
        seen.action = Marker.DELETE
    if decision is None or decision.goal is None:
        arrow.action = Marker.DELETE
    else:
        place, turn = arrow.pose.position, arrow.pose.orientation
        place.x, place.y, place.z = decision.goal.position
        turn.x, turn.y, turn.z, turn.w = decision.goal.orientation
    return [seen, arrow]


def memory_markers(
    records: Sequence[KeyframeRecord],
    decision: Decision | None,
    *,
    global_frame: str,
    map_id: str,
    stamp: TimeMsg,
) -> MarkerArray:
    """Markers of the memory and of the last decision, all in ``global_frame``."""
    markers = _keyframes(records, global_frame, map_id, stamp)
    return MarkerArray(markers=[*markers, *_last_decision(decision, global_frame, stamp)])
