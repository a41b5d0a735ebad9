"""Words, places and labels of the simulation, judged without drawing anything."""

from __future__ import annotations

import itertools
import math
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from semflip_core.errors import AssetError, ConfigError
from semflip_train.projection_words import KINDS
from semflip_train.simulation import wording
from semflip_train.simulation.catalogue import FurnitureCatalogue, find_furniture
from semflip_train.simulation.cli import shares
from semflip_train.simulation.floor import Floor
from semflip_train.simulation.labels import DriveLabels, FrameCover, measure
from semflip_train.simulation.meshes import load_parts
from semflip_train.simulation.path import TimedPose, drive
from semflip_train.simulation.phrases import PLAIN, Phrase, candidates, phrases_of
from semflip_train.simulation.placed import Placed
from semflip_train.simulation.plan import Plan, make_plan
from semflip_train.simulation.questions import QuestionWriter
from semflip_train.simulation.referents import Seen, near_misses, referents
from semflip_train.simulation.rooms import Scene, make_scene
from semflip_train.simulation.sequence import models_for
from semflip_train.simulation.settings import CameraSettings, DriveSettings, LabelSettings
from semflip_train.simulation.things import all_things
from support.box_furniture import box_furniture

THINGS = {thing.name: thing for thing in all_things()}
GREEN_CHAIR, BLUE_CHAIR = (
    sorted(THINGS["chair"].models).index(key) for key in ("cc0/armchair", "cc0/plasticChair")
)


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> FurnitureCatalogue:
    """Every model as a box, the held-out library included."""
    return FurnitureCatalogue(box_furniture(tmp_path_factory.mktemp("boxes")), held_out=True)


def placed(name: str, model: int = 0, at: tuple[float, float] = (0, 0), **more: int) -> Placed:
    thing = THINGS[name]
    key = sorted(thing.models)[model]
    return Placed(thing, key, (*at, 0.0), 0.0, (0.4, 0.4, 0.5), more.get("room", 0), more.get("on"))


def plan(*kinds: str) -> Plan:
    return make_plan(np.random.default_rng(0), kinds)


def seen_as(name: str, split: str, objects: tuple[Placed, ...], where: Plan) -> Seen:
    cover = FrameCover(np.full(len(objects), 0.05, np.float32), np.zeros(len(objects), np.float32))
    poses = [TimedPose(0.5 * i, 0.1 * i, 0.0, 0.0) for i in range(4)]
    labels = DriveLabels(poses, [10, 20, 30, 40], [cover] * 4, LabelSettings())
    return Seen(name, split, "known", objects, where, labels)


# -- words ------------------------------------------------------------------------------------


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


def test_a_noun_shared_by_two_objects_names_neither_but_a_colour_can() -> None:
    green, blue = placed("chair", GREEN_CHAIR), placed("chair", BLUE_CHAIR, (3.0, 0.0))
    assert (green.look, blue.look) == ("green", "blue")
    objects = (green, blue)
    where = plan("living")
    assert candidates(Phrase("chair"), objects, where) == [0, 1]
    assert candidates(Phrase("chair", green.look), objects, where) == [0]
    assert candidates(Phrase("chair", "red"), objects, where) == []


def test_a_broader_word_is_never_absent_where_it_might_be_said() -> None:
    objects = (placed("teapot"),)
    assert candidates(Phrase("kettle"), objects, plan("kitchen")) == [0]
    assert candidates(Phrase("toaster"), objects, plan("kitchen")) == []


def test_relations_are_true_of_the_right_object_only() -> None:
    table, desk = placed("coffee table"), placed("desk", 0, (4.0, 0.0), room=1)
    vase = placed("vase", 0, (0.0, 0.0), on=0)
    objects = (table, desk, vase)
    where = plan("living", "office")
    assert candidates(Phrase("vase", relation="on the coffee table"), objects, where) == [2]
    assert candidates(Phrase("vase", relation="on the desk"), objects, where) == []
    assert candidates(Phrase("vase", relation="in the office"), objects, where) == []
    kinds = {phrase.kind for phrase in phrases_of(2, objects, where)}
    assert {"name", "look", "on", "room"} <= kinds


