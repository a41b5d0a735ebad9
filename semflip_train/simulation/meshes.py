"""Catalogue models as meshes that MuJoCo takes: one part a material, metres, z up, cached.

MuJoCo draws one material a mesh, so a model becomes several parts. The frame of a part: x to the
right, y away from the viewer (the front faces -y), z up, origin in the middle of the underside.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semflip_core.errors import AssetError, MissingExtraError
from semflip_train.simulation.catalogue import CatalogueModel, FurnitureCatalogue, cache_folder

#: Raise when the conversion changes, so that stale caches are made anew.
CACHE_VERSION = 2
MAX_TEXTURE_SIDE = 512


@dataclass(frozen=True, slots=True)
class MeshPart:
    """Triangles of one material.

    Args:
        vertices: ``(n, 3)`` float32, metres.
        normals: ``(n, 3)`` float32 or None (MuJoCo then makes smooth ones).
        uv: ``(n, 2)`` float32 texture coordinates or None.
        faces: ``(m, 3)`` int32.
        rgba: colour and opacity in [0, 1].
        texture: ``(height, width, 3 or 4)`` uint8 or None.
        shine: specular strength in [0, 1].
        glow: light of its own in [0, 1], for lamps and windows.
    """

    vertices: NDArray[np.float32]
    normals: NDArray[np.float32] | None
    uv: NDArray[np.float32] | None
    faces: NDArray[np.int32]
    rgba: tuple[float, float, float, float]
    texture: NDArray[np.uint8] | None
    shine: float
    glow: float = 0.0


def load_parts(
    catalogue: FurnitureCatalogue, key: str, *, cache: Path | None = None
) -> tuple[MeshPart, ...]:
    """Parts of a model, from the cache or converted now.

    Raises:
        AssetError: no such model, or one that cannot be read.
        MissingExtraError: trimesh is not installed.
    """
    model = catalogue.models.get(key)
    if model is None:
        raise AssetError(f"the furniture catalogue has no model '{key}'")
    folder = (cache or cache_folder()) / "meshes"
    stamp = hashlib.sha256(f"{CACHE_VERSION} {MAX_TEXTURE_SIDE} {model}".encode()).hexdigest()[:16]
    file = folder / f"{key.replace('/', '-')}-{stamp}.npz"
    if file.is_file():
        return _read_cache(file)
    parts = convert(catalogue, model)
    folder.mkdir(parents=True, exist_ok=True)
    _write_cache(file, parts)
    return parts


def convert(catalogue: FurnitureCatalogue, model: CatalogueModel) -> tuple[MeshPart, ...]:
    """Read the OBJ of a model, split it by material, bring it to size."""
    try:
        import trimesh
    except ImportError as error:
        raise MissingExtraError("trimesh", "sim", "rendering rooms") from error
    with catalogue.archive(model) as archive:
        folder = model.path.rpartition("/")[0]
        members = {
            name.rpartition("/")[2]: name
            for name in archive.namelist()
            if name.startswith(folder + "/") and not name.endswith("/")
        }
        resolver = _resolver(archive, members)
        scene = trimesh.load(
            io.BytesIO(archive.read(model.path)),
            file_type="obj",
            resolver=resolver,
            group_material=True,
            process=False,
        )
        materials = _read_materials(archive, members)
    geometries: list[Any] = list(getattr(scene, "geometry", {"": scene}).values())
    parts = [_part(geometry, materials) for geometry in geometries if len(geometry.faces)]
    if not parts:
        raise AssetError(f"{model.path} in {model.library.file} holds no triangles")
    return _to_size(parts, model)


def _resolver(archive: zipfile.ZipFile, members: dict[str, str]) -> Any:
    from trimesh.resolvers import Resolver

    class ZipFolder(Resolver):
        def __init__(self) -> None:
            pass

        def get(self, key: str) -> bytes:
            name = key.strip().replace("\\", "/").rpartition("/")[2]
            if name not in members:
                raise FileNotFoundError(key)
            return archive.read(members[name])

        def write(self, name: str, data: object) -> None:
            raise OSError("furniture libraries are read only")

        def namespaced(self, namespace: str) -> Any:
            return self

        def keys(self) -> list[str]:
            return list(members)

    return ZipFolder()


def _read_materials(archive: zipfile.ZipFile, members: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Opacity, shine and colour of each material; trimesh keeps only part of them."""
    materials: dict[str, dict[str, Any]] = {}
    for name in sorted(members):
        if not name.lower().endswith(".mtl"):
            continue
        current: dict[str, Any] = {}
        for line in archive.read(members[name]).decode("latin-1").splitlines():
            words = line.split()
            if len(words) < 2:
                continue
            if words[0] == "newmtl":
                current = materials.setdefault(line.split(None, 1)[1].strip(), {})
            elif words[0] == "d":
                current["opacity"] = float(words[-1])
            elif words[0] in ("Kd", "Ks"):
                current[words[0]] = [float(value) for value in words[1:4]]
            elif words[0] == "map_Kd":
                current["map"] = True
    return materials


