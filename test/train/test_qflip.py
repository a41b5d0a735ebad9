"""Q-Flip keeps the grammar, swaps only what it should, and its rejects are counted by reason."""

from __future__ import annotations

import numpy as np
import pytest

from semflip_core.decision import Reason
from semflip_core.errors import ConfigError, SynthesisError
from semflip_train.synthesis import filters
from semflip_train.synthesis.filters import Filters, SeenMemory, well_formed
from semflip_train.synthesis.lexicon import Lexicon, load_lexicon
from semflip_train.synthesis.phrases import find_referent, fitted_determiner, noun_of, plural_of
from semflip_train.synthesis.qflip import Proposal, Request, SlotFill
from semflip_train.synthesis.samples import PUBLISHED, STRATEGIES, reason_for
from support.synthesis import NamedDetector, query

pytest.importorskip("spacy")
ELSEWHERE = [
    query("e1", "How do I get to the orange toolbox?", "orange toolbox", sequence="b"),
    query("e2", "Is there a bathtub?", "bathtub", sequence="b"),
]


def rewrites(text: str, referent: str | None, strategy: str, elsewhere=ELSEWHERE) -> list[Proposal]:
    made = SlotFill(load_lexicon(), seed=3).propose(
        [Request(query("q", text, referent), strategy, elsewhere)]
    )
    return made[0]


@pytest.mark.parametrize(
    ("text", "hint", "core", "head", "anchor", "plural"),
    [
        ("Where is the red fire extinguisher?", None, "red fire extinguisher",
         "fire extinguisher", None, False),
        ("how many wooden chairs are next to the round table", None, "wooden chairs", "chairs",
         "the round table", True),
        ("I need to print something. Where is the printer?", "printer", "printer", "printer",
         None, False),
        ("where can i find the chest of drawers", None, "chest of drawers", "chest of drawers",
         None, False),
        ("Which way to the teddy bear under the bed?", "teddy bear under the bed", "teddy bear",
         "teddy bear", "the bed", False),
        ("What colour is the sofa in front of the TV?", None, "sofa", "sofa", "the TV", False),
        ("Can you see any red leather armchairs?", "red leather armchair",
         "red leather armchairs", "leather armchairs", None, True),
    ],
)  # fmt: skip
def test_the_referent_is_found(text, hint, core, head, anchor, plural):
    found = find_referent(text, hint)
    assert found is not None
    assert found.core.of(text) == core
    assert found.head.of(text) == head
    assert (found.anchor.of(text) if found.anchor else None) == anchor
    assert found.plural is plural


def test_questions_that_name_nothing_have_no_referent():
    assert find_referent("Where?") is None
    assert rewrites("Where?", None, "object", elsewhere=[]) == []


@pytest.mark.parametrize(
    ("noun", "plural"),
    [
        ("lamp", "lamps"),
        ("shelf", "shelves"),
        ("chest of drawers", "chests of drawers"),
        ("wine glass", "wine glasses"),
        ("battery", "batteries"),
        ("toy", "toys"),
    ],
)
def test_plurals(noun, plural):
    assert plural_of(noun) == plural


def test_articles_fit_the_new_noun():
    assert fitted_determiner("a", "umbrella") == "an"
    assert fitted_determiner("An", "lamp") == "A"
    assert fitted_determiner("the", "umbrella") == "the"
    assert noun_of("red mug on the desk") == "red mug"


def test_object_keeps_number_and_determiner():
    for proposal in rewrites("Are there any red chairs?", "red chair", "object"):
        if proposal.question in {q.question for q in ELSEWHERE}:
            continue  # another memory's question as it stands
        assert proposal.question.startswith("Are there any ")
        assert proposal.question.removesuffix("?").endswith("s")
        assert "chairs" not in proposal.question


def test_object_also_borrows_whole_questions_of_other_memories():
    borrowed = {p.question for p in rewrites("Where is the lamp?", "lamp", "object")}
    assert borrowed & {q.question for q in ELSEWHERE}


def test_referential_keeps_the_thing_and_moves_it():
    proposals = rewrites("Where is the pillow on the sofa?", "pillow on the sofa", "referential")
    assert proposals
    for proposal in proposals:
        assert proposal.question.startswith("Where is the pillow ")
        assert "sofa" not in proposal.question
        assert proposal.must_be_absent


