"""Sequences with a corridor: rooms off it, things along its walls, and the words for it."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from semflip_core.errors import AssetError
from semflip_train.simulation.benchmark import planned
from semflip_train.simulation.catalogue import FurnitureCatalogue
from semflip_train.simulation.floor import Floor, candidates
from semflip_train.simulation.phrases import might_be_room, phrases_of
from semflip_train.simulation.plan import WALL_THICKNESS, make_plan
from semflip_train.simulation.render import Renderer
from semflip_train.simulation.rooms import Scene
from semflip_train.simulation.sequence import CORRIDORS, SequenceRun, scene_for
from semflip_train.simulation.settings import DriveSettings, SimulationSettings
from support.box_furniture import box_furniture

SEEDS = range(4)


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory) -> FurnitureCatalogue:
    """Every model as a box."""
    return FurnitureCatalogue(box_furniture(tmp_path_factory.mktemp("boxes")), held_out=True)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Converted boxes must not land among converted furniture."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="module")
def scenes(boxes: FurnitureCatalogue) -> list[Scene]:
    """Furnished corridors, each of another kind, about new things every other time."""
    return [
        scene_for(seed, boxes, split=("test", "new")[seed % 2], kinds=CORRIDORS[seed])
        for seed in SEEDS
    ]


@pytest.mark.parametrize("kinds", CORRIDORS)
def test_rooms_lie_beside_the_corridor_and_each_has_a_door_to_it(kinds: tuple[str, ...]) -> None:
    for seed in range(5):
        plan = make_plan(np.random.default_rng(seed), kinds)
        assert [room.kind for room in plan.rooms] == list(kinds)
        for index, room in enumerate(plan.rooms):
            for other in plan.rooms[:index]:
                x = min(room.x1, other.x1) - max(room.x0, other.x0)
                y = min(room.y1, other.y1) - max(room.y0, other.y0)
                assert max(-x, -y) >= WALL_THICKNESS - 1e-9, (room, other)
        assert len(plan.doorways) == len(kinds) - 1
        assert {room for door in plan.doorways for room in door.rooms} == set(range(len(kinds)))
        for door in plan.doorways:
            for index in door.rooms:
                room = plan.rooms[index]
                side = door.side_in(index)
                wall = {0: room.y1, 2: room.y0}[side]  # type: ignore[index]
                assert abs(door.y - wall) == pytest.approx(WALL_THICKNESS / 2)
                assert room.x0 < door.x - door.width / 2
                assert door.x + door.width / 2 < room.x1
                assert side not in plan.outer_sides(index)


def test_the_robot_can_stand_in_every_room_and_all_along_the_corridor(scenes: list[Scene]) -> None:
    for scene in scenes:
        settings = DriveSettings()
        floor = Floor(scene.plan, scene.objects, settings.margin_m)
        places = candidates(scene.plan, floor, settings)
        assert {scene.plan.room_at(*place) for place in places} == set(range(len(scene.plan.rooms)))
        corridor = scene.plan.rooms[0]
        along = [x for x, y in places if scene.plan.room_at(x, y) == 0]
        assert min(along) < corridor.x0 + 1.2
        assert max(along) > corridor.x1 - 1.2


def test_things_stand_along_the_walls_and_leave_a_lane_free(scenes: list[Scene]) -> None:
    for scene in scenes:
        inside = [item for item in scene.objects if item.room == 0 and item.on is None]
        assert len(inside) >= 4
        corridor = scene.plan.rooms[0]
        for item in inside:
            x0, y0, x1, y1 = item.box
            gap = min(x0 - corridor.x0, corridor.x1 - x1, y0 - corridor.y0, corridor.y1 - y1)
            assert gap < 0.3, f"{item.thing.name} stands in the way"


def test_a_drive_shows_everything_that_stands_in_the_corridor(boxes: FurnitureCatalogue) -> None:
    if find_spec("mujoco") is None:
        pytest.skip("rendering needs mujoco: pip install 'semflip[train]'")
    run = SequenceRun(3, boxes, split="test", kinds=CORRIDORS[1])
    small = run.camera.model_copy(update={"width": 96, "height": 72})
    scene = run.scene
    try:
        renderer = Renderer(scene.solids(boxes), scene.lights, scene.ambient, small)
    except AssetError as error:
        pytest.skip(f"cannot draw here: {error}")
    with renderer:
        shown = [renderer.labels(timed.pose()) for timed in run.camera_poses[::2]]
    pixels = np.bincount(np.stack(shown).ravel() + 1, minlength=len(scene.objects) + 1)[1:]
    hidden = [item for item, seen in zip(scene.objects, pixels, strict=True) if not seen]
    assert not [item.thing.name for item in hidden if item.room == 0]
    assert len(hidden) <= 0.1 * len(scene.objects)


def test_corridor_and_hallway_are_both_true_of_it_and_a_hall_is_neither_denied() -> None:
    assert might_be_room("corridor", "corridor")
    assert might_be_room("hallway", "corridor")
    assert might_be_room("hallway", "hall")
    assert might_be_room("corridor", "hall"), "somebody might say so: never a near miss"
    assert not might_be_room("corridor", "office")
    assert not any("hall" in kinds for kinds in CORRIDORS), "two places of one name"


def test_what_stands_in_the_corridor_is_asked_there(scenes: list[Scene]) -> None:
    scene = scenes[0]
    rooms = {
        phrase.relation
        for label, item in enumerate(scene.objects)
        if item.room == 0
        for phrase in phrases_of(label, scene.objects, scene.plan)
        if phrase.kind == "room"
    }
    assert rooms == {"in the corridor", "in the hallway"}


def test_seeds_decide_which_sequences_have_a_corridor() -> None:
    def corridors(share: float) -> list[str]:
        settings = SimulationSettings(seed=3, train=60, calibration=0, test=0, corridors=share)
        return [plan.name for plan in planned(settings) if plan.kinds[0] == "corridor"]

    assert corridors(0.0) == []
    assert len(corridors(1.0)) == 60
    some = corridors(0.3)
    assert 8 <= len(some) <= 28
    assert set(some) < set(corridors(0.6)), "more of them keep those that were"
    before, after = (
        planned(SimulationSettings(seed=3, train=60, calibration=0, test=0, corridors=share))
        for share in (0.0, 0.3)
    )
    for old, new in zip(before, after, strict=True):
        assert old == new or new.name in some, "the others stay as they are"
