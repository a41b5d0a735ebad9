"""Which keyframes a memory holds, in RAM: records, looks, and which one can be spared."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from semflip_core.capacity import Redundancy
from semflip_core.frames import KeyframeRecord
from semflip_core.settings import MemorySettings


@dataclass(slots=True)
class _Entry:
    """A keyframe in the index."""

    record: KeyframeRecord
    looks: bytes
    picture_bytes: int
    reach: float


@dataclass(frozen=True, slots=True)
class Spared:
    """A keyframe that can go.

    Args:
        keyframe_id: which.
        heir: the keyframe that stands for it from now on; None where nothing is like it.
        reach: how different the views are that the heir stands for.
    """

    keyframe_id: int
    heir: int | None
    reach: float


class KeyframeIndex:
    """All keyframes of a memory, by id; not thread-safe.

    Args:
        settings: the capacity, and what counts as redundant.

    Attributes:
        picture_bytes: of all stored pictures.
        current_map: of the keyframe that came last.
        last_segment: the greatest there ever was; -1 before the first.
    """

    def __init__(self, settings: MemorySettings) -> None:
        self.picture_bytes = 0
        self.current_map = ""
        self.last_segment = -1
        self._settings = settings
        self._entries: dict[int, _Entry] = {}
        self._records: tuple[KeyframeRecord, ...] | None = ()
        self._redundancy: Redundancy | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[int]:
        return iter(self._entries)

    def __contains__(self, keyframe_id: object) -> bool:
        return keyframe_id in self._entries

    def add(
        self, record: KeyframeRecord, looks: bytes, picture_bytes: int, reach: float = 0.0
    ) -> None:
        """Take a keyframe in; ids must rise."""
        self._entries[record.id] = _Entry(record, looks, picture_bytes, reach)
        self._records = None
        self.picture_bytes += picture_bytes
        self.current_map = record.map_id
        self.last_segment = max(self.last_segment, record.segment)
        if self._redundancy is not None:
            self._redundancy.add(record, looks)

    def remove(self, keyframe_ids: Collection[int]) -> None:
        """Forget keyframes; KeyError if one is not there."""
        if len(keyframe_ids) == len(self._entries):
            self._redundancy = None  # to be built anew costs less than to take all out of it
        for keyframe_id in keyframe_ids:
            self.picture_bytes -= self._entries.pop(keyframe_id).picture_bytes
            if self._redundancy is not None:
                self._redundancy.remove(keyframe_id)
        self._records = None

    def record(self, keyframe_id: int) -> KeyframeRecord:
        """One keyframe's record; KeyError if it is gone."""
        return self._entries[keyframe_id].record

    def records(self) -> tuple[KeyframeRecord, ...]:
        """All records, by id."""
        if self._records is None:
            self._records = tuple(entry.record for entry in self._entries.values())
        return self._records

    @property
    def full(self) -> bool:
        """Whether it holds more than it may."""
        return (
            len(self._entries) > self._settings.max_keyframes
            or self.picture_bytes > self._settings.max_bytes
        )

    def spare_one(self, keep: int | None, among: Collection[int] | None = None) -> Spared:
        """The keyframe that another stands for best; its heir's reach is noted, it stays.

        Args:
            keep: must stay.
            among: only these may go; None for all.
        """
        if self._redundancy is None:  # built when first needed
            entries = self._entries.values()
            views = ((entry.record, entry.looks, entry.reach) for entry in entries)
            self._redundancy = Redundancy(self._settings, views)
        spared = Spared(*self._redundancy.spare_one(self.current_map, keep, among))
        if spared.heir is not None:
            self._entries[spared.heir].reach = spared.reach
        return spared
