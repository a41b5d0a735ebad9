"""V-Flip: erase what a question asks about from every frame, and a sham beside it.

Parse, detect in every frame, grow the mask, inpaint, store as JPEG like any frame, and verify that
detection has collapsed; a sample that does not pass is dropped and the reason counted. The sham
erases, by the same operator and area, an object that the question does not mention: label 0, so
that the gate learns absence and not inpainting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from semflip_core.frames import FrameFeatures, Picture
from semflip_core.settings import KeyframeSettings, Settings
from semflip_train.synthesis.detect import Box, Detection, Detector, View, box_overlap
from semflip_train.synthesis.inpaint import Inpainter, Mask

NOT_SEEN = "referent not detected"
EVERYWHERE = "detected in too many frames"
TOO_LARGE = "mask too large"
STILL_SEEN = "still detected after erasing"
NO_SHAM = "no other object to erase as a sham"


class EraseSettings(Settings):
    """How V-Flip erases.

    Args:
        relative: a frame shows the referent if its strength is at least this share of the best.
        floor: and at least this share of the threshold of presence.
        grow: the mask is grown by this share of the picture's width on each side.
        max_frames: most frames that may show it; more is much work and rarely erased whole.
        max_area: most of a picture that may be erased.
        drop: relative drop of the strength that counts as erased.
        rounds: times that a frame which still shows it is erased again.
    """

    relative: float = 0.6
    floor: float = 0.7
    grow: float = 0.02
    max_frames: int = 12
    max_area: float = 0.5
    drop: float = 0.4
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class Erased:
    """One changed frame.

    Args:
        index: of the frame in the memory.
        jpeg: the changed picture as stored.
        mask: what was erased.
        before, after: strength of the phrase.
    """

    index: int
    jpeg: bytes
    mask: Mask
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Eraser:
    """Erases phrases from a memory's frames.

    Args:
        encode: features of a picture, as the encoder makes them of stored pictures.
        keyframes: JPEG quality and size, as for any stored frame.
        present: strength from which on something is taken to be there.
    """

    detector: Detector
    inpainter: Inpainter
    encode: Callable[[Picture], FrameFeatures]
    keyframes: KeyframeSettings
    settings: EraseSettings
    present: float

    def erase(self, phrase: str, views: Sequence[View]) -> tuple[list[Erased], str | None]:
        """Erase a phrase from every frame that shows it.

        Returns:
            The changed frames, and the reason to drop the sample, or None.
        """
        strengths = self.detector.strengths(phrase, views)
        best = float(strengths.max(initial=0.0))
        if best < self.present:
            return [], NOT_SEEN
        limit = max(self.settings.relative * best, self.settings.floor * self.present)
        shown = [i for i in range(len(views)) if strengths[i] >= limit]
        if len(shown) > self.settings.max_frames:
            return [], EVERYWHERE
        erased: list[Erased] = []
        for index in shown:
            frame, problem = self._erase_frame(phrase, index, views[index], limit)
            if frame is None:
                return erased, problem
            erased.append(frame)
        return erased, None

    def _erase_frame(
        self, phrase: str, index: int, view: View, limit: float
    ) -> tuple[Erased | None, str | None]:
        picture, features = view.picture, view.features
        mask = np.zeros(picture.shape[:2], dtype=bool)
        before = float(self.detector.strengths(phrase, [view])[0])
        target = min(limit, (1.0 - self.settings.drop) * before)
        for _ in range(self.settings.rounds):
            detections = self.detector.detect(phrase, [View(picture, features)])[0]
            strong = [d for d in detections if d.strength >= max(target, 0.85 * before)]
            for item in tightest(strong or detections[:1]):
                mask |= box_mask(item.box, picture.shape[:2], self.settings.grow)
            if mask.mean() > self.settings.max_area:
                return None, TOO_LARGE
            jpeg, picture = self.stored(self.inpainter.fill(view.picture, mask))
            features = self.encode(picture)
            after = float(self.detector.strengths(phrase, [View(picture, features)])[0])
            if after < target:
                return Erased(index, jpeg, mask, before, after), None
        return None, STILL_SEEN

    def sham(
        self, erased: Sequence[Erased], other: str, views: Sequence[View], referent: str
    ) -> tuple[list[Erased], str | None]:
        """Erase another object from the same number of frames, over the same areas.

        Args:
            erased: the V-Flip sample's frames.
            other: phrase of an object that the question does not mention.
            referent: must stay as it was; frames where it lies under the mask are left out.

        Returns:
            The changed frames and None, or the reason why there is no sham.
        """
        strengths = self.detector.strengths(other, views)
        made: list[Erased] = []
        for index in np.argsort(-strengths, kind="stable"):
            if len(made) == len(erased) or strengths[index] < self.present:
                break
            view = views[index]
            shown = self.detector.detect(other, [view])[0]
            box = scaled_box(shown[0].box, float(erased[len(made)].mask.mean()))
            own = self.detector.detect(referent, [view])[0]
            if any(box_overlap(box, d.box) > 0.0 for d in own[:3]):
                continue
            mask = box_mask(box, view.picture.shape[:2], 0.0)
            jpeg, picture = self.stored(self.inpainter.fill(view.picture, mask))
            after = self.detector.strengths(other, [View(picture, self.encode(picture))])
            before = float(strengths[index])
            made.append(Erased(int(index), jpeg, mask, before, float(after[0])))
        if not made:
            return [], NO_SHAM
        return made, None

    def stored(self, rgb: Picture) -> tuple[bytes, Picture]:
        """The JPEG round trip that every frame of a memory has made."""
        from semflip_core.images import decode_compressed, store_raw

        data = store_raw(rgb, self.keyframes).data
        return data, decode_compressed(data)


def tightest(detections: Sequence[Detection]) -> list[Detection]:
    """The strongest detection and those that do not merely contain it."""
    if not detections:
        return []
    kept = [detections[0]]
    for item in detections[1:]:
        if all(not _contains(item.box, other.box) for other in kept):
            kept.append(item)
    return kept


def _contains(outer: Box, inner: Box) -> bool:
    return (
        outer[0] <= inner[0]
        and outer[1] <= inner[1]
        and outer[2] >= inner[2]
        and outer[3] >= inner[3]
    )


def box_mask(box: Box, shape: tuple[int, ...], grow: float) -> Mask:
    """``(height, width)`` mask of a box, grown by a share of the width on each side."""
    height, width = shape[:2]
    margin = grow * width
    x0, x1 = int(max(0.0, box[0] * width - margin)), int(min(width, box[2] * width + margin))
    y0, y1 = int(max(0.0, box[1] * height - margin)), int(min(height, box[3] * height + margin))
    mask = np.zeros((height, width), dtype=bool)
    mask[y0:y1, x0:x1] = True
    return mask


def scaled_box(box: Box, area: float) -> Box:
    """A box of the same centre and shape that covers ``area`` of the picture, moved inside it."""
    width, height = max(box[2] - box[0], 1e-3), max(box[3] - box[1], 1e-3)
    scale = float(np.sqrt(area / (width * height)))
    width, height = min(1.0, width * scale), min(1.0, height * scale)
    x = min(max(0.0, (box[0] + box[2] - width) / 2.0), 1.0 - width)
    y = min(max(0.0, (box[1] + box[3] - height) / 2.0), 1.0 - height)
    return (x, y, x + width, y + height)
