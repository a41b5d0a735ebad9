"""What a question looks for: its noun phrases, with colours, other attributes and relations.

Parsed by spaCy's en_core_web_md (the small model splits "the red fire extinguisher" wrongly).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from semflip_core.encoders.mini.colours import COLOUR_WORDS, COLOURS
from semflip_core.encoders.mini.english import english
from semflip_core.encoders.mini.tree_mending import find_the_order, find_the_verb, join_compounds

PARSER = "en_core_web_md-3.8/rules-6"
MAX_PHRASES = 4
PLACEHOLDER = "thing"

_GENERIC = """
thing something anything everything nothing someone somebody anyone anybody stuff object item
place spot location area position way kind type sort piece part one ones other others colour
color size number amount picture image photo video frame memory view question answer front back
side left right top bottom middle center centre end corner direction bit lot time day moment
today tomorrow yesterday morning afternoon evening night
please thanks thank help whereabouts idea clue tour trip visit round journey patrol tonight
life earth luck sake description shape
"""
#: Nouns that name nothing one can see.
GENERIC = frozenset(_GENERIC.split())
#: Who does this to a thing says whose it is; the thing is what one looks for.
OWNING = frozenset(("leave", "forget", "lose", "misplace", "drop", "put", "need", "want"))
#: Who seeks a thing, or says something of it, is not what one looks for either.
SEEKING = frozenset(("look", "search", "hunt", "ask", "seek", "find", "locate", "spot", "wait"))
SAYING = frozenset(("say", "think", "tell", "claim", "believe", "insist", "mention", "swear"))
#: Where a thing may be: "which room has the sofa in it" is about the sofa.
PLACES = frozenset(("room", "corner", "wall", "area", "part", "floor"))
#: A few typed shapes that the parser reads wrongly.
_TYPED = (
    (re.compile(r"\b(where|what|who|how|there|that)s\b", re.IGNORECASE), r"\1 is"),
    (re.compile(r"\b(where|what|who|how|there|that)['\u2019]s\b", re.IGNORECASE), r"\1 is"),
    (re.compile(r"\b(trash|garbage|rubbish) can\b", re.IGNORECASE), r"\1 bin"),
)


@dataclass(frozen=True, slots=True)
class Phrase:
    """One thing that the question speaks of.

    Args:
        text: without articles, with its attributes and "with/of" part: ``red chair with wheels``.
        head: the naked noun, compounds kept: ``fire extinguisher``.
        colour: one of ``colours.COLOURS``, or None.
        attributes: other describing words.
        relation: preposition that ties it to the phrase before it, or "" for the first.
        noun: False where no noun was found and the words are a verb phrase or the whole question.
    """

    text: str
    head: str
    colour: str | None = None
    attributes: tuple[str, ...] = ()
    relation: str = ""
    noun: bool = True

    def repainted(self) -> tuple[str, ...]:
        """The phrase in every other basic colour; empty where it has none."""
        words = self.text.split()
        at = next((i for i, word in enumerate(words) if word in COLOUR_WORDS), None)
        if self.colour is None or at is None:
            return ()
        others = (name for name in COLOURS if name != self.colour)
        return tuple(" ".join([*words[:at], name, *words[at + 1 :]]) for name in others)


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question taken apart.

    Args:
        question: as asked.
        phrases: at least one; the first is the target, the others place or qualify it.
        wording: the question with its phrases replaced by "thing": how it asks, not for what.
    """

    question: str
    phrases: tuple[Phrase, ...]
    wording: str


class PhraseParser:
    """Questions to phrases.

    Raises:
        MissingExtraError: spaCy or its English model is not installed.
    """

    def __init__(self) -> None:
        self._nlp = english()

    def parse(self, question: str) -> ParsedQuestion:
        """Take a question apart; never fails, any language gives at least one phrase."""
        text = question
        for pattern, replacement in _TYPED:
            text = pattern.sub(replacement, text)
        doc = self._nlp(text)
        find_the_order(doc)
        find_the_verb(doc)
        join_compounds(doc)
        chunks = _chunks(doc)
        phrases: list[Phrase] = []
        spans: list[tuple[int, int]] = []
        taken: set[int] = set()
        for chunk in chunks:
            if chunk.root.i in taken or len(phrases) == MAX_PHRASES:
                continue
            tail = _attached(chunk, chunks)
            taken |= {token.root.i for token in tail}
            phrase = _phrase(chunk, tail, _relation(chunk) if phrases else "")
            if phrase.text and phrase.text not in {p.text for p in phrases}:
                phrases.append(phrase)
            end = tail[-1].end if tail else chunk.end
            spans.append((_core_start(chunk), end))
        if not phrases:
            phrases = [_without_noun(doc, question)]
        return ParsedQuestion(question, tuple(phrases), _wording(doc, spans))


