"""Recalled frames spread over places, headings and times: one view does not fill them all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from semflip_core.coverage import ViewCell
from semflip_core.frames import KeyframeRecord
from semflip_core.poses import angle_between
from semflip_core.settings import RecallSettings


def spread(
    ranked: Sequence[tuple[float, int]],
    ordinary: float,
    records: Mapping[int, KeyframeRecord],
    cells: Mapping[int, ViewCell],
    settings: RecallSettings,
) -> list[int]:
    """Greedy choice in which frames near chosen ones need a better score.

    Maximal marginal relevance (Carbonell and Goldstein 1998), in units of how far the best frame
    stands out from an ordinary one; one view gives way when it has given ``per_view``.

    Args:
        ranked: ``(score, keyframe id)``, best first.
        ordinary: score of a frame like most.
        records, cells: of at least the ranked keyframes.

    Returns:
        At most ``recalled_frames`` ids, in the order of choice.
    """
    if not ranked:
        return []
    best = ranked[0][0]
    weight = settings.spread_weight * max(best - ordinary, 0.1 * abs(best))
    scores = {keyframe_id: score for score, keyframe_id in ranked}
    crowding = dict.fromkeys(scores, 0.0)
    views: Counter[ViewCell] = Counter()
    chosen: list[int] = []

    def worth(keyframe_id: int) -> tuple[bool, float, int]:
        crowded = views[cells[keyframe_id]] >= settings.per_view
        value = scores[keyframe_id] - weight * crowding[keyframe_id]
        return (not crowded, value, -keyframe_id)

    while crowding and len(chosen) < settings.recalled_frames:
        chosen.append(max(crowding, key=worth))
        del crowding[chosen[-1]]
        views[cells[chosen[-1]]] += 1
        last = records[chosen[-1]]
        for other in list(crowding):
            if _too_soon(last, records[other], settings.min_separation_s):
                del crowding[other]
            else:
                near = nearness(last, records[other], settings)
                crowding[other] = max(crowding[other], near)
    return chosen


def nearness(a: KeyframeRecord, b: KeyframeRecord, settings: RecallSettings) -> float:
    """1 for the same view, towards 0 for one elsewhere: place and heading, or time."""
    if a.map_id != b.map_id:
        return 0.0
    if a.pose is None or b.pose is None:
        if a.segment != b.segment:
            return 0.0
        apart = abs(a.stamp_ns - b.stamp_ns) * 1e-9 / settings.spread_s
        return math.exp(-apart * apart)
    if a.pose.frame_id != b.pose.frame_id:
        return 0.0
    apart = math.dist(a.pose.position, b.pose.position) / settings.spread_m
    turned = angle_between(a.pose.orientation, b.pose.orientation)
    turned *= settings.spread_headings / (2.0 * math.pi)
    return math.exp(-apart * apart - turned * turned)


def _too_soon(a: KeyframeRecord, b: KeyframeRecord, separation_s: float) -> bool:
    apart = abs(a.stamp_ns - b.stamp_ns) * 1e-9
    return separation_s > 0.0 and a.segment == b.segment and apart < separation_s
