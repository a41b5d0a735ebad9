"""Painting models over, so that a colour is a fact about this room and not about the word.

Were every bathtub white and every extinguisher red, a gate could refuse "the blue bathtub" without
looking. Things that come in any colour are therefore painted in a colour drawn for the scene.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from semflip_train.simulation.meshes import MeshPart
from semflip_train.simulation.things import Thing

#: Colours in words, as sRGB in [0, 1].
PAINTS: dict[str, tuple[float, float, float]] = {
    "red": (0.78, 0.10, 0.10),
    "blue": (0.12, 0.26, 0.74),
    "green": (0.14, 0.52, 0.20),
    "yellow": (0.95, 0.80, 0.12),
    "black": (0.06, 0.06, 0.07),
    "white": (0.94, 0.94, 0.92),
    "orange": (0.95, 0.46, 0.08),
    "purple": (0.45, 0.18, 0.62),
    "pink": (0.96, 0.52, 0.68),
}
#: Parts whose colour is this near the main one's are painted with it.
SAME_COLOUR = 0.28


def draw_paint(rng: np.random.Generator, things: Iterable[Thing], share: float) -> dict[str, str]:
    """Colours for a scene: model key -> colour, for about ``share`` of the paintable models."""
    drawn: dict[str, str] = {}
    names = tuple(PAINTS)
    for thing in things:
        for key in sorted(thing.models):
            lot, colour = rng.random(), names[int(rng.integers(len(names)))]
            if thing.paintable(key) and lot < share:
                drawn[key] = colour
    return drawn


def painted(parts: tuple[MeshPart, ...], colour: str) -> tuple[MeshPart, ...]:
    """A model in another colour; textures keep their light and dark."""
    chosen = _main_parts(parts)
    rgb = np.array(PAINTS[colour])
    mean = float(np.mean([_brightness(_colour(parts[index])) for index in chosen]))
    result = list(parts)
    for index in chosen:
        part = parts[index]
        tone = float(np.clip(_brightness(_colour(part)) / max(mean, 0.05), 0.7, 1.2))
        if part.texture is None:
            r, g, b = (float(value) for value in np.clip(rgb * tone, 0.0, 1.0))
            result[index] = replace(part, rgba=(r, g, b, part.rgba[3]))
        else:
            grey = part.texture[..., :3].mean(axis=2, keepdims=True)
            relief = np.clip(grey / max(float(grey.mean()), 1.0), 0.55, 1.35)
            texture = np.clip(relief * rgb * 255.0, 0, 255).astype(np.uint8)
            result[index] = replace(part, texture=texture)
    return tuple(result)


def takes_paint(parts: tuple[MeshPart, ...]) -> bool:
    """Whether anything of a model can be painted; what is all glass stays as it is."""
    return bool(_main_parts(parts))


def _main_parts(parts: tuple[MeshPart, ...]) -> list[int]:
    areas = [_area(part) if part.rgba[3] > 0.9 else 0.0 for part in parts]
    main = _colour(parts[int(np.argmax(areas))])
    return [
        index
        for index, part in enumerate(parts)
        if areas[index] > 0.0 and np.linalg.norm(_colour(part) - main) < SAME_COLOUR
    ]


def _area(part: MeshPart) -> float:
    a, b, c = (part.vertices[part.faces[:, corner]] for corner in range(3))
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2.0)


def _colour(part: MeshPart) -> NDArray[np.float64]:
    if part.texture is None:
        return np.array(part.rgba[:3])
    return np.asarray(part.texture[..., :3].reshape(-1, 3).mean(axis=0) / 255.0, np.float64)


def _brightness(colour: NDArray[np.float64]) -> float:
    return float(colour.mean())
