"""Fill operators: what stands where an object was erased.

All share one contract, ``fill(rgb, mask) -> rgb``: pixels outside the mask stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from semflip_core.errors import ConfigError, MissingExtraError, SynthesisError
from semflip_core.frames import Picture

Mask = NDArray[np.bool_]
"""``(height, width)``, True where something is to be erased."""


class Inpainter(Protocol):
    """Fills masked pixels."""

    name: str

    def fill(self, rgb: Picture, mask: Mask) -> Picture:
        """The picture with its masked pixels replaced.

        Args:
            rgb: ``(height, width, 3)`` uint8.
            mask: ``(height, width)``; at least one pixel must be False.

        Raises:
            SynthesisError: the mask does not fit, or covers everything.
        """


def check_mask(rgb: Picture, mask: Mask) -> None:
    """Raise where a mask does not fit its picture or leaves nothing to fill from."""
    if mask.shape != rgb.shape[:2]:
        raise SynthesisError(f"mask {mask.shape} does not fit a picture {rgb.shape[:2]}")
    if mask.all():
        raise SynthesisError("the mask covers the whole picture; nothing is left to fill from")


class PatchMatch:
    """Multi-scale PatchMatch (Barnes et al. 2009; Wexler et al. 2007): keeps edges of walls.

    Works on a scaled copy; only masked pixels are taken from it.

    Args:
        working_width: pixels.
    """

    name = "patchmatch"

    def __init__(self, working_width: int = 320) -> None:
        self._width = working_width

    def fill(self, rgb: Picture, mask: Mask) -> Picture:
        """See :class:`Inpainter`."""
        import cv2

        try:
            from patchmatch_cython import inpaint_pyramid  # type: ignore[import-untyped]
        except ImportError as error:
            raise MissingExtraError("patchmatch_cython", "train", "inpainting") from error
        check_mask(rgb, mask)
        if not mask.any():
            unchanged: Picture = rgb.copy()
            return unchanged
        height, width = rgb.shape[:2]
        scale = min(1.0, self._width / width)
        size = (max(8, round(width * scale)), max(8, round(height * scale)))
        small = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)
        small_mask = cv2.resize(mask.astype(np.uint8), size, interpolation=cv2.INTER_AREA) > 0
        if small_mask.all():
            raise SynthesisError("the mask covers the whole picture; nothing is left to fill from")
        filled = inpaint_pyramid(np.ascontiguousarray(small), small_mask, seed=0)
        large = cv2.resize(np.asarray(filled, np.uint8), (width, height))
        result: Picture = np.where(mask[..., None], large, rgb).astype(np.uint8)
        return result


class Telea:
    """Fast marching (Telea 2004): quick, smears."""

    name = "telea"

    def __init__(self, radius: float = 5.0) -> None:
        self._radius = radius

    def fill(self, rgb: Picture, mask: Mask) -> Picture:
        """See :class:`Inpainter`."""
        import cv2

        check_mask(rgb, mask)
        filled: Picture = cv2.inpaint(
            rgb, mask.astype(np.uint8), self._radius, cv2.INPAINT_TELEA
        ).astype(np.uint8)
        return filled


class MeanFill:
    """The mean colour of what is left; for the fill ablation."""

    name = "mean"

    def fill(self, rgb: Picture, mask: Mask) -> Picture:
        """See :class:`Inpainter`."""
        check_mask(rgb, mask)
        filled: Picture = rgb.copy()
        filled[mask] = np.round(rgb[~mask].mean(axis=0)).astype(np.uint8)
        return filled


class BlurFill:
    """The picture itself, strongly blurred; for the fill ablation."""

    name = "blur"

    def __init__(self, share: float = 0.08) -> None:
        self._share = share

    def fill(self, rgb: Picture, mask: Mask) -> Picture:
        """See :class:`Inpainter`."""
        import cv2

        check_mask(rgb, mask)
        blurred = cv2.GaussianBlur(rgb, (0, 0), max(1.0, self._share * rgb.shape[1]))
        filled_in: Picture = np.where(mask[..., None], blurred, rgb).astype(np.uint8)
        return filled_in


def _lama(**options: Any) -> Inpainter:
    from semflip_train.synthesis.lama import Lama

    made: Inpainter = Lama(**options)
    return made


INPAINTERS: dict[str, Callable[..., Inpainter]] = {
    "patchmatch": PatchMatch,
    "telea": Telea,
    "mean": MeanFill,
    "blur": BlurFill,
    "lama": _lama,
}


def load_inpainter(name: str, **options: Any) -> Inpainter:
    """An inpainter by name.

    Raises:
        ConfigError: the name is unknown.
    """
    if name not in INPAINTERS:
        raise ConfigError(f"unknown inpainter '{name}'; known: {', '.join(sorted(INPAINTERS))}")
    return INPAINTERS[name](**options)
