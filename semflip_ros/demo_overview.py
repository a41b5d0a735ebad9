"""The demo in one picture: where the robot drove, what it was asked, saw and decided."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semflip_core.decision import Decision, Verdict
from semflip_core.frames import KeyframeRecord, Picture
from semflip_core.poses import Pose
from semflip_train.dataset import Query

#: Okabe and Ito's colour-blind-safe set.
GO, STOP, PATH, TRUTH = "#009E73", "#D55E00", "#56B4E9", "#000000"
#: Evidence pictures beside each other, and characters of a caption's line under one.
COLUMNS, LINE = 4, 44


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of the demo with its outcome.

    Args:
        picture: the best evidence frame, RGB; None where there is none.
    """

    number: int
    query: Query
    decision: Decision
    picture: Picture | None


def write_overview(
    file: Path,
    poses: Sequence[tuple[int, Pose]],
    keyframes: Sequence[KeyframeRecord],
    asked: Sequence[Asked],
) -> None:
    """Draw a map beside the evidence pictures into a PNG.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        from semflip_core.errors import MissingExtraError

        raise MissingExtraError("matplotlib", "train", "the demo's overview") from error
    rows = math.ceil(len(asked) / COLUMNS)
    heights = [1.45, *[1.0] * rows]
    figure = Figure(figsize=(14, 3.1 * sum(heights)), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(rows + 1, COLUMNS, height_ratios=heights)
    _draw_map(figure.add_subplot(grid[0, :]), poses, keyframes, asked)
    for place, item in enumerate(asked):
        _draw_evidence(figure.add_subplot(grid[1 + place // COLUMNS, place % COLUMNS]), item)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)


def _draw_map(
    axes: Any,
    poses: Sequence[tuple[int, Pose]],
    keyframes: Sequence[KeyframeRecord],
    asked: Sequence[Asked],
) -> None:
    xs, ys = zip(*(pose.position[:2] for _, pose in poses), strict=True)
    axes.plot(xs, ys, color=PATH, linewidth=1.5, zorder=1, label="path driven")
    stood = [record.pose.position for record in keyframes if record.pose is not None]
    label = f"{len(keyframes)} keyframes"
    axes.scatter([p[0] for p in stood], [p[1] for p in stood], s=12, color=PATH, label=label)
    for item in asked:
        answer, goal = item.query.answer, item.decision.goal
        if answer is not None and answer.object_position is not None:
            x, y, _ = answer.object_position
            axes.scatter([x], [y], marker="x", s=60, color=TRUTH, zorder=3)
            name = f"  {item.number} {item.query.referent or ''}"
            axes.annotate(name, (x, y), fontsize=9, va="center", zorder=4)
        if goal is not None:
            x, y, _ = goal.position
            turn = (math.cos(goal.yaw), math.sin(goal.yaw))
            axes.quiver(
                [x], [y], [turn[0]], [turn[1]], color=GO, angles="xy", scale=26, width=0.006,
                zorder=3,
            )  # fmt: skip
            axes.annotate(
                str(item.number), (x, y), color="white", fontsize=8, weight="bold", ha="center",
                va="center", zorder=5, bbox={"boxstyle": "circle", "color": GO},
            )  # fmt: skip
    axes.scatter([], [], marker="x", color=TRUTH, label="true place of what was asked")
    axes.scatter([], [], marker="o", color=GO, label="goal given")
    axes.set_aspect("equal")
    axes.set_xlabel("x in map, m")
    axes.set_ylabel("y in map, m")
    axes.grid(alpha=0.25)
    axes.margins(x=0.12, y=0.15)
    axes.legend(loc="upper left", framealpha=0.9)


def _draw_evidence(axes: Any, item: Asked) -> None:
    decision = item.decision
    answered = decision.verdict is Verdict.ANSWER
    colour = GO if answered else STOP
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(color=colour, linewidth=3)
    if item.picture is not None:
        axes.imshow(item.picture)
        region = decision.evidence[0].region
        if answered and region is not None:
            height, width = item.picture.shape[:2]
            x0, y0, x1, y1 = region
            from matplotlib.patches import Rectangle

            corner, size = (x0 * width, y0 * height), ((x1 - x0) * width, (y1 - y0) * height)
            axes.add_patch(Rectangle(corner, *size, fill=False, color=colour, linewidth=2))
    title = textwrap.fill(f"{item.number}  {decision.question}", LINE)
    axes.set_title(title, fontsize=9, loc="left")
    reason = decision.reason.value if decision.reason else ""
    outcome = "goal" if answered else f"{decision.statement}: {reason}"
    if math.isfinite(decision.score):
        outcome += f"\nscore {decision.score:.2f}, refuses above {decision.threshold:.2f}"
    axes.set_xlabel(outcome, fontsize=9, color=colour, weight="bold")
