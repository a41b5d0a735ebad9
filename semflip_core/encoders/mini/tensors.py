"""Reading the safetensors files of numbers that ship with mini."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semflip_core.errors import EncoderError


def read_tensors(
    file: Path, what: str, cure: str
) -> tuple[dict[str, NDArray[np.float32]], Mapping[str, str]]:
    """All tensors of a file as float32, and its metadata.

    Args:
        what: the file's content, for the message when it is missing.
        cure: what makes the file.

    Raises:
        EncoderError: the file is missing or damaged.
    """
    from safetensors import SafetensorError, safe_open

    if not file.is_file():
        raise EncoderError(f"{file}: no such {what}; {cure}")
    try:
        with safe_open(file, framework="numpy") as opened:
            metadata = opened.metadata() or {}
            tensors = {
                name: opened.get_tensor(name).astype(np.float32)
                for name in opened.keys()  # noqa: SIM118
            }
    except (SafetensorError, OSError, ValueError) as error:
        raise EncoderError(f"{file}: not a readable safetensors file: {error}") from error
    return tensors, metadata
