"""One row of the table of results: what a method scored and refused on the test questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from semflip_core.gate import Gate

Scores = NDArray[np.float64]
Refusals = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Method:
    """The gate, a control or a baseline, on the same questions in the same order.

    Args:
        scores: ``(n,)`` in any unit, higher is more unanswerable; finite.
        refused: ``(n,)`` score above threshold.
        threshold: in the unit of the scores.
        member_scores: ``(n, seeds)`` of each seed's member, or None where nothing is random.
        untaught: categories that its training never synthesised; their recall is a row of its own.
        note: what a reader must know of it.
        not_run: why it has no numbers; empty where it has.
    """

    name: str
    scores: Scores
    refused: Refusals
    threshold: float = float("nan")
    member_scores: Scores | None = None
    untaught: tuple[str, ...] = ()
    note: str = ""
    not_run: str = ""

    @classmethod
    def missing(cls, name: str, count: int, reason: str) -> Method:
        """A row that says why it has no numbers."""
        return cls(name, np.zeros(count), np.zeros(count, dtype=bool), not_run=reason)

    @classmethod
    def scored(
        cls,
        name: str,
        scores: Scores,
        threshold: float,
        member_scores: Scores | None = None,
        *,
        untaught: tuple[str, ...] = (),
        note: str = "",
    ) -> Method:
        """Refuses above the threshold; where the encoder gave nothing (NaN), it refuses too."""
        filled = refusing(scores, threshold)
        members = None if member_scores is None else refusing(member_scores, threshold)
        return cls(
            name, filled, filled > threshold, threshold, members, untaught=untaught, note=note
        )

    @classmethod
    def of_gate(
        cls,
        name: str,
        gate: Gate,
        x: NDArray[np.float32],
        *,
        untaught: tuple[str, ...] = (),
        note: str = "",
    ) -> Method:
        """Another gate on embeddings ``(n, dim)``; where those are NaN it refuses."""
        reached = np.isfinite(x).all(axis=1)
        members = np.full((len(x), gate.header.members), np.nan)
        members[reached] = gate.member_scores(x[reached])
        tau = -1.0 if gate.header.refuse_all else gate.header.tau
        return cls.scored(name, members.mean(axis=1), tau, members, untaught=untaught, note=note)

    def among(self, rows: Sequence[int] | NDArray[np.int64]) -> Method:
        """The same method on some of the questions."""
        chosen = np.asarray(rows, np.int64)
        return replace(
            self,
            scores=self.scores[chosen],
            refused=self.refused[chosen],
            member_scores=None if self.member_scores is None else self.member_scores[chosen],
        )


def refusing(scores: Scores, threshold: float) -> Scores:
    """Scores with NaN replaced by one above all others and above the threshold."""
    known = scores[np.isfinite(scores)]
    top = max(float(known.max(initial=threshold)), threshold) + 1.0
    filled: Scores = np.where(np.isfinite(scores), scores, top)
    return filled
