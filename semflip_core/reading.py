"""A question embedded together with the frames recalled for it, out of a memory that grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from semflip_core.encoders.contract import (
    Encoder,
    JointEmbedding,
    PreparingEncoder,
    Retriever,
)
from semflip_core.errors import CancelledError, EncoderError, MemoryFileError
from semflip_core.feature_cache import FeatureCache
from semflip_core.feature_maker import FeatureMaker
from semflip_core.frames import FrameFeatures, MemoryFrame
from semflip_core.memory import VideoMemory
from semflip_core.recall import Recall

#: How often recall is repeated when keyframes are evicted between choosing and loading them.
RECALL_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Embedded:
    """A question embedded together with the frames recalled for it.

    Args:
        frames: prefix frames by time, then recalled frames by time.
        joint: vector, relevance and regions, in the order of ``frames``.
        timings_ms: ``features``, ``recall`` and ``encode``.
    """

    frames: tuple[MemoryFrame, ...]
    joint: JointEmbedding
    timings_ms: dict[str, float]


class Reader:
    """Reads a memory through an encoder: makes features, recalls frames, embeds.

    One thread at a time uses it, because it owns the encoder.

    Args:
        memory: keyframes; may be written by others meanwhile.
        encoder: frozen encoder.
        retriever: chooses frames; may be the encoder.
        recall: chooses with it.

    Attributes:
        encoder_digest: of what changes the encoder's features.
    """

    def __init__(
        self, memory: VideoMemory, encoder: Encoder, retriever: Retriever, recall: Recall
    ) -> None:
        self._memory = memory
        self._encoder = encoder
        self._recall = recall
        self._kept_features = FeatureCache()
        regions = FeatureMaker(memory, retriever, recall.regions_of)
        tokens = FeatureMaker(memory, encoder)
        self._makers = [regions] if tokens.digest == regions.digest else [tokens, regions]
        self.encoder_digest = tokens.digest

    @property
    def set_aside(self) -> dict[int, str]:
        """Keyframes whose pictures cannot be read, and why; no question is answered from them."""
        return {i: why for maker in self._makers for i, why in maker.set_aside.items()}

    def catch_up(self, limit: int | None = None) -> int:
        """Compute features of stored keyframes that lack them, oldest first.

        A picture that cannot be read is set aside, see :class:`FeatureMaker`.

        Args:
            limit: at most so many keyframes; None for all.

        Returns:
            How many keyframes were encoded or set aside.

        Raises:
            EncoderError: the encoder reads no picture at all.
        """
        done = 0
        for maker in self._makers:
            for keyframe_id in maker.missing():
                if limit is not None and done >= limit:
                    return done
                maker.make(keyframe_id)
                done += 1
        return done

    def _unread(self) -> set[int]:
        """Keyframes that no question may be answered from: set aside, or come a moment ago."""
        unread: set[int] = set()
        for maker in self._makers:
            unread.update(maker.set_aside, maker.missing())
        return unread

    def read_ahead(self, cancelled: Callable[[], bool] | None = None) -> None:
        """Let the encoder read the frames that every question sees, while nobody asks.

        Raises:
            EncoderError: the encoder failed.
        """
        if not isinstance(self._encoder, PreparingEncoder):
            return
        self._recall.refresh(self._unread)
        try:
            frames = [self._memory_frame(keyframe_id, True) for keyframe_id in self._recall.prefix]
        except KeyError:
            return  # one was evicted meanwhile; the next question reads for itself
        self._encoder.prepare(frames, cancelled=cancelled)

    def embed(self, question: str, cancelled: Callable[[], bool] | None = None) -> Embedded:
        """Recall frames for a cleaned question and embed both; offline features use this too.

        Raises:
            CancelledError: ``cancelled`` became true while frames were read.
            EncoderError: the encoder failed or broke its contract.
            MemoryFileError: the memory is empty, or changed too fast to be read.
        """
        timings: dict[str, float] = {}
        with timed(timings, "features"):
            self.catch_up()
        with self._memory.steady():
            with timed(timings, "recall"):
                frames = self._recalled(question)
            with timed(timings, "encode"):
                reader = self._encoder if isinstance(self._encoder, PreparingEncoder) else None
                if reader is not None and not reader.prepare(frames, cancelled=cancelled):
                    raise CancelledError("cancelled while frames were read")
                joint = self._encoder.encode(question, frames)
        self._forget_gone()
        joint.check(self._encoder.dimension, len(frames))
        return Embedded(frames, joint, timings)

    def _recalled(self, question: str) -> tuple[MemoryFrame, ...]:
        for _ in range(RECALL_ATTEMPTS):
            self._recall.refresh(self._unread)
            choice = self._recall.choose(question)
            if len(self._memory) == 0:
                raise MemoryFileError("the memory holds no keyframe to recall")
            if not choice.prefix and not choice.recalled:
                if len(self.set_aside) >= len(self._memory):
                    raise EncoderError("none of the stored pictures can be read")
                continue  # all were evicted while it chose
            try:
                return tuple(
                    self._memory_frame(keyframe_id, prefix)
                    for ids, prefix in ((choice.prefix, True), (choice.recalled, False))
                    for keyframe_id in ids
                )
            except KeyError:
                continue  # a keyframe was evicted meanwhile
        raise MemoryFileError("keyframes are evicted faster than they can be read")

    def _forget_gone(self) -> None:
        for maker in self._makers:
            maker.forget_gone()
        if len(self._kept_features) > len(self._memory):
            self._kept_features.keep_only({record.id for record in self._memory.records()})

    def _memory_frame(self, keyframe_id: int, prefix: bool) -> MemoryFrame:
        record = self._memory.record(keyframe_id)
        features = self._features(keyframe_id)
        return MemoryFrame(record, features, lambda: self._memory.picture(keyframe_id), prefix)

    def _features(self, keyframe_id: int) -> FrameFeatures:
        kept = self._kept_features.get(keyframe_id)
        if kept is not None:
            return kept
        stored = self._memory.features(keyframe_id, self.encoder_digest)
        if stored is None:
            stored = self._encoder.encode_frame(self._memory.picture(keyframe_id))
            self._memory.put_features(keyframe_id, self.encoder_digest, stored)
        return self._kept_features.put(keyframe_id, stored)


@contextmanager
def timed(timings: dict[str, float], name: str) -> Iterator[None]:
    """Write the milliseconds of a block into ``timings[name]``."""
    start = time.perf_counter()
    yield
    timings[name] = (time.perf_counter() - start) * 1e3
