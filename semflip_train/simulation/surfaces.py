"""Floors, walls, rugs, paintings and windows, painted by a seeded generator: no files, no rights.

Pictures here are ``(height, width, 3)`` uint8 RGB.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from semflip_core.frames import Picture
from semflip_train.simulation.meshes import MeshPart

Colour = tuple[float, float, float]

PIXELS_PER_METRE = 110
SKIRTING_M = 0.09

WALL_COLOURS: tuple[Colour, ...] = (
    (236, 232, 222), (226, 220, 205), (214, 222, 226), (222, 228, 214), (232, 214, 198),
    (203, 213, 222), (240, 238, 234), (216, 205, 190), (198, 208, 196), (228, 210, 208),
    (205, 198, 212), (244, 228, 190),
)  # fmt: skip
WOODS: tuple[Colour, ...] = (
    (176, 130, 84), (150, 102, 62), (198, 158, 112), (118, 80, 52), (208, 178, 138),
    (164, 140, 116), (140, 112, 92),
)  # fmt: skip
CARPETS: tuple[Colour, ...] = (
    (138, 140, 146), (168, 154, 136), (104, 116, 134), (150, 130, 118), (122, 134, 118),
)  # fmt: skip
TILES: tuple[Colour, ...] = ((208, 206, 200), (176, 178, 180), (196, 178, 156), (224, 220, 214))
STRONG: dict[str, Colour] = {
    "red": (178, 42, 40),
    "blue": (44, 78, 160),
    "green": (62, 128, 70),
    "yellow": (222, 184, 56),
    "orange": (218, 122, 42),
    "purple": (112, 64, 140),
    "grey": (128, 128, 132),
    "brown": (120, 84, 56),
}

FLOORS = ("planks", "carpet", "tiles", "concrete", "parquet")
WALLS = ("paint", "paint", "paint", "stripes", "dado")


def _noise(rng: np.random.Generator, height: int, width: int, cell: int) -> NDArray[np.float32]:
    """Smooth noise in about [-1, 1] with features of ``cell`` pixels."""
    coarse = rng.standard_normal((height // cell + 2, width // cell + 2)).astype(np.float32)
    picture = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(picture, np.float32)


def _solid(height: int, width: int, colour: Colour) -> NDArray[np.float32]:
    return np.tile(np.array(colour, np.float32), (height, width, 1))


def _finish(values: NDArray[np.float32]) -> Picture:
    return np.clip(values, 0, 255).astype(np.uint8)


def pick(rng: np.random.Generator, colours: tuple[Colour, ...]) -> Colour:
    """One colour, slightly varied."""
    base = np.array(colours[int(rng.integers(len(colours)))]) + rng.normal(0, 5, 3)
    return (float(base[0]), float(base[1]), float(base[2]))


def floor(rng: np.random.Generator, kind: str, width_m: float, depth_m: float) -> Picture:
    """A floor covering of ``width_m`` x ``depth_m``."""
    height, width = round(depth_m * PIXELS_PER_METRE), round(width_m * PIXELS_PER_METRE)
    if kind in ("planks", "parquet"):
        return _planks(rng, height, width, 0.14 if kind == "planks" else 0.07)
    if kind == "carpet":
        values = _solid(height, width, pick(rng, CARPETS))
        grain = rng.normal(0, 7, (height, width, 1)).astype(np.float32)
        return _finish(values + grain + 4 * _noise(rng, height, width, 30)[..., None])
    if kind == "tiles":
        return tiles(rng, height, width, float(rng.choice([0.3, 0.4, 0.6])), pick(rng, TILES))
    values = _solid(height, width, (150, 148, 144))
    mottled = 7 * _noise(rng, height, width, 40) + 4 * _noise(rng, height, width, 9)
    return _finish(values + mottled[..., None])


def _planks(rng: np.random.Generator, height: int, width: int, plank_m: float) -> Picture:
    values = _solid(height, width, pick(rng, WOODS))
    rows = max(4, round(plank_m * PIXELS_PER_METRE))
    grain = _noise(rng, height, max(4, width // 24), 3)
    stretched = Image.fromarray(grain).resize((width, height), Image.Resampling.BICUBIC)
    values += 6 * np.asarray(stretched, np.float32)[..., None]
    for top in range(0, height, rows):
        left = -int(rng.integers(1, round(1.2 * PIXELS_PER_METRE)))
        while left < width:
            right = left + int(rng.integers(60, 180))
            values[top : top + rows, max(left, 0) : right] *= rng.uniform(0.9, 1.08)
            values[top : top + rows, max(right - 1, 0) : right] *= 0.78
            left = right
        values[top : top + 1] *= 0.75
    return _finish(values)


def tiles(
    rng: np.random.Generator, height: int, width: int, tile_m: float, colour: Colour
) -> Picture:
    """Square tiles with joints."""
    values = _solid(height, width, colour) + 3 * _noise(rng, height, width, 25)[..., None]
    side = max(6, round(tile_m * PIXELS_PER_METRE))
    for top in range(0, height, side):
        for left in range(0, width, side):
            values[top : top + side, left : left + side] *= rng.uniform(0.96, 1.03)
    values[::side] *= 0.72
    values[:, ::side] *= 0.72
    return _finish(values)


def wall(
    rng: np.random.Generator,
    kind: str,
    colour: Colour,
    second: Colour,
    length_m: float,
    height_m: float,
    shaded: Iterable[tuple[float, float, float, float]] = (),
) -> Picture:
    """A wall with skirting board, darker towards its edges and behind furniture.

    Args:
        shaded: ``(from, to, low, high)`` in metres of what is close in front of it.
    """
    height, width = round(height_m * PIXELS_PER_METRE), round(length_m * PIXELS_PER_METRE)
    values = _solid(height, width, colour)
    metre = PIXELS_PER_METRE
    if kind == "stripes":
        stripe = max(6, round(0.11 * metre))
        for left in range(0, width, 2 * stripe):
            values[:, left : left + stripe] = np.array(second, np.float32)
    elif kind == "dado":
        values[height - round(0.95 * metre) :] = np.array(second, np.float32)
        values[height - round(0.99 * metre) : height - round(0.95 * metre)] = (238, 236, 230)
    elif kind == "brick":
        values = _bricks(rng, height, width)
    elif kind == "tiled":
        rows = round(1.5 * metre)
        values[height - rows :] = tiles(rng, rows, width, 0.15, (232, 234, 236))
    values += 2.0 * _noise(rng, height, width, 60)[..., None] + rng.normal(
        0, 1.2, (height, width, 1)
    )
    values *= _edge_shade(height, width)[..., None]
    values *= _shadow(height, width, shaded)[..., None]
    skirting = round(SKIRTING_M * metre)
    board = (236, 234, 228) if kind != "brick" else (96, 84, 74)
    values[height - skirting :] = np.array(board, np.float32)
    values[height - skirting - 1 : height - skirting + 1] *= 0.8
    return _finish(values)


def _bricks(rng: np.random.Generator, height: int, width: int) -> NDArray[np.float32]:
    values = _solid(height, width, (188, 178, 168))
    tall, wide = 8, 25
    for row, top in enumerate(range(0, height, tall)):
        for left in range(-(row % 2) * wide // 2, width, wide):
            colour = np.array((164, 88, 66)) * rng.uniform(0.82, 1.12)
            values[top : top + tall - 1, max(left, 0) : max(left + wide - 1, 0)] = colour
    return values


def _edge_shade(height: int, width: int) -> NDArray[np.float32]:
    """Light is weaker in corners: a factor that falls to 0.86 within 40 cm of the edges."""
    reach = 0.4 * PIXELS_PER_METRE
    x, y = np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32)
    near_x = np.exp(-np.minimum(x, width - 1 - x) / reach)
    near_y = np.exp(-np.minimum(y, height - 1 - y) / reach)
    shade = (1.0 - 0.13 * near_x[None, :]) * (1.0 - 0.12 * near_y[:, None])
    return np.asarray(shade, np.float32)


def _shadow(
    height: int, width: int, shaded: Iterable[tuple[float, float, float, float]]
) -> NDArray[np.float32]:
    mask = Image.new("L", (width, height), 255)
    draw = ImageDraw.Draw(mask)
    metre = PIXELS_PER_METRE
    for left, right, low, high in shaded:
        box = (left * metre, height - high * metre, right * metre, height - low * metre)
        draw.rectangle(box, fill=178)
    return np.asarray(mask.filter(ImageFilter.GaussianBlur(9)), np.float32) / 255.0


def shade_floor(
    picture: Picture, footprints: Iterable[NDArray[np.float64]], origin: tuple[float, float]
) -> Picture:
    """Soft shadows under what stands on a floor, and along its walls.

    Args:
        footprints: ``(corners, 2)`` outlines in metres.
        origin: of the picture's lower left corner, metres.
    """
    height, width = picture.shape[:2]
    mask = Image.new("L", (width, height), 255)
    draw = ImageDraw.Draw(mask)
    for outline in footprints:
        points = (outline - np.array(origin)) * PIXELS_PER_METRE
        draw.polygon([(float(x), float(height - y)) for x, y in points], fill=95)
    soft = np.asarray(mask.filter(ImageFilter.GaussianBlur(8)), np.float32) / 255.0
    wide = np.asarray(mask.filter(ImageFilter.GaussianBlur(26)), np.float32) / 255.0
    shade = (0.6 * soft + 0.4 * wide) * _edge_shade(height, width)
    return _finish(picture.astype(np.float32) * shade[..., None])


def painting(rng: np.random.Generator) -> Picture:
    """An abstract or a landscape, 200 x 150 pixels."""
    values = _solid(150, 200, pick(rng, tuple(STRONG.values())))
    if rng.random() < 0.5:
        sky, land = pick(rng, ((150, 188, 222), (228, 190, 150))), pick(rng, tuple(STRONG.values()))
        values[:] = np.array(sky, np.float32)
        for layer in range(3):
            line = 70 + 25 * layer + 14 * _noise(rng, 4, 200, 40)[0]
            below = np.arange(150)[:, None] > line[None, :]
            values[below] = np.array(land, np.float32) * (0.6 + 0.2 * layer)
    else:
        picture = Image.fromarray(_finish(values))
        draw = ImageDraw.Draw(picture)
        for _ in range(int(rng.integers(4, 9))):
            x, y, size = rng.integers(0, 200), rng.integers(0, 150), rng.integers(15, 60)
            colour = tuple(int(v) for v in np.clip(pick(rng, tuple(STRONG.values())), 0, 255))
            box = (int(x - size), int(y - size), int(x + size), int(y + size))
            (draw.ellipse if rng.random() < 0.5 else draw.rectangle)(box, fill=colour)
        values = np.array(picture, np.float32)
    return _finish(values + 6 * _noise(rng, 150, 200, 12)[..., None])


def rug(rng: np.random.Generator, colour: Colour, width_m: float, depth_m: float) -> Picture:
    """A woven rug with a border."""
    height, width = round(depth_m * PIXELS_PER_METRE), round(width_m * PIXELS_PER_METRE)
    values = _solid(height, width, colour)
    light = np.array(colour, np.float32) * 0.45 + 130
    for inset in (10, 22):
        edge = 3 if inset == 10 else 6
        frame = np.zeros((height, width), bool)
        frame[inset : height - inset, inset : width - inset] = True
        frame[inset + edge : height - inset - edge, inset + edge : width - inset - edge] = False
        values[frame] = light
    return _finish(values + rng.normal(0, 6, (height, width, 1)).astype(np.float32))


def outdoors(rng: np.random.Generator) -> Picture:
    """What a window shows: sky, far trees, a lawn; 120 x 120 pixels."""
    rows = np.linspace(0, 1, 120, dtype=np.float32)[:, None, None]
    values = (1 - rows) * np.array((150, 190, 235), np.float32) + rows * np.array(
        (228, 236, 242), np.float32
    )
    values = np.tile(values, (1, 120, 1))
    line = 78 + 9 * _noise(rng, 4, 120, 14)[0]
    values[np.arange(120)[:, None] > line[None, :]] = (86, 122, 82)
    values[102:] = (138, 164, 98)
    return _finish(values + 5 * _noise(rng, 120, 120, 8)[..., None])


def panel(
    origin: tuple[float, float, float],
    along: tuple[float, float, float],
    up: tuple[float, float, float],
    texture: Picture | None,
    colour: Colour = (255.0, 255.0, 255.0),
    *,
    window: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0),
    step_m: float = 0.4,
) -> MeshPart:
    """A flat rectangle, seen from the side that ``along x up`` points to, finely divided.

    MuJoCo lights corners of triangles only, so a wall of two triangles would look flat.

    Args:
        origin: lower left corner; ``along`` and ``up`` span it, metres.
        window: ``(left, bottom, right, top)`` share of the texture that it shows.
    """
    a, b, corner = (np.array(v, np.float64) for v in (along, up, origin))
    columns = max(1, int(np.ceil(np.linalg.norm(a) / step_m)))
    rows = max(1, int(np.ceil(np.linalg.norm(b) / step_m)))
    grid = np.meshgrid(np.linspace(0, 1, columns + 1), np.linspace(0, 1, rows + 1))
    s, t = (values.ravel() for values in grid)
    vertices = corner + s[:, None] * a + t[:, None] * b
    normal = np.cross(a, b)
    normal /= np.linalg.norm(normal)
    left, bottom, right, top = window
    uv = np.stack([left + s * (right - left), bottom + t * (top - bottom)], axis=1)
    index = np.arange((columns + 1) * (rows + 1)).reshape(rows + 1, columns + 1)
    a0, a1, b0, b1 = index[:-1, :-1], index[:-1, 1:], index[1:, :-1], index[1:, 1:]
    faces = np.concatenate(
        [np.stack([a0, a1, b1], -1).reshape(-1, 3), np.stack([a0, b1, b0], -1).reshape(-1, 3)]
    )
    return MeshPart(
        vertices=vertices.astype(np.float32),
        normals=np.tile(normal.astype(np.float32), (len(vertices), 1)),
        uv=None if texture is None else uv.astype(np.float32),
        faces=faces.astype(np.int32),
        rgba=(colour[0] / 255.0, colour[1] / 255.0, colour[2] / 255.0, 1.0),
        texture=texture,
        shine=0.0,
    )


def block(
    centre: tuple[float, float, float],
    size: tuple[float, float, float],
    colour: Colour,
    *,
    glow: float = 0.0,
) -> MeshPart:
    """A box; ``size`` along x, y, z in metres."""
    x, y, z = (value / 2.0 for value in size)
    corners = {
        "x": ((x, -y, -z), (0, 2 * y, 0), (0, 0, 2 * z)),
        "-x": ((-x, y, -z), (0, -2 * y, 0), (0, 0, 2 * z)),
        "y": ((x, y, -z), (-2 * x, 0, 0), (0, 0, 2 * z)),
        "-y": ((-x, -y, -z), (2 * x, 0, 0), (0, 0, 2 * z)),
        "z": ((-x, -y, z), (2 * x, 0, 0), (0, 2 * y, 0)),
        "-z": ((-x, y, -z), (2 * x, 0, 0), (0, -2 * y, 0)),
    }
    sides = [panel(*side, None, colour, step_m=10.0) for side in corners.values()]
    starts = np.cumsum([0, *(len(side.vertices) for side in sides[:-1])])
    normals = [side.normals for side in sides if side.normals is not None]
    return MeshPart(
        vertices=np.concatenate([side.vertices for side in sides]) + np.array(centre, np.float32),
        normals=np.concatenate(normals),
        uv=None,
        faces=np.concatenate(
            [side.faces + start for side, start in zip(sides, starts, strict=True)]
        ).astype(np.int32),
        rgba=(colour[0] / 255.0, colour[1] / 255.0, colour[2] / 255.0, 1.0),
        texture=None,
        shine=0.0,
        glow=glow,
    )