def test_false_premise_leans_on_what_is_there():
    for proposal in rewrites("Where is the lamp?", "lamp", "false_premise"):
        assert "lamp" in proposal.question
        assert not proposal.question.startswith("Where is the lamp")
    for proposal in rewrites("Is a bicycle next to the table?", "bicycle", "false_premise"):
        assert proposal.question.endswith("next to the table?")
        assert "bicycle" not in proposal.question


def test_relation_swaps_the_preposition_alone():
    made = rewrites("Where is the cup on the table?", "cup", "relation")
    assert {p.question for p in made} <= {
        "Where is the cup under the table?",
        "Where is the cup behind the table?",
    }
    assert made
    assert rewrites("Where is the cup?", "cup", "relation") == []


def test_attribute_swaps_one_word_or_adds_a_colour():
    for proposal in rewrites("Where is the red chair?", "red chair", "attribute"):
        assert proposal.question.endswith(" chair?")
        assert " red " not in proposal.question
        assert proposal.colour
    for proposal in rewrites("Is there an umbrella?", "umbrella", "attribute"):
        article, colour = proposal.question.split()[2:4]
        assert colour in load_lexicon().colours
        assert article == ("an" if colour[0] in "aeiou" else "a")


@pytest.mark.parametrize(
    ("text", "referent"),
    [
        ("I need something to cut paper.", "scissors"),
        ("How many chairs are in the hall?", "chair"),
        ("Which lamp is the tallest?", "lamp"),
    ],
)
def test_a_pronoun_stands_only_for_what_a_question_names(text, referent):
    made = rewrites(text, referent, "vague")
    assert made
    assert {proposal.question for proposal in made} <= set(load_lexicon().vague)


@pytest.mark.parametrize("strategy", ["attribute", "referential", "false_premise", "object"])
def test_a_need_is_not_described_in_words_of_what_serves_it(strategy):
    """A blue page, or one in the kitchen, changes nothing about where the printer is."""
    made = rewrites("I need to print a page.", "printer", strategy)
    assert {proposal.question for proposal in made} <= {other.question for other in ELSEWHERE}
    assert rewrites("Where is the printer?", "printer", strategy)


def test_a_thing_is_not_said_to_be_in_a_room_that_is_here_too():
    others = [
        query("e1", "Where is the toaster in the kitchen?", "toaster in the kitchen", sequence="b"),
        query("e2", "Where is the sofa in the hallway?", "sofa in the hallway", sequence="b"),
        query("e3", "Where is the bed in the bedroom?", "bed in the bedroom", sequence="b"),
    ]
    lamp = query("q", "Where is the lamp in the office?", "lamp in the office")
    here = ("in the office", "in the kitchen", "in the corridor")
    request = Request(lamp, "referential", others, places_here=here)
    (made,) = SlotFill(load_lexicon(), seed=3).propose([request])
    rooms = {p.question for p in made if " in the " in p.question}
    assert "Where is the lamp in the bedroom?" in rooms
    assert not any("kitchen" in q or "hallway" in q for q in rooms)


def test_a_thing_in_a_room_is_said_to_be_in_a_room_of_another_place():
    others = [
        query("e1", "Where is the toaster in the kitchen?", "toaster in the kitchen", sequence="b"),
        query("e2", "Where is the mug on the shelf?", "mug on the shelf", sequence="b"),
    ]
    made = rewrites("Where is the lamp in the office?", "lamp in the office", "referential", others)
    moved = [p for p in made if p.question == "Where is the lamp in the kitchen?"]
    assert moved
    assert moved[0].must_be_absent == "kitchen"
    assert not any("in the shelf" in p.question for p in made)
    beside = rewrites("Where is the lamp on the desk?", "lamp on the desk", "referential", others)
    assert not any("in the kitchen" in p.question for p in beside)


@pytest.mark.parametrize("strategy", ["subjective", "unavailable", "needs_action"])
def test_templates_name_the_same_thing(strategy):
    for proposal in rewrites("How many chairs are in the hall?", "chair", strategy):
        assert "chair" in proposal.question
        assert "{" not in proposal.question


