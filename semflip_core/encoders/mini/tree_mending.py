"""Mends what spaCy's parser reads wrongly in questions to a robot, in the tree itself.

Every function leaves a tree: what it hangs elsewhere never comes to hang below itself.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from semflip_core.encoders.mini.colours import COLOUR_WORDS

#: Nouns that say where to, or when, after any other.
_WHERE_TO = frozenset(("home", "upstairs", "downstairs", "today", "tomorrow", "tonight"))
#: How words hang on the noun whose name they are part of.
_WITHIN_A_NAME = frozenset(("det", "amod", "poss", "nummod", "compound", "nmod"))

_ORDERS = "head park circle stop scoot pop nip cruise roll race dash hop"
#: Orders to drive that spaCy takes for nouns where they begin a sentence.
_DRIVING = frozenset(_ORDERS.split())


def find_the_order(doc: Any) -> None:
    """Mend an order whose verb was taken for a noun: "Iron | the shirt", "let's | head for it".

    That is a bare singular noun after "let's", or at the beginning where "the" or "my" follows and
    nothing is asked, or a word for driving that says where to.
    """
    words = _words(doc)
    while words and words[0].lower_ in ("please", "hey", "ok", "okay", "robot", "now", "then"):
        words.pop(0)
    let = len(words) > 1 and words[0].lower_ == "let" and words[1].lower_ in ("'s", "\u2019s", "us")
    words = words[2:] if let else words
    if len(words) < 2 or words[0].tag_ not in ("NN", "NNP") or words[0].dep_ == "compound":
        return
    order, after = words[:2]
    tells = after.lower_ in ("the", "my", "our") and doc[-1].text != "?"
    drives = order.lower_ in _DRIVING and after.pos_ in ("ADP", "ADV", "PART", "ADJ")
    if let or tells or drives:
        order.pos_, order.tag_ = "VERB", "VB"


def find_the_verb(doc: Any) -> None:
    """Mend a question with "do" whose verb was taken for a noun: "what does the lamp | weigh?".

    Such a question has a verb; where none was found, the last word is it if a noun stands before.
    """
    do = next((token for token in doc if token.lemma_ == "do"), None)
    words = _words(doc)
    if do is None or do.i > 1 or len(words) < 4 or do.nbor().pos_ == "PRON":
        return
    subject, last = words[-2], words[-1]
    if any(token.tag_.startswith("VB") for token in words if token.i > do.i):
        return
    if (
        last.tag_ not in ("NN", "JJ")
        or last.dep_ == "pobj"
        or subject.pos_ not in ("NOUN", "PROPN")
    ):
        return
    if subject.is_ancestor(last):
        _hang_where(last, subject, subject.dep_)
    for child in list(last.lefts):
        if child.dep_ in _WITHIN_A_NAME and not child.is_ancestor(subject):
            child.head = subject
    for child in list(subject.lefts):
        if child.dep_ not in _WITHIN_A_NAME and child.i <= do.i:
            child.head = last
    subject.head, subject.dep_ = last, "nsubj"
    last.pos_, last.tag_ = "VERB", "VB"


def join_compounds(doc: Any) -> None:
    """Mend compounds that the parser took apart: "the black reading | lamp", "the floor | lamp".

    Two nouns in a row of which the second has no words of its own are one name; so are a noun in
    the singular and a verb that would have to be plural, where no "does" explains it. A colour
    before an adjective belongs to the same noun: "the cream | folding table".
    """
    asks = any(token.lemma_ == "do" and token.pos_ == "AUX" for token in doc)
    for first, second in pairwise(doc):
        if first.pos_ not in ("NOUN", "PROPN") or second.lower_ in _WHERE_TO:
            continue
        if first.lower_ in COLOUR_WORDS and second.dep_ == "amod":
            if second.head.i != first.i and not first.is_ancestor(second.head):
                first.head, first.dep_, first.pos_ = second.head, "amod", "ADJ"
            continue
        verb = _is_no_verb(first, second) and not asks
        noun = second.pos_ in ("NOUN", "PROPN") and second.dep_ not in ("appos", "npadvmod")
        apart = first.head.i != second.i and first.dep_ != "compound"
        if not (verb or (noun and (apart or first.dep_ == "nsubj"))):
            continue
        own = [word for word in second.lefts if not _leads_to(word, first)]
        if _does_it(first, second) or (own and not verb):
            continue
        _hang_together(first, second)
        if verb:
            second.pos_, second.tag_ = "NOUN", "NN"
            _hang_above(own, second)


def _words(doc: Any) -> list[Any]:
    return [token for token in doc if token.pos_ not in ("PUNCT", "SPACE")]


def _is_no_verb(first: Any, second: Any) -> bool:
    """Whether what the parser took for a verb is the end of a name: "is the floor lamp new?"."""
    article = next((child for child in first.lefts if child.dep_ == "det"), None)
    if first.tag_ != "NN" or article is None:
        return False
    if second.tag_ == "VB" and article.i > 0 and article.nbor(-1).lemma_ == "be":
        return any(child.dep_ == "acomp" for child in second.rights)
    return bool(second.tag_ == "VBP")


def _leads_to(word: Any, noun: Any) -> bool:
    """Whether a word is the noun, or places what the noun names: the "inside" before it."""
    return bool(word.i == noun.i or (word.dep_ in ("prep", "csubj") and word.is_ancestor(noun)))


def _does_it(first: Any, second: Any) -> bool:
    """Whether the second is who does something with the first: "the lamp Tom bought"."""
    someone = second.pos_ == "PROPN" and first.pos_ != "PROPN" and second.text != second.lower_
    people = second.tag_ == "NNS" and first.tag_ == "NN" and second.head.dep_ == "relcl"
    return bool(someone or (people and second.dep_ == "nsubj"))


def _hang_together(first: Any, second: Any) -> None:
    """Make the second noun the head of the first, and hang it where the first was.

    What stands above the first must not come to hang below it: the tree has no circles.
    """
    above = first.head
    if not second.is_ancestor(first):
        _hang_where(second, first, first.dep_)
    elif first.dep_ == "pobj":  # "inside the floor | lamp", with the lamp above "inside"
        top = next(t for t in (above, *above.ancestors) if t.head.i == second.i)
        _hang_where(top, second, top.dep_)
        second.head, second.dep_ = above, "pobj"
    first.head, first.dep_ = second, "compound"


def _hang_where(word: Any, other: Any, role: str) -> None:
    """Hang a word where another one hangs; on nothing, where that is the top of the tree."""
    at_top = other.head.i == other.i
    word.head, word.dep_ = (word, "ROOT") if at_top else (other.head, role)


def _hang_above(words: list[Any], noun: Any) -> None:
    """Take words that hung on a noun for a verb's from it: the "is" of "is the floor lamp new?"."""
    for word in words:
        if noun.head.i == noun.i:
            word.head, word.dep_ = word, "ROOT"
            noun.head, noun.dep_ = word, "nsubj"
        elif not word.is_ancestor(noun.head):
            word.head = noun.head
