"""The video memory: keyframes with poses and features, bounded, fair and safe from crashes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from semflip_core.closing import Closing
from semflip_core.errors import EncoderError, ImageError, MemoryFileError
from semflip_core.frames import CameraMount, FrameFeatures, KeyframeRecord, Picture
from semflip_core.images import StoredPicture, decode_compressed
from semflip_core.keyframes import looks_of
from semflip_core.memory.features import FeatureLedger
from semflip_core.memory.file import FileStore
from semflip_core.memory.index import KeyframeIndex
from semflip_core.memory.info import MemoryInfo, file_bytes, maps_of
from semflip_core.memory.schema import SCHEMA_VERSION
from semflip_core.memory.store import RamStore, Store
from semflip_core.poses import Pose
from semflip_core.settings import MemorySettings

logger = logging.getLogger("semflip")

#: The writing thread may be this late before adding a keyframe writes by itself, seconds.
_LATE_S = 0.1
#: So many keyframes may come while a question reads before room is made for them all the same.
_LATECOMERS = 64


class VideoMemory(Closing):
    """Keyframes of everything the robot saw.

    Thread-safe. With a path it is one SQLite file, written every ``commit_interval_s``; without,
    it lives in RAM. When full, the keyframe most like another goes first.

    Args:
        path: the file, made if there is none; None for RAM.
        settings: how much it may hold.
        read_only: look at a file that may be in use.

    Raises:
        MemoryFileError: the file is in use, is not a memory, or cannot be opened. A damaged file
            is set aside under a new name instead, see ``notice``.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        settings: MemorySettings | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self.settings = settings or MemorySettings()
        self.path = Path(path) if path is not None else None
        self.revision = 0
        self.read_only = read_only
        self._lock = threading.RLock()
        self._index = KeyframeIndex(self.settings)
        self._features = FeatureLedger(self.settings.max_feature_bytes)
        self._created_ns = 0
        self._next_id = 1
        self._readers = 0
        self._latecomers = 0
        self._store: Store = RamStore()
        if self.path is not None:
            store = FileStore(self.path, self.settings.commit_interval_s, read_only=read_only)
            self._store = store
            with ExitStack() as undo:
                undo.callback(store.close)
                self._load(store)
                undo.pop_all()

    def _load(self, store: FileStore) -> None:
        meta = store.meta()
        self._created_ns = int(meta.get("created_ns", "0"))
        for record, looks, reach, picture_bytes in store.stored_keyframes():
            self._index.add(record, looks, picture_bytes, reach)
        self._index.last_segment = max(
            self._index.last_segment, int(meta.get("last_segment", "-1"))
        )
        self._next_id = max(store.next_id(), max(self._index, default=0) + 1)
        for keyframe_id, digest, nbytes in store.stored_features():
            if keyframe_id in self._index:
                self._features.note(keyframe_id, digest, nbytes)
        if not self.read_only:
            self._make_room(keep=None)
            self._trim_features()

    @property
    def notice(self) -> str:
        """What happened at opening, for example that a damaged file was set aside; else empty."""
        return getattr(self._store, "notice", "")

    @property
    def degraded(self) -> str:
        """Why keyframes cannot be written to disk at the moment; empty when all is well."""
        return self._store.degraded

    def __len__(self) -> int:
        return len(self._index)

    def next_segment(self) -> int:
        """The segment that a new recording into this memory starts with."""
        return self._index.last_segment + 1

    def add(
        self,
        picture: StoredPicture,
        *,
        stamp_ns: int,
        pose: Pose | None,
        map_id: str,
        segment: int = 0,
        mount: CameraMount | None = None,
    ) -> int:
        """Store a keyframe; it is on disk after ``commit_interval_s``.

        Args:
            picture: as it is kept.
            stamp_ns: header stamp, nanoseconds.
            pose: of ``base_frame`` at that time; None where none was known.
            map_id: which map the pose belongs to.
            segment: counts up when time jumps back.
            mount: the camera on the robot.

        Returns:
            Its number, never used before in this memory.

        Raises:
            ImageError: the picture cannot be decoded.
            MemoryFileError: the memory was opened read-only.
        """
        self._check_writable()
        looks = looks_of(picture.data).tobytes()
        with self._lock:
            record = KeyframeRecord(
                id=self._next_id,
                stamp_ns=stamp_ns,
                pose=pose,
                map_id=map_id,
                segment=segment,
                width=picture.width,
                height=picture.height,
                mount=mount,
            )
            self._next_id += 1
            self._store.put_keyframe(record, looks, picture.data)
            if segment > self._index.last_segment:
                self._store.set_meta("last_segment", str(segment))
            self._index.add(record, looks, len(picture.data))
            self.revision += 1
            self._make_room(keep=record.id)
        self._keep_pace()
        return record.id

    def _keep_pace(self) -> None:
        """Hold what a crash may lose under a second, and what waits in RAM to its bound."""
        store = self._store
        if store.degraded or self.read_only:
            self._drop_unsaved()
        elif (
            store.oldest_unsaved_s() > self.settings.commit_interval_s + _LATE_S
            or store.unsaved_bytes() > self.settings.max_unsaved_bytes
        ):
            try:
                store.flush()
            except MemoryFileError:
                self._drop_unsaved()

    def _drop_unsaved(self) -> None:
        """With a full disk RAM is the bound: unsaved features go, then redundant new keyframes."""
        limit = self.settings.max_unsaved_bytes
        with self._lock:
            if self._store.unsaved_bytes() > limit:
                for keyframe_id, digest in self._store.drop_unsaved_features():
                    self._features.note(keyframe_id, digest, 0)
            while self._store.unsaved_bytes() > limit:
                unsaved = self._store.unsaved_keyframes()
                if len(unsaved) < 2:
                    return  # the newest stays, whatever its size
                self._spare_one(keep=unsaved[-1], among=unsaved)

    def put_features(self, keyframe_id: int, digest: str, features: FrameFeatures) -> None:
        """Store what an encoder made of a keyframe; nothing happens if the keyframe is gone.

        A memory opened read-only keeps them in RAM.

        Args:
            digest: of the encoder's frame fingerprint.

        Raises:
            EncoderError: they are none, or hold NaN or infinity.
        """
        features.check()
        data = features.to_bytes()
        with self._lock:
            if keyframe_id not in self._index:
                return
            self._store.put_features(keyframe_id, digest, data)
            self._features.note(keyframe_id, digest, len(data))
            self._features.use(keyframe_id, digest)
            self._trim_features()
        self._keep_pace()

    def features(self, keyframe_id: int, digest: str) -> FrameFeatures | None:
        """What :meth:`put_features` stored, or None: evicted, damaged or never made."""
        with self._lock:
            if not self._features.use(keyframe_id, digest):
                return None
        data = self._store.features(keyframe_id, digest)
        if data is not None:
            try:
                return FrameFeatures.from_bytes(data)
            except EncoderError as error:
                logger.error("keyframe %d: %s", keyframe_id, error)
        with self._lock:
            self._features.forget(keyframe_id, digest)
        return None

    def missing_features(self, digest: str) -> list[int]:
        """Keyframes whose features of this digest were never made, oldest first.

        Those evicted for the budget are not listed: making them all again would evict the next.
        """
        with self._lock:
            return self._features.never_made(self._index, digest)

    def records(self) -> tuple[KeyframeRecord, ...]:
        """All keyframes' records, by id."""
        with self._lock:
            return self._index.records()

    def record(self, keyframe_id: int) -> KeyframeRecord:
        """One keyframe's record; KeyError if it is gone."""
        with self._lock:
            return self._index.record(keyframe_id)

    def encoded_picture(self, keyframe_id: int) -> bytes:
        """The stored picture's bytes.

        Raises:
            KeyError: the keyframe is gone, or its bytes are damaged, which makes it go.
        """
        with self._lock:
            if keyframe_id not in self._index:
                raise KeyError(keyframe_id)
        data = self._store.picture(keyframe_id)
        if data is None:
            with self._lock:
                if keyframe_id in self._index and not self.read_only:
                    logger.error("keyframe %d: its picture is damaged; forgotten", keyframe_id)
                    self._remove([keyframe_id])
            raise KeyError(keyframe_id)
        return data

    def picture(self, keyframe_id: int) -> Picture:
        """The stored picture, decoded, ``(height, width, 3)`` RGB; KeyError if it is gone."""
        return decode_compressed(self.encoded_picture(keyframe_id))

    def flush(self) -> None:
        """Write everything to disk now.

        Raises:
            MemoryFileError: the disk does not take it; the keyframes stay in RAM.
        """
        self._store.flush()

    def clear(self) -> int:
        """Forget everything; numbers go on from where they were.

        Returns:
            How many keyframes were forgotten.
        """
        self._check_writable()
        with self._lock:
            count = len(self._index)
            self._remove(list(self._index))
        self._store.compact()
        return count

    def remove(self, keyframe_ids: list[int]) -> None:
        """Forget some keyframes; those already gone do not matter."""
        self._check_writable()
        with self._lock:
            self._remove([i for i in keyframe_ids if i in self._index])

    def close(self) -> None:
        """Write and release the file."""
        self._store.close()

    def info(self) -> MemoryInfo:
        """What it holds."""
        with self._lock:
            records = self.records()
            stamps = [record.stamp_ns for record in records]
            return MemoryInfo(
                path=str(self.path) if self.path else None,
                keyframes=len(records),
                with_pose=sum(record.pose is not None for record in records),
                picture_bytes=self._index.picture_bytes,
                feature_bytes=self._features.nbytes,
                file_bytes=file_bytes(self.path),
                maps=maps_of(records),
                digests=self._features.counts(),
                segments=len({record.segment for record in records}),
                created_ns=self._created_ns,
                first_ns=min(stamps, default=0),
                last_ns=max(stamps, default=0),
                schema_version=SCHEMA_VERSION,
                degraded=self.degraded,
            )

    def check(self) -> list[str]:
        """Read everything; what is damaged, a sentence each. Empty when all is sound."""
        problems = self._store.problems()
        for record in self.records():
            try:
                self.picture(record.id)
            except KeyError:
                problems.append(f"keyframe {record.id}: picture missing or damaged")
            except ImageError as error:
                problems.append(f"keyframe {record.id}: {error}")
        return problems

    def _check_writable(self) -> None:
        if self.read_only:
            raise MemoryFileError(f"{self.path}: opened read-only")

    @contextmanager
    def steady(self) -> Iterator[None]:
        """Within it nothing is evicted, so that what a question chose can still be read.

        Keyframes that come meanwhile are kept beyond the limits, 64 of them at most; then each
        takes another's place. Room is made at the end. :meth:`clear` and damage still remove.
        """
        with self._lock:
            self._readers += 1
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1
                if self._readers == 0 and self._latecomers:
                    self._latecomers = 0
                    self._make_room(keep=self._next_id - 1)

    def _make_room(self, keep: int | None) -> None:
        if self._readers and self._index.full:
            if self._latecomers < _LATECOMERS:
                self._latecomers += 1
            else:
                self._spare_one(keep)
            return
        while self._index.full and len(self._index) > 1:
            self._spare_one(keep)

    def _spare_one(self, keep: int | None, among: Collection[int] | None = None) -> None:
        """Forget the keyframe that another stands for best."""
        spared = self._index.spare_one(keep, among)
        if spared.heir is not None:
            self._store.set_reach(spared.heir, spared.reach)
        self._remove([spared.keyframe_id])

    def _remove(self, keyframe_ids: list[int]) -> None:
        if keyframe_ids:
            self._index.remove(keyframe_ids)
            for keyframe_id in keyframe_ids:
                self._features.forget_keyframe(keyframe_id)
            self._store.remove(keyframe_ids)
            self.revision += 1

    def _trim_features(self) -> None:
        for keyframe_id, digest in self._features.evict():
            self._store.put_features(keyframe_id, digest, None)
