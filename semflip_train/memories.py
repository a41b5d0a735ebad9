"""A memory for each sequence of a dataset, encoded once, and memories with erased frames."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from semflip_core.bags import memory_from_bag
from semflip_core.encoders import Encoder, fingerprint_digest
from semflip_core.encoders.mini.encoder import MiniEncoder
from semflip_core.errors import DatasetError, MemoryFileError
from semflip_core.frames import FrameFeatures, Picture
from semflip_core.images import StoredPicture, decode_compressed
from semflip_core.memory import VideoMemory
from semflip_core.settings import KeyframeSettings
from semflip_train.dataset import Dataset
from semflip_train.stores import (
    BlobStore,
    StoreError,
    content_hash,
    json_hash,
    tree_hash,
    write_whole,
)
from semflip_train.synthesis.detect import View

logger = logging.getLogger("semflip")
Progress = Callable[[int, int], None]


def sequence_memory(
    dataset: Dataset,
    sequence: str,
    keyframes: KeyframeSettings,
    folder: Path,
    progress: Progress | None = None,
) -> VideoMemory:
    """The stored memory of a sequence; made from its recording the first time.

    Args:
        folder: where memories are kept; a file's name holds the hash of recording and settings.

    Raises:
        BagError: the recording cannot be used.
        DatasetError: it gave no keyframe.
        StoreError: the disk does not take it.
    """
    recording = dataset.recording(sequence)
    key = json_hash(
        {
            "recording": tree_hash(recording),
            "keyframes": keyframes.model_dump(mode="json"),
            "topics": dataset.info.topics.model_dump(),
            "task": dataset.info.task,
        }
    )
    file = folder / f"{sequence}-{key[:12]}.sqlite"
    done = file.with_suffix(".ready")
    if not done.exists():
        for leftover in folder.glob(f"{file.name}*"):
            leftover.unlink()
        folder.mkdir(parents=True, exist_ok=True)
        with VideoMemory(file) as memory:
            ingest = memory_from_bag(
                recording,
                memory,
                keyframes=keyframes,
                image_topic=dataset.info.topics.image,
                pose_topic=dataset.info.topics.pose,
                map_id=sequence,
                needs_pose=dataset.info.task == "localization",
                progress=progress,
            )
            if len(memory) == 0:
                raise DatasetError(
                    f"{recording}: gave no keyframe ({dict(ingest.counters)}); check its topics "
                    "in dataset.yaml and that poses and pictures overlap in time"
                )
            logger.info("%s: %d keyframes, %s", sequence, len(memory), dict(ingest.counters))
            save_memory(memory, file)
        write_whole(done, key)
    return VideoMemory(file)


def save_memory(memory: VideoMemory, file: Path) -> None:
    """Have everything on disk, or stop: what RAM alone holds would be missed by the next stage."""
    try:
        memory.flush()
    except MemoryFileError as error:
        raise StoreError(
            f"{file}: cannot be written, is the disk full? Make room and start the same command "
            "again: what is done is kept"
        ) from error


class SequenceFrames:
    """Pictures and features of one sequence's memory, and of pictures derived from them.

    Args:
        memory: of the sequence.
        encoder: makes what is missing.
        cache: features of derived (erased) pictures, by content.
        beside: encoders of one look, such as the folds of cross-fitting: what each makes of a
            derived picture is cached along, since looking takes most of the time.
    """

    def __init__(
        self,
        memory: VideoMemory,
        encoder: Encoder,
        cache: BlobStore,
        beside: Sequence[MiniEncoder] = (),
    ) -> None:
        self.memory = memory
        self.encoder = encoder
        self.digest = fingerprint_digest(encoder.frame_fingerprint())
        self._beside = {fingerprint_digest(e.frame_fingerprint()): e for e in beside}
        self._cache = cache
        self.ids = tuple(record.id for record in memory.records())
        self.encoded = 0

    def encode_missing(self, progress: Progress | None = None) -> int:
        """Encode what the memory lacks; each keyframe is on disk when the next begins."""
        missing = self.memory.missing_features(self.digest)
        for done, keyframe_id in enumerate(missing, start=1):
            features = self.encoder.encode_frame(self.memory.picture(keyframe_id))
            self.memory.put_features(keyframe_id, self.digest, features)
            self.encoded += 1
            if progress is not None:
                progress(done, len(missing))
        if missing and self.memory.path is not None:
            save_memory(self.memory, self.memory.path)
        return len(missing)

    def features(self, keyframe_id: int) -> FrameFeatures:
        """Features of a keyframe, made now if they are missing."""
        stored = self.memory.features(keyframe_id, self.digest)
        if stored is None:
            stored = self.encoder.encode_frame(self.memory.picture(keyframe_id))
            self.memory.put_features(keyframe_id, self.digest, stored)
            self.encoded += 1
        return stored

    def views(self) -> list[View]:
        """Every keyframe with picture and features, in order of ids."""
        return [View(self.memory.picture(i), self.features(i)) for i in self.ids]

    def encode_derived(self, picture: Picture) -> FrameFeatures:
        """Features of a picture that is not in the memory, cached by its content."""
        stored = self._cache.get(self._derived_key(self.digest, picture))
        if stored is not None:
            return FrameFeatures.from_bytes(stored)
        if self.digest in self._beside:
            encoders = tuple(self._beside.values())
            looked = zip(self._beside, encoders[0].encode_frame_by(picture, encoders), strict=True)
            made = dict(looked)
        else:
            made = {self.digest: self.encoder.encode_frame(picture)}
        for digest, features in made.items():
            self._cache.put(self._derived_key(digest, picture), features.to_bytes())
        self.encoded += 1
        return made[self.digest]

    @staticmethod
    def _derived_key(digest: str, picture: Picture) -> str:
        return content_hash(digest, str(picture.shape), picture.tobytes())

    def content(self) -> str:
        """Hash of what the memory shows: stamps, poses and pictures, in order."""
        parts: list[bytes | str] = []
        for record in self.memory.records():
            parts += [f"{record.stamp_ns} {record.pose}", self.memory.encoded_picture(record.id)]
        return content_hash(*parts)

    def with_erased(self, erased: Mapping[int, bytes], also: Sequence[str] = ()) -> VideoMemory:
        """A memory in RAM with some pictures replaced; features of the others are copied.

        Args:
            erased: index of the keyframe -> JPEG.
            also: digests of more features to copy, where the memory has them.
        """
        made = VideoMemory()
        for index, keyframe_id in enumerate(self.ids):
            record = self.memory.record(keyframe_id)
            jpeg = erased.get(index)
            data = jpeg if jpeg is not None else self.memory.encoded_picture(keyframe_id)
            new_id = made.add(
                StoredPicture(data, record.width, record.height),
                stamp_ns=record.stamp_ns,
                pose=record.pose,
                map_id=record.map_id,
                segment=record.segment,
                mount=record.mount,
            )
            features = (
                self.features(keyframe_id)
                if jpeg is None
                else self.encode_derived(decode_compressed(jpeg))
            )
            made.put_features(new_id, self.digest, features)
            for digest in also if jpeg is None else ():
                stored = self.memory.features(keyframe_id, digest)
                if stored is not None:
                    made.put_features(new_id, digest, stored)
        return made