def _part(geometry: Any, materials: dict[str, dict[str, Any]]) -> MeshPart:
    visual = geometry.visual
    material = getattr(visual, "material", None)
    known = materials.get(getattr(material, "name", "") or "", {})
    uv = getattr(visual, "uv", None)
    image = getattr(material, "image", None)
    texture = _texture(image) if image is not None and uv is not None else None
    diffuse = known.get("Kd", [0.6, 0.6, 0.6])
    if texture is not None:
        diffuse = [1.0, 1.0, 1.0]
    opacity = min(max(float(known.get("opacity", 1.0)), 0.0), 1.0)
    normals = geometry.vertex_normals if "vertex_normals" in geometry._cache.cache else None
    return MeshPart(
        vertices=np.asarray(geometry.vertices, np.float32),
        normals=None if normals is None else np.asarray(normals, np.float32),
        uv=None if texture is None else np.asarray(uv, np.float32),
        faces=np.asarray(geometry.faces, np.int32),
        rgba=(float(diffuse[0]), float(diffuse[1]), float(diffuse[2]), opacity),
        texture=texture,
        shine=float(np.clip(np.mean(known.get("Ks", [0.0])), 0.0, 1.0)),
    )


def _texture(image: Any) -> NDArray[np.uint8]:
    picture = image.convert("RGBA" if "A" in image.getbands() or image.mode == "P" else "RGB")
    if max(picture.size) > MAX_TEXTURE_SIDE:
        scale = MAX_TEXTURE_SIDE / max(picture.size)
        picture = picture.resize(tuple(max(1, round(side * scale)) for side in picture.size))
    array = np.asarray(picture, np.uint8)
    if array.shape[2] == 4 and array[..., 3].min() == 255:
        array = array[..., :3]
    return np.ascontiguousarray(array)


def _to_size(parts: list[MeshPart], model: CatalogueModel) -> tuple[MeshPart, ...]:
    turn = np.array(model.rotation, np.float64).reshape(3, 3)
    turned = [part.vertices.astype(np.float64) @ turn.T for part in parts]
    low = np.min([points.min(axis=0) for points in turned], axis=0)
    high = np.max([points.max(axis=0) for points in turned], axis=0)
    width, depth, height = model.size
    extent = np.maximum(high - low, 1e-9)
    scale = np.array([width, height, depth]) / extent
    middle = np.array([(low[0] + high[0]) / 2, low[1], (low[2] + high[2]) / 2])
    upright = np.array([[1.0, 0, 0], [0, 0, -1.0], [0, 1.0, 0]])  # y up, z to viewer -> z up
    result = []
    for part, points in zip(parts, turned, strict=True):
        normals = part.normals
        if normals is not None:
            normals = (normals @ turn.T) / scale @ upright.T
            length = np.linalg.norm(normals, axis=1, keepdims=True)
            normals = (normals / np.maximum(length, 1e-9)).astype(np.float32)
        vertices = (((points - middle) * scale) @ upright.T).astype(np.float32)
        result.append(replace(part, vertices=vertices, normals=normals))
    return tuple(result)


def _write_cache(file: Path, parts: tuple[MeshPart, ...]) -> None:
    arrays: dict[str, NDArray[Any]] = {}
    about = []
    for index, part in enumerate(parts):
        about.append({"rgba": part.rgba, "shine": part.shine})
        for name in ("vertices", "normals", "uv", "faces", "texture"):
            value = getattr(part, name)
            if value is not None:
                arrays[f"{index}.{name}"] = value
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    # Several processes may convert the same model at once.
    partial = file.with_suffix(f".{os.getpid()}.npz")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    partial.replace(file)


def _read_cache(file: Path) -> tuple[MeshPart, ...]:
    with np.load(file, allow_pickle=False) as arrays:
        about = json.loads(arrays["about"].tobytes())
        parts = []
        for index, entry in enumerate(about):
            named: dict[str, Any] = {
                name: arrays[f"{index}.{name}"]
                for name in ("vertices", "normals", "uv", "faces", "texture")
                if f"{index}.{name}" in arrays
            }
            missing = dict.fromkeys(("normals", "uv", "texture"))
            about_it = {"rgba": tuple(entry["rgba"]), "shine": entry["shine"]}
            parts.append(MeshPart(**{**missing, **named, **about_it}))
    return tuple(parts)
