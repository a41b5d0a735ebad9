"""LaMa (Suvorov et al. 2022) from its TorchScript file, called directly.

The common wrapper package pins old numpy and pillow; the file alone needs torch only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from semflip_core.errors import AssetError, MissingExtraError
from semflip_core.frames import Picture
from semflip_train.synthesis.inpaint import Mask, check_mask

#: The network halves the picture three times.
MULTIPLE = 8


class Lama:
    """Large-mask inpainting with Fourier convolutions.

    Args:
        model: path of the TorchScript file (``big-lama.pt``).
        device: torch device.

    Raises:
        AssetError: there is no such file, or it is no TorchScript module.
    """

    name = "lama"

    def __init__(self, model: str | Path | None = None, device: str = "cpu") -> None:
        try:
            import torch
        except ImportError as error:
            raise MissingExtraError("torch", "train", "inpainting with LaMa") from error
        file = Path(model) if model else None
        if file is None or not file.is_file():
            raise AssetError(
                f"LaMa's TorchScript file {file or '(none given)'} is not there: name it as "
                "synthesis.inpainter_model, or use inpainter patchmatch, which needs no weights"
            )
        self._torch = torch
        self._device = device
        try:
            load: Any = torch.jit.load
            self._model: Any = load(str(file), map_location=device).eval()
        except (RuntimeError, ValueError) as error:
            raise AssetError(f"{file}: not a TorchScript module: {error}") from error

    def fill(self, rgb: Picture, mask: Mask) -> Picture:
        """See :class:`~semflip_train.synthesis.inpaint.Inpainter`; padded to 8 and cropped back."""
        check_mask(rgb, mask)
        torch = self._torch
        height, width = mask.shape
        pad = ((0, -height % MULTIPLE), (0, -width % MULTIPLE))
        image = np.pad(rgb, (*pad, (0, 0)), mode="symmetric").astype(np.float32) / 255.0
        hole = np.pad(mask, pad, mode="symmetric").astype(np.float32)
        with torch.inference_mode():
            filled = self._model(
                torch.from_numpy(image.transpose(2, 0, 1))[None].to(self._device),
                torch.from_numpy(hole)[None, None].to(self._device),
            )
        made = filled[0].permute(1, 2, 0).cpu().numpy()[:height, :width]
        made = np.clip(np.round(made * 255.0), 0, 255).astype(np.uint8)
        result: Picture = np.where(mask[..., None], made, rgb).astype(np.uint8)
        return result
