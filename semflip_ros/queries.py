"""Takes questions in and lets exactly one decision out for each, whoever reaches it first."""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from semflip_core.claims import Claim
from semflip_core.decision import Decision, Reason, refuse
from semflip_core.questions import printable

#: Latencies kept for the percentiles in the diagnostics.
LATENCIES = 512
#: Longest id that an asker may choose; characters.
LONGEST_ID = 256
#: Decided ids remembered at most, however fast they come.
REMEMBERED = 4096


@dataclass(eq=False, slots=True)
class PendingQuery:
    """A question that has no decision yet.

    Args:
        claim: taken by whoever publishes its decision.
        question: as received; the agent cleans it.
        received: ``time.monotonic()`` seconds.
        on_progress: told each step, from the worker's thread.
        on_decision: called once each with the decision, after it was published.
        cancel_ready: set by an asker who wants out; True once the refusal may be published.
    """

    claim: Claim
    question: str
    received: float
    on_progress: Callable[[str], None]
    on_decision: list[Callable[[Decision], None]] = field(default_factory=list)
    cancel_ready: Callable[[], bool] | None = None

    @property
    def query_id(self) -> str:
        """Id of the query, never empty."""
        return self.claim.query_id


class Worker(Protocol):
    """What the desk hands questions to."""

    def submit(self, pending: PendingQuery) -> bool:
        """Take the question, or return False where too many wait."""

    @property
    def late_because(self) -> str:
        """What keeps the worker from the questions, as a sentence; empty if nothing special."""


@dataclass(frozen=True, slots=True)
class _Decided:
    """The decision of an id, and when it was made; the question itself is not kept."""

    decision: Decision
    at: float


class QueryDesk:
    """Every question goes over this desk, whichever way it came; thread-safe.

    Args:
        deadline_s: a question is refused with TIMEOUT after this; seconds.
        repeat_window_s: how long an id is remembered after its decision; seconds.
        publish: sends a decision and its goal or refusal; called once a query.
        repeat: sends the decision of an id that was asked again, and nothing else.
    """

    def __init__(
        self,
        *,
        deadline_s: float,
        repeat_window_s: float,
        publish: Callable[[Decision], None],
        repeat: Callable[[Decision], None],
    ) -> None:
        self._deadline_s = deadline_s
        self._window_s = repeat_window_s
        self._publish = publish
        self._repeat = repeat
        self._lock = threading.Lock()
        self._publishing = threading.Lock()
        self._open: dict[str, PendingQuery] = {}
        self._decided: OrderedDict[str, _Decided] = OrderedDict()
        self._worker: Worker | None = None
        self.changed = threading.Condition()
        self.latencies_s: deque[float] = deque(maxlen=LATENCIES)
        self.last: Decision | None = None
        self.received = 0
        self.decided = 0

    def open(self, worker: Worker) -> None:
        """Hand questions to this worker from now on."""
        with self._lock:
            self._worker = worker

    def close(self, sentence: str = "") -> None:
        """Refuse everything that waits, and every question from now on, with NOT_ACTIVE.

        When it returns, no decision of the old worker is being published any more.
        """
        with self._lock:
            self._worker = None
        self.refuse_pending(Reason.NOT_ACTIVE, sentence)
        with self._publishing:
            pass

    def ask(
        self,
        question: str,
        query_id: str = "",
        *,
        on_progress: Callable[[str], None] | None = None,
        on_decision: Callable[[Decision], None] | None = None,
    ) -> PendingQuery:
        """Take a question; returns at once.

        Args:
            query_id: the asker's id; empty for one made here. An id seen within the window gets
                its earlier decision, whatever the question says. One longer than
                :data:`LONGEST_ID` is refused and not remembered.
        """
        now = time.monotonic()
        pending = PendingQuery(
            Claim(query_id or str(uuid.uuid4()), now + self._deadline_s, now),
            question,
            now,
            on_progress or (lambda _: None),
            [on_decision] if on_decision else [],
        )
        with self._lock:
            self._forget(now)
            earlier = self._open.get(pending.query_id)
            if earlier is not None:
                earlier.on_decision += pending.on_decision
                return earlier
            known = self._decided.get(pending.query_id)
            if known is None:
                self.received += 1
                self._open[pending.query_id] = pending
            worker = self._worker
        if known is not None:
            pending.claim.take("repeat")
            self._repeat(known.decision)
            for told in pending.on_decision:
                told(known.decision)
            return pending
        if len(pending.query_id) > LONGEST_ID:
            length = len(pending.query_id)
            sentence = f"The id has {length} characters; at most {LONGEST_ID} are taken."
            self.refuse(pending, Reason.INVALID_QUESTION, sentence)
        elif worker is None:
            self.refuse(pending, Reason.NOT_ACTIVE)
        elif not worker.submit(pending):
            self.refuse(pending, Reason.OVERLOADED)
        else:
            with self.changed:
                self.changed.notify_all()
        return pending

    def settle(self, pending: PendingQuery, decision: Decision, owner: str = "answer") -> bool:
        """Publish the decision if nobody has decided this query yet.

        Returns:
            Whether it was published; False discards a late one.
        """
        if not pending.claim.take(owner):
            return False
        with self._publishing:
            self._publish(decision)
        now = time.monotonic()
        with self._lock:
            self.decided += 1
            self.last = decision
            self.latencies_s.append(now - pending.received)
            self._open.pop(pending.query_id, None)
            if len(pending.query_id) <= LONGEST_ID:
                self._decided[pending.query_id] = _Decided(decision, now)
            told = list(pending.on_decision)
        for tell in told:
            tell(decision)
        return True

    def refuse(self, pending: PendingQuery, reason: Reason, sentence: str = "") -> bool:
        """Refuse a query for a reason of the system's own, if it is still undecided."""
        question = printable(pending.question)
        decision = refuse(pending.query_id, question, reason, sentence)
        return self.settle(pending, decision, reason.value.lower())

    def refuse_pending(self, reason: Reason, sentence: str = "") -> None:
        """Refuse every undecided query."""
        for pending in self.pending():
            self.refuse(pending, reason, sentence)

    def pending(self) -> list[PendingQuery]:
        """Undecided queries, oldest first."""
        with self._lock:
            return list(self._open.values())

    def cancel(self, pending: PendingQuery, ready: Callable[[], bool]) -> None:
        """Refuse the query with CANCELLED as soon as ``ready()`` holds; polled for a moment."""
        pending.cancel_ready = ready
        with self.changed:
            self.changed.notify_all()

    def enforce(self, now: float) -> None:
        """Refuse what is past its deadline or cancelled."""
        with self._lock:
            worker = self._worker
        for pending in self.pending():
            if pending.cancel_ready is not None and pending.cancel_ready():
                self.refuse(pending, Reason.CANCELLED)
            elif pending.claim.expired(now):
                self.refuse(pending, Reason.TIMEOUT, worker.late_because if worker else "")

    def next_deadline(self) -> float | None:
        """``time.monotonic()`` seconds of the next one, or None."""
        return min((p.claim.deadline for p in self.pending()), default=None)

    def cancelling(self) -> bool:
        """Whether some query waits for its cancellation."""
        return any(p.cancel_ready is not None for p in self.pending())

    def _forget(self, now: float) -> None:
        while self._decided:
            query_id, known = next(iter(self._decided.items()))
            if now - known.at <= self._window_s and len(self._decided) <= REMEMBERED:
                return
            del self._decided[query_id]
