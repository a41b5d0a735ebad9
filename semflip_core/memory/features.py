"""Which keyframes have features of which encoder, and which may go when the budget is spent."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator


class FeatureLedger:
    """Keeps account of stored features by digest and keyframe; the bytes live in the store.

    Over budget, features of encoders not used since the start go first, then those of the kind
    that takes most bytes, least recently used first: small region vectors, which recall needs of
    every keyframe, outlive the token caches of a large model.

    Args:
        max_bytes: the budget.
    """

    def __init__(self, max_bytes: int) -> None:
        self.nbytes = 0
        self._max_bytes = max_bytes
        self._stored: dict[str, OrderedDict[int, int]] = {}
        self._evicted: dict[str, set[int]] = {}
        self._totals: dict[str, int] = {}
        self._in_use: set[str] = set()

    def note(self, keyframe_id: int, digest: str, nbytes: int) -> None:
        """Features are stored; or were evicted, if they have 0 bytes."""
        self.forget(keyframe_id, digest)
        if nbytes == 0:
            self._evicted.setdefault(digest, set()).add(keyframe_id)
            return
        self._stored.setdefault(digest, OrderedDict())[keyframe_id] = nbytes
        self._totals[digest] = self._totals.get(digest, 0) + nbytes
        self.nbytes += nbytes

    def use(self, keyframe_id: int, digest: str) -> bool:
        """Whether features are stored; makes them the most recently used."""
        self._in_use.add(digest)
        stored = self._stored.get(digest)
        if stored is None or keyframe_id not in stored:
            return False
        stored.move_to_end(keyframe_id)
        return True

    def forget(self, keyframe_id: int, digest: str) -> None:
        """Features are gone, as if never made."""
        stored = self._stored.get(digest)
        if stored is not None and keyframe_id in stored:
            nbytes = stored.pop(keyframe_id)
            self._totals[digest] -= nbytes
            self.nbytes -= nbytes
        self._evicted.get(digest, set()).discard(keyframe_id)

    def forget_keyframe(self, keyframe_id: int) -> None:
        """A keyframe is gone."""
        for digest in [*self._stored, *self._evicted]:
            self.forget(keyframe_id, digest)

    def never_made(self, keyframe_ids: Iterable[int], digest: str) -> list[int]:
        """Those keyframes whose features were neither stored nor evicted."""
        self._in_use.add(digest)
        stored: Container[int] = self._stored.get(digest, ())
        evicted: Container[int] = self._evicted.get(digest, ())
        return [i for i in keyframe_ids if i not in stored and i not in evicted]

    def evict(self) -> Iterator[tuple[int, str]]:
        """Evict until the budget holds; yields ``(keyframe id, digest)`` of each."""
        while self.nbytes > self._max_bytes:
            present = [digest for digest, nbytes in self._totals.items() if nbytes > 0]
            unused = [digest for digest in present if digest not in self._in_use]
            digest = max(unused or present, key=lambda name: (self._totals[name], name))
            keyframe_id = next(iter(self._stored[digest]))
            self.note(keyframe_id, digest, 0)
            yield keyframe_id, digest

    def counts(self) -> dict[str, int]:
        """Digest -> keyframes that have its features."""
        return {digest: len(stored) for digest, stored in self._stored.items() if stored}
