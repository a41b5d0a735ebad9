"""Rooms, furniture, drives, labels and assets of the simulation, without drawing anything."""

from __future__ import annotations

import itertools
import math
import zipfile
from pathlib import Path

import numpy as np
import pytest

from semflip_core.errors import AssetError, ConfigError
from semflip_train.simulation.catalogue import FurnitureCatalogue, find_furniture
from semflip_train.simulation.cli import shares
from semflip_train.simulation.floor import Floor
from semflip_train.simulation.labels import DriveLabels, measure
from semflip_train.simulation.meshes import load_parts
from semflip_train.simulation.path import TimedPose, drive
from semflip_train.simulation.rooms import Scene, make_scene
from semflip_train.simulation.sequence import models_for
from semflip_train.simulation.settings import CameraSettings, DriveSettings, LabelSettings
from semflip_train.simulation.things import all_things
from support.box_furniture import box_furniture

HOME = ("living", "kitchen")
CORRIDOR = ("corridor", "bedroom", "kids", "bathroom")


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> FurnitureCatalogue:
    """Every model as a box, the held-out library included."""
    return FurnitureCatalogue(box_furniture(tmp_path_factory.mktemp("boxes")), held_out=True)


def test_every_model_is_in_a_library_and_no_training_split_has_a_held_out_one(
    catalogue: FurnitureCatalogue,
) -> None:
    assert {key for thing in all_things() for key in thing.models} <= catalogue.models.keys()
    train, test, new = (models_for(split, catalogue) for split in ("train", "test", "new"))
    assert not any(key.startswith("kator/") for key in train | test)
    assert any(key.startswith("kator/") for key in new)
    assert models_for("calibration", catalogue) == train
    several = [thing for thing in all_things() if len(thing.models) > 1 and not thing.held_out]
    for thing in several:
        assert not set(thing.models) & train & test, f"{thing.name}: a test model is trained on"
        assert set(thing.models) & train
        assert set(thing.models) & test


# -- labels -----------------------------------------------------------------------------------


def test_pixels_are_counted_and_spans_end_where_a_thing_leaves_the_picture() -> None:
    picture = np.full((10, 20), -1, np.int16)
    picture[:, 15:] = 1
    cover = measure(picture, 3)
    assert cover.share.tolist() == pytest.approx([0.0, 0.25, 0.0])
    assert cover.offset[1] > 0.5
    nothing = measure(np.full((10, 20), -1, np.int16), 3)
    poses = [TimedPose(0.5 * i, float(i), 0.0, 0.0) for i in range(5)]
    labels = DriveLabels(
        poses, [1, 2, 3, 4, 5], [cover, cover, nothing, cover, nothing], LabelSettings()
    )
    assert labels.visible(1) == ((1, 2), (4, 4))
    assert labels.visible(0) == ()
    assert labels.is_answerable(1)
    assert not labels.was_seen(0)
    assert labels.best_view(1, (9.0, 0.0, 0.5)).stamp_ns in (1, 2, 4)
    assert labels.best_view(1, (0.5, 0.0, 0.5)).stamp_ns == 1, "later frames face away from it"


# -- rooms and ways ---------------------------------------------------------------------------


def scene(
    catalogue: FurnitureCatalogue, seed: int, kinds: tuple[str, ...], split: str = "train"
) -> Scene:
    return make_scene(seed, catalogue, all_things(), models_for(split, catalogue), kinds)


@pytest.mark.parametrize(("kinds", "split"), [(HOME, "train"), (CORRIDOR, "new")])
def test_furniture_stands_inside_its_room_and_in_nothing_else(
    catalogue: FurnitureCatalogue, kinds: tuple[str, ...], split: str
) -> None:
    for seed in range(6):
        made = scene(catalogue, seed, kinds, split)
        if seed == 0:
            assert made == scene(catalogue, seed, kinds, split)
        on_floor = [item for item in made.objects if item.on is None and item.position[2] < 0.5]
        for item in on_floor:
            room = made.plan.rooms[item.room]
            x0, y0, x1, y1 = item.box
            assert room.x0 - 1e-3 <= x0
            assert x1 <= room.x1 + 1e-3
            assert room.y0 - 1e-3 <= y0
            assert y1 <= room.y1 + 1e-3
        solid = [item for item in on_floor if item.thing.place in ("wall", "middle", "floor")]
        for index, item in enumerate(solid):
            for other in solid[:index]:
                a, b = item.box, other.box
                apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
                assert apart, f"{item.thing.name} stands in {other.thing.name}"
        for seat in (item for item in on_floor if item.thing.place == "seat"):
            for other in on_floor:
                a, b = seat.box, other.box
                apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
                assert apart or other is seat or other.thing.surface, (seat, other)
        for item in made.objects:
            if item.on is not None:
                support = made.objects[item.on]
                assert item.position[2] == pytest.approx(support.size[2], abs=0.05)


