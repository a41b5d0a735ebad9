"""Regions of rendered scenes with exact object masks, to train mini's projection on.

Not the benchmark's rooms: heaps of random models, at random sizes, places and lights, on painted
floors and walls, seen from near and far. What carries over to a room is breadth of vocabulary and
of views, not the furnishing. The held-out library (KatorLegaz) is never read.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.mini.backbone import STRIDE, Backbone, resize
from semflip_core.encoders.mini.regions import averages, windows
from semflip_core.frames import Picture
from semflip_core.poses import Pose
from semflip_train.pictures import jpeg
from semflip_train.projection_vocabulary import Named, painted_key
from semflip_train.simulation.catalogue import FurnitureCatalogue
from semflip_train.simulation.meshes import MeshPart, load_parts
from semflip_train.simulation.paint import PAINTS, painted, takes_paint
from semflip_train.simulation.render import Light, Renderer, Solid
from semflip_train.simulation.sequence import render_room
from semflip_train.simulation.settings import CameraSettings
from semflip_train.simulation.surfaces import (
    FLOORS,
    STRONG,
    WALL_COLOURS,
    WALLS,
    block,
    floor,
    panel,
    pick,
    wall,
)

Array = NDArray[np.float32]

ROOM_M = 6.0
WALL_M = 2.6
OBJECTS = (6, 10)
#: Models with more triangles take too long to draw.
MAX_FACES = 160_000
WIDTH, HEIGHT = 640, 480
SCENES_VERSION = 2
POOLED_VERSION = 3
POOLED_ARRAYS = ("pooled", "cover", "within", "visible")
LARGEST_M = 2.2
SMALL_M = 0.6


@dataclass(frozen=True, slots=True)
class Scene:
    """Views of one heap of objects.

    Args:
        pictures: JPEG bytes of each view, 640x480.
        labels: ``(views, height, width)`` int8, the object each pixel shows, -1 for none.
        models: catalogue key of each object, with its paint.
    """

    pictures: tuple[bytes, ...]
    labels: NDArray[np.int8]
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SceneRegions:
    """Regions of the views of one scene.

    Args:
        pooled: ``(n, 1280)`` float16 averaged features.
        cover: ``(n, objects)`` float16 share of the region that shows each object.
        within: ``(n, objects)`` float16 share of the object's pixels that lie in the region.
        visible: ``(views, objects)`` share of each picture that shows each object.
        models: key of each object.
        rooms: kind of room that each view is taken in, "" where it is none; may be empty.
    """

    pooled: NDArray[np.float16]
    cover: NDArray[np.float16]
    within: NDArray[np.float16]
    visible: Array
    models: tuple[str, ...]
    rooms: tuple[str, ...] = ()


def load_or_render(file: Path, render: Callable[[], Scene]) -> Scene:
    """A scene from its file, or rendered now and kept there."""
    from safetensors import safe_open
    from safetensors.numpy import save_file

    if not file.is_file():
        made = render()
        folder = file.parent
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {
            f"picture{n}": np.frombuffer(data, np.uint8) for n, data in enumerate(made.pictures)
        }
        packed = zlib.compress(made.labels.tobytes(), 6)
        arrays["labels"] = np.frombuffer(packed, np.uint8)
        partial = file.with_suffix(f".{os.getpid()}")
        save_file(arrays, partial, metadata={"models": " ".join(made.models)})
        partial.replace(file)
        return made
    with safe_open(file, framework="numpy") as opened:
        models = tuple(opened.metadata()["models"].split())
        count = len(opened.keys()) - 1
        pictures = tuple(opened.get_tensor(f"picture{n}").tobytes() for n in range(count))
        labels = np.frombuffer(zlib.decompress(opened.get_tensor("labels").tobytes()), np.int8)
    return Scene(pictures, labels.reshape(count, HEIGHT, WIDTH), models)


def pool(file: Path, scene: Scene, backbone: Backbone, rooms: Sequence[str] = ()) -> None:
    """Keep the pooled regions of a scene beside its file, and in which rooms its views are."""
    from safetensors.numpy import save_file

    made = scene_regions(scene, backbone)
    partial = file.with_suffix(f".{os.getpid()}")
    arrays = {name: getattr(made, name) for name in POOLED_ARRAYS}
    texts = {"models": " ".join(made.models), "rooms": ",".join(rooms)}
    save_file(arrays, partial, metadata=texts)
    partial.replace(pooled_file(file))


def load_pooled(file: Path) -> SceneRegions:
    """What :func:`pool` kept of a scene."""
    from safetensors import safe_open

    with safe_open(pooled_file(file), framework="numpy") as opened:
        texts = opened.metadata()
        arrays = {name: opened.get_tensor(name) for name in POOLED_ARRAYS}
    rooms = tuple(texts["rooms"].split(",")) if texts["rooms"] else ()
    return SceneRegions(**arrays, models=tuple(texts["models"].split()), rooms=rooms)


def pooled_file(file: Path) -> Path:
    """Where the pooled regions of a scene are."""
    return file.with_suffix(f".pooled{POOLED_VERSION}.safetensors")


def room_scene(
    catalogue: FurnitureCatalogue, *, seed: int, views: int, paint_share: float = 0.0
) -> Scene:
    """A furnished room of the simulation's training split, seen from where a robot could stand.

    Args:
        paint_share: of what comes in any colour, so much is painted over.
    """
    room = render_room(seed, catalogue, frames=views, split="train", paint_share=paint_share)
    return Scene(
        tuple(jpeg(frame.rgb, 90) for frame in room.frames),
        np.stack([frame.labels.astype(np.int8) for frame in room.frames]),
        tuple(painted_key(item.model, item.paint) for item in room.objects),
    )


def heap_scene(
    catalogue: FurnitureCatalogue,
    vocabulary: Sequence[Named],
    *,
    seed: int,
    views: int,
    paint_share: float = 0.0,
) -> Scene:
    """A heap of random models; the same seed gives the same scene.

    Args:
        paint_share: so much of everything is painted over, also what has a colour of its own:
            which colour a thing has must be learned from looking.

    Raises:
        AssetError: the models or EGL are missing.
    """
    rng = np.random.default_rng([seed, SCENES_VERSION])
    chosen, models = _choose(rng, catalogue, vocabulary)
    paint = _paint(np.random.default_rng([seed, SCENES_VERSION, 1]), len(models), paint_share)
    paint = [c if c and takes_paint(m) else "" for m, c in zip(models, paint, strict=True)]
    models = [painted(m, c) if c else m for m, c in zip(models, paint, strict=True)]
    solids, placed = _furnish(rng, models)
    camera = CameraSettings(
        width=WIDTH,
        height=HEIGHT,
        height_m=float(rng.uniform(0.9, 1.5)),
        tilt_deg=float(rng.uniform(-2, 18)),
        headlight=float(rng.uniform(0.05, 0.35)),
    )
    ambient = _colour(rng, 0.2, 0.5)
    lights = [
        Light((float(rng.uniform(-2, 2)), float(rng.uniform(-2, 2)), 2.4), _colour(rng, 0.25, 0.7))
        for _ in range(int(rng.integers(1, 4)))
    ]
    pictures, labels = [], []
    with Renderer(solids, lights, ambient, camera) as renderer:
        for pose in _poses(rng, placed, camera, views):
            view = renderer.view(pose)
            pictures.append(jpeg(_exposed(rng, view.rgb), int(rng.integers(70, 96))))
            labels.append(view.labels.astype(np.int8))
    keys = (painted_key(named.model, colour) for named, colour in zip(chosen, paint, strict=True))
    return Scene(tuple(pictures), np.stack(labels), tuple(keys))


def _paint(rng: np.random.Generator, count: int, share: float) -> list[str]:
    """A colour for ``share`` of ``count`` things, an empty string for the others."""
    drawn = rng.choice(list(PAINTS), count)
    return [str(c) if lot < share else "" for c, lot in zip(drawn, rng.random(count), strict=True)]


def _colour(rng: np.random.Generator, low: float, high: float) -> tuple[float, float, float]:
    """Light of a random strength, nearly white."""
    r, g, b = rng.uniform(low, high) * rng.uniform(0.85, 1.0, 3)
    return float(r), float(g), float(b)


def scene_regions(scene: Scene, backbone: Backbone) -> SceneRegions:
    """Pool the features of a scene's views over their regions."""
    import cv2

    rows: list[tuple[Array, Array, Array, Array]] = []
    for data, labels in zip(scene.pictures, scene.labels, strict=True):
        rgb = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
        grid = backbone.grid(resize(np.asarray(rgb, np.uint8)))
        rows.append(_measure(grid, labels, len(scene.models)))
    return SceneRegions(
        pooled=np.concatenate([r[0] for r in rows]).astype(np.float16),
        cover=np.concatenate([r[1] for r in rows]).astype(np.float16),
        within=np.concatenate([r[2] for r in rows]).astype(np.float16),
        visible=np.stack([r[3] for r in rows]).astype(np.float32),
        models=scene.models,
    )


