"""Questions to phrases and phrases to vectors."""

from __future__ import annotations

import random

import numpy as np
import pytest

from semflip_core.encoders.mini.phrases import PhraseParser
from semflip_core.encoders.mini.text import TextEncoder, gelu


@pytest.fixture(scope="module")
def parser() -> PhraseParser:
    return PhraseParser()


@pytest.fixture(scope="module")
def text() -> TextEncoder:
    return TextEncoder()


@pytest.mark.parametrize(
    ("question", "phrases"),
    [
        ("Where is the red fire extinguisher?", ["red fire extinguisher"]),
        ("can you find my mug on the desk", ["mug", "desk"]),
        ("wheres the trash can", ["trash bin"]),
        ("Go to the bicycle next to the piano", ["bicycle", "piano"]),
        ("How many chairs are there around the table?", ["chairs", "table"]),
        ("Bring the box of matches to me", ["box of matches"]),
        ("Where can I sit down?", ["sit down"]),
        ("I need to print something. Where?", ["print"]),
        ("drive over to the blue office chair please", ["blue office chair"]),
        ("what is the colour of the sofa", ["sofa"]),
        ("my sister forgot her red scarf in the kitchen", ["red scarf", "kitchen"]),
        ("Somebody left a wooden tray here.", ["wooden tray"]),
        ("Where is my sister?", ["sister"]),
        ("whereabouts is the kettle", ["kettle"]),
        ("Stop in front of the safe.", ["safe"]),
        ("the blue tall vase - where?", ["blue tall vase"]),
        ("Which room is the sofa in?", ["sofa"]),
        ("Which side of the room is the red sofa on?", ["red sofa"]),
        ("what shape is the cup", ["cup"]),
        ("Which shop did the vase come from?", ["vase"]),
        ("Which chair is next to the table?", ["chair", "table"]),
        ("Which lamp is the tallest?", ["lamp"]),
        ("Is there a blue table lamp around here?", ["blue table lamp"]),
        ("take me there: the floor lamp", ["floor lamp"]),
        ("Did anybody see where I left the black reading lamp?", ["black reading lamp"]),
        ("the white shop stool - where?", ["white shop stool"]),
        ("the cream folding table - where?", ["cream folding table"]),
        ("what does the exit sign say", ["exit sign"]),
        ("Does the sofa stand near the window?", ["sofa", "window"]),
        ("Have you seen the sofa today?", ["sofa"]),
        ("What is inside the floor lamp?", ["floor lamp"]),
        ("Is the floor lamp beautiful?", ["floor lamp"]),
        ("Can the office chair spin?", ["office chair"]),
        ("Where is the lamp Tom bought?", ["lamp"]),
        ("Where is the bag my friend lost?", ["bag"]),
        ("Find the chair people sit on", ["chair", "people"]),
        ("go to the table the lamp stands on", ["table", "lamp"]),
        ("does the desk lamp work", ["desk lamp"]),
        ("Does the floor lamp wobble?", ["floor lamp"]),
        ("What does the wall clock weigh?", ["wall clock"]),
        ("Is the red chair open or closed?", ["red chair"]),
        ("My aunt is looking for the sofa; show her the way.", ["sofa"]),
        ("My colleague says there is a printer here, where exactly?", ["printer"]),
        ("Where does a sign say that smoking is prohibited?", ["sign", "smoking"]),
        ("I can't for the life of me find the kettle.", ["kettle"]),
        ("Where on earth has the red chair gone?", ["red chair"]),
        ("Which room has the bookcase in it?", ["bookcase"]),
        ("Which corner of the room holds the lamp?", ["lamp"]),
        ("Which chair has the red cushion?", ["chair", "red cushion"]),
        ("Let's head for the sofa together.", ["sofa"]),
        ("park close to the sofa", ["sofa"]),
        ("Is there a park close to the lamp?", ["park", "lamp"]),
        ("please iron the shirt", ["shirt"]),
        ("Iron the shirt.", ["shirt"]),
        ("the iron, where is it?", ["iron"]),
        ("Chair by the door?", ["chair", "door"]),
    ],
)
def test_what_a_question_looks_for(parser: PhraseParser, question: str, phrases: list[str]) -> None:
    assert [p.text for p in parser.parse(question).phrases] == phrases


