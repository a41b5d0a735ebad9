"""A detector of the 80 COCO classes: which things a picture may show, and where.

CenterNet (Zhou et al. 2019, "Objects as Points") on MobileNetV3-large 0.75, trained on MS COCO by
the author of ``610265158/mobilenetv3_centernet`` (who states mAP 0.251 at 512 pixels), converted by
Vladimir Mandic; ``python -m semflip_train.detector_convert`` makes the file. THIRD_PARTY.md has
origin and licence.

What counts as evidence is the heat map, not final boxes: how far the likeliest place of each class
gets, even where that is far below what one would draw a box at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.contract import Fingerprint
from semflip_core.encoders.mini.backbone import open_session, resize, runtime_errors
from semflip_core.encoders.mini.colours import COLOURS, colour_terms
from semflip_core.errors import EncoderError
from semflip_core.frames import Picture

Array = NDArray[np.float32]

DEFAULT_NETWORK = Path(__file__).parents[2] / "weights" / "coco_detector.onnx"
PICTURE, HEAT, SIZES = "picture", "heat", "sizes"
#: Pixels of the picture that a cell of the heat map stands for.
STRIDE = 4
PICTURE_AREA = 512 * 512
#: Places kept beside the best one of each class, and the score they need at least.
PLACES = 40
LEAST_SCORE = 0.1
#: Share of a box's sides in which its colours are looked at: the rest is often background.
INNER = 0.7
RULE = f"area{PICTURE_AREA}-places{PLACES}@{LEAST_SCORE:g}-inner{INNER:g}-1"
PREFIX = "coco_"

_CLASSES = """
person bicycle car motorcycle airplane bus train truck boat traffic_light fire_hydrant stop_sign
parking_meter bench bird cat dog horse sheep cow elephant bear zebra giraffe backpack umbrella
handbag tie suitcase frisbee skis snowboard sports_ball kite baseball_bat baseball_glove skateboard
surfboard tennis_racket bottle wine_glass cup fork knife spoon bowl banana apple sandwich orange
broccoli carrot hot_dog pizza donut cake chair couch potted_plant bed dining_table toilet tv laptop
mouse remote keyboard cell_phone microwave oven toaster sink refrigerator book clock vase scissors
teddy_bear hair_drier toothbrush
"""
#: COCO's names in the network's order.
CLASSES = tuple(name.replace("_", " ") for name in _CLASSES.split())


@dataclass(frozen=True, slots=True)
class Detections:
    """What the detector saw in one picture, 1.6 kB and up to 0.7 kB more for its places.

    Boxes are x0, y0, x1, y1 in 1/255 of the picture; colours are the shares, in 1/255, of the terms
    of :data:`~.colours.COLOURS` in the inner part of a box.

    Args:
        best: ``(80,)`` float16 in [0, 1], the highest score of each class anywhere.
        where: ``(80, 4)`` uint8, the box there.
        colours: ``(80, 11)`` uint8, its colours.
        rival: ``(80,)`` uint8, the other class that scores most at that place.
        rival_score: ``(80,)`` float16, its score there.
        classes: ``(n,)`` uint8, the strongest places of any class, strongest first.
        scores: ``(n,)`` float16, theirs.
        boxes: ``(n, 4)`` uint8, theirs.
        box_colours: ``(n, 11)`` uint8, theirs.
    """

    best: NDArray[np.float16]
    where: NDArray[np.uint8]
    colours: NDArray[np.uint8]
    rival: NDArray[np.uint8]
    rival_score: NDArray[np.float16]
    classes: NDArray[np.uint8]
    scores: NDArray[np.float16]
    boxes: NDArray[np.uint8]
    box_colours: NDArray[np.uint8]

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """To be stored among a frame's features, each name with ``coco_`` before it."""
        return {PREFIX + name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> Detections:
        """Read back :meth:`arrays`; others are left alone.

        Raises:
            EncoderError: one is missing; the features were made without a detector.
        """
        missing = [name for name in cls.__slots__ if PREFIX + name not in arrays]
        if missing:
            raise EncoderError(f"features lack {PREFIX}{missing[0]}; they are of another mini")
        found: dict[str, NDArray[np.generic]] = {n: arrays[PREFIX + n] for n in cls.__slots__}
        return cls(**found)  # type: ignore[arg-type]


class Detector:
    """The frozen network by ONNX Runtime, on the CPU.

    Args:
        network: a file other than the shipped one.
        threads: threads of one inference; results do not depend on it beyond rounding.

    Attributes:
        digest: hash of the network's file.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        EncoderError: the file is missing or no such network.
    """

    def __init__(self, network: str | Path | None = None, threads: int = 2) -> None:
        self.path = Path(network or DEFAULT_NETWORK)
        try:
            content = self.path.read_bytes()
            self._session = open_session(content, threads)
        except OSError as error:
            raise EncoderError(
                f"{self.path}: no such network; make it with: "
                "python -m semflip_train.detector_convert"
            ) from error
        except runtime_errors() as error:
            raise EncoderError(f"{self.path}: no network that can be run: {error}") from error
        self.digest = hashlib.sha256(content).hexdigest()[:16]
        outputs = [output.name for output in self._session.get_outputs()]
        if outputs != [HEAT, SIZES]:
            raise EncoderError(f"{self.path}: gives {', '.join(outputs)}, not {HEAT}, {SIZES}")

    def fingerprint(self) -> Fingerprint:
        """What changes what is stored per frame."""
        return {"detector": self.digest, "detector_rule": RULE}

    def detect(self, rgb: Picture) -> Detections:
        """What a picture ``(height, width, 3)`` uint8 RGB may show.

        Raises:
            EncoderError: not colour of 8 bits, or a side under 16 pixels.
        """
        picture = resize(rgb, PICTURE_AREA)
        heat, sizes = self.maps(picture)
        flat = heat.reshape(len(heat), -1)
        at = flat.argmax(axis=1)
        every = np.arange(len(heat))
        best = flat[every, at]
        there = flat[:, at].copy()  # (class, place of another)
        there[every, every] = -1.0
        rival = there.argmax(axis=0)
        classes, places = _peaks(heat)
        where, boxes = _boxes(at, sizes), _boxes(places, sizes)
        terms = _summed_colours(picture)
        return Detections(
            best=best.astype(np.float16),
            where=where,
            colours=_colours(terms, where),
            rival=rival.astype(np.uint8),
            rival_score=there[rival, every].astype(np.float16),
            classes=classes.astype(np.uint8),
            scores=flat[classes, places].astype(np.float16),
            boxes=boxes,
            box_colours=_colours(terms, boxes),
        )

    def maps(self, picture: Picture) -> tuple[Array, Array]:
        """Heat map ``(80, rows, columns)`` in [0, 1] and box sides ``(4, rows, columns)``.

        The sides are how far left, up, right and down a box reaches from a cell's corner, in
        pixels.

        Args:
            picture: RGB whose sides are multiples of 32 pixels.
        """
        planes = picture.transpose(2, 0, 1)[None].astype(np.float32)
        heat, sizes = self._session.run([HEAT, SIZES], {PICTURE: planes})
        return heat[0], sizes[0]


def _peaks(heat: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Classes and flat cells of the strongest local maxima, strongest first."""
    _, rows, columns = heat.shape
    classes, y, x = np.nonzero(heat >= LEAST_SCORE)
    scores = heat[classes, y, x]
    highest = np.ones(len(scores), bool)
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            near = heat[classes, np.clip(y + down, 0, rows - 1), np.clip(x + right, 0, columns - 1)]
            highest &= scores >= near
    kept = np.flatnonzero(highest)
    kept = kept[np.argsort(-scores[kept], kind="stable")[:PLACES]]
    return classes[kept], y[kept] * columns + x[kept]


def _boxes(places: NDArray[np.int64], sizes: Array) -> NDArray[np.uint8]:
    """``(n, 4)`` boxes in 1/255 of the picture at flat cells."""
    _, rows, columns = sizes.shape
    y, x = np.divmod(places, columns)
    left, up, right, down = sizes.reshape(4, -1)[:, places] / STRIDE
    box = np.stack([x - left, y - up, x + right, y + down], axis=1)
    shares = box / np.array([columns, rows, columns, rows], np.float32)
    return np.round(np.clip(shares, 0.0, 1.0) * 255).astype(np.uint8)


def _summed_colours(picture: Picture) -> Array:
    """``(rows + 1, columns + 1, 11)`` colour terms of 4x4 pixels, summed from the upper left."""
    rows, columns = picture.shape[0] // STRIDE, picture.shape[1] // STRIDE
    small = picture.reshape(rows, STRIDE, columns, STRIDE, 3).mean(axis=(1, 3))
    onehot = np.eye(len(COLOURS), dtype=np.float32)[colour_terms(small.astype(np.float32))]
    summed = np.zeros((rows + 1, columns + 1, len(COLOURS)), np.float32)
    summed[1:, 1:] = onehot.cumsum(axis=0).cumsum(axis=1)
    return summed


def _colours(summed: Array, boxes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """``(n, 11)`` shares, in 1/255, of colour terms in the inner part of boxes."""
    rows, columns = summed.shape[0] - 1, summed.shape[1] - 1
    corners = boxes.astype(np.float32) / 255
    middle = (corners[:, :2] + corners[:, 2:]) / 2
    half = (corners[:, 2:] - corners[:, :2]) / 2 * INNER
    size = np.array([columns, rows], np.float32)
    low = np.clip(np.floor((middle - half) * size).astype(np.int64), 0, (columns - 1, rows - 1))
    high = np.clip(np.ceil((middle + half) * size).astype(np.int64), low + 1, (columns, rows))
    (x0, y0), (x1, y1) = low.T, high.T
    total = summed[y1, x1] - summed[y0, x1] - summed[y1, x0] + summed[y0, x0]
    area = ((y1 - y0) * (x1 - x0))[:, None]
    shares: NDArray[np.uint8] = np.round(total / area * 255).astype(np.uint8)
    return shares
