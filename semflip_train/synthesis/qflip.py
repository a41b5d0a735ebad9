"""Q-Flip by slot filling: swap words of an answerable question so that the memory fails it.

spaCy finds the phrase, replacements come from other sequences' answerable questions and from a
lexicon, and number and determiner are kept. Replacements from other sequences matter: every name
then occurs both as answerable and as absent, so the words alone do not give the label away.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from semflip_core.encoders.contract import Fingerprint
from semflip_core.errors import SynthesisError
from semflip_train.dataset import Query
from semflip_train.synthesis.lexicon import Lexicon
from semflip_train.synthesis.phrases import (
    Referent,
    Span,
    find_referent,
    fitted_determiner,
    noun_of,
    place_of,
    plural_of,
    replaced,
)
from semflip_train.synthesis.samples import STRATEGIES, stable_seed

#: Rooms that some call by another name.
ROOM_SYNONYMS = {"in the corridor": "in the hallway"}
#: Strategies that change what is said of the thing: no use where the question does not name it.
OF_THE_THING = frozenset(("attribute", "referential", "relation", "false_premise"))
#: How often a question that says what its thing is in is changed to what another's is in.
ROOM_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class Request:
    """One rewrite to make.

    Args:
        query: an answerable question of the memory.
        strategy: one of :data:`STRATEGIES`.
        elsewhere: answerable questions of other sequences whose referents are not known here.
        here: things that are known to be in the memory.
        places_here: where things are said to be there: ``in the kitchen``.
        number: counts rewrites of the same question and strategy; changes what is drawn.
    """

    query: Query
    strategy: str
    elsewhere: Sequence[Query]
    number: int = 0
    here: Sequence[str] = ()
    places_here: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rewritten question.

    Args:
        referent: what it asks about now.
        must_be_absent: phrase that the detector must not find in the memory; empty for none.
        colour: a colour that the referent must not have; empty for none.
        replaced_words: what stood there before; compared with the new words for paraphrases.
    """

    question: str
    referent: str
    must_be_absent: str = ""
    colour: str = ""
    replaced_words: str = ""
    new_words: str = ""


class Rewriter(Protocol):
    """Makes candidate rewrites; filters choose among them."""

    name: str

    def fingerprint(self) -> Fingerprint:
        """Everything that changes its rewrites."""

    def propose(self, requests: Sequence[Request]) -> list[list[Proposal]]:
        """For each request its candidates, best first; empty where it has none."""


class NamesThings(Protocol):
    """Proposes things that could be asked about instead of another."""

    def fingerprint(self) -> Fingerprint:
        """Everything that changes its names."""

    def instead_of(self, noun: str) -> tuple[str, ...]:
        """Names of other things, singular, best first; may be empty."""