@pytest.mark.parametrize(
    "question",
    [
        "Where in the house are the blue lilies on the table with a checked tablecloth?",
        "Might the black footstool behind the purple stockpot be somewhere in this room?",
        "Rinse the floor lamp under the tap.",
    ],
)
def test_joining_compounds_keeps_the_tree_a_tree(parser: PhraseParser, question: str) -> None:
    assert parser.parse(question).phrases[0].noun


def test_no_order_of_words_is_too_much(parser: PhraseParser) -> None:
    text = (
        "the a red cream blue folding floor table lamp reading bin stool play work wheelie of to "
        "and is are does where have behind on you grab suit stand orange gold - , ? in over there "
        "does did be look weigh beautiful Tom people next to"
    )
    words = text.split()
    rng = random.Random(0)
    for _ in range(400):
        question = " ".join(rng.choice(words) for _ in range(rng.randint(1, 14)))
        assert all(phrase.text for phrase in parser.parse(question).phrases), question


def test_colour_and_head_are_told_apart(parser: PhraseParser) -> None:
    (phrase,) = parser.parse("Where are the crimson office chairs with wheels?").phrases
    assert (phrase.head, phrase.colour) == ("office chair", "red")
    assert "wheels" in phrase.attributes
    (plain,) = parser.parse("where is the orange").phrases
    assert (plain.head, plain.colour) == ("orange", None)


def test_wording_holds_how_and_not_what(parser: PhraseParser) -> None:
    wordings = {parser.parse(f"Where is the {x}?").wording for x in ("red chair", "dog", "printer")}
    assert wordings == {"where is the thing ?"}
    assert "comfortable" in parser.parse("Which chair looks the most comfortable?").wording


@pytest.mark.parametrize(
    "question", ["", "   ", "!!!", "😀", "12", "wh", "the", "a\u200bb", "где стул"]
)
def test_anything_has_one_phrase_at_least(parser: PhraseParser, question: str) -> None:
    parsed = parser.parse(question)
    assert parsed.phrases
    assert all(phrase.text for phrase in parsed.phrases)
    assert parsed.wording


def test_like_words_are_near(text: TextEncoder) -> None:
    sofa, couch, other = text.vectors(["sofa", "couch", "fire extinguisher"])
    assert sofa @ couch == pytest.approx(0.8564, abs=1e-3)
    assert sofa @ other == pytest.approx(0.2548, abs=1e-3)


def test_same_vectors_as_the_reference_implementation(text: TextEncoder) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from semflip_core.encoders.mini.assets import MINILM, packaged_file

    folder = packaged_file(MINILM, "a test").parent
    model = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    for sentence in ("Where is the red fire extinguisher?", "sofa", "😀 ¿dónde? " * 60):
        tokens = tokenizer(sentence, return_tensors="pt", truncation=True, max_length=128)
        with torch.no_grad():
            mean = model(**tokens).last_hidden_state[0].mean(0)
        expected = (mean / mean.norm()).numpy()
        np.testing.assert_allclose(text.vectors([sentence])[0], expected, atol=5e-6)


def test_a_vector_does_not_depend_on_its_neighbours(text: TextEncoder) -> None:
    alone = text.vectors(["office chair"])[0]
    fresh = TextEncoder().vectors(["a much longer sentence about something else", "office chair"])
    np.testing.assert_array_equal(alone, fresh[1])


def test_gelu_is_exact_to_single_precision() -> None:
    from math import erf, sqrt

    x = np.linspace(-6, 6, 401).astype(np.float32)
    exact = np.array([0.5 * v * (1 + erf(v / sqrt(2))) for v in x.astype(float)])
    np.testing.assert_allclose(gelu(x), exact, atol=1e-6)
