"""Where in a question its referent stands, so that words can be swapped and the grammar kept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from semflip_core.encoders.mini.english import english

#: Heads that name nothing one can see.
GENERIC = frozenset(
    {
        "thing",
        "something",
        "anything",
        "place",
        "spot",
        "location",
        "room",
        "area",
        "way",
        "kind",
        "one",
        "someone",
        "anyone",
        "direction",
        "picture",
        "side",
        "time",
        "moment",
        "question",
        "colour",
        "color",
        "size",
        "shape",
        "number",
        "name",
        "front",
        "top",
        "back",
        "end",
        "middle",
        "corner",
        "bottom",
        "left",
        "right",
    }
)
VOWELS = frozenset("aeiou")
#: Words that may stand between a referent and its place: "the lamp that stands next to...".
MAX_GAP = 3


@dataclass(frozen=True, slots=True)
class Span:
    """Characters ``start:end`` of the question."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """The words of this span."""
        return text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Referent:
    """What a question asks about.

    Args:
        phrase: determiner to head, ``the red chairs``.
        core: the same without the determiner, ``red chairs``.
        head: noun with its compounds, ``chairs``.
        determiner: empty span where there is none.
        attributes: adjectives between determiner and head.
        relation: preposition of an attached place, ``next to`` in "chairs next to the table".
        anchor: the noun phrase after it, ``the table``; None where there is none.
        plural: whether the head is plural.
    """

    phrase: Span
    core: Span
    head: Span
    determiner: Span
    attributes: tuple[Span, ...]
    relation: Span | None
    anchor: Span | None
    anchor_head: Span | None
    plural: bool
    counted: bool


def find_referent(question: str, hint: str | None = None) -> Referent | None:
    """The noun phrase that the question is about.

    Args:
        hint: words of the referent where the dataset knows them. Where they stand in the question
            they are it; else the chunk that shares most of them; else the first that names
            something.

    Returns:
        None where the question names nothing.
    """
    doc = english()(question)
    if hint and (span := _verbatim(doc, hint)) is not None:
        return _referent(doc, *span)
    chunks = [c for c in doc.noun_chunks if _names(c)]
    if not chunks:
        return None
    wanted = {w.lower() for w in (hint or "").replace("-", " ").split()}
    shared = [len(wanted & ({t.lower_ for t in c} | {c.root.lemma_.lower()})) for c in chunks]
    chunk = chunks[shared.index(max(shared))]
    first = chunk.root.i
    while first - 1 >= chunk.start and doc[first - 1].dep_ in ("compound", "nmod"):
        first -= 1
    return _referent(doc, first, _with_complement(doc, chunk))


def noun_of(referent: str) -> str:
    """A referring expression without its place: "red mug on the desk" gives "red mug"."""
    found = re.search(rf"\s({'|'.join(_RELATIONS)})\s", referent)
    return referent[: found.start()] if found else referent


def place_of(referent: str) -> str:
    """What :func:`noun_of` leaves out: "red mug on the desk" gives "on the desk"."""
    return referent[len(noun_of(referent)) :].strip()


def _verbatim(doc: Any, hint: str) -> tuple[int, int] | None:
    """Tokens ``(first, after last)`` of the hint in the question, singular or plural."""
    noun = noun_of(hint.strip().lower())
    for form in (re.escape(noun), re.escape(plural_of(noun))):
        found = re.search(rf"(?<!\w){form}(?!\w)", doc.text.lower())
        span = found and doc.char_span(found.start(), found.end(), alignment_mode="expand")
        if span is not None:
            first = span.start
            while first < span.end - 1 and _describes(doc[first]) and doc[first].dep_ == "amod":
                first += 1
            return first, span.end
    return None


def _with_complement(doc: Any, chunk: Any) -> int:
    """End of the chunk, an "of" part included: chest of drawers."""
    end = int(chunk.root.i) + 1
    if end < len(doc) and doc[end].lower_ == "of" and doc[end].head.i == chunk.root.i:
        for other in doc.noun_chunks:
            if other.start == end + 1:
                return int(other.end)
    return end


def _names(chunk: Any) -> bool:
    root = chunk.root
    return root.pos_ in ("NOUN", "PROPN") and root.lemma_.lower() not in GENERIC


def _referent(doc: Any, first: int, after: int) -> Referent:
    """The referent whose head is the tokens ``first`` to before ``after``."""
    start = first
    while start > 0 and _describes(doc[start - 1]):
        start -= 1
    lead = start
    while start > 0 and _is_determiner(doc[start - 1]):
        start -= 1
    last = doc[after - 1]
    end = last.idx + len(last)
    relation, anchor, anchor_head = _place(doc, after)
    noun = doc[first:after].root
    determiner = Span(doc[start].idx, doc[start].idx)
    if lead > start:
        determiner = Span(doc[start].idx, doc[lead - 1].idx + len(doc[lead - 1]))
    return Referent(
        phrase=Span(doc[start].idx, end),
        core=Span(doc[lead].idx, end),
        head=Span(doc[first].idx, end),
        determiner=determiner,
        attributes=tuple(Span(t.idx, t.idx + len(t)) for t in doc[lead:first]),
        relation=relation,
        anchor=anchor,
        anchor_head=anchor_head,
        plural=noun.tag_ in ("NNS", "NNPS") and noun.i == first + (after - first) - 1,
        counted=any(t.lower_ in ("many", "much") for t in doc[start:lead]),
    )


def _describes(token: Any) -> bool:
    """Adjectives and the like, which stand between determiner and head."""
    return (
        token.pos_ in ("ADJ", "NOUN", "PROPN", "VERB")
        and token.dep_ in ("amod", "compound", "nmod", "ROOT", "acomp", "attr", "conj")
        and token.tag_ not in ("WDT", "WP", "VBZ", "VBP", "VB", "VBD", "VBG")
        and token.lower_ not in ("many", "much", "any", "some", "other")
    )


def _is_determiner(token: Any) -> bool:
    return token.lower_ in _DETERMINERS or (token.pos_ == "NUM" and token.dep_ == "nummod")


_DETERMINERS = frozenset(
    {
        "the",
        "a",
        "an",
        "any",
        "some",
        "this",
        "that",
        "these",
        "those",
        "my",
        "your",
        "our",
        "their",
        "his",
        "her",
        "how",
        "many",
        "much",
        "which",
        "what",
        "every",
        "each",
        "all",
        "another",
    }
)
_RELATIONS = (
    "on top of", "in front of", "to the left of", "to the right of", "on the left of",
    "on the right of", "next to", "close to", "on", "in", "under", "below", "above", "behind",
    "beside", "near", "by", "against", "inside", "underneath", "beneath", "at", "between",
)  # fmt: skip


def _place(doc: Any, after: int) -> tuple[Span | None, Span | None, Span | None]:
    """Relation and noun phrase that say where the referent is, if they follow it."""
    if after >= len(doc):
        return None, None, None
    offset = doc[after].idx
    rest = doc.text[offset:].lower()
    found = re.search(rf"(?<!\w)({'|'.join(_RELATIONS)})\s+(?=\w)", rest)
    if found is None or len(rest[: found.start()].split()) > MAX_GAP:
        return None, None, None
    position = offset + found.end()
    for chunk in doc.noun_chunks:
        if chunk[0].idx <= position < chunk[-1].idx + len(chunk[-1]) and _names(chunk):
            root = chunk.root
            first = root.i
            while first - 1 >= chunk.start and doc[first - 1].dep_ in ("compound", "nmod"):
                first -= 1
            end = root.idx + len(root)
            return (
                Span(offset + found.start(), offset + found.end(1)),
                Span(position, end),
                Span(max(position, doc[first].idx), end),
            )
    return None, None, None


def replaced(text: str, changes: list[tuple[Span, str]]) -> str:
    """The text with spans replaced; spaces collapsed and the first letter's case kept."""
    result = text
    for span, words in sorted(changes, key=lambda item: -item[0].start):
        result = result[: span.start] + words + result[span.end :]
    result = " ".join(result.split()).replace(" ?", "?").replace(" .", ".").replace(" ,", ",")
    if text[:1].isupper() and result:
        result = result[0].upper() + result[1:]
    return result


def plural_of(noun: str) -> str:
    """Plural of a noun phrase by its last word; irregular ones that occur indoors are known."""
    if " of " in noun:
        whole, part = noun.split(" of ", 1)
        return f"{plural_of(whole)} of {part}"
    *front, last = noun.split(" ")
    irregular = {
        "shelf": "shelves",
        "knife": "knives",
        "bookshelf": "bookshelves",
        "mouse": "mice",
        "person": "people",
        "child": "children",
        "scissors": "scissors",
        "glasses": "glasses",
    }
    if last in irregular:
        made = irregular[last]
    elif last.endswith(("s", "x", "z", "ch", "sh")):
        made = last + "es"
    elif last.endswith("y") and last[-2:-1] not in VOWELS:
        made = last[:-1] + "ies"
    else:
        made = last + "s"
    return " ".join([*front, made])


def fitted_determiner(determiner: str, noun: str) -> str:
    """The determiner in the form that the noun asks for: ``a`` or ``an``; others stay."""
    if determiner.lower() in ("a", "an"):
        article = "an" if noun[:1].lower() in VOWELS else "a"
        return article.capitalize() if determiner[:1].isupper() else article
    return determiner