def _chunks(doc: Any) -> list[Any]:
    """Noun chunks that name something, and nouns that the parser left outside any chunk."""
    told = _told_by_the_answer(doc)
    chunks = [
        chunk
        for chunk in doc.noun_chunks
        if chunk.root.i not in told and _names_something(chunk) and not _owns(chunk)
    ]
    covered = {token.i for chunk in doc.noun_chunks for token in chunk}
    for token in doc:
        if token.i in covered or token.dep_ == "compound" or not _stands_alone(token):
            continue
        start = token.i
        while start > 0 and start - 1 not in covered and _describes(doc[start - 1], start, token):
            start -= 1
        chunk = doc[start : token.i + 1]
        if chunk.root.i == token.i and _names_something(chunk):
            chunks.append(chunk)
    return sorted(chunks, key=lambda chunk: int(chunk.start))


def _told_by_the_answer(doc: Any) -> set[int]:
    """Roots of chunks that name what the answer is: "which room" is the sofa in?"""
    chunks = list(doc.noun_chunks)
    told: set[int] = set()
    for chunk in chunks:
        if chunk[0].lower_ not in ("which", "what") or len(chunk) == 1:
            continue
        verbs = {chunk.root.head.i, chunk.root.head.head.i}
        roles = ("attr", "nsubj", "dobj") if _holds(chunk) else ("attr", "nsubj")
        if any(
            other.start > chunk.start
            and other.root.dep_ in roles
            and other.root.head.i in verbs
            and _names_something(other)
            for other in chunks
        ):
            told.add(chunk.root.i)
    ends = {
        chunk.root.i
        for chunk in chunks
        if chunk.root.head.lower_ == "of" and chunk.root.head.head.i in told
    }
    return told | ends


def _holds(chunk: Any) -> bool:
    """Whether this is the place that has something: "which room has the sofa in it"."""
    return bool(chunk.root.dep_ == "nsubj" and chunk.root.lemma_.lower() in PLACES)


def _stands_alone(token: Any) -> bool:
    """A noun, or what can only be one: "the safe" at the end of a request."""
    if token.pos_ == "ADJ" and token.dep_ in ("pobj", "dobj", "nsubj", "amod", "acomp"):
        at_end = token.i + 1 == len(token.doc) or token.nbor().pos_ in ("PUNCT", "SPACE")
        return bool(at_end and token.i > 0 and token.nbor(-1).lower_ in ("the", "my", "our"))
    return token.pos_ in ("NOUN", "PROPN")


def _owns(chunk: Any) -> bool:
    """Whether this is who left, lost, wants or seeks a thing: "my friend left a bag here"."""
    verb = chunk.root.head
    if chunk.root.dep_ != "nsubj":
        return False
    if verb.dep_ == "relcl":
        return bool(chunk.root.pos_ == "PROPN" or verb.lemma_ in OWNING)
    things = [child for child in verb.children if child.dep_ == "dobj"]
    if verb.lemma_ in SEEKING:
        ways = (child for child in verb.children if child.dep_ == "prep" and child.lower_ == "for")
        things += [thing for way in ways for thing in way.children if thing.dep_ == "pobj"]
    who = chunk.root.pos_ == "PROPN" or chunk[0].tag_ == "PRP$"
    said = who and verb.lemma_ in SAYING and any(c.dep_ == "ccomp" for c in verb.children)
    named = any(thing.pos_ in ("NOUN", "PROPN") for thing in things)
    return said or (verb.lemma_ in (OWNING | SEEKING) and named)


