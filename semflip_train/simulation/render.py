"""Pictures and exact object labels of a scene, drawn by MuJoCo without a screen (EGL)."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semflip_core.closing import Closing
from semflip_core.errors import AssetError, MissingExtraError
from semflip_core.frames import Picture
from semflip_core.poses import Pose, Vector3
from semflip_train.simulation.meshes import MeshPart
from semflip_train.simulation.settings import CameraSettings

#: MuJoCo's geom groups: 0 is drawn, this one is not.
HIDDEN_GROUP = 5
EGL_CURE = "on Debian and Ubuntu: sudo apt-get install libegl1 libgl1 libgles2"


@dataclass(frozen=True, slots=True)
class Solid:
    """Something to draw.

    Args:
        parts: meshes in its own frame (metres, z up).
        position: of that frame in the map, metres.
        yaw: about z, radians.
        label: index of the object it belongs to, or -1 for the building itself.
    """

    parts: tuple[MeshPart, ...]
    position: Vector3 = (0.0, 0.0, 0.0)
    yaw: float = 0.0
    label: int = -1


@dataclass(frozen=True, slots=True)
class Light:
    """A lamp without shadows: place in metres, brightness and colour as linear RGB."""

    position: Vector3
    diffuse: Vector3


@dataclass(frozen=True, slots=True)
class View:
    """One rendered camera frame.

    Args:
        rgb: ``(height, width, 3)`` uint8.
        labels: ``(height, width)`` int16, the object each pixel shows, -1 for the building.
    """

    rgb: Picture
    labels: NDArray[np.int16]


class Renderer(Closing):
    """Draws a scene from robot poses; use as a context manager, in one thread.

    Args:
        solids, lights: the scene, in the map frame.
        ambient: light from everywhere, linear RGB.
        camera: picture size, field of view and mount.

    Raises:
        MissingExtraError: MuJoCo is not installed.
        AssetError: there is no EGL here; names the packages that bring it.
    """

    def __init__(
        self,
        solids: Sequence[Solid],
        lights: Iterable[Light],
        ambient: Vector3,
        camera: CameraSettings,
    ) -> None:
        mujoco = _mujoco()
        self._mujoco = mujoco
        self.camera = camera
        textures: dict[str, Picture] = {}
        spec = _specification(mujoco, solids, lights, ambient, camera, textures)
        self._model = spec.compile()
        _paint_textures(self._model, textures)
        self._data = mujoco.MjData(self._model)
        mujoco.mj_forward(self._model, self._data)
        bodies = np.asarray(self._model.geom_bodyid)
        labels = np.array([-1, *(solid.label for solid in solids)], np.int16)
        #: label of each geom, then -1 for pixels that show none
        self._labels = np.append(labels[bodies], np.int16(-1))
        try:
            self._draw = mujoco.Renderer(self._model, camera.height, camera.width)
        except (RuntimeError, ImportError, AttributeError, mujoco.FatalError) as error:
            raise AssetError(
                f"MuJoCo cannot draw without a screen ({error}); it needs EGL: {EGL_CURE}"
            ) from error

    def hide(self, labels: Iterable[int]) -> None:
        """From now on draw the scene without these objects (and with all others)."""
        hidden = np.isin(self._labels[:-1], np.fromiter(labels, np.int16))
        self._model.geom_group[:] = np.where(hidden, HIDDEN_GROUP, 0)

    def view(self, pose: Pose) -> View:
        """What the robot's camera sees when its base is at ``pose``."""
        return View(self.picture(pose), self.labels(pose))

    def picture(self, pose: Pose) -> Picture:
        """Colour only; ``(height, width, 3)`` uint8 RGB."""
        self._draw.disable_segmentation_rendering()
        self._draw.update_scene(self._data, camera=self._view_camera(pose))
        picture: Picture = np.array(self._draw.render(), np.uint8)
        return picture

    def labels(self, pose: Pose) -> NDArray[np.int16]:
        """Object index of each pixel only; ``(height, width)`` int16."""
        self._draw.enable_segmentation_rendering()
        self._draw.update_scene(self._data, camera=self._view_camera(pose))
        geoms = self._draw.render()[..., 0]
        self._draw.disable_segmentation_rendering()
        return np.asarray(self._labels[geoms], np.int16)

    def _view_camera(self, pose: Pose) -> Any:
        mujoco, camera = self._mujoco, self.camera
        view = mujoco.MjvCamera()
        view.type = mujoco.mjtCamera.mjCAMERA_FREE
        x, y, _ = pose.position
        cos, sin = math.cos(pose.yaw), math.sin(pose.yaw)
        eye = np.array([x + cos * camera.forward_m, y + sin * camera.forward_m, camera.height_m])
        tilt = math.radians(camera.tilt_deg)
        view.azimuth = math.degrees(pose.yaw)
        view.elevation = -camera.tilt_deg
        view.distance = 1.0
        ahead = [cos * math.cos(tilt), sin * math.cos(tilt), -math.sin(tilt)]
        view.lookat[:] = eye + np.array(ahead)
        return view

    def close(self) -> None:
        """Give the drawing context back."""
        self._draw.close()