@pytest.mark.parametrize("kinds", [HOME, CORRIDOR])
def test_the_drive_is_smooth_stays_on_free_floor_and_visits_every_room(
    catalogue: FurnitureCatalogue, kinds: tuple[str, ...]
) -> None:
    made = scene(catalogue, 1, kinds)
    settings = DriveSettings()
    trace = drive(made, CameraSettings(), settings, np.random.default_rng(1))
    floor = Floor(made.plan, made.objects, 0.1)
    assert all(floor.free[floor.cell((pose.x, pose.y))] for pose in trace)
    step = 1.0 / settings.pose_hz
    for a, b in itertools.pairwise(trace):
        assert b.time_s - a.time_s == pytest.approx(step)
        assert math.dist((a.x, a.y), (b.x, b.y)) <= settings.speed * step * 1.05
        assert abs(math.remainder(b.yaw - a.yaw, 2 * math.pi)) <= settings.turn_rate * step * 1.05
    assert {made.plan.room_at(pose.x, pose.y) for pose in trace} >= set(range(len(kinds)))


def test_the_mount_turns_the_optical_axis_forward_and_down() -> None:
    mount = CameraSettings(tilt_deg=10.0).mount
    x, y, z, w = mount.orientation
    forward = (2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y))
    assert forward[0] == pytest.approx(math.cos(math.radians(10.0)), abs=1e-6)
    assert forward[1] == pytest.approx(0.0, abs=1e-6)
    assert forward[2] == pytest.approx(-math.sin(math.radians(10.0)), abs=1e-6)


# -- assets -----------------------------------------------------------------------------------


def test_a_box_keeps_its_size_and_colour(catalogue: FurnitureCatalogue, tmp_path: Path) -> None:
    parts = load_parts(catalogue, "cc0/fireExtinguisher", cache=tmp_path)
    again = load_parts(catalogue, "cc0/fireExtinguisher", cache=tmp_path)
    size = parts[0].vertices.max(axis=0) - parts[0].vertices.min(axis=0)
    assert size == pytest.approx([0.36, 0.34, 0.45], abs=1e-5)
    assert parts[0].vertices[:, 2].min() == pytest.approx(0.0, abs=1e-6)
    assert parts[0].rgba[:3] == pytest.approx((0.8, 0.1, 0.1))
    assert np.array_equal(parts[0].vertices, again[0].vertices)
    assert again[0].rgba == parts[0].rgba


def test_missing_assets_name_both_cures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssetError, match=r"apt-get download .*--assets DIR") as error:
        find_furniture(tmp_path)
    assert str(tmp_path) in str(error.value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("SEMFLIP_ASSETS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    if not Path("/usr/share/sweethome3d/furniture").is_dir():
        with pytest.raises(AssetError, match="sudo apt-get install"):
            find_furniture()


def test_a_wrong_library_is_named(tmp_path: Path) -> None:
    box_furniture(tmp_path)
    (tmp_path / "Scopia.sh3f").write_bytes(b"no zip")
    with pytest.raises(AssetError, match=r"Scopia\.sh3f: not a Sweet Home 3D"):
        FurnitureCatalogue(tmp_path)
    with zipfile.ZipFile(tmp_path / "Scopia.sh3f", "w") as archive:
        archive.writestr("other.txt", "nothing")
    with pytest.raises(AssetError, match=r"Scopia\.sh3f"):
        FurnitureCatalogue(tmp_path)


def test_shares_of_the_splits() -> None:
    assert shares(6, None) == (3, 1, 2, 0)
    assert shares(2, "5,1,3,3") == (5, 1, 3, 3)
    with pytest.raises(ConfigError, match="TRAIN,CALIBRATION,TEST"):
        shares(6, "80/10/10")
