"""Encoder and retriever on a SigLIP 2, SigLIP or CLIP checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.contract import (
    Fingerprint,
    JointEmbedding,
    Vector,
    fingerprint_digest,
)
from semflip_core.encoders.joint import VERSION, JointModel
from semflip_core.encoders.joint_packing import pack, unpack
from semflip_core.encoders.joint_space import FrameView, PhraseView, Space
from semflip_core.encoders.mini.colours import COLOURS
from semflip_core.encoders.mini.colours import RULE as COLOUR_RULE
from semflip_core.encoders.mini.phrases import PARSER, Phrase, PhraseParser
from semflip_core.encoders.mini.regions import LAYOUT
from semflip_core.encoders.readable import check_picture
from semflip_core.encoders.siglip2 import regions
from semflip_core.encoders.siglip2.reference import (
    TEMPLATES,
    load_reference,
    reference_digest,
)
from semflip_core.encoders.siglip2.settings import SiglipSettings
from semflip_core.encoders.siglip2.towers import Towers
from semflip_core.errors import EncoderError
from semflip_core.frames import FrameFeatures, MemoryFrame, Picture
from semflip_core.settings import read_settings

Array = NDArray[np.float32]
CACHED_TEXTS = 4096
FEATURES = ("regions", "scale", "colours", "distractors", "size")


class SiglipEncoder:
    """Regions of pictures against phrases, in a contrastive model's own space.

    What the gate reads is mini's joint embedding (:mod:`semflip_core.encoders.joint`) over one
    space instead of two.

    Args:
        settings: which checkpoint, and how.

    Raises:
        MissingExtraError: a library is not installed (extra ``cpu``).
        AssetError: no such checkpoint, or a file of it is missing or damaged.
        EncoderError: a model that this encoder does not read.
    """

    name = "siglip2"

    def __init__(self, settings: SiglipSettings | None = None) -> None:
        chosen = settings or SiglipSettings()
        self._parser = PhraseParser()
        self._towers = Towers(chosen)
        self._cells = regions.cells_for(
            self._towers.dimension, self._towers.patches, chosen.feature_bytes
        )
        self._text = lru_cache(CACHED_TEXTS)(self._vector)
        made_with: dict[str, Any] = {
            **self._towers.fingerprint(),
            "regions": f"{LAYOUT}/{self._cells}/{regions.RULE}",
            "reference": reference_digest(),
        }
        self._frame_fingerprint: dict[str, Any] = {
            "name": self.name,
            **made_with,
            "colours": COLOUR_RULE,
        }
        self._reference = load_reference(
            fingerprint_digest(made_with), self._plain_regions, self._plain_texts
        )
        self._space = Space(self._reference["regions"], self._reference["distractors"])
        self._joint = JointModel((self._space,), self._reference.wording_dimensions)

    @property
    def dimension(self) -> int:
        """Length of the joint vector."""
        return self._joint.dimension

    @property
    def region_dimension(self) -> int:
        """Length of a region vector."""
        return self._towers.dimension

    def fingerprint(self) -> Fingerprint:
        """Everything that changes a joint embedding."""
        return {
            **self._frame_fingerprint,
            "parser": PARSER,
            "joint": VERSION,
            "templates": " | ".join(TEMPLATES),
        }

    def frame_fingerprint(self) -> Fingerprint:
        """What changes stored features: checkpoint, arithmetic, regions, colours, reference."""
        return dict(self._frame_fingerprint)

    def encode_frame(self, rgb: Picture) -> FrameFeatures:
        """Regions of one picture, at most 64 kB.

        Returns:
            ``regions (n, dim)`` int8 with ``scale (n,)``; ``colours (n, 11)`` uint8 shares of 255;
            ``distractors (d,)`` float16 best z-scores; ``size (2,)`` height and width.

        Raises:
            EncoderError: not colour, too small, or a strip.
        """
        check_picture(rgb, regions.MAX_ASPECT)
        vectors = self._reference.centred_regions(self._plain_regions(rgb))
        packed, scale = pack(vectors)
        colours = regions.region_colours(rgb, self._cells)
        return FrameFeatures(
            {
                "regions": packed,
                "scale": scale,
                "colours": np.round(colours * 255).astype(np.uint8),
                "distractors": self._space.best_distractors(unpack(packed, scale)).astype(
                    np.float16
                ),
                "size": np.array(rgb.shape[:2], np.uint16),
            }
        )

    def encode(self, question: str, frames: Sequence[MemoryFrame]) -> JointEmbedding:
        """Embed the question with the frames; see :class:`~..joint.JointModel`."""
        if not frames:
            raise EncoderError("no frames to encode; the memory is empty")
        parsed = self._parser.parse(question)
        phrases = [self._phrase_view(phrase) for phrase in parsed.phrases]
        wording = self._centred([parsed.wording])[0] @ self._reference["wordings"].T
        views = [self._view(frame.record.id, frame.features) for frame in frames]
        return self._joint.embed(phrases, wording, views)

    def region_vectors(self, features: FrameFeatures) -> Vector:
        """``(regions, dim)`` unit vectors about the mean region."""
        a = features.arrays
        if any(name not in a for name in FEATURES):
            raise EncoderError(f"features hold {', '.join(sorted(a))}; they are not siglip2's")
        return unpack(np.asarray(a["regions"]), np.asarray(a["scale"]))

    def phrase_vectors(self, question: str) -> Vector:
        """``(phrases, dim)`` unit vectors of the question's phrases, the target first."""
        return self._centred([phrase.text for phrase in self._parser.parse(question).phrases])

    def name_vectors(self, names: Sequence[str]) -> Vector:
        """``(names, dim)`` unit vectors of names."""
        return self._centred(names)

    def close(self) -> None:
        """Release the model."""
        self._towers.close()
        self._text.cache_clear()

    def _plain_regions(self, rgb: Picture) -> Array:
        return regions.region_vectors(self._towers, rgb, self._cells)

    def _plain_texts(self, texts: Sequence[str]) -> Array:
        """``(n, dim)`` unit vectors, each the mean over the templates."""
        rows = [self._text(text) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self._towers.dimension), np.float32)

    def _vector(self, text: str) -> Array:
        mean = self._towers.texts([t.replace("{}", text) for t in TEMPLATES]).mean(axis=0)
        row: Array = (mean / max(float(np.linalg.norm(mean)), 1e-9)).astype(np.float32)
        return row

    def _centred(self, texts: Sequence[str]) -> Array:
        return self._reference.centred_texts(self._plain_texts(texts))

    def _phrase_view(self, phrase: Phrase) -> PhraseView:
        full, head = self._centred([phrase.text, phrase.head])
        return PhraseView(
            full=[full],
            head=[head],
            meanings=np.stack([full, head]),
            rivals=self._space.rivals(full, head),
            colour=COLOURS.index(phrase.colour) if phrase.colour else None,
            repainted=[self._centred(phrase.repainted())],
            attributes=len(phrase.attributes),
            noun=phrase.noun,
        )

    def _view(self, key: int, features: FrameFeatures) -> FrameView:
        vectors = self.region_vectors(features)
        height, width = (int(v) for v in features.arrays["size"])
        return FrameView(
            key=key,
            regions=(vectors,),
            distractors=(np.asarray(features.arrays["distractors"], np.float32),),
            boxes=regions.region_boxes(self._cells, height, width),
            colours=np.asarray(features.arrays["colours"], np.float32) / np.float32(255),
        )


def load(**options: Any) -> SiglipEncoder:
    """The encoder from its options; see :class:`~.settings.SiglipSettings`.

    Raises:
        ConfigError: an option is unknown or out of range.
    """
    return SiglipEncoder(read_settings(SiglipSettings, options, "encoder 'siglip2'"))