def _describes(word: Any, start: int, noun: Any) -> bool:
    """Whether a word belongs to what begins at ``start`` and ends with the noun."""
    return word.dep_ in ("compound", "amod", "nmod", "nummod") and start <= word.head.i <= noun.i


def _names_something(chunk: Any) -> bool:
    root = chunk.root
    if root.pos_ not in ("NOUN", "PROPN", "NUM", "ADJ", "X", "VERB") or not root.text.strip():
        return False
    if not any(char.isalnum() for char in root.text):
        return False
    return root.lemma_.lower() not in GENERIC or any(
        token.dep_ == "compound" for token in chunk if token.i < root.i
    )


def _attached(chunk: Any, chunks: list[Any]) -> list[Any]:
    """The chunk hanging on this one by "with" or "of"; it describes, it does not place."""
    return [
        other
        for other in chunks
        if other.root.dep_ == "pobj"
        and other.root.head.lower_ in ("with", "of")
        and other.root.head.head.i == chunk.root.i
        and other.start > chunk.root.i
    ][:1]


def _relation(chunk: Any) -> str:
    head = chunk.root.head
    return str(head.lower_) if chunk.root.dep_ == "pobj" else ""


def _content(chunk: Any) -> list[Any]:
    """Tokens of a chunk without articles, possessives, question words and counts."""
    return [
        token
        for token in chunk
        if (token.pos_ not in ("DET", "PRON", "PUNCT", "SPACE", "PART", "ADV", "CCONJ"))
        and token.tag_ not in ("WDT", "WP", "WRB", "PRP$", "PDT")
        and not (token.lower_ in ("many", "much", "other", "same") and token.i != chunk.root.i)
        and any(char.isalnum() for char in token.text)
    ]


def _core_start(chunk: Any) -> int:
    content = _content(chunk)
    return int(content[0].i) if content else int(chunk.start)


def _phrase(chunk: Any, tail: list[Any], relation: str) -> Phrase:
    words = _content(chunk)
    root = chunk.root
    head = [t for t in words if t.i == root.i or (t.dep_ in ("compound", "nmod") and t.i < root.i)]
    head = [t for t in head if t.lower_ not in COLOUR_WORDS] or [root]
    colours = [COLOUR_WORDS[t.lower_] for t in words if t.lower_ in COLOUR_WORDS and t.i != root.i]
    chosen = {t.i for t in head}
    attributes = tuple(
        t.lower_ for t in words if t.i not in chosen and t.lower_ not in COLOUR_WORDS
    )
    parts = [t.lower_ for t in words]
    for other in tail:
        parts += [other.root.head.lower_, *(t.lower_ for t in _content(other))]
        attributes += tuple(t.lower_ for t in _content(other))
    names = [t.lower_ for t in head[:-1]] + [_singular(head[-1])]
    return Phrase(
        text=" ".join(parts),
        head=" ".join(names),
        colour=colours[0] if colours else None,
        attributes=attributes,
        relation=relation,
    )


def _singular(token: Any) -> str:
    if token.tag_ == "NNS" and str(token.lemma_).isalpha():
        return str(token.lemma_).lower()
    return str(token.lower_)


def _without_noun(doc: Any, question: str) -> Phrase:
    """The verb and what goes with it ("sit down"), or the words as they stand."""
    kept = [
        token.lower_
        for token in doc
        if token.pos_ in ("VERB", "NOUN", "PROPN", "ADJ", "ADP", "ADV", "X", "NUM")
        and token.tag_ not in ("WRB", "WP", "WDT")
        and token.lemma_.lower() not in GENERIC
        and token.lower_ not in ("need", "want", "like", "go", "find", "show", "tell", "can")
        and any(char.isalnum() for char in token.text)
    ]
    text = " ".join(kept) or " ".join(question.split()) or PLACEHOLDER
    return Phrase(text=text, head=text, noun=False)


def _wording(doc: Any, spans: list[tuple[int, int]]) -> str:
    parts: list[str] = []
    position = 0
    for start, end in sorted(spans):
        if start < position:
            continue
        parts += [doc[position:start].text_with_ws, PLACEHOLDER + " "]
        position = end
    parts.append(doc[position:].text_with_ws)
    return " ".join("".join(parts).split()).lower() or PLACEHOLDER
