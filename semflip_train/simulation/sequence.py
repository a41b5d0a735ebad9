"""One rendered sequence: a scene, a drive through it, and each camera frame with its labels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from semflip_core.errors import DatasetError
from semflip_core.frames import Picture
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_train.simulation.catalogue import FurnitureCatalogue
from semflip_train.simulation.floor import Floor, candidates
from semflip_train.simulation.path import TimedPose, drive
from semflip_train.simulation.placed import Placed
from semflip_train.simulation.render import Renderer, View
from semflip_train.simulation.rooms import Scene, make_scene
from semflip_train.simulation.settings import CameraSettings, DriveSettings
from semflip_train.simulation.things import all_things

#: Kinds of room that are joined into one sequence, drawn by seed.
HOMES: tuple[tuple[str, ...], ...] = (
    ("living", "kitchen"), ("office", "hall"), ("bedroom", "bathroom"), ("kids", "living"),
    ("workshop", "hall"), ("gym", "office"), ("kitchen", "hall"), ("bedroom", "office"),
    ("living", "hall"), ("kids", "bathroom"), ("kitchen", "workshop"), ("gym", "living"),
)  # fmt: skip
#: The same for sequences with a corridor: rooms off it.
CORRIDORS: tuple[tuple[str, ...], ...] = (
    ("corridor", "office", "bathroom", "workshop"), ("corridor", "bedroom", "kids"),
    ("corridor", "kitchen", "office"), ("corridor", "bedroom", "bathroom", "office"),
    ("corridor", "living", "kitchen"), ("corridor", "kids", "gym"),
    ("corridor", "workshop", "kitchen", "bathroom"), ("corridor", "bedroom", "living"),
)  # fmt: skip

#: A seed whose furniture leaves the robot no way is replaced by one of these many next ones.
ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Frame:
    """A rendered camera frame.

    Args:
        pose: of the base in the map.
        view: picture and labels; a label indexes the scene's ``objects``.
    """

    pose: Pose
    view: View

    @property
    def rgb(self) -> Picture:
        """``(height, width, 3)`` uint8."""
        return self.view.rgb

    @property
    def labels(self) -> NDArray[np.int16]:
        """``(height, width)`` int16, -1 for the building."""
        return self.view.labels


@dataclass(frozen=True, slots=True)
class RenderedRoom:
    """Frames of one furnished place, and what its labels mean."""

    scene: Scene
    camera: CameraSettings
    frames: tuple[Frame, ...]

    @property
    def objects(self) -> tuple[Placed, ...]:
        """The object behind each label."""
        return self.scene.objects


def models_for(split: str, catalogue: FurnitureCatalogue) -> frozenset[str]:
    """Models that a split may show.

    Where a name has several models, about every third is kept for ``test``, so that known things
    are tested on models never trained on; a name with one model shows it everywhere.
    ``new`` has the held-out things alone.
    """
    chosen: set[str] = set()
    for thing in all_things():
        keys = sorted(thing.models)
        if thing.held_out:
            chosen.update(keys if split == "new" else ())
            continue
        kept = keys[1::3] if len(keys) > 1 else keys
        rest = [key for key in keys if key not in kept] or keys
        chosen.update(kept if split in ("test", "new") else rest)
    return frozenset(chosen & catalogue.models.keys())


def scene_for(
    seed: int,
    catalogue: FurnitureCatalogue,
    *,
    split: str = "train",
    kinds: tuple[str, ...] | None = None,
    density: float = 1.0,
    paint_share: float = 0.0,
) -> Scene:
    """The scene that belongs to a seed and a split (arguments as for :func:`make_scene`)."""
    rng = np.random.default_rng([seed, 11])
    rooms = kinds or HOMES[int(rng.integers(len(HOMES)))]
    allowed = models_for(split, catalogue)
    return make_scene(seed, catalogue, all_things(), allowed, rooms, density, paint_share)


def render_room(
    seed: int,
    catalogue: FurnitureCatalogue,
    *,
    frames: int = 40,
    split: str = "train",
    kinds: tuple[str, ...] | None = None,
    camera: CameraSettings | None = None,
    density: float = 1.0,
    paint_share: float = 0.0,
) -> RenderedRoom:
    """Views from random places a robot could stand in, each towards some object.

    For training data: varied distance, direction and camera height. The same arguments always
    give the same pictures.

    Args:
        camera: fixed camera; None draws height, tilt and field of view from the seed.
    """
    scene = scene_for(
        seed, catalogue, split=split, kinds=kinds, density=density, paint_share=paint_share
    )
    rng = np.random.default_rng([seed, 12])
    camera = camera or random_camera(rng)
    poses = sample_poses(scene, frames, rng)
    with Renderer(scene.solids(catalogue), scene.lights, scene.ambient, camera) as renderer:
        shown = tuple(Frame(pose, renderer.view(pose)) for pose in poses)
    return RenderedRoom(scene, camera, shown)


def rooms_seen(
    seed: int, catalogue: FurnitureCatalogue, *, frames: int, paint_share: float = 0.0
) -> tuple[str, ...]:
    """Kind of room that each view of :func:`render_room` is taken in; nothing is rendered."""
    scene = scene_for(seed, catalogue, paint_share=paint_share)
    rng = np.random.default_rng([seed, 12])
    random_camera(rng)  # draws, as rendering does
    at = [scene.plan.room_at(*pose.position[:2]) for pose in sample_poses(scene, frames, rng)]
    return tuple("" if room is None else scene.plan.rooms[room].kind for room in at)


def random_camera(rng: np.random.Generator) -> CameraSettings:
    """A camera as robots carry them: 1.0 to 1.4 m high, looking slightly down."""
    return CameraSettings(
        height_m=round(float(rng.uniform(1.0, 1.4)), 3),
        tilt_deg=round(float(rng.uniform(5.0, 14.0)), 2),
        horizontal_fov_deg=round(float(rng.uniform(62.0, 74.0)), 2),
    )


def sample_poses(scene: Scene, count: int, rng: np.random.Generator) -> list[Pose]:
    """Random free places, each facing some object of the same room within 30 degrees."""
    settings = DriveSettings()
    places = candidates(scene.plan, Floor(scene.plan, scene.objects, 0.2), settings)
    poses = []
    for _ in range(count):
        x, y = places[int(rng.integers(len(places)))]
        room = scene.plan.room_at(x, y)
        apart = [item for item in scene.objects if math.dist(item.centre[:2], (x, y)) > 0.8]
        here = [item for item in apart if item.room == room] or apart or list(scene.objects)
        target = here[int(rng.integers(len(here)))].centre
        yaw = math.atan2(target[1] - y, target[0] - x) + float(rng.normal(0, 0.2))
        poses.append(Pose("map", (x, y, 0.0), quaternion_from_yaw(yaw)))
    return poses


class SequenceRun:
    """A drive through a scene: odometry now, pictures when asked for.

    Args:
        seed: of scene, route and light; a seed without a way is replaced (:data:`ATTEMPTS`).

    Raises:
        DatasetError: no attempt left the robot a way.
    """

    def __init__(
        self,
        seed: int,
        catalogue: FurnitureCatalogue,
        *,
        split: str,
        kinds: tuple[str, ...] | None = None,
        camera: CameraSettings | None = None,
        settings: DriveSettings | None = None,
        density: float = 1.0,
        paint_share: float = 0.0,
    ) -> None:
        self.catalogue = catalogue
        self.settings = settings or DriveSettings()
        for attempt in range(ATTEMPTS):
            used = seed + 1_000_003 * attempt
            rng = np.random.default_rng([used, 13])
            self.camera = camera or random_camera(rng)
            self.scene = scene_for(
                used, catalogue, split=split, kinds=kinds, density=density, paint_share=paint_share
            )
            try:
                self.trace = drive(self.scene, self.camera, self.settings, rng)
                break
            except DatasetError as error:
                problem = error
        else:
            raise DatasetError(f"seed {seed}: {ATTEMPTS} attempts failed, the last: {problem}")

    @cached_property
    def camera_poses(self) -> tuple[TimedPose, ...]:
        """Where pictures are taken."""
        every = max(1, round(self.settings.pose_hz / self.settings.camera_hz))
        return self.trace[::every]

    def frames(self, without: frozenset[int] = frozenset()) -> Iterator[Frame]:
        """Render the pictures in order.

        Args:
            without: labels of objects that never were there: an exact erasure, shadows and what
                they hid included. Labels keep their meaning.
        """
        solids = self.scene.solids(self.catalogue, without)
        with Renderer(solids, self.scene.lights, self.scene.ambient, self.camera) as renderer:
            for timed in self.camera_poses:
                pose = timed.pose()
                yield Frame(pose, renderer.view(pose))

    def segmented(self, size: tuple[int, int]) -> Iterator[NDArray[np.int16]]:
        """Object index of each pixel of small pictures of this width and height, in order."""
        camera = self.camera.model_copy(update={"width": size[0], "height": size[1]})
        solids = self.scene.solids(self.catalogue)
        with Renderer(solids, self.scene.lights, self.scene.ambient, camera) as renderer:
            for timed in self.camera_poses:
                yield renderer.labels(timed.pose())
