"""Pictures for people: what the robot saw, with a box where the referent would be."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from semflip_core.decision import Decision, Evidence, Verdict
from semflip_core.errors import MissingExtraError
from semflip_core.frames import Picture
from semflip_core.images import jpeg
from semflip_core.memory import VideoMemory

#: RGB of the box and the strip under the picture, by verdict (Okabe and Ito's colour-blind-safe
#: set).
COLOURS = {Verdict.ANSWER: (0, 158, 115), Verdict.REFUSE: (213, 94, 0)}
INK = (255, 255, 255)
JPEG_QUALITY = 90


def _ascii(text: str) -> str:
    """OpenCV's strokes know ASCII only; other letters become question marks."""
    return text.encode("ascii", "replace").decode("ascii")


def caption(decision: Decision) -> tuple[str, str]:
    """Two lines for under the picture: the question, and what became of it."""
    score = "" if math.isnan(decision.score) else f"score {decision.score:.3f}"
    if not math.isnan(decision.threshold):
        score += f" (refuse above {decision.threshold:.3f})"
    if decision.verdict is Verdict.ANSWER and decision.goal is not None:
        x, y, _ = decision.goal.position
        return decision.question, f"goal {x:.2f}, {y:.2f} m   {score}"
    reason = decision.reason.value if decision.reason else ""
    return decision.question, f"{decision.statement}: {reason}   {score}"


def draw_evidence(rgb: Picture, evidence: Evidence, decision: Decision) -> Picture:
    """The evidence frame with the referent's region boxed and a caption under it.

    Args:
        rgb: the stored picture, ``(height, width, 3)``; left as it is.

    Returns:
        ``(height + strip, width, 3)`` RGB.
    """
    try:
        import cv2
    except ImportError as error:
        raise MissingExtraError("cv2", "cpu", "drawing evidence pictures") from error

    colour = COLOURS[decision.verdict]
    height, width = rgb.shape[:2]
    drawn: NDArray[np.uint8] = rgb.copy()
    scale = max(0.35, width / 1100)
    line = max(1, round(width / 320))
    if evidence.region is not None and all(math.isfinite(v) for v in evidence.region):
        x0, y0, x1, y1 = evidence.region
        corner = (round(x0 * (width - 1)), round(y0 * (height - 1)))
        opposite = (round(x1 * (width - 1)), round(y1 * (height - 1)))
        cv2.rectangle(drawn, corner, opposite, colour, line)
    row = max(12, round(34 * scale))
    strip = np.full((2 * row + row // 2, width, 3), colour, dtype=np.uint8)
    for index, text in enumerate(caption(decision)):
        at = (row // 3, round((index + 0.95) * row))
        cv2.putText(
            strip, _fitted(_ascii(text), width - row, scale), at, cv2.FONT_HERSHEY_SIMPLEX, scale,
            INK, max(1, line // 2), cv2.LINE_AA,
        )  # fmt: skip
    return np.concatenate([drawn, strip])


def _fitted(text: str, width: int, scale: float) -> str:
    import cv2

    def wide(candidate: str) -> bool:
        size, _ = cv2.getTextSize(candidate, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
        return bool(size[0] > width)

    if not wide(text):
        return text
    while len(text) > 1 and wide(text + "..."):
        text = text[:-1]
    return text + "..."


def evidence_jpeg(memory: VideoMemory, decision: Decision) -> bytes | None:
    """JPEG of the decision's best evidence; None where it has none or the frame is gone.

    Raises:
        MissingExtraError: OpenCV is not installed.
        ImageError: the stored picture cannot be decoded, or the drawing not encoded.
    """
    if not decision.evidence:
        return None
    best = decision.evidence[0]
    try:
        picture = memory.picture(best.keyframe_id)
    except KeyError:
        return None
    return jpeg(draw_evidence(picture, best, decision), JPEG_QUALITY)
