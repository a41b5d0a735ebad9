"""The weights that semflip trains for mini: regions and words into one space, and what judges them.

One safetensors file of a few MB, made by ``python -m semflip_train.projection`` (which documents
its training data). Regions are ConSE plus a residual MLP on the pooled features, words their text
vectors plus a residual MLP on those: MiniLM has "table lamp" and "reading lamp" lie together
because they are read in the same places, not because they look alike. Both last layers start at
zero, so training starts at ConSE and may only add to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.mini.conse import unit
from semflip_core.encoders.mini.tensors import read_tensors
from semflip_core.errors import EncoderError

Array = NDArray[np.float32]

HEADER_KEY = "semflip_mini"
FORMAT = 5
DEFAULT_WEIGHTS = Path(__file__).parents[2] / "weights" / "mini_projection.safetensors"

#: Where phrases are compared with regions: the trained space, and plain ConSE.
SPACES = ("projected", "conse")
#: name -> number of dimensions; lengths are checked against each other.
TENSORS = {
    "text.mean": 1,
    "labels": 2,
    "mlp.mean": 1,
    "mlp.scale": 1,
    "mlp.weight1": 2,
    "mlp.bias1": 1,
    "mlp.weight2": 2,
    "mlp.bias2": 1,
    "words.weight1": 2,
    "words.bias1": 1,
    "words.weight2": 2,
    "words.bias2": 1,
    "reference.projected": 3,
    "reference.conse": 3,
    "reference.shown": 3,
    "reference.names": 2,
    "distractors": 2,
    "wording.mean": 1,
    "wording.basis": 2,
}
#: Added by :mod:`semflip_train.projection_rooms`: all or none.
ROOM_TENSORS = {
    "rooms.projected": 3,
    "rooms.shown": 2,
    "rooms.names": 2,
    "levels.names": 2,
    "levels.absent": 2,
    "levels.present": 2,
    "levels.places": 1,
}
#: These change what a question is judged by, and nothing that is stored of a frame.
OF_QUESTIONS = ("wording.", "rooms.", "levels.")


@dataclass(frozen=True)
class ProjectionWeights:
    """Content of the weights file.

    Args:
        tensors: ``text.mean (384,)`` subtracted from every text vector; ``labels (1000, 384)``
            centred unit vectors of the ImageNet names; ``mlp.*`` the residual MLP on standardised
            features (1280-h-384, ReLU), ``words.*`` that on text vectors (384-h-384);
            ``reference.* (p, r, 384)`` regions of unrelated pictures in each space;
            ``reference.shown (p, r, 3)`` which of ``reference.names (n, 384)`` each shows, -1
            none, -2 unknown; ``distractors (d, 384)`` centred unit vectors; ``wording.*``
            directions of questions without their nouns, one for each kind of question;
            ``rooms.*`` of whole rooms ``(r, n, 384)`` regions that words are drawn to, which of
            ``rooms.names`` they show ``(r, k)``, -1 for no more; ``levels.*`` what the names
            ``levels.names (m, 384)`` reach in rooms, ``absent`` and ``present (2, m)`` in each
            space and ``places (m,)`` (:class:`~..joint_space.Levels`). Rooms and levels may be
            absent.
        header: how they were made, with ``distractor_names``.
    """

    tensors: Mapping[str, Array]
    header: Mapping[str, object]

    def __getitem__(self, name: str) -> Array:
        return self.tensors[name]

    @property
    def digest(self) -> str:
        """Hash of every tensor, for the fingerprint."""
        return self._digest(sorted(self.tensors))

    @property
    def frame_digest(self) -> str:
        """Hash of the tensors that change what is stored per frame."""
        return self._digest([n for n in sorted(self.tensors) if not n.startswith(OF_QUESTIONS)])

    def _digest(self, names: list[str]) -> str:
        digest = hashlib.sha256(str(FORMAT).encode())
        for name in names:
            digest.update(name.encode() + np.ascontiguousarray(self.tensors[name]).tobytes())
        return digest.hexdigest()[:16]

    def project(self, pooled: Array, conse: Array) -> Array:
        """``(n, 384)`` unit vectors from ``(n, 1280)`` averaged features and their ConSE vectors.

        Rows do not influence each other.
        """
        x = (pooled - self["mlp.mean"]) / self["mlp.scale"]
        return self._moved(conse, x, "mlp")

    def centred(self, text_vectors: Array) -> Array:
        """Text vectors ``(n, 384)`` as unit vectors that say what they mean, ConSE's space."""
        return unit(text_vectors - self["text.mean"])

    def seen(self, meanings: Array) -> Array:
        """Vectors ``(n, 384)`` of :meth:`centred` moved to where what they name is projected to."""
        return self._moved(meanings, meanings, "words")

    def _moved(self, start: Array, inputs: Array, network: str) -> Array:
        """Unit vectors: ``start`` and what a residual MLP adds for ``inputs``."""
        first, bias1, last, bias2 = (
            self[f"{network}.{name}"] for name in ("weight1", "bias1", "weight2", "bias2")
        )
        return unit(start + np.maximum(inputs @ first + bias1, 0.0) @ last + bias2)

    def wording_vector(self, wording: Array) -> Array:
        """``(kinds,)``: how much a wording ``(384,)`` sounds like each kind of question."""
        vector: Array = ((wording - self["wording.mean"]) @ self["wording.basis"].T).astype(
            np.float32
        )
        return vector

    def save(self, path: Path) -> None:
        """Write the file in half precision; it appears whole or not at all."""
        from safetensors.numpy import save

        data = save(
            {k: np.ascontiguousarray(v.astype(np.float16)) for k, v in self.tensors.items()},
            metadata={HEADER_KEY: json.dumps(dict(self.header), sort_keys=True)},
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        partial.write_bytes(data)
        partial.replace(path)

    @classmethod
    def load(cls, path: str | Path = DEFAULT_WEIGHTS) -> ProjectionWeights:
        """Read and check the file.

        Raises:
            EncoderError: missing, damaged, or its tensors do not fit together.
        """
        file = Path(path)
        cure = "make them with: python -m semflip_train.projection"
        tensors, metadata = read_tensors(file, "weights", cure)
        try:
            header = json.loads(metadata.get(HEADER_KEY, ""))
        except json.JSONDecodeError as error:
            raise EncoderError(f"{file}: safetensors, but no weights of mini") from error
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise EncoderError(f"{file}: weights of another format; this semflip reads {FORMAT}")
        _check(tensors, file)
        return cls(tensors, header)


def _check(tensors: Mapping[str, Array], file: Path) -> None:
    rooms = ROOM_TENSORS if any(name in tensors for name in ROOM_TENSORS) else {}
    for name, dimensions in {**TENSORS, **rooms}.items():
        if name not in tensors:
            raise EncoderError(f"{file}: lacks the tensor '{name}'")
        if tensors[name].ndim != dimensions:
            raise EncoderError(f"{file}: tensor '{name}' has shape {tensors[name].shape}")
        if not np.isfinite(tensors[name]).all():
            raise EncoderError(f"{file}: tensor '{name}' holds NaN or infinity")
    dim = tensors["text.mean"].shape[0]
    hidden = tensors["mlp.bias1"].shape[0]
    of_words = tensors["words.bias1"].shape[0]
    expected = {
        "mlp.weight1": (tensors["mlp.mean"].shape[0], hidden),
        "mlp.weight2": (hidden, dim),
        "mlp.bias2": (dim,),
        "mlp.scale": tensors["mlp.mean"].shape,
        "words.weight1": (dim, of_words),
        "words.weight2": (of_words, dim),
        "words.bias2": (dim,),
        "wording.mean": (dim,),
    }
    for name, shape in expected.items():
        if tensors[name].shape != shape:
            raise EncoderError(
                f"{file}: tensor '{name}' has shape {tensors[name].shape}, not {shape}"
            )
    for name in (
        "labels",
        "reference.projected",
        "reference.conse",
        "reference.names",
        "distractors",
        "wording.basis",
        *(("rooms.projected", "rooms.names", "levels.names") if rooms else ()),
    ):
        if tensors[name].shape[-1] != dim:
            raise EncoderError(f"{file}: tensor '{name}' has shape {tensors[name].shape}")
    shown = tensors["reference.shown"]
    if shown.shape[:2] != tensors["reference.projected"].shape[:2] or (
        shown.max(initial=-1.0) >= len(tensors["reference.names"])
    ):
        raise EncoderError(f"{file}: tensor 'reference.shown' does not fit what it speaks of")
    if rooms and (
        len(tensors["rooms.shown"]) != len(tensors["rooms.projected"])
        or tensors["rooms.shown"].max(initial=-1.0) >= len(tensors["rooms.names"])
    ):
        raise EncoderError(f"{file}: tensor 'rooms.shown' does not fit what it speaks of")
    if rooms:
        known = len(tensors["levels.names"])
        if known == 0 or tensors["levels.places"].shape != (known,):
            raise EncoderError(f"{file}: tensor 'levels.places' does not fit its names")
        for name in ("levels.absent", "levels.present"):
            if tensors[name].shape != (len(SPACES), known):
                raise EncoderError(f"{file}: tensor '{name}' has shape {tensors[name].shape}")
    if (tensors["mlp.scale"] <= 0).any():
        raise EncoderError(f"{file}: tensor 'mlp.scale' must be positive")