def _measure(
    features: Array, labels: NDArray[np.int8], objects: int
) -> tuple[Array, Array, Array, Array]:
    import cv2

    rows, columns = features.shape[:2]
    size = (columns * STRIDE, rows * STRIDE)
    shown = cv2.resize(labels.view(np.uint8), size, interpolation=cv2.INTER_NEAREST).view(np.int8)
    onehot = (shown[..., None] == np.arange(objects)).astype(np.float32)
    high = wide = STRIDE
    cells = onehot.reshape(rows, high, columns, wide, objects).mean(axis=(1, 3))
    cover = averages(cells)
    total = cells.sum(axis=(0, 1))
    within = cover * _region_cells(rows, columns)[:, None] / np.maximum(total, 1e-6)
    return averages(features), cover, within, total / (rows * columns)


def _region_cells(rows: int, columns: int) -> Array:
    r0, c0, r1, c1 = windows(rows, columns).T
    cells: Array = ((r1 - r0) * (c1 - c0)).astype(np.float32)
    return cells


def _exposed(rng: np.random.Generator, rgb: Picture) -> Picture:
    """Brightness, contrast, tint and sensor noise as cameras have them."""
    x = rgb.astype(np.float32) / 255.0
    x = x ** rng.uniform(0.75, 1.3) * rng.uniform(0.8, 1.15) * rng.uniform(0.94, 1.06, 3)
    x = x + rng.normal(0, rng.uniform(0, 0.02), x.shape)
    return (np.clip(x, 0, 1) * 255).astype(np.uint8)


