"""Features kept in RAM between questions, so that a repeated one reads none from the disk."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container

from semflip_core.frames import FrameFeatures

#: A hundred frames of Qwen2.5-VL-7B at 640 x 480, several thousand of mini.
LIMIT_BYTES = 300_000_000


class FeatureCache:
    """The features used last, by keyframe; an id is never used again, so none goes stale.

    Args:
        limit_bytes: of all arrays together; the one just added is kept even where it is larger.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._kept: OrderedDict[int, FrameFeatures] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep_only(self, keyframe_ids: Container[int]) -> None:
        """Let the features of all other keyframes go."""
        for keyframe_id in [i for i in self._kept if i not in keyframe_ids]:
            self.nbytes -= self._kept.pop(keyframe_id).nbytes

    def get(self, keyframe_id: int) -> FrameFeatures | None:
        """What was kept, and is now the last to go; or None."""
        found = self._kept.get(keyframe_id)
        if found is not None:
            self._kept.move_to_end(keyframe_id)
        return found

    def put(self, keyframe_id: int, features: FrameFeatures) -> FrameFeatures:
        """Keep features, and let the longest unused go; returns them."""
        if (old := self._kept.pop(keyframe_id, None)) is not None:
            self.nbytes -= old.nbytes
        self._kept[keyframe_id] = features
        self.nbytes += features.nbytes
        while self.nbytes > self._limit and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            self.nbytes -= gone.nbytes
        return features
