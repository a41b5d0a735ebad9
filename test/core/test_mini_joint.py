"""The joint embedding on made-up regions: what the gate can see of presence, colour and place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from semflip_core.encoders.joint import WEAKEST, JointModel
from semflip_core.encoders.joint_grounding import (
    COLOUR_STATISTICS,
    PAIR_STATISTICS,
    PHRASE_STATISTICS,
)
from semflip_core.encoders.joint_space import Beside, FrameView, Levels, PhraseView, Rooms, Space
from semflip_core.encoders.mini.colours import COLOURS
from semflip_core.encoders.mini.conse import unit
from semflip_core.encoders.mini.regions import boxes
from semflip_core.errors import EncoderError

Array = NDArray[np.float32]
DIM = 64
COUNT = len(boxes(21, 28))
PAIRING = PHRASE_STATISTICS + len(WEAKEST)
COLOUR = PAIRING + PAIR_STATISTICS + 3
RED, BLUE = COLOURS.index("red"), COLOURS.index("blue")


def noise(seed: int, *shape: int) -> Array:
    return unit(np.random.default_rng(seed).normal(size=(*shape, DIM)).astype(np.float32))


CHAIR, RED_CHAIR, BLUE_CHAIR, TABLE = unit(
    noise(1, 1)[0]
    + np.stack([0 * noise(2, 1)[0], noise(2, 1)[0], noise(3, 1)[0], 9 * noise(4, 1)[0]])
)


@pytest.fixture(scope="module")
def model() -> JointModel:
    return JointModel([Space(noise(5, 20, 40), noise(6, 180))], text_dimensions=2)


def phrase(vector: Array, head: Array, colour: int | None = None) -> PhraseView:
    other = BLUE_CHAIR if colour == RED else RED_CHAIR
    repainted = [other[None]] if colour is not None else [np.zeros((0, DIM), np.float32)]
    meanings = np.stack([vector, head])
    return PhraseView([vector], [head], meanings, np.ones(180, bool), colour, repainted)


def frame(
    key: int, model: JointModel, shown: dict[int, Array], colour: int | None = None
) -> FrameView:
    """A frame of noise with some vectors put into some regions, painted where a colour is given."""
    regions = noise(100 + key, COUNT)
    colours = np.full((COUNT, len(COLOURS)), 1 / len(COLOURS), np.float32)
    for region, vector in shown.items():
        regions[region] = unit(vector + 0.4 * regions[region])
        if colour is not None:
            colours[region] = np.eye(len(COLOURS), dtype=np.float32)[colour]
    best = model.spaces[0].best_distractors(regions)
    return FrameView(key, [regions], [best], boxes(21, 28), colours)


def embed(model: JointModel, phrases: list[PhraseView], frames: list[FrameView]) -> Array:
    joint = model.embed(phrases, np.zeros(2, np.float32), frames)
    joint.check(model.dimension, len(frames))
    return joint.vector


def test_what_is_there_stands_out_and_its_frame_is_the_evidence(model: JointModel) -> None:
    frames = [frame(k, model, {40: CHAIR} if 5 <= k <= 7 else {}) for k in range(12)]
    joint = model.embed([phrase(CHAIR, CHAIR)], np.zeros(2, np.float32), frames)
    assert set(np.argsort(joint.relevance)[-3:].tolist()) == {5, 6, 7}
    np.testing.assert_array_equal(joint.regions[6], boxes(21, 28)[40])
    absent = embed(model, [phrase(CHAIR, CHAIR)], [frame(k, model, {}) for k in range(12)])
    statistics = slice(0, PHRASE_STATISTICS)
    more = joint.vector[statistics] - absent[statistics]
    assert (more[[0, 1, 3, 4, 6, 8, 10, 11, 12]] > 0.1).all()
    assert (more[[5, 9]] >= 0).all()  # ranks: nothing competes here


def test_the_wrong_colour_shows_on_pixels_and_in_words(model: JointModel) -> None:
    frames = [frame(k, model, {40: RED_CHAIR} if k < 3 else {}, RED) for k in range(8)]
    right = embed(model, [phrase(RED_CHAIR, CHAIR, RED)], frames)[
        COLOUR : COLOUR + COLOUR_STATISTICS
    ]
    wrong = embed(model, [phrase(BLUE_CHAIR, CHAIR, BLUE)], frames)[
        COLOUR : COLOUR + COLOUR_STATISTICS
    ]
    assert right[0] == wrong[0] == 1.0
    assert (right[1:] > wrong[1:] + 0.05).all()
    plain = embed(model, [phrase(CHAIR, CHAIR)], frames)[COLOUR : COLOUR + COLOUR_STATISTICS]
    assert not plain.any()


def test_a_colour_that_all_the_picture_has_says_less_than_one_that_only_the_thing_has(
    model: JointModel,
) -> None:
    def lead(walls: int) -> Array:
        seen = frame(0, model, {40: RED_CHAIR})
        colours = np.tile(np.eye(len(COLOURS), dtype=np.float32)[walls], (COUNT, 1))
        colours[40] = np.eye(len(COLOURS), dtype=np.float32)[RED]
        view = FrameView(0, seen.regions, seen.distractors, seen.boxes, colours)
        return embed(model, [phrase(RED_CHAIR, CHAIR, RED)], [view])[
            COLOUR : COLOUR + COLOUR_STATISTICS
        ]

    among_blue, among_red = lead(BLUE), lead(RED)
    assert among_blue[3] == among_red[3] == 1.0  # all of the region is red, either way
    assert (among_blue[6:] > among_red[6:] + 1.0).all()


def test_the_frame_in_the_colour_asked_for_is_the_evidence(model: JointModel) -> None:
    frames = [frame(k, model, {40: CHAIR}, RED if k == 2 else BLUE) for k in range(4)]
    joint = model.embed([phrase(CHAIR, CHAIR, RED)], np.zeros(2, np.float32), frames)
    assert int(joint.relevance.argmax()) == 2


def test_another_model_s_word_is_a_group_of_its_own_and_moves_the_evidence(
    model: JointModel,
) -> None:
    both = JointModel(model.spaces, text_dimensions=2, beside_dimensions=3)
    frames = [frame(k, model, {}) for k in range(6)]
    said = Beside(np.array([1, 2, 3], np.float32), 30.0 * np.eye(6, dtype=np.float32)[4])
    wording = np.zeros(2, np.float32)
    alone = model.embed([phrase(CHAIR, CHAIR)], wording, frames)
    joint = both.embed([phrase(CHAIR, CHAIR)], wording, frames, said)
    assert both.dimension == model.dimension + 3
    assert joint.vector[both.layout["beside"]].tolist() == [1, 2, 3]
    rest = np.delete(joint.vector, both.layout["beside"])
    np.testing.assert_array_equal(rest, alone.vector)
    assert joint.relevance.argmax() == 4
    with pytest.raises(EncoderError, match="beside"):
        both.embed([phrase(CHAIR, CHAIR)], wording, frames)
    with pytest.raises(EncoderError, match="beside"):
        model.embed([phrase(CHAIR, CHAIR)], wording, frames, said)


def test_a_thing_elsewhere_does_not_place_the_target(model: JointModel) -> None:
    asked = [phrase(CHAIR, CHAIR), phrase(TABLE, TABLE)]
    beside, far = 40, 0  # regions in the middle of the picture and in its corner
    near = [frame(k, model, {beside: CHAIR, beside + 1: TABLE} if k < 3 else {}) for k in range(8)]
    across = [frame(k, model, {beside: CHAIR, far: TABLE} if k < 3 else {}) for k in range(8)]
    apart = [
        frame(k, model, {beside: CHAIR} if k < 3 else {beside: TABLE} if k > 5 else {})
        for k in range(8)
    ]
    together, same_frame, elsewhere = (
        embed(model, asked, frames)[PAIRING : PAIRING + PAIR_STATISTICS]
        for frames in (near, across, apart)
    )
    assert (together > elsewhere + 0.3).all()
    assert same_frame[2] > elsewhere[2] + 0.3
    assert together[3] > same_frame[3] + 0.3  # within reach of the target


def test_frames_that_are_all_alike_have_no_correlation(model: JointModel) -> None:
    same = frame(0, model, {40: CHAIR})
    frames = [
        FrameView(k, same.regions, same.distractors, same.boxes, same.colours) for k in range(5)
    ]
    vector = embed(model, [phrase(CHAIR, CHAIR), phrase(TABLE, TABLE)], frames)
    assert vector[PAIRING + 4] == 0.0
    joint = model.embed([phrase(CHAIR, CHAIR)], np.zeros(2, np.float32), frames)
    np.testing.assert_allclose(joint.relevance, joint.relevance[0])


def test_the_layout_names_every_feature_once(model: JointModel) -> None:
    covered = np.zeros(model.dimension, int)
    for where in model.layout.values():
        covered[where] += 1
    assert (covered == 1).all()
    assert model.layout["colour"].start == COLOUR
    assert model.layout["space0.pairing"].start == PAIRING
    assert model.layout["wording"].stop - model.layout["wording"].start == 2


def test_chance_counts_only_regions_that_show_something_else() -> None:
    regions = noise(30, 4, 20)
    names = np.stack([CHAIR, TABLE])
    regions[0, :6] = CHAIR  # a chair in sight of the first picture
    regions[3, :6] = CHAIR  # and in a photograph that nobody described
    shown = np.full((4, 20, 2), -1)
    shown[0, :6, 1] = 0
    shown[1, :, 0] = 1
    shown[3, :, 0] = -2
    blind = Space(regions, noise(6, 8))
    told = Space(regions, noise(6, 8), shown, names)
    other = noise(40, 1)[0]
    assert blind.chance(CHAIR, CHAIR) > 0.95
    assert told.chance(CHAIR, CHAIR) < 0.6
    assert told.chance(CHAIR, other) > 0.9  # what it means decides, not where it was moved to
    assert told.chance(other, other) == pytest.approx(blind.chance(other, other), abs=0.2)


def test_photographs_are_a_measure_of_their_own() -> None:
    regions = noise(30, 4, 20)
    regions[0, :6] = CHAIR
    shown = np.full((4, 20, 1), -1)
    told = Space(regions, noise(6, 8), shown, np.stack([TABLE]))
    assert told.usual(CHAIR) > 0.95  # nothing is a photograph: all of them count
    shown[3] = -2
    assert Space(regions, noise(6, 8), shown, np.stack([TABLE])).usual(CHAIR) < 0.6
    regions[3, :6] = CHAIR
    assert Space(regions, noise(6, 8), shown, np.stack([TABLE])).usual(CHAIR) > 0.95
    assert Space(regions, noise(6, 8)).usual(CHAIR) > 0.95


def test_presence_is_told_from_resemblance(model: JointModel) -> None:
    absent = [frame(i, model, {}) for i in range(4)]
    there = [*absent[:3], frame(3, model, {40: CHAIR})]
    where = model.layout["space0.target"].start + PHRASE_STATISTICS - 8
    question = [phrase(CHAIR, CHAIR)]
    wording = np.zeros(2, np.float32)
    without = model.embed(question, wording, absent).vector[where]
    assert model.embed(question, wording, there).vector[where] > without + 0.1


def test_what_a_phrase_means_and_not_where_it_was_moved_to_tells_which_rooms_show_it() -> None:
    rooms = noise(7, 4, 30)
    rooms[0, 3] = RED_CHAIR
    shown = np.array([[0], [-1], [-1], [-1]])
    known = Rooms(rooms, shown, np.stack([TABLE]))
    space = Space(noise(5, 20, 40), noise(6, 180), rooms=known)
    model = JointModel([space], text_dimensions=2)
    frames = [frame(i, model, {}) for i in range(4)]
    where = model.layout["space0.target"].start + PHRASE_STATISTICS - 6
    moved = phrase(RED_CHAIR, RED_CHAIR)  # a word that means a table and looks like a red chair
    told = replace(moved, meanings=np.stack([TABLE, TABLE]))
    wording = np.zeros(2, np.float32)
    above = [model.embed([view], wording, frames).vector[where] for view in (told, moved)]
    assert above[0] > above[1] + 0.2  # the room with a table is no measure of a table's absence


def test_presence_is_judged_by_rooms_without_such_a_thing() -> None:
    rooms = noise(7, 4, 30)
    rooms[0, 3] = CHAIR
    shown = np.array([[0], [-1], [-1], [-1]])
    honest = Rooms(rooms, shown, np.stack([CHAIR]))
    blind = Rooms(rooms, np.full((4, 1), -1), np.stack([CHAIR]))
    without, _ = honest.reached(CHAIR[None], CHAIR[None])
    fooled, highest = blind.reached(CHAIR[None], CHAIR[None])
    assert without[0] == pytest.approx((rooms[1:] @ CHAIR).max(axis=1).mean(), abs=1e-6)
    assert fooled[0] > without[0] + 0.1
    assert highest == pytest.approx(1.0, abs=1e-5)


def test_what_names_reach_tells_what_to_expect_of_phrases_that_resemble_them() -> None:
    names = np.stack([CHAIR, TABLE])
    known = Levels(names, np.array([0.2, 0.0]), np.array([0.6, 0.1]), np.array([9.0, 9.0]))
    absent, present = known.of(CHAIR)
    assert absent == pytest.approx(0.2, abs=0.03)
    assert present == pytest.approx(0.6, abs=0.03)
    assert known.of(TABLE)[1] == pytest.approx(0.1, abs=0.03)
    absent, present = known.of(noise(41, 1)[0])  # unlike both: the usual, and no correction
    assert absent == pytest.approx(0.0, abs=0.01)
    assert present == pytest.approx(0.35, abs=0.03)
    rare = replace(known, places=np.array([1.0, 99.0]))
    assert rare.of(noise(41, 1)[0])[1] < 0.12  # a name of many places says more of the usual


def test_one_and_the_same_resemblance_says_less_of_a_thing_that_is_found_with_certainty() -> None:
    frames = [frame(i, JointModel([Space(noise(5, 20, 40), noise(6, 180))], 2), {40: CHAIR})
              for i in range(4)]  # fmt: skip
    vectors = []
    for present in (0.2, 0.8):
        levels = Levels(CHAIR[None], np.zeros(1), np.array([present]), np.array([5.0]))
        space = Space(noise(5, 20, 40), noise(6, 180), levels=levels)
        vectors.append(embed(JointModel([space], 2), [phrase(CHAIR, CHAIR)], frames))
    easy, hard = (vector[:PHRASE_STATISTICS] for vector in vectors)
    np.testing.assert_allclose(easy[:-2], hard[:-2], rtol=1e-6)
    np.testing.assert_allclose(easy[-2:] - hard[-2:], 0.3, atol=0.02)


def test_a_thing_of_every_room_is_judged_by_those_that_resemble_it_least() -> None:
    rooms = noise(8, 4, 30)
    rooms[:2, 3] = CHAIR
    known = Rooms(rooms, np.zeros((4, 1), np.int64), np.stack([CHAIR]))
    mean, highest = known.reached(CHAIR[None], CHAIR[None])
    assert mean[0] < 0.9
    assert highest < 0.9
