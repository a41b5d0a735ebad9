"""Categories of unanswerable questions: what reason fits, what taught them, what words decide."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from semflip_core.decision import Reason
from semflip_train.synthesis.samples import Sample


@dataclass(frozen=True, slots=True)
class Category:
    """One kind of unanswerable question.

    Args:
        reason: that the robot should give.
        sources: that synthesise questions of this kind: strategies of Q-Flip, or ``vflip``.
        names: in our benchmark, SpaceReject, AbstainEQA (its five) and HARDBench; compared without
            case, hyphens and underscores.
    """

    reason: Reason
    sources: frozenset[str]
    names: tuple[str, ...]


CATEGORIES = (
    Category(
        Reason.ABSENT,
        frozenset({"object", "referential", "false_premise", "vflip"}),
        ("absent", "object absent", "object"),
    ),
    Category(Reason.FALSE_PREMISE, frozenset({"attribute", "relation"}), ("near miss",)),
    Category(Reason.FALSE_PREMISE, frozenset({"attribute"}), ("attribute",)),
    Category(Reason.FALSE_PREMISE, frozenset({"relation"}), ("relation",)),
    Category(
        Reason.FALSE_PREMISE,
        frozenset({"false_premise"}),
        ("false premise", "false presupposition"),
    ),
    Category(
        Reason.AMBIGUOUS,
        frozenset({"referential", "vague"}),
        ("ambiguous", "referential underspecification"),
    ),
    Category(
        Reason.UNAVAILABLE,
        frozenset({"unavailable"}),
        ("unavailable", "not visually available", "information unavailability"),
    ),
    Category(Reason.SUBJECTIVE, frozenset({"subjective"}), ("subjective", "preference dependence")),
    Category(
        Reason.NEEDS_ACTION,
        frozenset({"needs_action"}),
        ("needs action", "actionability limitation"),
    ),
)
_BY_NAME: Mapping[str, Category] = {name: c for c in CATEGORIES for name in c.names}


def plain_name(category: str) -> str:
    """The category without case, hyphens and underscores."""
    return " ".join(category.lower().replace("_", " ").replace("-", " ").split())


def is_one_of(category: str | None, names: Collection[str]) -> bool:
    """Whether a question's category is among these, however they are spelled."""
    return category is not None and plain_name(category) in {plain_name(name) for name in names}


def expected_reason(category: str | None) -> Reason | None:
    """The reason that fits a category; None for one that is not known."""
    known = None if category is None else _BY_NAME.get(plain_name(category))
    return None if known is None else known.reason


def sources_of(samples: Iterable[Sample]) -> frozenset[str]:
    """What made the unanswerable samples: strategies of Q-Flip, and ``vflip``."""
    return frozenset(s.strategy or s.kind for s in samples if s.label == 1)


def never_synthesised(
    categories: Iterable[str | None], sources: Collection[str]
) -> tuple[str, ...]:
    """Categories among a test's whose kind of question nothing in the training taught."""
    taught = set(sources)
    found = set()
    for category in categories:
        known = None if category is None else _BY_NAME.get(plain_name(category))
        if category is not None and known is not None and not known.sources & taught:
            found.add(category)
    return tuple(sorted(found))