@pytest.mark.parametrize(
    ("text", "referent", "start", "end"),
    [
        (
            "Where is the red chair next to the desk?",
            "red chair next to the desk",
            "Where is ",
            "?",
        ),
        ("The cups, please.", "cups", "", ", please."),
    ],
)
def test_a_vague_question_says_nowhere_what_it_is_about(text, referent, start, end):
    lexicon = load_lexicon()
    made = rewrites(text, referent, "vague")
    plural = referent.endswith("s")
    spoken = lexicon.plural_pronouns if plural else lexicon.pronouns
    own = {f"{start}{word if start else word.capitalize()}{end}" for word in spoken}
    questions = {proposal.question for proposal in made}
    assert questions <= own | set(lexicon.vague)
    assert questions & own
    assert questions & set(lexicon.vague)
    assert not any("chair" in q or "desk" in q or "cup" in q for q in questions)


def test_rewrites_depend_on_the_seed_alone():
    first = rewrites("Where is the lamp?", "lamp", "object")
    assert first == rewrites("Where is the lamp?", "lamp", "object")
    other = SlotFill(load_lexicon(), seed=4).propose(
        [Request(query("q", "Where is the lamp?", "lamp"), "object", ELSEWHERE)]
    )
    assert other[0] != first


def test_unknown_strategy_lists_the_known_ones():
    with pytest.raises(SynthesisError, match=r"unknown strategy 'rhyme'; known: referential"):
        rewrites("Where is the lamp?", "lamp", "rhyme")


def test_published_strategies_come_first():
    assert STRATEGIES[:3] == PUBLISHED == ("referential", "false_premise", "subjective")


def test_reasons_follow_the_strategy():
    assert reason_for("vflip", "") is Reason.ABSENT
    assert reason_for("qflip", "referential", several=True) is Reason.AMBIGUOUS
    assert reason_for("qflip", "referential") is Reason.ABSENT
    assert reason_for("qflip", "relation") is Reason.FALSE_PREMISE
    assert reason_for("qflip", "needs_action") is Reason.NEEDS_ACTION
    assert reason_for("qflip", "vague") is Reason.AMBIGUOUS


def test_a_wrong_lexicon_names_the_key(tmp_path):
    file = tmp_path / "words.yaml"
    file.write_text("objects: []\n")
    with pytest.raises(ConfigError, match=r"words\.yaml.*places"):
        load_lexicon(file)
    assert Lexicon.model_validate(load_lexicon().model_dump()).exchange("wooden") == (
        "plastic",
        "metal",
    )


@pytest.fixture
def checks():
    seen = SeenMemory([None] * 3, NamedDetector({"bathtub": [1.0, 9.0, 1.0]}))  # type: ignore[list-item]
    return Filters(seen, frozenset({"Is there a sofa?"}), ("sofa", "lamp"))


@pytest.mark.parametrize(
    ("proposal", "reason"),
    [
        (Proposal("where is the LAMP", "lamp"), filters.UNCHANGED),
        (Proposal("Where is the the toolbox?", "toolbox"), filters.MALFORMED),
        (Proposal("is there a sofa", "sofa"), filters.ANSWERABLE_HERE),
        (
            Proposal("Where is the light?", "x", replaced_words="couch", new_words="sofa"),
            filters.PARAPHRASE,
        ),
        (Proposal("Where is the couch?", "couch", "couch"), filters.KNOWN_HERE),
        (Proposal("Where is the bathtub?", "bathtub", "bathtub"), filters.FOUND),
        (Proposal("Where is the toolbox?", "toolbox", "toolbox"), None),
    ],
)
def test_filters_name_their_reason(checks, proposal, reason):
    pytest.importorskip("tokenizers")
    assert checks.reject("Where is the lamp?", proposal) == reason


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("Where is it?", True),
        ("Where", False),
        ('{"question": "Where is it?"}', False),
        ("Where  is it?", False),
        ("Where is is it?", False),
        (" ".join(["where"] + [f"w{i}" for i in range(60)]), False),
    ],
)
def test_well_formed(text, fine):
    assert well_formed(text) is fine


def test_presence_may_be_set_by_what_the_memory_shows():
    seen = SeenMemory([None] * 3, NamedDetector({"cup": [1.0, 4.5, 1.0]}))  # type: ignore[list-item]
    assert not seen.found("cup")
    seen.present = 4.0
    assert seen.found("cup")
    assert np.allclose(seen.strengths("cup"), [1.0, 4.5, 1.0])
