"""The mini encoder and retriever: public packaged weights, CPU only, no model hub."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.contract import Fingerprint, JointEmbedding, Vector
from semflip_core.encoders.joint import VERSION, JointModel
from semflip_core.encoders.joint_packing import pack, unpack
from semflip_core.encoders.joint_space import FrameView, Levels, PhraseView, Rooms, Space
from semflip_core.encoders.mini.assets import MINILM
from semflip_core.encoders.mini.backbone import WIDTH, Backbone, resize
from semflip_core.encoders.mini.colours import COLOURS, region_colours
from semflip_core.encoders.mini.colours import RULE as COLOUR_RULE
from semflip_core.encoders.mini.conse import TOP_CLASSES, conse_vectors, top_classes
from semflip_core.encoders.mini.detected import BESIDE, DetectedThings
from semflip_core.encoders.mini.detector import Detections, Detector
from semflip_core.encoders.mini.labels import LabelTable
from semflip_core.encoders.mini.phrases import PARSER, ParsedQuestion, Phrase, PhraseParser
from semflip_core.encoders.mini.projection import DEFAULT_WEIGHTS, ProjectionWeights
from semflip_core.encoders.mini.regions import LAYOUT, averages, boxes
from semflip_core.encoders.mini.text import DIMENSION, TextEncoder
from semflip_core.errors import EncoderError
from semflip_core.frames import FrameFeatures, MemoryFrame, Picture

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Looked:
    """What the networks see in a picture, before any projection.

    Args:
        pooled: ``(n, 1280)`` averages over the regions; classes and probabilities: ``(n, 10)``.
        more: arrays that are stored as they are.
    """

    pooled: Array
    classes: NDArray[np.uint16]
    probabilities: NDArray[np.float16]
    more: dict[str, NDArray[np.generic]]


class MiniEncoder:
    """Encoder and retriever in one: EfficientNet-Lite2 regions against MiniLM phrases.

    A stand-in that works on real and rendered pictures without a GPU or a hub; see
    :mod:`semflip_core.encoders.joint` for what its embedding holds.

    Args:
        weights: a projection file other than the shipped one.
        threads: threads of one picture's inference.

    Raises:
        MissingExtraError: a library or packaged weight is not installed (extra ``cpu``).
        AssetError: a packaged weight is not the expected file.
        EncoderError: the projection file is missing or damaged.
    """

    name = "mini"

    def __init__(self, weights: str | Path | None = None, threads: int = 2) -> None:
        self._backbone = Backbone(threads)
        self._text = TextEncoder()
        self._parser = PhraseParser()
        self._detector = Detector(threads=threads)
        self._project_with(ProjectionWeights.load(weights or DEFAULT_WEIGHTS))

    def _project_with(self, weights: ProjectionWeights) -> None:
        self._weights = weights
        if self._weights["mlp.mean"].shape[0] != WIDTH or len(self._weights["labels"]) != 1000:
            raise EncoderError("projection weights do not fit EfficientNet-Lite2")
        distractors = self._weights["distractors"]
        known = (
            self._weights["reference.shown"].astype(np.int64),
            self._weights["reference.names"],
        )
        self._spaces = (
            Space(
                self._weights["reference.projected"],
                self._weights.seen(distractors),
                *known,
                self._rooms(),
                self._levels(0),
            ),
            Space(self._weights["reference.conse"], distractors, *known, levels=self._levels(1)),
        )
        self._detected = DetectedThings(LabelTable(self._weights.centred), self._spaces[0])
        self._joint = JointModel(self._spaces, len(self._weights["wording.basis"]), BESIDE)

    def with_weights(self, weights: str | Path) -> MiniEncoder:
        """An encoder with the same networks, in memory once, and another projection file.

        Raises:
            EncoderError: the file is missing or damaged.
        """
        other = copy.copy(self)
        other._project_with(ProjectionWeights.load(weights))
        return other

    @property
    def dimension(self) -> int:
        """Length of the joint vector."""
        return self._joint.dimension

    @property
    def layout(self) -> dict[str, slice]:
        """Groups of features in the joint vector (:attr:`~..joint.JointModel.layout`)."""
        return self._joint.layout

    @property
    def region_dimension(self) -> int:
        """Length of a region vector."""
        return DIMENSION

    def fingerprint(self) -> Fingerprint:
        """Everything that changes a joint embedding."""
        return {
            **self.frame_fingerprint(),
            "parser": PARSER,
            "text": MINILM[2][:16],
            "weights": self._weights.digest,
            "joint": VERSION,
            "labels": self._detected.digest,
        }

    def frame_fingerprint(self) -> Fingerprint:
        """What changes stored features: backbone, scaling, regions, colours, projection."""
        return {
            "name": self.name,
            **Backbone.fingerprint(),
            "regions": LAYOUT,
            "classes": TOP_CLASSES,
            "colours": COLOUR_RULE,
            "frame_weights": self._weights.frame_digest,
            **self._detector.fingerprint(),
        }

    def encode_frame(self, rgb: Picture) -> FrameFeatures:
        """Regions of one picture and what the detector saw, about 58 kB.

        Returns:
            ``projected (n, 384)`` int8 with ``scale (n,)``; ``classes (n, 10)`` and
            ``probabilities (n, 10)`` (ConSE, unpacked at query time); ``colours (n, 11)`` uint8
            shares of 255; ``distractors (2, d)`` float16 best z-scores; ``grid (2,)`` its size;
            ``coco_*`` of :class:`~.detector.Detections`.

        Raises:
            EncoderError: not colour, or a side under 16 pixels.
        """
        return self._pack(self._look(rgb))

    def encode_frame_by(
        self, rgb: Picture, encoders: Sequence[MiniEncoder]
    ) -> tuple[FrameFeatures, ...]:
        """What each of several encoders of :meth:`with_weights` would make; looked at once."""
        looked = self._look(rgb)
        return tuple(encoder._pack(looked) for encoder in encoders)

    def _look(self, rgb: Picture) -> Looked:
        picture = resize(rgb)
        grid = self._backbone.grid(picture)
        pooled = averages(grid)
        logits = pooled @ self._backbone.class_weight.T + self._backbone.class_bias
        classes, probabilities = top_classes(logits)
        more: dict[str, NDArray[np.generic]] = {
            "colours": np.round(region_colours(picture) * 255).astype(np.uint8),
            "grid": np.array(grid.shape[:2], np.uint16),
            **self._detector.detect(rgb).arrays(),
        }
        return Looked(pooled, classes, probabilities, more)

    def _pack(self, looked: Looked) -> FrameFeatures:
        conse = conse_vectors(looked.classes, looked.probabilities, self._weights["labels"])
        packed, scale = pack(self._weights.project(looked.pooled, conse))
        projected = unpack(packed, scale)
        best = [
            space.best_distractors(regions)
            for space, regions in zip(self._spaces, (projected, conse), strict=True)
        ]
        return FrameFeatures(
            {
                "projected": packed,
                "scale": scale,
                "classes": looked.classes,
                "probabilities": looked.probabilities,
                "distractors": np.stack(best).astype(np.float16),
                **looked.more,
            }
        )

    def encode(self, question: str, frames: Sequence[MemoryFrame]) -> JointEmbedding:
        """Embed the question with the frames; see :class:`~..joint.JointModel`."""
        if not frames:
            raise EncoderError("no frames to encode; the memory is empty")
        parsed = self._parser.parse(question)
        phrases = [self._phrase_view(phrase) for phrase in parsed.phrases]
        views = [self._view(frame.record.id, frame.features) for frame in frames]
        detections = [Detections.from_arrays(frame.features.arrays) for frame in frames]
        beside = self._detected.beside(phrases, views, detections)
        return self._joint.embed(phrases, self._wording(parsed), views, beside)

    def parse(self, question: str) -> ParsedQuestion:
        """What a question asks for, as this encoder reads it."""
        return self._parser.parse(question)

    def region_vectors(self, features: FrameFeatures) -> Vector:
        """``(regions, 384)`` unit vectors of the projected regions."""
        return self._projected(features)

    def space_vectors(self, features: FrameFeatures) -> tuple[Vector, Vector]:
        """``(regions, 384)`` unit vectors of the regions, projected and by plain ConSE."""
        return self._projected(features), self._conse(features)

    def phrase_vectors(self, question: str) -> Vector:
        """``(phrases, 384)`` unit vectors of the question's phrases, the target first."""
        parsed = self._parser.parse(question)
        return self._weights.seen(
            self._weights.centred(self._text.vectors(p.text for p in parsed.phrases))
        )

    def name_vectors(self, names: Sequence[str]) -> Vector:
        """``(names, 384)`` unit vectors of names, many at once."""
        return self._weights.seen(self.meanings(names))

    def meanings(self, names: Sequence[str]) -> Vector:
        """``(names, 384)`` unit vectors by which names are compared with each other."""
        return self._weights.centred(self._text.bulk_vectors(names))

    def close(self) -> None:
        """Release the networks."""
        del self._backbone, self._detector, self._text, self._parser

    def _rooms(self) -> Rooms | None:
        if "rooms.projected" not in self._weights.tensors:
            return None
        return Rooms(
            self._weights["rooms.projected"],
            self._weights["rooms.shown"].astype(np.int64),
            self._weights["rooms.names"],
        )

    def _levels(self, space: int) -> Levels | None:
        """What is known of names in the trained space, 0, or in ConSE's, 1."""
        if "levels.names" not in self._weights.tensors:
            return None
        names = self._weights["levels.names"]
        return Levels(
            self._weights.seen(names) if space == 0 else names,
            self._weights["levels.absent"][space],
            self._weights["levels.present"][space],
            self._weights["levels.places"],
        )

    def _wording(self, parsed: ParsedQuestion) -> Array:
        return self._weights.wording_vector(self._text.vectors([parsed.wording])[0])

    def _phrase_view(self, phrase: Phrase) -> PhraseView:
        meanings = self._weights.centred(self._text.vectors([phrase.text, phrase.head]))
        seen = self._weights.seen(meanings)
        repainted = self._weights.centred(self._text.vectors(phrase.repainted()))
        return PhraseView(
            full=[seen[0], meanings[0]],
            head=[seen[1], meanings[1]],
            meanings=meanings,
            rivals=self._spaces[1].rivals(*meanings),
            colour=COLOURS.index(phrase.colour) if phrase.colour else None,
            repainted=[self._weights.seen(repainted), repainted],
            attributes=len(phrase.attributes),
            noun=phrase.noun,
        )

    def _projected(self, features: FrameFeatures) -> Array:
        a = features.arrays
        if "projected" not in a or "scale" not in a:
            raise EncoderError(f"features hold {', '.join(sorted(a))}; they are not mini's")
        return unpack(np.asarray(a["projected"]), np.asarray(a["scale"]))

    def _conse(self, features: FrameFeatures) -> Array:
        return conse_vectors(
            np.asarray(features.arrays["classes"], np.uint16),
            np.asarray(features.arrays["probabilities"], np.float16),
            self._weights["labels"],
        )

    def _view(self, key: int, features: FrameFeatures) -> FrameView:
        best = np.asarray(features.arrays["distractors"], np.float32)
        rows, columns = (int(v) for v in features.arrays["grid"])
        return FrameView(
            key=key,
            regions=self.space_vectors(features),
            distractors=(best[0], best[1]),
            boxes=boxes(rows, columns),
            colours=np.asarray(features.arrays["colours"], np.float32) / np.float32(255),
        )