@pytest.mark.parametrize(
    ("phrase", "some", "plural"),
    [
        (Phrase("umbrella"), "an umbrella", False),
        (Phrase("sneakers"), "some sneakers", True),
        (Phrase("vase of tulips"), "a vase of tulips", False),
        (Phrase("tulips", "red"), "some red tulips", True),
        (Phrase("milk"), "some milk", False),
    ],
)
def test_articles_and_numbers(phrase: Phrase, some: str, plural: bool) -> None:
    assert (phrase.some, phrase.plural) == (some, plural)


def test_test_wordings_are_disjoint_from_training() -> None:
    train = {*wording.TRAIN.named, *wording.TRAIN.needed}
    test = {*wording.TEST.named, *wording.TEST.needed, *wording.AMBIGUOUS, *wording.VAGUE}
    assert not train & test
    for template in (*wording.FALSE_PREMISE, *wording.UNAVAILABLE, *wording.NEEDS_ACTION):
        text = wording.put(template, Phrase("sneakers"), room="hallway", absent="the dog")
        assert "{" not in text


def words_of(template: str) -> frozenset[str]:
    """Words of a template without articles and placeholders; verbs stand for their singular."""
    text = re.sub(r"\{(is|was|do)\}", lambda m: {"do": "does"}.get(m[1], "is"), template)
    text = re.sub(r"\{\w*\}", "", text).lower()
    return frozenset(re.findall(r"[a-z']+", text)) - {"the", "a", "an"}


def test_no_wording_that_is_learned_from_is_near_one_of_the_test() -> None:
    test = (
        *wording.TEST.named,
        *wording.TEST.needed,
        *wording.UNAVAILABLE,
        *wording.SUBJECTIVE,
        *wording.NEEDS_ACTION,
        *wording.FALSE_PREMISE,
        *wording.AMBIGUOUS,
        *wording.VAGUE,
    )
    learned = (*wording.TRAIN.named, *wording.TRAIN.needed, *itertools.chain(*KINDS.values()))
    near = [
        (a, b)
        for a in learned
        for b in test
        if len(words_of(a) & words_of(b)) >= 0.7 * len(words_of(a) | words_of(b))
    ]
    assert near == []


# -- questions --------------------------------------------------------------------------------


def test_questions_are_balanced_exact_and_paired() -> None:
    where = plan("living", "kitchen")
    here = ("sofa", "teddy bear", "fridge", "toaster", "radiator", "cactus", "umbrella", "stove")
    there = ("bed", "bathtub", "printer", "laptop", "barrel", "piano stool", "safe", "fireplace")
    both = [
        seen_as(
            name,
            split,
            tuple(placed(thing, 0, (2.0 * i, 0.0)) for i, thing in enumerate(names)),
            where,
        )
        for name, split, names in (("a", "test", here), ("b", "test", there), ("c", "train", here))
    ]
    rows = QuestionWriter(both, per_sequence=12, seed=3).write()
    assert rows == QuestionWriter(both, per_sequence=12, seed=3).write()
    assert len({row["id"] for row in rows}) == len(rows)
    for name in ("a", "b"):
        mine = [row for row in rows if row["sequence"] == name]
        assert sum(row["answerable"] for row in mine) == 12
        assert sum(not row["answerable"] for row in mine) == 12
    assert all(row["answerable"] for row in rows if row["sequence"] == "c")
    twins: dict[str, list[dict[str, object]]] = {}
    for row in rows:
        if row["pair"]:
            twins.setdefault(str(row["pair"]), []).append(row)
    assert twins
    for first, second in twins.values():
        assert first["question"] == second["question"]
        assert first["answerable"] != second["answerable"]


def test_colours_are_asked_only_of_what_might_have_another_one() -> None:
    painted = replace(placed("backpack"), paint="pink")
    objects = (painted, placed("fire extinguisher", 0, (2.0, 0.0)))
    seen = seen_as("a", "test", objects, plan("hall"))
    looks = {item.phrase.words for item in referents(seen) if item.phrase.look}
    assert "pink backpack" in looks
    assert not any("extinguisher" in words for words in looks), "always red: the word tells it"
    misses = {
        phrase.words
        for phrase in near_misses(seen, ("pink", "blue"), plausible=True)
        if phrase.look
    }
    assert misses == {"blue backpack", "blue rucksack"}