def _mujoco() -> Any:
    """MuJoCo with its EGL back end, which it chooses when it is first imported."""
    loaded = "mujoco" in sys.modules
    chosen = os.environ.setdefault("MUJOCO_GL", "egl")
    if loaded and "mujoco.egl" not in sys.modules and "mujoco.osmesa" not in sys.modules:
        raise AssetError(
            "mujoco was imported before without a back end that draws off screen: set "
            f"MUJOCO_GL={chosen} before the first import of it"
        )
    try:
        import mujoco  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise MissingExtraError("mujoco", "sim", "rendering rooms") from error
    except (ImportError, AttributeError, RuntimeError) as error:
        raise AssetError(f"MuJoCo needs EGL ({error}): {EGL_CURE}") from error
    return mujoco


def _specification(
    mujoco: Any,
    solids: Sequence[Solid],
    lights: Iterable[Light],
    ambient: Vector3,
    camera: CameraSettings,
    textures: dict[str, Picture],
) -> Any:
    """The scene for MuJoCo; pictures of its textures go into ``textures`` by name."""
    spec = mujoco.MjSpec()
    spec.visual.quality.offsamples = 0
    spec.visual.quality.shadowsize = 0
    spec.visual.global_.offwidth = camera.width
    spec.visual.global_.offheight = camera.height
    spec.visual.global_.fovy = camera.vertical_fov_deg
    spec.visual.map.znear = 0.02
    spec.visual.map.zfar = 40.0
    spec.stat.extent = 1.0
    spec.visual.headlight.ambient = list(ambient)
    spec.visual.headlight.diffuse = [camera.headlight] * 3
    spec.visual.headlight.specular = [0.0] * 3
    for light in lights:
        spec.worldbody.add_light(
            pos=list(light.position),
            dir=[0.0, 0.0, -1.0],
            type=mujoco.mjtLightType.mjLIGHT_SPOT,
            diffuse=list(light.diffuse),
            specular=[0.15] * 3,
            attenuation=[1.0, 0.08, 0.03],
            cutoff=180.0,  # every way: the classic renderer knows no point lights
            exponent=0.0,
            castshadow=False,
        )
    shared: dict[int, str] = {}
    for index, solid in enumerate(solids):
        half = solid.yaw / 2.0
        body = spec.worldbody.add_body(
            name=f"solid{index}",
            pos=list(solid.position),
            quat=[math.cos(half), 0.0, 0.0, math.sin(half)],
        )
        for part in solid.parts:
            name = shared.get(id(part))
            if name is None:
                name = shared[id(part)] = f"part{len(shared)}"
                _add_part(mujoco, spec, part, name, textures)
            body.add_geom(
                type=mujoco.mjtGeom.mjGEOM_MESH,
                meshname=name,
                material=name,
                contype=0,
                conaffinity=0,
            )
    return spec


def _add_part(
    mujoco: Any, spec: Any, part: MeshPart, name: str, textures: dict[str, Picture]
) -> None:
    arrays: dict[str, NDArray[Any]] = {}
    if part.normals is not None:
        arrays |= {"usernormal": part.normals.ravel(), "userfacenormal": part.faces.ravel()}
    if part.uv is not None:
        flipped = part.uv * np.array([1.0, -1.0], np.float32) + np.array([0.0, 1.0], np.float32)
        arrays |= {"usertexcoord": flipped.ravel(), "userfacetexcoord": part.faces.ravel()}
    spec.add_mesh(
        name=name,
        uservert=part.vertices.ravel(),
        userface=part.faces.ravel(),
        inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL,
        **arrays,
    )
    material = spec.add_material(
        name=name,
        rgba=list(part.rgba),
        specular=0.5 * part.shine,
        shininess=0.4,
        emission=part.glow,
    )
    if part.texture is not None:
        height, width, channels = part.texture.shape
        content: dict[str, Any] = {"builtin": mujoco.mjtBuiltin.mjBUILTIN_FLAT}
        if channels == 4:  # a flat texture to write into has three channels
            content = {"data": np.ascontiguousarray(part.texture).ravel()}
        else:
            textures[name] = part.texture
        spec.add_texture(
            name=name,
            type=mujoco.mjtTexture.mjTEXTURE_2D,
            width=width,
            height=height,
            nchannel=channels,
            **content,
        )
        roles = list(material.textures)
        roles[int(mujoco.mjtTextureRole.mjTEXROLE_RGB)] = name
        material.textures = roles


def _paint_textures(model: Any, textures: dict[str, Picture]) -> None:
    """Put the pictures into a compiled model.

    The specification would take them number by number, which takes longer than all the rest.
    """
    for name, picture in textures.items():
        start = int(model.tex_adr[model.texture(name).id])
        model.tex_data[start : start + picture.size] = picture.ravel()
