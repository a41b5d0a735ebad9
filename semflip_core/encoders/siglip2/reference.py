"""What judges a similarity in a checkpoint's space: reference regions, distractors, wordings.

An arbitrary checkpoint has no training pictures of ours, so these are computed once with it, from
pictures that ship with semflip and from names, and kept in the cache.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.mini.assets import cache_folder
from semflip_core.errors import AssetError, EncoderError
from semflip_core.frames import Picture
from semflip_core.recall_names import NAMES

Array = NDArray[np.float32]

PICTURES = Path(__file__).parent / "data"
FORMAT = 1
#: Prompts of zero-shot classification, averaged (Radford et al. 2021, arXiv:2103.00020).
TEMPLATES = ("{}", "a photo of a {}", "a {} in a room")
#: How questions ask, with what they ask about replaced: one direction for each kind.
WORDINGS = (
    "where is the thing",
    "bring me to the thing",
    "what colour is the thing",
    "how many things are there",
    "which thing looks the nicest",
    "what is inside the thing",
    "does the thing work when you try it",
    "who bought the thing",
)
TENSORS = {"regions": 3, "region_mean": 1, "distractors": 2, "text_mean": 1, "wordings": 2}


@dataclass(frozen=True)
class Reference:
    """Computed for one checkpoint.

    Args:
        tensors: ``regions (pictures, regions, dim)`` and ``distractors (d, dim)`` centred unit
            vectors; ``region_mean (dim,)`` and ``text_mean (dim,)`` to centre others by (pictures
            and texts lie in two cones apart: Liang et al. 2022, arXiv:2203.02053);
            ``wordings (kinds, dim)`` centred unit vectors.
    """

    tensors: dict[str, Array]

    def __getitem__(self, name: str) -> Array:
        return self.tensors[name]

    def centred_regions(self, vectors: Array) -> Array:
        """Unit vectors of regions about the mean region."""
        return _unit(vectors - self["region_mean"])

    def centred_texts(self, vectors: Array) -> Array:
        """Unit vectors of texts about the mean name."""
        return _unit(vectors - self["text_mean"])

    @cached_property
    def wording_dimensions(self) -> int:
        """Kinds of question."""
        return len(self["wordings"])


def reference_digest() -> str:
    """Hash of everything that goes in beside the checkpoint.

    Raises:
        AssetError: the pictures are not installed.
    """
    digest = hashlib.sha256(repr((FORMAT, TEMPLATES, WORDINGS, NAMES)).encode())
    for file in _files():
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def load_reference(
    key: str,
    regions: Callable[[Picture], Array],
    texts: Callable[[Sequence[str]], Array],
) -> Reference:
    """From the cache, or computed and put there.

    Args:
        key: hash of the checkpoint's fingerprint and :func:`reference_digest`.
        regions: a picture's ``(regions, dim)`` unit vectors.
        texts: names to ``(n, dim)`` unit vectors.

    Raises:
        AssetError: pictures are missing, or the cache cannot be written.
        EncoderError: the model gives no usable vectors.
    """
    file = cache_folder() / f"siglip2-{key}.safetensors"
    if (kept := _read(file)) is not None:
        return kept
    seen = np.stack([regions(picture) for picture in _pictures()])
    names = texts(NAMES)
    region_mean, text_mean = seen.mean(axis=(0, 1)), names.mean(axis=0)
    tensors = {
        "regions": _unit(seen - region_mean),
        "region_mean": region_mean,
        "distractors": _unit(names - text_mean),
        "text_mean": text_mean,
        "wordings": _unit(texts(WORDINGS) - text_mean),
    }
    if not all(np.isfinite(value).all() for value in tensors.values()):
        raise EncoderError("the checkpoint gives NaN or infinity on ordinary pictures and names")
    # What is used is what was stored, so that the first start and the next are the same.
    stored = {name: np.ascontiguousarray(v.astype(np.float16)) for name, v in tensors.items()}
    _write(file, stored)
    return Reference({name: value.astype(np.float32) for name, value in stored.items()})


def _read(file: Path) -> Reference | None:
    """A cached reference; None where there is none that can be used."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors = {k: v.astype(np.float32) for k, v in load(file.read_bytes()).items()}
    except (OSError, SafetensorError):
        return None
    fits = all(name in tensors and tensors[name].ndim == dim for name, dim in TENSORS.items())
    return Reference(tensors) if fits else None


def _write(file: Path, tensors: dict[str, NDArray[np.float16]]) -> None:
    from safetensors.numpy import save

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
        partial.write_bytes(save(tensors))
        partial.replace(file)
    except OSError as error:
        raise AssetError(
            f"{file}: cannot be written ({error.strerror}); set SEMFLIP_CACHE to a folder that can"
        ) from error


def _files() -> list[Path]:
    files = sorted(PICTURES.glob("reference_*.jpg"))
    if not files:
        raise AssetError(f"{PICTURES}: the reference pictures are missing; install semflip again")
    return files


def _pictures() -> list[Picture]:
    from semflip_core.images import decode_compressed

    return [decode_compressed(file.read_bytes()) for file in _files()]


def _unit(rows: Array) -> Array:
    result: Array = rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-9)
    return result.astype(np.float32)
