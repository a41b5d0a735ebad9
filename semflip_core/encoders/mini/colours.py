"""Which of the eleven basic colour terms a region shows (Berlin and Kay 1969).

A frozen classifier forgets colour, and "the red chair" is refused or driven to because of it; so
colour is measured on the pixels and kept beside the region vectors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.mini.regions import averages
from semflip_core.frames import Picture

Array = NDArray[np.float32]

COLOURS = (
    "black",
    "white",
    "grey",
    "red",
    "orange",
    "yellow",
    "green",
    "blue",
    "purple",
    "pink",
    "brown",
)
#: Words that people use for them.
COLOUR_WORDS: dict[str, str] = {
    **{name: name for name in COLOURS},
    "gray": "grey",
    "silver": "grey",
    "beige": "brown",
    "tan": "brown",
    "golden": "yellow",
    "gold": "yellow",
    "violet": "purple",
    "lilac": "purple",
    "magenta": "pink",
    "crimson": "red",
    "scarlet": "red",
    "maroon": "red",
    "navy": "blue",
    "turquoise": "blue",
    "cyan": "blue",
    "teal": "green",
    "olive": "green",
    "lime": "green",
    "cream": "white",
    "ivory": "white",
}
RULE = "hsv11-2"
CELL_PIXELS = 32
SAMPLED = 8


def colour_grid(picture: Picture) -> Array:
    """Share of each colour term in each cell of 32x32 pixels.

    Args:
        picture: ``(height, width, 3)`` RGB, sides multiples of 32.

    Returns:
        ``(rows, columns, 11)``, each cell summing to 1.
    """
    import cv2  # resize() asked for it before any picture came here

    height, width = picture.shape[:2]
    rows, columns = height // CELL_PIXELS, width // CELL_PIXELS
    # Averages of 4x4 pixels: noise and JPEG speckle make no colours.
    size = (columns * SAMPLED, rows * SAMPLED)
    small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    terms = colour_terms(small.astype(np.float32))
    onehot = np.eye(len(COLOURS), dtype=np.float32)[terms]
    cells = onehot.reshape(rows, SAMPLED, columns, SAMPLED, len(COLOURS))
    shares: Array = cells.mean(axis=(1, 3))
    return shares


def colour_terms(rgb: Array) -> NDArray[np.int64]:
    """Index into ``COLOURS`` of each pixel of ``(..., 3)`` RGB in [0, 255]."""
    top, bottom = rgb.max(axis=-1), rgb.min(axis=-1)
    chroma = top - bottom
    value = top / 255.0
    saturation = chroma / np.maximum(top, 1.0)
    r, g, b = np.moveaxis(rgb, -1, 0)
    safe = np.maximum(chroma, 1e-6)
    hue = np.where(
        top == r, (g - b) / safe % 6.0, np.where(top == g, (b - r) / safe + 2.0, (r - g) / safe + 4)
    )
    hue = hue * 60.0
    index = {name: number for number, name in enumerate(COLOURS)}
    names = np.select(
        [
            value < 0.18,
            (saturation < 0.14) & (value > 0.80),
            (saturation < 0.17) | ((saturation < 0.3) & (value < 0.3)),
            (hue < 14) | (hue >= 345),
            (hue < 42),
            (hue < 68),
            (hue < 170),
            (hue < 258),
            (hue < 292),
            (hue < 345),
        ],
        [
            index["black"],
            index["white"],
            index["grey"],
            np.where(
                (saturation < 0.5) & (value > 0.65),
                index["pink"],
                np.where((saturation < 0.6) & (value < 0.5), index["brown"], index["red"]),
            ),
            np.where(
                (value < 0.62) | ((saturation < 0.55) & (value < 0.85)),
                index["brown"],
                index["orange"],
            ),
            np.where(value < 0.45, index["green"], index["yellow"]),
            index["green"],
            index["blue"],
            index["purple"],
            np.where((value > 0.55) & (hue >= 292), index["pink"], index["purple"]),
        ],
        default=index["grey"],
    )
    return names.astype(np.int64)


def region_colours(picture: Picture) -> Array:
    """``(regions, 11)`` share of each colour term in each region."""
    return averages(colour_grid(picture))