def _choose(
    rng: np.random.Generator,
    catalogue: FurnitureCatalogue,
    vocabulary: Sequence[Named],
) -> tuple[list[Named], list[tuple[MeshPart, ...]]]:
    """Random models, no category twice."""
    count = int(rng.integers(*OBJECTS))
    chosen: list[Named] = []
    models: list[tuple[MeshPart, ...]] = []
    for index in rng.permutation(len(vocabulary)):
        named = vocabulary[int(index)]
        if any(named.category == other.category for other in chosen):
            continue
        parts = load_parts(catalogue, named.model)
        if sum(len(part.faces) for part in parts) <= MAX_FACES:
            chosen.append(named)
            models.append(parts)
        if len(chosen) == count:
            break
    return chosen, models


def _furnish(
    rng: np.random.Generator, models: Sequence[tuple[MeshPart, ...]]
) -> tuple[list[Solid], list[tuple[NDArray[np.float64], float]]]:
    """Solids of the scene, and centre and radius of each object, metres."""
    solids = [Solid(tuple(_shell(rng)))]
    placed: list[tuple[NDArray[np.float64], float]] = []
    for label, parts in enumerate(models):
        low, high = _extent(parts)
        longest = float((high - low).max())
        scale = min(1.0, LARGEST_M / longest) * float(rng.uniform(0.85, 1.2))
        if longest < SMALL_M:
            # Small things are met close by; here they are larger instead.
            scale *= float(rng.uniform(1.0, 2.6))
        parts = tuple(replace(part, vertices=part.vertices * np.float32(scale)) for part in parts)
        size = (high - low) * scale
        radius = float(np.hypot(size[0], size[1])) / 2
        spot = _free_spot(rng, placed, radius)
        base = 0.0
        if radius < 0.6 and size[2] < 1.0 and rng.random() < (0.75 if longest < SMALL_M else 0.15):
            base = float(rng.uniform(0.35, 1.0))
            solids.append(_pedestal(rng, spot, radius, base))
        position = (float(spot[0]), float(spot[1]), base)
        solids.append(Solid(parts, position, float(rng.uniform(-math.pi, math.pi)), label))
        centre = np.array([spot[0], spot[1], base + size[2] / 2])
        placed.append((centre, max(radius, float(size[2]) / 2)))
    return solids, placed


