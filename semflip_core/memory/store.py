"""Where the bytes of a memory live; this is the one that ends with the process."""

from __future__ import annotations

from typing import Protocol

from semflip_core.frames import KeyframeRecord


class Store(Protocol):
    """Bytes of pictures and features by keyframe."""

    degraded: str

    def put_keyframe(self, record: KeyframeRecord, looks: bytes, picture: bytes) -> None:
        """Keep a keyframe."""

    def put_features(self, keyframe_id: int, digest: str, data: bytes | None) -> None:
        """Keep features; None notes that they were evicted."""

    def picture(self, keyframe_id: int) -> bytes | None:
        """A picture's bytes, or None where they are missing or damaged."""

    def features(self, keyframe_id: int, digest: str) -> bytes | None:
        """Feature bytes, or None where they are missing or damaged."""

    def remove(self, keyframe_ids: list[int]) -> None:
        """Forget keyframes and their features."""

    def set_reach(self, keyframe_id: int, reach: float) -> None:
        """Keep how different the views are that a keyframe stands for."""

    def set_meta(self, name: str, value: str) -> None:
        """Keep a small text."""

    def unsaved_bytes(self) -> int:
        """Bytes that wait for the disk."""

    def unsaved_keyframes(self) -> list[int]:
        """Keyframes that are not on disk yet, oldest first."""

    def drop_unsaved_features(self) -> list[tuple[int, str]]:
        """Forget features that are not on disk yet, to save RAM; which they were."""

    def oldest_unsaved_s(self) -> float:
        """Age of the oldest thing that is not on disk yet; seconds."""

    def flush(self) -> None:
        """Write now; raises MemoryFileError if the disk does not take it."""

    def compact(self) -> None:
        """Give freed space back to the disk."""

    def problems(self) -> list[str]:
        """What a check of everything finds; slow."""

    def close(self) -> None:
        """Write and release the file."""


class RamStore:
    """A memory that ends with the process."""

    def __init__(self) -> None:
        self.degraded = ""
        self._pictures: dict[int, bytes] = {}
        self._features: dict[tuple[int, str], bytes] = {}
        self._digests: dict[int, set[str]] = {}

    def put_keyframe(self, record: KeyframeRecord, looks: bytes, picture: bytes) -> None:
        self._pictures[record.id] = picture

    def put_features(self, keyframe_id: int, digest: str, data: bytes | None) -> None:
        if data is None:
            self._features.pop((keyframe_id, digest), None)
            return
        self._features[keyframe_id, digest] = data
        self._digests.setdefault(keyframe_id, set()).add(digest)

    def picture(self, keyframe_id: int) -> bytes | None:
        return self._pictures.get(keyframe_id)

    def features(self, keyframe_id: int, digest: str) -> bytes | None:
        return self._features.get((keyframe_id, digest))

    def remove(self, keyframe_ids: list[int]) -> None:
        for keyframe_id in keyframe_ids:
            self._pictures.pop(keyframe_id, None)
            for digest in self._digests.pop(keyframe_id, ()):
                self._features.pop((keyframe_id, digest), None)

    def set_reach(self, keyframe_id: int, reach: float) -> None:
        pass

    def set_meta(self, name: str, value: str) -> None:
        pass

    def unsaved_bytes(self) -> int:
        return 0

    def unsaved_keyframes(self) -> list[int]:
        return []

    def drop_unsaved_features(self) -> list[tuple[int, str]]:
        return []

    def oldest_unsaved_s(self) -> float:
        return 0.0

    def flush(self) -> None:
        pass

    def compact(self) -> None:
        pass

    def problems(self) -> list[str]:
        return []

    def close(self) -> None:
        self._pictures.clear()
        self._features.clear()
