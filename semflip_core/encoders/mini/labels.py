"""Which COCO classes a phrase means, and what the detector saw of them over the frames.

Evidence of its own beside the two spaces of region vectors, and only for phrases that name a class
or a kind of class (:mod:`.coco_names`): the first feature says whether one does, and all others are
0 where none does, which is about the middle between what present and absent things reach.

Measured alone on development data, AUROC of present against absent by the mean of the best three
frames, where the target names a class: real pictures 0.928 (60 of 101 questions of the calibration
part; the gate of joint embedding 4 has 0.770 on them), rendered rooms of seed 920 0.782 (91 of 240;
that gate 0.617) and of seed 901 0.814 (143 questions). Where a colour is asked for, its share in
the boxes tells right from wrong with 0.968 in the rooms of seed 920 (49 questions; that gate 0.845)
and 0.889 on real pictures (12; 0.694). Words were amended after a look at seed 920, so the figures
of seed 901 and of the real pictures are the fair ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.mini.coco_names import KINDS, SYNONYMS, WORDS
from semflip_core.encoders.mini.detector import CLASSES, Detections
from semflip_core.encoders.mini.tensors import read_tensors
from semflip_core.errors import EncoderError

Array = NDArray[np.float32]

DEFAULT_LABELS = Path(__file__).parents[2] / "weights" / "coco_labels.safetensors"
HEADER_KEY = "semflip_coco_labels"
#: A phrase this near to a word is that word; then what is merely similar does not count.
SAME = 0.9
#: A phrase this near to a word may be it.
ALIKE = 0.7
TOP_FRAMES = 3
NEIGHBOURS = 2
#: Log-odds between what present and absent things reach; the zero of the features.
NEUTRAL = -1.2
LEAST, MOST = 1e-4, 1 - 1e-4
#: A place counts as one more where it scores this share of the best.
AS_GOOD = 0.5
MOST_PLACES = 5
#: Where each group of features lies in :attr:`LabelEvidence.vector`.
LAYOUT = {
    "target": slice(0, 13),
    "colour": slice(13, 16),
    "weakest": slice(16, 18),
    "pair": slice(18, 21),
}
#: Length of :attr:`LabelEvidence.vector`.
DIMENSION = LAYOUT["pair"].stop


@dataclass(frozen=True, slots=True)
class Meaning:
    """The classes that a phrase means.

    Args:
        classes: ``(80,)`` True for those; none where the phrase names no class.
        certainty: cosine of the phrase to the nearest word; 0 where it names no class.
        narrower: whether only some things of the class are meant: a chair that is seen need not be
            the armchair asked for, though no chair is no armchair.
    """

    classes: NDArray[np.bool_]
    certainty: float
    narrower: bool = False

    @property
    def known(self) -> bool:
        """Whether the phrase names a class."""
        return self.certainty > 0


@dataclass(frozen=True, slots=True)
class LabelEvidence:
    """What the detector says of a question.

    Args:
        vector: ``(DIMENSION,)`` for the gate, in the groups of :data:`LAYOUT`. Target: whether it
            names a class, certainty, best and mean of the best three frames' log-odds, the same
            against what pictures reach at large, second-best frame, best frame around the best,
            margin to the class that scores most at the same place, minus the share of classes that
            stand out more, further places in the best frame that score about as well, whether the
            word is narrower than the class, the mean of the best three again where it is not.
            Colour: whether one was asked for and can be looked at, the largest share of it among
            places about as good, the share at the best. Weakest: of all phrases that name a class
            the least best log-odds, plain and against pictures at large. Pair: whether target and
            place both name a class, how well the weaker shows in the frame where both show best,
            and how far apart they are there in picture widths.
        support: ``(frames,)`` how much more each frame shows the target than pictures at large;
            0 where it names no class.
        boxes: ``(frames, 4)`` where, x0, y0, x1, y1 in [0, 1].
    """

    vector: Array
    support: Array
    boxes: Array


class LabelTable:
    """Words of the classes as vectors, and what pictures at large reach for each class.

    Args:
        centre: turns raw text vectors ``(n, 384)`` into unit vectors of the common space.
        file: other than the shipped one.

    Raises:
        EncoderError: the file is missing or damaged, or belongs to other words.
    """

    def __init__(self, centre: Callable[[Array], Array], file: str | Path | None = None) -> None:
        path = Path(file or DEFAULT_LABELS)
        tensors, self.digest = _read(path)
        self._words = centre(tensors["words"])
        self._kinds = centre(tensors["kinds"])
        self._mean = tensors["reference.mean"]
        self._deviation = tensors["reference.deviation"]
        self._class_of = np.array([CLASSES.index(name) for name in WORDS.values()])
        self._exact = np.array([word in SYNONYMS for word in WORDS])
        self._members = np.array([[c in kind for c in CLASSES] for kind in KINDS.values()])

    def meaning(self, *phrase: Array) -> Meaning:
        """The classes that a phrase means.

        Args:
            phrase: centred unit vectors ``(384,)`` of ways to put it, the fullest first; the first
                that is a word here counts, else the last (its naked noun).
        """
        found = [self._nearest(vector) for vector in phrase]
        return next((meaning for meaning in found if meaning.certainty >= SAME), found[-1])

    def _nearest(self, vector: Array) -> Meaning:
        words = self._words @ vector
        nearness = np.full(len(CLASSES), -1.0, np.float32)
        np.maximum.at(nearness, self._class_of, words)
        kinds = self._kinds @ vector
        for kind, members in zip(kinds, self._members, strict=True):
            if kind >= SAME:
                nearness[members] = np.maximum(nearness[members], kind)
        best = float(nearness.max())
        if best < ALIKE:
            return Meaning(np.zeros(len(CLASSES), bool), 0.0)
        exact = best >= SAME and max(words[self._exact].max(), kinds.max()) >= best
        return Meaning(nearness >= (SAME if best >= SAME else ALIKE), best, not exact)

    def evidence(
        self,
        meanings: Sequence[Meaning],
        frames: Sequence[Detections],
        keys: NDArray[np.int64],
        colour: int | None = None,
    ) -> LabelEvidence:
        """What the detector says of a question's phrases.

        Args:
            meanings: of each phrase, the target first.
            frames: at least one.
            keys: ``(frames,)`` rise with time; neighbours were taken one after the other.
            colour: index of the colour asked of the target, or None.
        """
        odds = _log_odds(np.stack([frame.best for frame in frames])) - np.float32(NEUTRAL)
        unusual = (odds - self._mean) / self._deviation
        target = meanings[0]
        known = [meaning for meaning in meanings if meaning.known]
        weakest = np.zeros(_length("weakest"), np.float32)
        if known:
            weakest[0] = min(odds[:, m.classes].max() for m in known)
            weakest[1] = min(unusual[:, m.classes].max() for m in known)
        support = np.zeros(len(frames), np.float32)
        if target.known:
            support = unusual[:, target.classes].max(axis=1)
        vector = np.concatenate(
            [
                _target(target, odds, unusual, frames, keys),
                _colour(target, odds, frames, colour),
                weakest,
                _pair(meanings, odds, frames),
            ]
        ).astype(np.float32)
        return LabelEvidence(vector, support, _best_boxes(target, odds, frames))


def _target(
    meaning: Meaning,
    odds: Array,
    unusual: Array,
    frames: Sequence[Detections],
    keys: NDArray[np.int64],
) -> Array:
    if not meaning.known:
        return np.zeros(_length("target"), np.float32)
    mine = odds[:, meaning.classes].max(axis=1)
    strange = unusual[:, meaning.classes].max(axis=1)
    order = np.argsort(-mine, kind="stable")
    first = int(order[0])
    near = (np.abs(keys - keys[first]) <= NEIGHBOURS) & (np.arange(len(keys)) != first)
    over_all = unusual.max(axis=0)
    others = over_all[~meaning.classes]
    frame = frames[first]
    which = int(np.flatnonzero(meaning.classes)[odds[first, meaning.classes].argmax()])
    rival = int(frame.rival[which])
    against = float(_log_odds(frame.rival_score[which])) - NEUTRAL
    margin = 0.0 if meaning.classes[rival] else float(mine[first]) - against
    alike = meaning.classes[frame.classes] & (frame.scores >= AS_GOOD * frame.best[which])
    return np.array(
        [
            1.0,
            meaning.certainty,
            mine[first],
            mine[order[:TOP_FRAMES]].mean(),
            strange.max(),
            np.sort(strange)[-TOP_FRAMES:].mean(),
            mine[order[1]] if len(order) > 1 else mine[first],
            mine[near].max() if near.any() else np.median(mine),
            margin,
            -(others > strange.max()).mean() if len(others) else 0.0,
            min(max(int(alike.sum()) - 1, 0), MOST_PLACES),
            float(meaning.narrower),
            0.0 if meaning.narrower else mine[order[:TOP_FRAMES]].mean(),
        ],
        np.float32,
    )


def _colour(
    meaning: Meaning, odds: Array, frames: Sequence[Detections], colour: int | None
) -> Array:
    if colour is None or not meaning.known:
        return np.zeros(_length("colour"), np.float32)
    mine = odds[:, meaning.classes].max(axis=1)
    most, best = [], []
    for i in np.argsort(-mine, kind="stable")[:TOP_FRAMES]:
        frame = frames[i]
        which = int(np.flatnonzero(meaning.classes)[odds[i, meaning.classes].argmax()])
        alike = meaning.classes[frame.classes] & (frame.scores >= AS_GOOD * frame.best[which])
        shares = np.append(frame.box_colours[alike, colour], frame.colours[which, colour])
        most.append(float(shares.max()) / 255)
        best.append(float(frame.colours[which, colour]) / 255)
    return np.array([1.0, max(most), np.mean(best)], np.float32)


def _pair(meanings: Sequence[Meaning], odds: Array, frames: Sequence[Detections]) -> Array:
    places = [meaning for meaning in meanings[1:] if meaning.known]
    if not meanings[0].known or not places:
        return np.zeros(_length("pair"), np.float32)
    target, place = meanings[0], places[0]
    both = np.minimum(odds[:, target.classes].max(axis=1), odds[:, place.classes].max(axis=1))
    at = int(both.argmax())
    one, other = (_best_boxes(m, odds[at : at + 1], [frames[at]])[0] for m in (target, place))
    apart = np.linalg.norm((one[:2] + one[2:] - other[:2] - other[2:]) / 2)
    return np.array([1.0, both[at], apart], np.float32)


def _best_boxes(meaning: Meaning, odds: Array, frames: Sequence[Detections]) -> Array:
    """``(frames, 4)`` where the likeliest of the classes is; the whole picture without any."""
    if not meaning.known:
        return np.tile(np.array([0, 0, 1, 1], np.float32), (len(frames), 1))
    which = np.flatnonzero(meaning.classes)[odds[:, meaning.classes].argmax(axis=1)]
    found = np.stack([frame.where[c] for frame, c in zip(frames, which, strict=True)])
    boxes: Array = found.astype(np.float32) / np.float32(255)
    return boxes


def _length(group: str) -> int:
    return int(LAYOUT[group].stop - LAYOUT[group].start)


def _log_odds(scores: NDArray[np.float16]) -> Array:
    clipped = np.clip(scores.astype(np.float32), LEAST, MOST)
    odds: Array = np.log(clipped / (1 - clipped))
    return odds


def words_digest() -> str:
    """Hash of all words and kinds, in order: vectors and words must belong together."""
    text = json.dumps([list(WORDS.items()), [(k, sorted(v)) for k, v in KINDS.items()]])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def reference_of(frames: Sequence[Detections]) -> tuple[Array, Array]:
    """What pictures at large reach: middle and spread ``(80,)`` of each class's log-odds.

    By quartiles, so that the few pictures that do show a class do not count.
    """
    odds = _log_odds(np.stack([frame.best for frame in frames])) - np.float32(NEUTRAL)
    low, middle, high = np.quantile(odds, (0.25, 0.5, 0.75), axis=0)
    spread = np.maximum((high - low) / 1.349, 0.3)
    return middle.astype(np.float32), spread.astype(np.float32)


def save_labels(path: Path, words: Array, kinds: Array, reference: tuple[Array, Array]) -> None:
    """Write the file that :class:`LabelTable` reads, in half precision.

    Args:
        words, kinds: raw text vectors ``(n, 384)`` of WORDS and KINDS, in their order.
        reference: of :func:`reference_of`.
    """
    from safetensors.numpy import save

    tensors = {
        "words": words,
        "kinds": kinds,
        "reference.mean": reference[0],
        "reference.deviation": reference[1],
    }
    data = save(
        {name: value.astype(np.float16) for name, value in tensors.items()},
        metadata={HEADER_KEY: words_digest()},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _read(path: Path) -> tuple[dict[str, Array], str]:
    cure = "make it with: python -m semflip_train.detector_labels"
    tensors, metadata = read_tensors(path, "labels", cure)
    if metadata.get(HEADER_KEY) != words_digest():
        raise EncoderError(f"{path}: vectors of other words than these; {cure}")
    shapes = {"words": len(WORDS), "kinds": len(KINDS)}
    shapes |= {"reference.mean": len(CLASSES), "reference.deviation": len(CLASSES)}
    for name, length in shapes.items():
        if name not in tensors or len(tensors[name]) != length:
            raise EncoderError(f"{path}: lacks '{name}', or it has another length")
        if not np.isfinite(tensors[name]).all():
            raise EncoderError(f"{path}: '{name}' holds NaN or infinity")
    return tensors, hashlib.sha256(path.read_bytes()).hexdigest()[:16]
