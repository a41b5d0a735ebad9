"""The thread between the camera's callbacks and the memory: chooses keyframes, in arrival order."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from semflip_core.errors import ImageError, MemoryFileError
from semflip_core.images import StoredPicture
from semflip_core.ingest import Ingest
from semflip_core.poses import Pose

logger = logging.getLogger("semflip")

#: The same complaint is logged again only after this; seconds.
COMPLAINT_INTERVAL_S = 10.0


@dataclass(frozen=True, slots=True)
class _Image:
    stamp_ns: int
    size: int
    load: Callable[[], StoredPicture]


@dataclass(frozen=True, slots=True)
class _PoseSample:
    stamp_ns: int
    pose: Pose


#: An image, a pose, or something to do with the ingest at this place of the stream.
_Item = _Image | _PoseSample | Callable[[Ingest], list[int]]


class FrameFeed:
    """Images and poses go in from callbacks in microseconds; one thread makes keyframes of them.

    Args:
        ingest: makes the keyframe choice; only this thread uses it.
        backlog_bytes: message bytes that may wait; images beyond are dropped and counted.
        on_keyframes: told after keyframes were stored.
    """

    def __init__(
        self,
        ingest: Ingest,
        *,
        backlog_bytes: int,
        on_keyframes: Callable[[], None],
    ) -> None:
        self._ingest = ingest
        self._backlog_bytes = backlog_bytes
        self._on_keyframes = on_keyframes
        self._waiting: deque[_Item] = deque()
        self._waiting_bytes = 0
        self._wake = threading.Condition()
        self._stopping = False
        self._complained: dict[str, float] = {}
        self.counters: Counter[str] = Counter()
        self._chosen: Counter[str] = Counter()  # the ingest's counters, as of the last item
        self.last_image = self.last_pose = time.monotonic()
        self.last_stamp_ns = 0
        self._thread = threading.Thread(target=self._run, name="semflip-frames", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def image(self, stamp_ns: int, size: int, load: Callable[[], StoredPicture]) -> None:
        """An image came; ``load`` makes the stored picture, only if it is wanted.

        Args:
            stamp_ns: header stamp.
            size: bytes that wait with it.
        """
        self.last_image = time.monotonic()
        self.last_stamp_ns = stamp_ns
        with self._wake:
            self.counters["received"] += 1
            if self._waiting_bytes + size > self._backlog_bytes and self._waiting_bytes:
                self.counters["backlog"] += 1
                return
            self._waiting_bytes += size
            self._waiting.append(_Image(stamp_ns, size, load))
            self._wake.notify()

    def pose(self, stamp_ns: int, pose: Pose) -> None:
        """A pose of the base came."""
        self.last_pose = time.monotonic()
        with self._wake:
            self.counters["poses"] += 1
            self._waiting.append(_PoseSample(stamp_ns, pose))
            self._wake.notify()

    def then(self, step: Callable[[Ingest], list[int]]) -> None:
        """Do something with the ingest, in this thread, after what came before."""
        with self._wake:
            self._waiting.append(step)
            self._wake.notify()

    def complain(self, reason: str, message: str, *, counted: bool = False) -> None:
        """Say, now and then, why a message cannot be used, and count it unless that is done."""
        with self._wake:
            self.counters[reason] += not counted
            now = time.monotonic()
            if now - self._complained.get(reason, -COMPLAINT_INTERVAL_S) < COMPLAINT_INTERVAL_S:
                return
            self._complained[reason] = now
        logger.warning("dropped (%s): %s", reason, message)

    def counts(self) -> dict[str, int]:
        """Images and poses in, keyframes kept, and drops by reason."""
        with self._wake:
            return dict(self.counters + self._chosen)

    def stop(self) -> None:
        """Work off what waits, settle what waits for a pose, end the thread."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._waiting and not self._stopping:
                    self._wake.wait()
                if not self._waiting:
                    break
                item = self._waiting.popleft()
                if isinstance(item, _Image):
                    self._waiting_bytes -= item.size
            self._take(item)
            self._note_counters()
        self._store(self._ingest.finish)
        self._note_counters()

    def _note_counters(self) -> None:
        counted = Counter(self._ingest.counters)
        with self._wake:
            self._chosen = counted

    def _take(self, item: _Item) -> None:
        if isinstance(item, _PoseSample):
            self._store(lambda: self._ingest.add_pose(item.stamp_ns, item.pose))
        elif not isinstance(item, _Image):
            self._store(lambda: item(self._ingest))
        elif self._ingest.wants(item.stamp_ns, lambda: self._load(item)):
            self._store(lambda: self._ingest.offer(item.stamp_ns, lambda: self._load(item)))

    def _load(self, image: _Image) -> StoredPicture:
        try:
            return image.load()
        except ImageError as error:
            self.complain(f"image_{error.reason}", str(error), counted=True)
            raise  # the ingest counts it and goes on

    def _store(self, step: Callable[[], list[int]]) -> None:
        try:
            stored = step()
        except MemoryFileError as error:
            self.complain("memory", str(error))
        else:
            if stored:
                self._on_keyframes()
