"""Vision-tower output of one keyframe, made once and stored with it.

numpy has no bfloat16, so bfloat16 tokens are stored as the uint16 that holds their bits: exact, and
half of float32. float16 would lose their range and the last bits of small values.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.readable import check_picture
from semflip_core.errors import EncoderError
from semflip_core.frames import FrameFeatures, Picture

if TYPE_CHECKING:
    import torch

#: Largest ratio of a picture's sides; Qwen's own resizing fails on 1 x 4000 pictures.
MAX_ASPECT = 50.0


@dataclass(frozen=True, slots=True)
class PictureTokens:
    """Stored features of one picture, checked.

    Args:
        tokens: ``(rows * columns, hidden)``; float32, float16, or uint16 bits of bfloat16.
        grid: ``(rows, columns)`` of merged tokens.
        identity: hash of the picture they were made of.
    """

    tokens: NDArray[np.generic]
    grid: tuple[int, int]
    identity: bytes

    def tensor(self, device: torch.device) -> torch.Tensor:
        """The tokens on a device, in the dtype they were made in."""
        import torch

        if self.tokens.dtype == np.uint16:
            bits = torch.from_numpy(np.array(self.tokens).view(np.int16))
            return bits.view(torch.bfloat16).to(device)
        return torch.from_numpy(np.array(self.tokens)).to(device)


def picture_tokens(features: FrameFeatures, hidden: int, dtype: str) -> PictureTokens:
    """Read stored features.

    Args:
        hidden: width of the language model.
        dtype: of the running model, ``bfloat16``, ``float16`` or ``float32``.

    Raises:
        EncoderError: they are of another encoder, or inconsistent.
    """
    arrays = features.arrays
    try:
        tokens, grid, identity = (np.asarray(arrays[k]) for k in ("tokens", "grid", "picture"))
    except KeyError as error:
        raise EncoderError(f"features lack {error}; they are not qwen2_5_vl's") from error
    stored = "uint16" if dtype == "bfloat16" else dtype
    rows, columns = (int(side) for side in grid)
    if tokens.shape != (rows * columns, hidden) or tokens.dtype != stored:
        raise EncoderError(
            f"features of {tokens.dtype} {tokens.shape} for {rows} x {columns} tokens do not fit a "
            f"{dtype} model of width {hidden}; delete them and they are made again"
        )
    return PictureTokens(tokens, (rows, columns), identity.tobytes())


class VisionTower:
    """Turns pictures into tokens of the language model.

    Args:
        model: ``Qwen2_5_VLModel``.
        processor: ``Qwen2VLImageProcessorPil`` with the pixel budget set.
        dtype: of the model, as text.
    """

    def __init__(self, model: Any, processor: Any, dtype: str) -> None:
        self._model = model
        self._processor = processor
        self._dtype = dtype

    def encode(self, rgb: Picture) -> FrameFeatures:
        """Tokens of one picture, about 391 for 640 x 480.

        Returns:
            ``tokens (n, hidden)``, ``grid (2,)`` int32 and ``picture (16,)`` uint8, its identity.

        Raises:
            EncoderError: not colour, too small or too long, or the tower gave NaN.
        """
        import torch

        check_picture(rgb, MAX_ASPECT)
        inputs = self._processor(
            images=[rgb], return_tensors="pt", input_data_format="channels_last"
        )
        device = self._model.device
        with torch.inference_mode():
            output = self._model.get_image_features(
                inputs["pixel_values"].to(device), inputs["image_grid_thw"].to(device)
            )
        tokens = output.pooler_output[0]
        if not bool(torch.isfinite(tokens).all()):
            raise EncoderError(
                f"the vision tower gave NaN or infinity in {self._dtype}; use bfloat16 or float32"
            )
        merge = self._processor.merge_size
        grid = inputs["image_grid_thw"][0, 1:].numpy() // merge
        return FrameFeatures(
            {
                "tokens": _as_numpy(tokens),
                "grid": grid.astype(np.int32),
                "picture": np.frombuffer(_identity(rgb), np.uint8),
            }
        )


def _identity(rgb: Picture) -> bytes:
    digest = hashlib.blake2b(f"{rgb.shape}".encode(), digest_size=16)
    digest.update(np.ascontiguousarray(rgb).data)
    return digest.digest()


def _as_numpy(tokens: torch.Tensor) -> NDArray[np.generic]:
    import torch

    plain = tokens.detach().cpu().contiguous()
    if plain.dtype == torch.bfloat16:
        bits: NDArray[np.generic] = plain.view(torch.int16).numpy().view(np.uint16)
        return bits
    result: NDArray[np.generic] = plain.numpy()
    return result
