"""Words of the simulation: what is true of which object, and which questions are asked of whom."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from semflip_core.encoders.mini.phrases import PhraseParser
from semflip_train.projection_questions import KINDS
from semflip_train.simulation import wording
from semflip_train.simulation.evenness import Evenness
from semflip_train.simulation.labels import DriveLabels, FrameCover
from semflip_train.simulation.path import TimedPose
from semflip_train.simulation.phrases import PLAIN, Phrase, candidates, phrases_of
from semflip_train.simulation.placed import Placed
from semflip_train.simulation.plan import Plan, make_plan
from semflip_train.simulation.questions import QuestionWriter
from semflip_train.simulation.referents import Seen, near_misses, referents
from semflip_train.simulation.settings import LabelSettings
from semflip_train.simulation.things import all_things
from semflip_train.synthesis.lexicon import load_lexicon

THINGS = {thing.name: thing for thing in all_things()}
GREEN_CHAIR, BLUE_CHAIR = (
    sorted(THINGS["chair"].models).index(key) for key in ("cc0/armchair", "cc0/plasticChair")
)


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


# -- words --------------------------------------------------------------------------------------


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
    train = {*wording.TRAIN.named, *wording.TRAIN.needed, *wording.TRAIN.about}
    test = {*wording.TEST.named, *wording.TEST.needed, *wording.AMBIGUOUS, *wording.VAGUE}
    assert not train & test
    for template in (*wording.FALSE_PREMISE, *wording.UNAVAILABLE, *wording.NEEDS_ACTION):
        text = wording.put(template, Phrase("sneakers"), room="hallway", absent="the dog")
        assert "{" not in text


def words_of(template: str) -> frozenset[str]:
    """Words of a template without articles and placeholders; verbs stand for their singular."""
    text = re.sub(r"\{(is|was|do)\}", lambda m: {"do": "does"}.get(m[1], "is"), template)
    text = re.sub(r"\{\w*\}", "", text).lower().replace("'s ", " is ")
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
    train = wording.TRAIN
    asked = (*train.named, *train.needed, *train.about)
    lexicon = load_lexicon()
    flipped = (
        *lexicon.subjective,
        *lexicon.unavailable,
        *lexicon.needs_action,
        *lexicon.vague,
        *(
            template.replace("{the}", pronoun)
            for template in train.named
            for pronoun in (*lexicon.pronouns, *lexicon.plural_pronouns)
        ),
    )
    learned = (*asked, *flipped, *itertools.chain(*KINDS.values()))
    near = [
        (a, b)
        for a in learned
        for b in test
        if len(words_of(a) & words_of(b)) >= 0.7 * len(words_of(a) | words_of(b))
    ]
    assert near == []


def test_training_questions_are_read_as_questions_about_their_thing() -> None:
    parser = PhraseParser()
    phrase = Phrase("desk lamp", "red")
    for template in (*wording.TRAIN.named, *wording.TRAIN.about):
        question = wording.put(template, phrase)
        assert parser.parse(question).phrases[0].text == "red desk lamp", question


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


def test_training_asks_what_things_are_like_and_the_test_does_not() -> None:
    names = ("sofa", "teddy bear", "fridge", "toaster", "radiator", "cactus", "umbrella", "stove")
    objects = tuple(placed(name, 0, (2.0 * i, 0.0)) for i, name in enumerate(names))
    where = plan("living", "kitchen")
    parts = {"train": (*objects, placed("bed", 0, (20.0, 0.0))), "test": objects}
    both = [seen_as(split, split, things, where) for split, things in parts.items()]
    rows = QuestionWriter(both, per_sequence=24, seed=3).write()
    about = [re.sub(r"\{\w+\}", ".*", template) for template in wording.TRAIN.about]

    def share(split: str) -> float:
        asked = [r["question"] for r in rows if r["answerable"] and r["sequence"] == split]
        return sum(any(re.fullmatch(a, q) for a in about) for q in asked) / len(asked)

    assert 0.0 < share("train") < 0.4
    assert share("test") == 0.0


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
    assert abs(share[True] - share[False]) < 0.12, share


def test_training_questions_name_looks_as_often_as_their_shares_say() -> None:
    names = ("sofa", "backpack", "vase", "bowl", "kettle", "suitcase", "umbrella", "bookcase")
    colours = ("red", "blue", "green", "yellow", "white", "purple")

    def named(balanced: bool) -> float:
        looks = []
        for seed in range(8):
            rng = np.random.default_rng(seed)
            objects = tuple(
                replace(placed(thing, 0, (2.0 * i, 0.0)), paint=str(rng.choice(colours)))
                for i, thing in enumerate(names)
            )
            room = seen_as("a", "train", objects, plan("living", "hall"))
            rows = QuestionWriter([room], 24, seed, balanced).write()
            assert all(row["answerable"] for row in rows)
            looks += [row["referent"].split()[0] in colours for row in rows]
        return float(np.mean(looks))

    # Of kinds that some things lack, such as needs, the share goes to the others.
    assert 0.25 < named(balanced=True) < 0.55
    assert named(balanced=False) < named(balanced=True)


def test_answers_prefer_the_kinds_and_nouns_that_were_refused_until_they_are_even() -> None:
    objects = tuple(
        placed(name, 0, (2.0 * i, 0.0)) for i, name in enumerate(("sofa", "bed", "vase"))
    )
    seen = seen_as("a", "test", objects, plan("living"))
    pool = [item for item in referents(seen) if item.kind in ("name", "need")]
    even = Evenness()
    for noun in ("sofa", "sofa", "bed"):
        even.add(seen, Phrase(noun), "name", answerable=False)

    def wanted() -> dict[str, float]:
        weights = even.weights(seen, pool, alone=6)
        assert (weights > 0).all()
        total: dict[str, float] = {}
        for item, weight in zip(pool, weights, strict=True):
            key = item.phrase.noun if item.kind == "name" else item.kind
            total[key] = total.get(key, 0.0) + weight / weights.sum()
        return total

    first = wanted()
    assert first["sofa"] > first["bed"] > first["vase"]
    assert first["need"] < 0.01, "nobody was refused a need"
    for _ in range(5):
        even.add(seen, Phrase("sofa"), "name", answerable=True)
    assert wanted()["sofa"] < wanted()["bed"]


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
