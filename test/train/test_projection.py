"""Training mini's projection: what competes with what, that it learns, and how it is judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from semflip_core.encoders.mini.conse import unit
from semflip_core.encoders.mini.projection import ProjectionWeights
from semflip_train.projection_fit import (
    OVERVIEWS,
    FitSettings,
    Rows,
    TextBank,
    build_bank,
    build_rows,
    fit,
)
from semflip_train.projection_questions import questions
from semflip_train.projection_report import auroc, presence_auroc
from semflip_train.projection_scenes import SceneRegions
from semflip_train.projection_vocabulary import Named, fold_of, painted_key, shown, split
from semflip_train.projection_weights import reference_names, reference_pictures, sounds_like
from semflip_train.projection_words import DISTRACTORS

WORDS = (
    Named("a/1", "chair", ("chair", "seat"), frozenset({"chair", "seat", "furniture"}), "red"),
    Named("a/2", "chair", ("chair", "seat"), frozenset({"chair", "seat", "furniture"}), "blue"),
    Named("a/3", "dog", ("dog",), frozenset({"dog", "animal"})),
)


def vectors(texts: set[str]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {t: unit(rng.normal(size=(1, 384)).astype(np.float32))[0] for t in sorted(texts)}


def bank_of(
    words: tuple[Named, ...] = WORDS,
) -> tuple[TextBank, dict[str, int], dict[str, np.ndarray]]:
    texts = {t for w in words for t in (*w.names, w.described)}
    texts |= {"furniture", "animal", "lamp", "wall"}
    table = vectors(texts)
    labels = unit(np.random.default_rng(2).normal(size=(1000, 384)).astype(np.float32))
    bank = build_bank(words, ("furniture", "animal", "lamp"), ("wall",), table, labels, 0.6)
    order = [*sorted(texts - {"wall"}), "wall"]
    return bank, {t: order.index(t) for t in order}, table


def test_the_same_thing_in_another_colour_competes_and_loose_words_do_not() -> None:
    bank, at, _ = bank_of()
    assert bank.positive[0, at["red chair"]]
    assert bank.positive[0, at["seat"]]
    assert not bank.masked[0, at["blue chair"]]  # a hard negative
    assert not bank.positive[0, at["blue chair"]]
    assert bank.masked[0, at["furniture"]]  # true in a loose sense
    assert not bank.masked[0, at["dog"]]
    assert not bank.masked[0, at["lamp"]]
    assert not (bank.positive & bank.masked).any()


def region_scene(cover: list[list[float]], within: list[list[float]]) -> SceneRegions:
    rows = len(cover)
    return SceneRegions(
        pooled=np.arange(rows * 1280, dtype=np.float16).reshape(rows, 1280),
        cover=np.array(cover, np.float16),
        within=np.array(within, np.float16),
        visible=np.array([[0.2, 0.0]], np.float32),
        models=("a/1", "x/unknown"),
    )


def test_regions_are_named_by_what_fills_them() -> None:
    scene = region_scene(
        [[0.8, 0.0], [0.0, 0.9], [0.0, 0.0], [0.1, 0.0], [0.12, 0.0]],
        [[0.5, 0.0], [0.0, 0.5], [0.0, 0.0], [0.1, 0.0], [0.9, 0.0]],
    )
    rows = build_rows([scene], [np.zeros((5, 384), np.float32)], WORDS, FitSettings())
    # the object; an unknown model is neither; nothing; too little is neither; a small whole object
    assert rows.model.tolist() == [0, -1, 0]
    assert rows.features[:, 0].tolist() == [scene.pooled[i, 0] for i in (0, 2, 4)]


def test_the_largest_regions_are_named_by_the_room_and_the_others_do_not_deny_it() -> None:
    kitchen = Named("room/kitchen", "room kitchen", ("kitchen",), frozenset({"kitchen"}), told=True)
    views, count = 2, OVERVIEWS + 2
    empty = np.zeros((views * count, 1), np.float16)
    cover = empty.copy()
    cover[0] = 0.9  # a chair in the first view
    scene = SceneRegions(
        pooled=np.arange(views * count * 4, dtype=np.float16).reshape(-1, 4),
        cover=cover,
        within=empty,
        visible=np.array([[0.2], [0.0]], np.float32),
        models=("a/1",),
        rooms=("kitchen", ""),
    )
    conse = np.zeros((views * count, 384), np.float32)
    rows = build_rows([scene], [conse], (*WORDS, kitchen), FitSettings())
    of_room = rows.model == len(WORDS)
    assert of_room.sum() == OVERVIEWS
    assert rows.features[of_room, 0].tolist() == [4.0 * n for n in range(2, count)]
    seen_from_it = rows.others[:, -1] == len(WORDS)
    # Every region of the first view, and those again.
    assert seen_from_it.sum() == count + OVERVIEWS
    assert rows.others[rows.features[:, 0] >= 4 * count, -1].max() == -1


def test_it_learns_names_and_starts_at_conse() -> None:
    pytest.importorskip("torch")
    bank, _at, table = bank_of()
    rng = np.random.default_rng(0)
    prototypes = rng.normal(size=(3, 1280)).astype(np.float32)
    model = np.repeat(np.arange(3), 120)
    features = (prototypes[model] + 0.3 * rng.normal(size=(360, 1280))).astype(np.float16)
    conse = unit(rng.normal(size=(360, 384)).astype(np.float32))
    rows = Rows(features, conse, model, np.full((360, 2), -1))
    real = (rng.normal(size=(60, 1280)).astype(np.float32), conse[:60])
    fitted = FitSettings(epochs=6, batch=64, hidden=32, words_hidden=16)
    trained = fit(rows, bank, real, fitted)
    learned = ProjectionWeights(trained, {})
    fresh = (prototypes[model] + 0.3 * rng.normal(size=(360, 1280))).astype(np.float32)
    asked = np.stack([table["red chair"], table["blue chair"], table["dog"]])
    scores = learned.project(fresh, conse) @ learned.seen(asked).T
    assert (scores.argmax(axis=1) == model).mean() > 0.95
    last = ("mlp.weight2", "mlp.bias2", "words.weight2", "words.bias2")
    untrained = ProjectionWeights({**trained, **{name: trained[name] * 0 for name in last}}, {})
    np.testing.assert_allclose(untrained.project(fresh, conse), conse, atol=1e-6)
    np.testing.assert_allclose(untrained.seen(asked), asked, atol=1e-6)


def test_auroc_counts_ties_half() -> None:
    assert auroc(np.array([3.0, 2.0]), np.array([1.0])) == 1.0
    assert auroc(np.array([1.0]), np.array([1.0])) == 0.5
    assert auroc(np.array([1.0, 3.0]), np.array([2.0])) == 0.5
    assert np.isnan(auroc(np.array([]), np.array([1.0])))


def test_presence_is_judged_by_visible_objects_only() -> None:
    table = vectors({"chair", "seat", "dog"})
    shows = np.stack([table["chair"], table["seat"]])
    scene = SceneRegions(
        np.zeros((2, 1280), np.float16),
        np.zeros((2, 2), np.float16),
        np.zeros((2, 2), np.float16),
        np.array([[0.2, 0.001]], np.float32),  # the dog is too small to count, but it is there
        ("a/1", "a/3"),
    )
    empty = SceneRegions(
        scene.pooled, scene.cover, scene.within, np.array([[0.0]], np.float32), ("x",)
    )
    reference = unit(np.random.default_rng(3).normal(size=(50, 384)).astype(np.float32))
    blank = np.tile(reference[:1], (2, 1))
    value = presence_auroc(
        [scene, empty], [shows, blank], WORDS, table, reference, frozenset({"chair", "dog"})
    )
    assert value == 1.0


def test_folds_are_by_category_and_cover_all() -> None:
    assert fold_of("chair", 4) == fold_of("chair", 4)
    for fold in range(3):
        inside, outside = split(WORDS, 3, fold)
        assert {w.category for w in inside}.isdisjoint({w.category for w in outside})
        assert len(inside) + len(outside) == len(WORDS)


def test_words_are_clean() -> None:
    assert len(set(DISTRACTORS)) == len(DISTRACTORS) >= 180
    for kind, asked in questions().items():
        assert len(set(asked)) == len(asked) >= 10, kind
        assert all("{" not in question for question in asked)


def test_a_new_wording_sounds_like_its_kind() -> None:
    """Templates of a kind that no direction was fitted on land nearest to their own kind."""
    rng = np.random.default_rng(4)
    centres = rng.normal(size=(3, 384)).astype(np.float32)
    groups = [
        unit(c + rng.normal(size=(n, 384)).astype(np.float32))
        for c, n in zip(centres, (90, 20, 9), strict=True)
    ]
    mean, basis = sounds_like(groups)
    fresh = unit(centres + rng.normal(size=(3, 384)).astype(np.float32))
    assert ((fresh - mean) @ basis.T).argmax(axis=1).tolist() == [0, 1, 2]


def test_painted_models_keep_their_names_and_lose_their_look() -> None:
    sofa = Named("lib/sofa", "sofa", ("sofa", "couch"), frozenset(["sofa", "couch"]), "brown")
    seen = ("lib/sofa#purple", "lib/sofa", "lib/unheard#red")
    words = shown([sofa], seen)
    assert [w.model for w in words] == ["lib/sofa", painted_key("lib/sofa", "purple")]
    assert words[1].names == sofa.names
    assert (words[1].described, words[1].colour) == ("purple sofa", "purple")


def test_reference_regions_note_what_they_show() -> None:
    words = (
        Named("a", "armchair", ("armchair",), frozenset(["armchair"])),
        Named("z", "vase", ("vase",), frozenset(["vase"])),
    )
    cover = np.zeros((12, 3), np.float16)
    cover[:6, 1] = 0.5  # the vase fills the first view
    cover[6:, 2] = 0.5  # something without a name the second
    scene = SceneRegions(
        pooled=np.zeros((12, 4), np.float16),
        cover=cover,
        within=cover,
        visible=np.ones((2, 3), np.float32),
        models=("a", "z", "unnamed"),
    )
    made = reference_pictures([scene], [np.ones((6, 4), np.float32)], words, (2, 6), seed=0)
    assert made.pooled.shape == (3, 6, 4)
    names = reference_names(words, {"armchair": np.eye(4)[0], "vase": np.eye(4)[1]})
    np.testing.assert_array_equal(names["reference.names"], np.eye(4)[:2])
    assert made.shown[0, :, 0].tolist() == [1.0] * 6
    assert made.shown[1].max() == -1.0
    assert made.shown[2, :, 0].tolist() == [-2.0] * 6


def test_of_a_room_the_regions_stay_that_most_words_are_drawn_to() -> None:
    from semflip_train.projection_rooms import drawn_to, vocabulary

    regions = np.eye(16, dtype=np.float32)
    words = regions[[3, 3, 3, 9, 9, 12]]
    assert drawn_to(regions, words, 2).argmax(axis=1).tolist() == [3, 9]
    assert len(drawn_to(regions[:3], words[:, :16], 5)) == 3
    assert {"fire extinguisher", "red chair"} <= set(vocabulary())


def test_things_described_by_eye_compete_even_where_their_names_are_alike() -> None:
    lamps = (
        Named("a/1", "desk lamp", ("desk lamp",), frozenset({"desk lamp", "lamp"}), told=True),
        Named("a/2", "floor lamp", ("floor lamp",), frozenset({"floor lamp"}), told=True),
        Named("a/3", "lamp", ("lamp",), frozenset({"lamp"}), told=True),
    )
    table = vectors({"desk lamp", "floor lamp", "lamp", "light", "wall"})
    near = unit(table["floor lamp"] + 0.3 * np.stack([table["desk lamp"], table["light"]]))
    table |= {"desk lamp": near[0], "light": near[1]}
    assert table["desk lamp"] @ table["floor lamp"] > 0.6
    labels = unit(np.random.default_rng(2).normal(size=(1000, 384)).astype(np.float32))
    bank = build_bank(lamps, ("light",), ("wall",), table, labels, 0.6)
    at = {t: n for n, t in enumerate(["desk lamp", "floor lamp", "lamp", "light", "wall"])}
    assert not bank.masked[0, at["floor lamp"]]  # nobody would call a desk lamp so
    assert bank.masked[0, at["lamp"]]  # somebody might
    assert not bank.masked[2, at["desk lamp"]]
    assert bank.masked[1, at["light"]]  # alike, and nobody said what it is true of
    assert bank.held.sum() == len(bank.vectors) - 5


def test_levels_are_what_a_name_reaches_with_and_without_the_thing() -> None:
    from semflip_core.encoders.joint_space import Rooms, Space
    from semflip_train.projection_levels import Contents, levels, names_in, places_with, reached

    chair, table, other = np.eye(8, dtype=np.float32)[:3]
    places = [
        Contents(frozenset({"chair"}), frozenset({"chair", "seat"})),
        Contents(frozenset(), frozenset({"chair"})),  # there, and not well seen
        Contents(frozenset({"table"}), frozenset({"table"})),
        Contents(frozenset(), frozenset()),
    ]
    assert names_in(places) == ["chair", "table"]
    assert names_in(places, unmet=["Chair"]) == ["table"]
    assert names_in(places[:3]) == ["table"]  # one place without a chair tells too little
    names = np.stack([chair, table])
    seen = [np.stack([unit((a * chair + other)[None])[0], other]) for a in (2.0, 1.0, 0.0, 0.5)]
    there = np.stack([reached([regions] * 3, names) for regions in seen])
    np.testing.assert_allclose(there[:, 0], [0.894, 0.707, 0.0, 0.447], atol=1e-3)
    hubs = np.stack([np.stack([chair * 0.1, other])] * 2)
    space = Space(
        np.stack([other[None]]),
        np.stack([other]),
        rooms=Rooms(hubs, np.full((2, 1), -1), np.zeros((0, 8), np.float32)),
    )
    absent, present = levels(["chair", "table"], places, there, space, names, names)
    assert absent[0] == pytest.approx((0.0 + 0.447) / 2 - 0.1, abs=1e-3)
    assert present[0] == pytest.approx(0.894 - 0.447 / 2, abs=1e-3)
    assert places_with(["chair", "table"], places).tolist() == [1.0, 1.0]


def test_a_place_shows_clearly_what_is_well_seen_and_might_hold_all_that_stands_there() -> None:
    from semflip_train.projection_levels import Contents

    scene = {
        "objects": [
            {"name": "sofa", "frames": 9, "largest_share": 0.3},
            {"name": "fire extinguisher", "frames": 2, "largest_share": 0.3},
        ]
    }
    place = Contents.of(scene)
    assert "sofa" in place.clear
    assert "fire extinguisher" not in place.clear
    assert {"couch", "fire extinguisher"} <= place.possible


def test_a_fold_has_no_level_of_what_it_never_met(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from semflip_core.encoders.mini.encoder import MiniEncoder
    from semflip_train import projection_rooms
    from semflip_train.cross_fit import HELD_OUT
    from semflip_train.projection_levels import Contents

    monkeypatch.setattr(projection_rooms, "vocabulary", lambda: ["sofa", "lamp", "vase"])
    monkeypatch.setattr(projection_rooms, "KEPT", 3)
    places = [
        Contents(frozenset({"sofa", "teapot"}), frozenset({"sofa", "teapot"})),
        Contents(frozenset({"lamp"}), frozenset({"lamp"})),
        Contents(frozenset(), frozenset()),
    ]
    encoder = MiniEncoder()
    whole = ProjectionWeights.load()
    fold = ProjectionWeights(whole.tensors, {**whole.header, HELD_OUT: ["teapot"]})
    frames = [
        (unit(np.random.default_rng(n).normal(size=(9, 384)).astype(np.float32)),) * 2
        for n in range(4)
    ]
    found = {}
    for name, weights in (("whole", whole), ("fold", fold)):
        measured = projection_rooms._Measured.of(encoder, weights, places)
        for number in range(3):
            measured.add(frames, hubs=number < 2)
        made = measured.weights_with([["sofa"], ["lamp"]], places)
        made.save(tmp_path / f"{name}.safetensors")
        found[name] = ProjectionWeights.load(tmp_path / f"{name}.safetensors")
        assert found[name]["rooms.projected"].shape == (2, 3, 384)
        assert found[name]["levels.absent"].shape == found[name]["levels.present"].shape
    assert found["whole"]["levels.places"].tolist() == [1.0, 1.0, 1.0]
    assert len(found["fold"]["levels.names"]) == 2
    teapot = encoder.meanings(["teapot"])[0]
    assert (found["whole"]["levels.names"] @ teapot).max() > 0.99
    assert (found["fold"]["levels.names"] @ teapot).max() < 0.9
    encoder.close()