def _extent(parts: Sequence[MeshPart]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    points = np.concatenate([part.vertices for part in parts])
    return points.min(axis=0), points.max(axis=0)


def _free_spot(
    rng: np.random.Generator, placed: Sequence[tuple[NDArray[np.float64], float]], radius: float
) -> NDArray[np.float64]:
    """The emptiest of a few random places; objects may still overlap a little, as clutter does."""
    reach = ROOM_M / 2 - min(radius, 1.2) - 0.05
    spots = rng.uniform(-reach, reach, (24, 2))
    if not placed:
        return np.asarray(spots[0])
    centres = np.stack([centre[:2] for centre, _ in placed])
    radii = np.array([r for _, r in placed])
    gaps = np.linalg.norm(spots[:, None] - centres, axis=2) - radii - radius
    return np.asarray(spots[int(gaps.min(axis=1).argmax())])


def _pedestal(
    rng: np.random.Generator, spot: NDArray[np.float64], radius: float, height: float
) -> Solid:
    side = 2 * radius * float(rng.uniform(0.8, 1.6)) + 0.1
    colours = tuple(STRONG.values()) + WALL_COLOURS
    box = block((0.0, 0.0, height / 2), (side, side, height), pick(rng, colours))
    return Solid((box,), (float(spot[0]), float(spot[1]), 0.0), float(rng.uniform(0, 3)))


def _shell(rng: np.random.Generator) -> Iterator[MeshPart]:
    """Floor and four walls, open above."""
    h = ROOM_M / 2
    covering = floor(rng, str(rng.choice(FLOORS)), ROOM_M, ROOM_M)
    yield panel((-h, -h, 0), (ROOM_M, 0, 0), (0, ROOM_M, 0), covering)
    kind, colour, second = str(rng.choice(WALLS)), pick(rng, WALL_COLOURS), pick(rng, WALL_COLOURS)
    if rng.random() < 0.2:
        colour = pick(rng, tuple(STRONG.values()))
    paper = wall(rng, kind, colour, second, ROOM_M, WALL_M)
    for corner, along in (
        ((-h, h, 0), (ROOM_M, 0, 0)),
        ((h, -h, 0), (-ROOM_M, 0, 0)),
        ((-h, -h, 0), (0, ROOM_M, 0)),
        ((h, h, 0), (0, -ROOM_M, 0)),
    ):
        yield panel(corner, along, (0, 0, WALL_M), paper)


def _poses(
    rng: np.random.Generator,
    placed: Sequence[tuple[NDArray[np.float64], float]],
    camera: CameraSettings,
    views: int,
) -> Iterator[Pose]:
    """Poses that look at each object in turn, from distances at which it fills 0.15 to 0.8."""
    order = rng.permutation(len(placed))
    half = math.radians(camera.vertical_fov_deg) / 2
    for number in range(views):
        centre, radius = placed[int(order[number % len(order)])]
        for _ in range(12):
            share = float(np.exp(rng.uniform(math.log(0.15), math.log(0.8))))
            distance = max(radius / (math.tan(half) * share), radius + 0.35)
            angle = float(rng.uniform(-math.pi, math.pi))
            x, y = centre[0] + distance * math.cos(angle), centre[1] + distance * math.sin(angle)
            inside = max(abs(x), abs(y)) < ROOM_M / 2 - 0.15
            clear = all(math.hypot(x - c[0], y - c[1]) > min(r, 0.7) + 0.15 for c, r in placed)
            if inside and clear:
                break
        else:
            x, y = np.clip([x, y], -ROOM_M / 2 + 0.2, ROOM_M / 2 - 0.2)
        yaw = math.atan2(centre[1] - y, centre[0] - x) + float(rng.normal(0, 0.2))
        quaternion = (0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2))
        yield Pose("map", (float(x), float(y), 0.0), quaternion)
