"""V-Flip: erase what a question asks about from every frame, and a sham beside it.

Parse, detect in every frame, grow the mask, inpaint, store as JPEG like any frame, and verify that
detection has collapsed in every frame; a sample that does not pass is dropped and the reason
counted. The question is answerable, so its referent is known to be somewhere: *where* is judged by
strengths relative to what the same phrase reaches in the rest of the memory, as a detector's scale
differs from phrase to phrase. The sham erases, by the same operator and area, an object that the
question does not mention: label 0, so that the gate learns absence and not inpainting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from pydantic import Field

from semflip_core.frames import FrameFeatures, Picture
from semflip_core.settings import KeyframeSettings, Settings
from semflip_train.synthesis.detect import (
    Array,
    Box,
    Detection,
    Detector,
    View,
    box_overlap,
)
from semflip_train.synthesis.inpaint import Inpainter, Mask

NOT_SEEN = "referent not detected"
EVERYWHERE = "detected in too many frames"
TOO_LARGE = "mask too large"
STILL_SEEN = "still detected after erasing"
NO_SHAM = "no other object to erase as a sham"


class EraseSettings(Settings):
    """How V-Flip erases.

    Shares below are of the way from the memory's background (what the phrase reaches in an average
    frame) to the strongest frame.

    Args:
        floor: least strength of the strongest frame, as a share of the threshold of presence.
        relative: a frame that reaches this share shows the referent.
        trailing: so does one beside it in time, from this share on: a thing does not vanish
            between two keyframes, a weak detection of it does.
        background_cap: the background is at most this share of the strongest frame.
        grow: the mask is grown by this share of the picture's width on each side.
        max_frames: most frames that may show it; more is much work and rarely erased whole.
        max_area: most of a picture that may be erased.
        drop: relative drop above the background that counts as erased.
        rounds: times that a frame which still shows it is erased again.
    """

    floor: float = Field(default=0.7, ge=0.0)
    relative: float = Field(default=0.6, gt=0.0, le=1.0)
    trailing: float = Field(default=0.15, ge=0.0, le=1.0)
    background_cap: float = Field(default=0.4, ge=0.0, lt=1.0)
    grow: float = Field(default=0.02, ge=0.0, le=0.5)
    max_frames: int = Field(default=48, ge=1)
    max_area: float = Field(default=0.5, gt=0.0, le=1.0)
    drop: float = Field(default=0.6, gt=0.0, le=1.0)
    rounds: int = Field(default=4, ge=1)


@dataclass(frozen=True, slots=True)
class Levels:
    """Strengths that a phrase reaches in one memory.

    Args:
        background: in an average frame.
        best: in the strongest.
    """

    background: float
    best: float

    @classmethod
    def of(cls, strengths: Array, settings: EraseSettings) -> Levels:
        """From every frame's strength, ``(frames,)``."""
        best = float(strengths.max())
        return cls(min(float(np.median(strengths)), settings.background_cap * best), best)

    def at(self, share: float) -> float:
        """The strength at a share of the way from background to best."""
        return self.background + share * (self.best - self.background)


def frames_showing(strengths: Array, levels: Levels, settings: EraseSettings) -> list[int]:
    """Frames taken to show a phrase: strong ones, and weaker ones in an unbroken row with them.

    Args:
        strengths: ``(frames,)`` in order of time.
    """
    weak = strengths >= levels.at(settings.trailing)
    strong = strengths >= levels.at(settings.relative)
    shown: list[int] = []
    for is_weak, group in groupby(range(len(strengths)), key=lambda i: bool(weak[i])):
        row = list(group)
        if is_weak and strong[row].any():
            shown += row
    return shown


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

        Args:
            views: in order of time.

        Returns:
            The changed frames, and the reason to drop the sample, or None.
        """
        strengths = self.detector.strengths(phrase, views)
        if strengths.max(initial=0.0) < max(self.settings.floor * self.present, 1e-6):
            return [], NOT_SEEN
        levels = Levels.of(strengths, self.settings)
        shown = frames_showing(strengths, levels, self.settings)
        if len(shown) > self.settings.max_frames:
            return [], EVERYWHERE
        erased: list[Erased] = []
        for index in sorted(shown, key=lambda i: -strengths[i]):  # the likeliest to fail first
            frame, problem = self._erase_frame(phrase, index, views[index], levels)
            if frame is None:
                return erased, problem
            erased.append(frame)
        return sorted(erased, key=lambda frame: frame.index), None

    def _erase_frame(
        self, phrase: str, index: int, view: View, levels: Levels
    ) -> tuple[Erased | None, str | None]:
        picture, features = view.picture, view.features
        mask = np.zeros(picture.shape[:2], dtype=bool)
        before = float(self.detector.strengths(phrase, [view])[0])
        kept = (1.0 - self.settings.drop) * (before - levels.background)
        target = max(levels.background + kept, levels.at(self.settings.trailing))
        for _ in range(self.settings.rounds):
            detections = self.detector.detect(phrase, [View(picture, features)])[0]
            strong = [d for d in detections if d.strength >= max(target, 0.85 * before)]
            fresh = [d for d in detections if d.strength >= target]
            for item in tightest(strong or fresh or detections[:1]):
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
