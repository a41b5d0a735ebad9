"""One claim a query: whoever takes it publishes, everyone later is discarded."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Claim:
    """The right to publish the one decision of a query.

    Args:
        query_id: the query's id.
        deadline: ``time.monotonic()`` seconds after which the query is refused with TIMEOUT.
    """

    query_id: str
    deadline: float
    created: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _owner: str = field(default="", repr=False)

    def take(self, owner: str = "answer") -> bool:
        """Claim the query; True for the first caller only, whatever the thread."""
        with self._lock:
            if self._owner:
                return False
            self._owner = owner or "unnamed"
            return True

    @property
    def owner(self) -> str:
        """Who took it: ``answer``, ``deadline``, ``cancel``...; empty while it is open."""
        with self._lock:
            return self._owner

    @property
    def taken(self) -> bool:
        """Whether the decision is already somebody's."""
        return bool(self.owner)

    def expired(self, now: float | None = None) -> bool:
        """Whether the deadline has passed."""
        return (time.monotonic() if now is None else now) >= self.deadline