class SlotFill:
    """The embedded rewriter: words are swapped, whole questions are never generated.

    Args:
        lexicon: words beside those of other sequences.
        lexicon_share: how often a replacement comes from the lexicon, or from ``names``, although
            other sequences offer one.
        names: a model that names other things; None for the lexicon's objects alone.
        lexicon_objects: draw from the lexicon's objects too where ``names`` is given, half the
            time.
        candidates: most candidates a request gets.
        seed: of all draws.
    """

    name = "slot_fill"

    def __init__(
        self,
        lexicon: Lexicon,
        *,
        lexicon_share: float = 0.15,
        names: NamesThings | None = None,
        lexicon_objects: bool = True,
        candidates: int = 8,
        seed: int = 0,
    ) -> None:
        self._lexicon = lexicon
        self._names = names
        self._lexicon_objects = lexicon_objects or names is None
        self._share = lexicon_share
        self._candidates = candidates
        self._seed = seed
        self._strategies: dict[str, Callable[[Request, Referent, random.Random], Proposal | None]]
        self._strategies = {
            "referential": self._referential,
            "false_premise": self._false_premise,
            "subjective": self._from_templates,
            "unavailable": self._from_templates,
            "needs_action": self._from_templates,
            "object": self._object,
            "relation": self._relation,
            "attribute": self._attribute,
            "vague": self._vague,
        }

    def fingerprint(self) -> Fingerprint:
        """Everything that changes its rewrites."""
        names = {} if self._names is None else self._names.fingerprint()
        return {
            "name": self.name,
            "lexicon": stable_seed(self._lexicon.model_dump_json()),
            "lexicon_share": self._share,
            "names": stable_seed(*sorted(names.items())) if names else None,
            "lexicon_objects": self._lexicon_objects,
            "candidates": self._candidates,
            "seed": self._seed,
        }

    def propose(self, requests: Sequence[Request]) -> list[list[Proposal]]:
        """Candidates by the strategy's own rule, drawn with a seed of the question's id."""
        return [self._candidates_for(request) for request in requests]

    def _candidates_for(self, request: Request) -> list[Proposal]:
        if request.strategy not in self._strategies:
            raise SynthesisError(
                f"unknown strategy '{request.strategy}'; known: {', '.join(STRATEGIES)}"
            )
        rng = random.Random(
            stable_seed(self._seed, request.query.id, request.strategy, request.number)
        )
        found: list[Proposal] = []
        referent = find_referent(request.query.question, request.query.referent)
        if referent is None:
            return found
        if request.strategy in OF_THE_THING and not _named(request, referent):
            return found
        for _ in range(3 * self._candidates):
            made = self._strategies[request.strategy](request, referent, rng)
            if made is not None and all(made.question != other.question for other in found):
                found.append(made)
            if len(found) == self._candidates:
                break
        return found

    def _other_object(self, request: Request, noun: str, rng: random.Random) -> str | None:
        """A noun phrase, singular, to ask about instead of ``noun``; None where nobody knows one.

        Other sequences' things first, then what the model names, then the lexicon.
        """
        known = [noun_of(query.referent) for query in request.elsewhere if query.referent]
        if known and rng.random() >= self._share:
            return rng.choice(known)
        named = () if self._names is None else self._names.instead_of(noun)
        if named and (not self._lexicon_objects or rng.random() < 0.5):
            return rng.choice(named)
        if self._lexicon_objects:
            return rng.choice(self._lexicon.objects)
        return rng.choice(known) if known else None

    def _object(self, request: Request, referent: Referent, rng: random.Random) -> Proposal | None:
        """Another object in the same words, or another memory's question as it stands."""
        if request.elsewhere and rng.random() < 0.5:
            other = rng.choice(request.elsewhere)
            name = noun_of(other.referent or "")
            if not name:
                return None
            old = noun_of(request.query.referent or "")
            return Proposal(other.question, name, name, replaced_words=old, new_words=name)
        if not _named(request, referent):
            return None
        noun = self._other_object(request, _thing(request, referent.core), rng)
        return None if noun is None else self._swap(request, referent, noun)

    def _swap(self, request: Request, referent: Referent, noun: str, beside: str = "") -> Proposal:
        """The whole phrase gives way to ``noun``; determiner and number stay.

        Args:
            beside: follows the noun; may name the old phrase's thing, which is there.
        """
        text = request.query.question
        words = plural_of(noun) if referent.plural else noun
        determiner = referent.determiner.of(text)
        changes = [(referent.core, f"{words} {beside}".rstrip())]
        if determiner:
            changes.append((referent.determiner, fitted_determiner(determiner, words)))
        return Proposal(
            replaced(text, changes),
            referent=noun,
            must_be_absent=noun,
            replaced_words=referent.core.of(text),
            new_words=words,
        )

    def _false_premise(
        self, request: Request, referent: Referent, rng: random.Random
    ) -> Proposal | None:
        """Something absent, said to be beside something that is there."""
        noun = self._other_object(request, _thing(request, referent.core), rng)
        if noun is None:
            return None
        if referent.anchor is not None:
            return self._swap(request, referent, noun)
        relation = rng.choice(("next to", "near", "beside"))
        there = referent.core.of(request.query.question)
        return self._swap(request, referent, noun, f"{relation} the {there}")

    def _referential(
        self, request: Request, referent: Referent, rng: random.Random
    ) -> Proposal | None:
        """The same thing, said to be at a place that is not here."""
        text = request.query.question
        inside = _rooms_elsewhere(request, referent)
        if inside and rng.random() < ROOM_SHARE:
            place = rng.choice(inside)
            anchor = place.rsplit(" the ", 1)[-1]
        elif request.elsewhere and rng.random() >= self._share:
            span = referent.anchor_head or referent.core
            found = self._other_object(request, _thing(request, span), rng)
            if found is None:
                return None
            anchor = found
            relation = rng.choice(("next to", "beside", "near", "behind", "by"))
            place = f"{relation} the {anchor}"
        else:
            place = rng.choice(self._lexicon.places)
            anchor = place.rsplit(" the ", 1)[-1]
        if referent.relation is not None and referent.anchor is not None:
            span = Span(referent.relation.start, referent.anchor.end)
            old = span.of(text)
            changed = replaced(text, [(span, place)])
        else:
            old = ""
            changed = replaced(text, [(referent.core, f"{referent.core.of(text)} {place}")])
        return Proposal(
            changed,
            referent=referent.core.of(text),
            must_be_absent=anchor,
            replaced_words=old,
            new_words=place,
        )

    def _from_templates(
        self, request: Request, referent: Referent, rng: random.Random
    ) -> Proposal | None:
        """A question about the same thing that no picture of the place answers."""
        text = request.query.question
        templates: tuple[str, ...] = getattr(self._lexicon, request.strategy)
        head = referent.core.of(text)
        singular = noun_of(request.query.referent or head) if referent.plural else head
        plural = head if referent.plural else plural_of(head)
        template = rng.choice(templates)
        return Proposal(template.format(noun=singular, nouns=plural), referent=head)

    def _vague(self, request: Request, referent: Referent, rng: random.Random) -> Proposal:
        """The question without the words that say what it is about, or one that never had any."""
        text = request.query.question
        if rng.random() < 0.5 or not _spoken_of(request, referent):
            return Proposal(rng.choice(self._lexicon.vague), referent="")
        words = self._lexicon.plural_pronouns if referent.plural else self._lexicon.pronouns
        end = referent.phrase.end if referent.anchor is None else referent.anchor.end
        spoken = rng.choice(words)
        if referent.phrase.start == 0:
            spoken = spoken[0].upper() + spoken[1:]
        changed = replaced(text, [(Span(referent.phrase.start, end), spoken)])
        return Proposal(changed, referent="")

    def _relation(
        self, request: Request, referent: Referent, rng: random.Random
    ) -> Proposal | None:
        """The other way round: on the table becomes under the table."""
        if referent.relation is None:
            return None
        text = request.query.question
        old = referent.relation.of(text).lower()
        others = self._lexicon.relations.get(old, ())
        if not others:
            return None
        new = rng.choice(others)
        return Proposal(
            replaced(text, [(referent.relation, new)]),
            referent=referent.core.of(text),
            replaced_words=old,
            new_words=new,
        )

    def _attribute(
        self, request: Request, referent: Referent, rng: random.Random
    ) -> Proposal | None:
        """A describing word that does not fit; a colour is added where there is none."""
        text = request.query.question
        for span in referent.attributes:
            others = self._lexicon.exchange(span.of(text).lower())
            if others:
                new = rng.choice(others)
                start = referent.core.start
                inside = Span(span.start - start, span.end - start)
                core = replaced(referent.core.of(text), [(inside, new)])
                return self._described(request, referent, core, span.of(text), new)
        new = rng.choice(self._lexicon.colours)
        return self._described(request, referent, f"{new} {referent.core.of(text)}", "", new)

    def _described(
        self, request: Request, referent: Referent, core: str, old: str, new: str
    ) -> Proposal:
        text = request.query.question
        changes = [(referent.core, core)]
        determiner = referent.determiner.of(text)
        if determiner:
            changes.append((referent.determiner, fitted_determiner(determiner, core)))
        colour = new if new in self._lexicon.colours else ""
        return Proposal(
            replaced(text, changes), referent=core, colour=colour, replaced_words=old, new_words=new
        )


