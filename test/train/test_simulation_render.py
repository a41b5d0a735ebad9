"""Rendered pictures and labels: exact, repeatable, and a dataset that the other stages can read."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from semflip_core.errors import AssetError, DatasetError
from semflip_train import projection_scenes
from semflip_train.dataset import load_dataset
from semflip_train.projection_vocabulary import PAINTED, vocabulary
from semflip_train.simulation.benchmark import planned, recorded_run, run_of, simulate
from semflip_train.simulation.catalogue import FurnitureCatalogue, find_furniture
from semflip_train.simulation.labels import measure
from semflip_train.simulation.meshes import MeshPart, load_parts
from semflip_train.simulation.sequence import SequenceRun, render_room, rooms_seen, scene_for
from semflip_train.simulation.settings import (
    CameraSettings,
    DriveSettings,
    SimulationSettings,
)
from support.box_furniture import box_furniture

SMALL = CameraSettings(width=96, height=72)
QUICK = DriveSettings(pose_hz=10.0, camera_hz=1.0, stops_per_room=1, turn_rate=0.5)


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory) -> FurnitureCatalogue:
    """Every model as a box."""
    if find_spec("mujoco") is None:
        pytest.skip("rendering needs mujoco: pip install 'semflip[train]'")
    home = tmp_path_factory.mktemp("furniture")
    catalogue = FurnitureCatalogue(box_furniture(home))
    try:
        render_room(0, catalogue, frames=1, camera=SMALL, kinds=("office",))
    except AssetError as error:
        pytest.skip(f"cannot draw here: {error}")
    return catalogue


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Converted boxes must not land among converted furniture."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def test_the_same_seed_gives_the_same_pictures_and_another_seed_others(
    boxes: FurnitureCatalogue,
) -> None:
    first, again, other = (
        render_room(seed, boxes, frames=3, camera=SMALL, kinds=("kitchen",)) for seed in (5, 5, 6)
    )
    for a, b in zip(first.frames, again.frames, strict=True):
        assert np.array_equal(a.rgb, b.rgb)
        assert np.array_equal(a.labels, b.labels)
        assert a.pose == b.pose
    assert any(
        not np.array_equal(a.rgb, b.rgb) for a, b in zip(first.frames, other.frames, strict=True)
    )


def test_which_room_a_view_is_taken_in_is_known_without_rendering(
    boxes: FurnitureCatalogue,
) -> None:
    room = render_room(7, boxes, frames=6, paint_share=0.5)
    told = rooms_seen(7, boxes, frames=6, paint_share=0.5)
    plan = room.scene.plan
    where = [plan.room_at(*frame.pose.position[:2]) for frame in room.frames]
    assert None not in where
    assert told == tuple(plan.rooms[index].kind for index in where if index is not None)
    assert len(set(told)) == 2


def test_labels_are_objects_and_every_object_can_be_found(boxes: FurnitureCatalogue) -> None:
    room = render_room(2, boxes, frames=25, camera=SMALL, kinds=("living",))
    values = {int(value) for frame in room.frames for value in np.unique(frame.labels)}
    assert values <= set(range(-1, len(room.objects)))
    assert len(values - {-1}) >= 0.7 * len(room.objects)
    assert all(frame.rgb.std() > 5 for frame in room.frames), "no blank picture"


def test_a_red_thing_is_red_where_its_label_is(boxes: FurnitureCatalogue) -> None:
    pixels = []
    for seed in range(5):
        room = render_room(seed, boxes, frames=5, camera=SMALL, kinds=("hall",))
        for frame in room.frames:
            for label, item in enumerate(room.objects):
                if item.look == "red":
                    pixels.append(frame.rgb[frame.labels == label])
    found = np.concatenate(pixels)
    assert len(found) > 200
    assert np.mean(found[:, 0] > found[:, 1] + 20) > 0.9


def test_rendering_without_an_object_erases_it_and_little_else(boxes: FurnitureCatalogue) -> None:
    run = SequenceRun(8, boxes, split="train", kinds=("kitchen",), camera=SMALL, settings=QUICK)
    whole = list(run.frames())
    covers = [measure(frame.labels, len(run.scene.objects)).share for frame in whole]
    label = int(np.argmax(np.max(covers, axis=0)))
    for before, after in zip(whole, run.frames(frozenset({label})), strict=True):
        assert not (after.labels == label).any()
        hidden = before.labels == label
        assert np.array_equal(before.labels[~hidden], after.labels[~hidden])
        changed = np.abs(before.rgb.astype(int) - after.rgb.astype(int)).max(axis=2) > 60
        assert not changed[~hidden].mean() > 0.05, "only its soft shadow may differ elsewhere"


@pytest.fixture(scope="module")
def tiny() -> SimulationSettings:
    """A dataset small enough for a test; its camera is drawn by the seed."""
    return SimulationSettings(
        seed=4, train=1, calibration=1, test=1, questions=12, drive=QUICK, density=0.7
    )


def test_a_simulated_dataset_is_sound_and_split_by_sequence(
    boxes: FurnitureCatalogue,
    tiny: SimulationSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # that it is repeatable to the byte, test_simulate_resumed.py holds
    monkeypatch.setattr(
        "semflip_train.simulation.sequence.random_camera", lambda rng: SMALL, raising=True
    )
    simulate(tmp_path / "one", tiny, boxes)
    dataset = load_dataset(tmp_path / "one")
    run = recorded_run(tmp_path / "one", "test_0", boxes)
    scene = json.loads((tmp_path / "one" / "scenes.json").read_text())["sequences"]["test_0"]
    assert [item.model for item in run.scene.objects] == [o["model"] for o in scene["objects"]]
    with pytest.raises(DatasetError, match="no sequence 'test_9'"):
        recorded_run(tmp_path / "one", "test_9", boxes)
    for split, number in (("train", 1), ("calibration", 1), ("test", 1)):
        assert len(dataset.sequences(split)) == number  # type: ignore[arg-type]
    test = dataset.split("test")
    assert sum(query.answerable for query in test) == 12
    assert sum(not query.answerable for query in test) == 12
    assert any(query.pair for query in test)
    assert {query.slice for query in test} == {"known"}


def test_painted_things_show_their_paint(boxes: FurnitureCatalogue) -> None:
    right = []
    for seed in range(4):
        room = render_room(seed, boxes, frames=5, camera=SMALL, kinds=("office",), paint_share=1.0)
        for label, item in enumerate(room.objects):
            assert bool(item.paint) == item.any_colour
            if item.paint in ("red", "green", "blue"):
                seen = np.concatenate([f.rgb[f.labels == label] for f in room.frames])
                channel = ("red", "green", "blue").index(item.paint)
                if len(seen) > 60:
                    right.append(int(np.argmax(seen.mean(axis=0))) == channel)
    assert len(right) >= 5
    assert np.mean(right) > 0.9


@pytest.mark.parametrize(("opacity", "said"), [(1.0, True), (0.3, False)])
def test_glass_takes_no_paint_and_is_not_called_painted(
    boxes: FurnitureCatalogue, monkeypatch: pytest.MonkeyPatch, opacity: float, said: bool
) -> None:
    def parts(catalogue: FurnitureCatalogue, key: str) -> tuple[MeshPart, ...]:
        made = load_parts(catalogue, key)
        return tuple(replace(part, rgba=(*part.rgba[:3], opacity)) for part in made)

    monkeypatch.setattr(projection_scenes, "load_parts", parts)
    scene = projection_scenes.heap_scene(boxes, vocabulary(boxes), seed=0, views=1, paint_share=1.0)
    assert [PAINTED in model for model in scene.models] == [said] * len(scene.models)


def test_painting_moves_no_furniture(boxes: FurnitureCatalogue) -> None:
    plain, coloured = (scene_for(3, boxes, paint_share=share) for share in (0.0, 1.0))
    assert [o.position for o in plain.objects] == [o.position for o in coloured.objects]
    assert any(o.paint for o in coloured.objects)


def test_planned_sequences_share_no_seed_between_datasets(tiny: SimulationSettings) -> None:
    other = tiny.model_copy(update={"seed": 5})
    assert not {plan.seed for plan in planned(tiny)} & {plan.seed for plan in planned(other)}


def test_a_folder_of_somebody_else_is_not_overwritten(
    boxes: FurnitureCatalogue, tiny: SimulationSettings, tmp_path: Path
) -> None:
    (tmp_path / "precious.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(DatasetError, match="not empty"):
        simulate(tmp_path, tiny, boxes)
    assert (tmp_path / "precious.txt").is_file()


def test_new_things_come_only_from_the_held_out_library(tmp_path: Path) -> None:
    catalogue = FurnitureCatalogue(box_furniture(tmp_path), held_out=True)
    settings = SimulationSettings(train=1, calibration=0, test=0, new_things=1, drive=QUICK)
    for plan in planned(settings):
        names = [item.model for item in run_of(plan, settings, catalogue).scene.objects]
        held_out = sum(model.startswith("kator/") for model in names)
        assert held_out == 0 if plan.split == "train" else held_out >= 6


def test_real_furniture_renders_with_its_textures() -> None:
    try:
        catalogue = FurnitureCatalogue(find_furniture(download=False))
    except AssetError as error:
        pytest.skip(f"the furniture package is not here: {error}")
    room = render_room(100, catalogue, frames=4, camera=SMALL, kinds=("office",))
    colours = np.concatenate([frame.rgb.reshape(-1, 3) for frame in room.frames])
    assert len(np.unique(colours // 8, axis=0)) > 150
    assert any((frame.labels >= 0).mean() > 0.05 for frame in room.frames)
