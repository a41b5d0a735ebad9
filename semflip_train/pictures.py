"""Pictures for people: evidence with its region framed, and thumbnails for sheets and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from semflip_core.errors import MissingExtraError
from semflip_core.frames import Picture

if TYPE_CHECKING:
    from semflip_core.decision import Decision

GREEN = (60, 190, 90)
RED = (220, 70, 60)


def jpeg(rgb: Picture, quality: int = 85) -> bytes:
    """Encode an RGB picture as JPEG."""
    try:
        import cv2
    except ImportError as error:
        raise MissingExtraError("cv2", "cpu", "writing pictures") from error
    done, data = cv2.imencode(
        ".jpg", cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality]
    )
    if not done:
        raise ValueError(f"OpenCV could not encode a picture of shape {rgb.shape}")
    return bytes(data.tobytes())


def thumbnail(rgb: Picture, width: int) -> Picture:
    """Scaled to a width in pixels, the shape kept."""
    import cv2

    height = max(1, round(rgb.shape[0] * width / rgb.shape[1]))
    small: Picture = cv2.resize(rgb, (width, height), interpolation=cv2.INTER_AREA).astype(np.uint8)
    return small


def framed(
    rgb: Picture, region: tuple[float, float, float, float] | None, decision: Decision
) -> bytes:
    """The evidence picture: region framed, question and verdict written below.

    Args:
        rgb: ``(height, width, 3)``.
        region: ``x0, y0, x1, y1`` in [0, 1], or None.
    """
    import cv2

    answered = decision.goal is not None
    colour = GREEN if answered else RED
    height, width = rgb.shape[:2]
    canvas = np.full((height + 52, width, 3), 24, dtype=np.uint8)
    canvas[:height] = rgb
    if region is not None:
        x0, y0, x1, y1 = (
            round(v * s) for v, s in zip(region, (width, height, width, height), strict=True)
        )
        cv2.rectangle(canvas, (x0, y0), (min(x1, width - 1), min(y1, height - 1)), colour, 2)
    verdict = "goal" if answered else f"I do not know ({decision.reason and decision.reason.value})"
    score = f"score {decision.score:.3f}, threshold {decision.threshold:.3f}"
    for row, (text, shade) in enumerate(
        ((decision.question, (235, 235, 235)), (f"{verdict}   {score}", colour))
    ):
        shown = text.encode("ascii", "replace").decode()[: max(10, width // 9)]
        place = (8, height + 20 + 22 * row)
        cv2.putText(canvas, shown, place, cv2.FONT_HERSHEY_SIMPLEX, 0.5, shade, 1, cv2.LINE_AA)
    return jpeg(canvas)
