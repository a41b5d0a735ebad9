"""Answers in the words of refusals, so that words alone do not tell which is which.

Questions with a twin are even by themselves. Of the others, the answerable ones use kinds of
phrases, nouns and looks about as often as the unanswerable ones of the same dataset do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from semflip_train.simulation.phrases import Phrase
from semflip_train.simulation.referents import Referent, Seen

#: What nobody was refused counts as this much of a refusal; 0 would never be asked.
UNREFUSED = 0.5


class Evenness:
    """Counts of what was asked without a twin."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, bool], Counter[str]] = defaultdict(Counter)
        self._words: dict[tuple[str, bool], Counter[str]] = defaultdict(Counter)

    def add(self, seen: Seen, phrase: Phrase, kind: str, *, answerable: bool) -> None:
        """Count a question without a twin; ``kind`` as in :attr:`Referent.kind`."""
        self._kinds[seen.name, answerable][kind] += 1
        self._words[seen.slice, answerable].update(_words(phrase))

    def weights(self, seen: Seen, pool: Sequence[Referent], alone: int) -> NDArray[np.float64]:
        """How much each answerable question is wanted, ``(len(pool),)``; all positive.

        Args:
            alone: questions without a twin that the sequence shall have in the end.
        """
        refused, answered = self._kinds[seen.name, False], self._kinds[seen.name, True]
        part = alone / max(refused.total(), 1)
        worth = np.array([self._rarity(seen.slice, item.phrase) for item in pool])
        kinds = np.array([item.kind for item in pool])
        for kind in set(kinds.tolist()):
            wanted = max(part * refused[kind] - answered[kind], 1e-3)
            worth[kinds == kind] *= wanted / worth[kinds == kind].sum()
        return worth

    def _rarity(self, part: str, phrase: Phrase) -> float:
        refused, answered = self._words[part, False], self._words[part, True]
        share = answered.total() / max(refused.total(), 1)
        rare = 1.0
        for word in _words(phrase):
            rare *= (max(share, 1.0) * refused[word] + UNREFUSED) / (answered[word] + UNREFUSED)
        return rare


def _words(phrase: Phrase) -> tuple[str, ...]:
    return (phrase.noun, phrase.look) if phrase.look else (phrase.noun,)