def _rooms_elsewhere(request: Request, referent: Referent) -> list[str]:
    """Where things of other sequences are in, for a question that names what its thing is in."""
    relation = "" if referent.relation is None else referent.relation.of(request.query.question)
    if relation.lower() != "in":
        return []
    places = (place_of(query.referent) for query in request.elsewhere if query.referent)
    known = {ROOM_SYNONYMS.get(place, place) for place in request.places_here}
    return sorted(
        {
            place
            for place in places
            if place.startswith("in the ") and ROOM_SYNONYMS.get(place, place) not in known
        }
    )


def _spoken_of(request: Request, referent: Referent) -> bool:
    """Whether the question names its thing so that a pronoun can stand for it.

    Not where it counts or chooses: "how many chairs", "which lamp".
    """
    text = request.query.question.lower()
    asked = referent.determiner.of(text).split()[:1] in (["which"], ["what"], ["how"])
    return _named(request, referent) and not referent.counted and not asked


def _named(request: Request, referent: Referent) -> bool:
    """Whether the question names its thing, and not a need that the thing serves.

    "I need to print a page" asks for a printer: a blue page, or one in the kitchen, changes
    nothing about where to go.
    """
    text = request.query.question.lower()
    noun = noun_of(request.query.referent or referent.core.of(text)).lower()
    return noun in text or plural_of(noun) in text


def _thing(request: Request, span: Span) -> str:
    """What stands there, in lower case, as a model is asked for others like it."""
    return span.of(request.query.question).lower()