def test_no_near_miss_names_a_room_where_such_a_thing_would_be_odd() -> None:
    objects = (placed("toilet", room=1), placed("radiator", 0, (3.0, 0.0), room=1))
    seen = seen_as("a", "test", objects, plan("bedroom", "bathroom"))
    rooms = {p.words for p in near_misses(seen, (), plausible=True) if p.kind == "room"}
    assert "radiator in the bedroom" in rooms
    assert "toilet in the bedroom" not in rooms


def test_answers_without_a_twin_use_looks_as_often_as_refusals_do() -> None:
    names = ("sofa", "backpack", "vase", "bowl", "kettle", "suitcase", "umbrella", "bookcase")
    rows = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        colours = ("red", "blue", "green", "yellow", "white", "purple")
        both = [
            seen_as(
                name,
                "test",
                tuple(
                    replace(placed(thing, 0, (2.0 * i, 0.0)), paint=str(rng.choice(colours)))
                    for i, thing in enumerate(rng.permutation(names)[:6])
                ),
                plan("living", "hall"),
            )
            for name in ("a", "b", "c")
        ]
        rows += QuestionWriter(both, per_sequence=18, seed=seed).write()
    alone = [
        row for row in rows if not row["pair"] and row["category"] in (None, "absent", "near_miss")
    ]
    share = {
        answerable: np.mean(
            [
                row["referent"].split()[0] in colours
                for row in alone
                if row["answerable"] == answerable
            ]
        )
        for answerable in (True, False)
    }
    assert abs(share[True] - share[False]) < 0.25, share


def test_referents_are_well_visible_and_near_misses_fit_nothing() -> None:
    where = plan("living", "kitchen")
    objects = (
        placed("sofa"),
        placed("teddy bear", 0, (2.0, 0.0)),
        placed("toaster", 0, (4.0, 0.0)),
    )
    seen = seen_as("a", "test", objects, where)
    faint = FrameCover(np.array([0.05, 0.05, 0.009], np.float32), np.zeros(3, np.float32))
    dim = Seen(
        "a",
        "test",
        "known",
        objects,
        where,
        DriveLabels(
            [TimedPose(0.1 * i, 0.0, 0.0, 0.0) for i in range(4)],
            [1, 2, 3, 4],
            [faint] * 4,
            LabelSettings(),
        ),
    )
    assert {item.label for item in referents(seen)} == {0, 1, 2}
    assert {item.label for item in referents(dim)} == {0, 1}
    for phrase in near_misses(seen, PLAIN, plausible=False):
        assert candidates(phrase, objects, where) == []
        assert any(phrase.noun in item.thing.names for item in objects)


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


def scene(catalogue: FurnitureCatalogue, seed: int) -> Scene:
    allowed = models_for("train", catalogue)
    return make_scene(seed, catalogue, all_things(), allowed, ("living", "kitchen"))


def test_furniture_stands_inside_its_room_and_in_nothing_else(
    catalogue: FurnitureCatalogue,
) -> None:
    for seed in range(6):
        made = scene(catalogue, seed)
        assert made == scene(catalogue, seed)
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


def test_the_drive_is_smooth_stays_on_free_floor_and_visits_both_rooms(
    catalogue: FurnitureCatalogue,
) -> None:
    made = scene(catalogue, 1)
    settings = DriveSettings()
    trace = drive(made, CameraSettings(), settings, np.random.default_rng(1))
    floor = Floor(made.plan, made.objects, 0.1)
    assert all(floor.free[floor.cell((pose.x, pose.y))] for pose in trace)
    step = 1.0 / settings.pose_hz
    for a, b in itertools.pairwise(trace):
        assert b.time_s - a.time_s == pytest.approx(step)
        assert math.dist((a.x, a.y), (b.x, b.y)) <= settings.speed * step * 1.05
        assert abs(math.remainder(b.yaw - a.yaw, 2 * math.pi)) <= settings.turn_rate * step * 1.05
    assert {made.plan.room_at(pose.x, pose.y) for pose in trace} >= {0, 1}


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
