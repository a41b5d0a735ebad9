"""One encoder's features of stored pictures; a picture that it cannot read is set aside."""

from __future__ import annotations

import logging
from collections.abc import Callable

from semflip_core.encoders.contract import (
    Encoder,
    Retriever,
    encoder_errors,
    fingerprint_digest,
)
from semflip_core.errors import EncoderError, ImageError
from semflip_core.frames import FrameFeatures, Picture
from semflip_core.memory import VideoMemory

logger = logging.getLogger("semflip")

#: So many other pictures are tried before a failure is called the encoder's own.
_OTHERS_READ_BEFORE = 3
_OTHERS_NEVER_READ = 8


class FeatureMaker:
    """Makes features of keyframes that lack them, with one encoder or retriever.

    A picture on which it fails twice, and reads another one in between, is set aside: questions
    are answered from the others, as if the camera had missed it. Where it reads no other picture
    either, the encoder itself is at fault and the error goes on to the caller, so that a broken
    encoder refuses instead of forgetting all it saw. What was set aside is tried again by the
    next maker, so after the next start.

    Args:
        memory: keyframes; may be written by others meanwhile.
        source: makes the features.
        check: raises where features, though finite, cannot be used.

    Attributes:
        digest: under which the memory holds the features.
        set_aside: keyframe -> why its picture cannot be read.
    """

    def __init__(
        self,
        memory: VideoMemory,
        source: Encoder | Retriever,
        check: Callable[[FrameFeatures], object] | None = None,
    ) -> None:
        self._memory = memory
        self._source = source
        self._check = check
        self.digest = fingerprint_digest(source.frame_fingerprint())
        self.set_aside: dict[int, str] = {}

    def missing(self) -> list[int]:
        """Keyframes without features that were not set aside, oldest first."""
        never_made = self._memory.missing_features(self.digest)
        return [i for i in never_made if i not in self.set_aside] if self.set_aside else never_made

    def make(self, keyframe_id: int) -> None:
        """Store a keyframe's features, or set it aside; nothing happens if it is gone.

        Raises:
            EncoderError: the encoder reads no other picture either.
        """
        try:
            picture = self._memory.picture(keyframe_id)
        except KeyError:
            return  # evicted since it was listed
        except ImageError as error:
            self._put_aside(keyframe_id, error)
            return
        made = self._attempt(picture)
        if isinstance(made, EncoderError) and self._reads_another(keyframe_id):
            made = self._attempt(picture)  # the first time may have been a hiccup
            if isinstance(made, EncoderError):
                self._put_aside(keyframe_id, made)
                return
        if isinstance(made, EncoderError):
            raise made
        self._memory.put_features(keyframe_id, self.digest, made)

    def forget_gone(self) -> None:
        """Count no keyframe that the memory has forgotten."""
        if self.set_aside:
            there = {record.id for record in self._memory.records()}
            self.set_aside = {i: why for i, why in self.set_aside.items() if i in there}

    def _attempt(self, picture: Picture) -> FrameFeatures | EncoderError:
        try:
            with encoder_errors(f"'{self._source.name}' cannot read a picture"):
                features = self._source.encode_frame(picture)
                features.check()
                if self._check is not None:
                    self._check(features)
        except EncoderError as error:
            return error
        return features

    def _put_aside(self, keyframe_id: int, error: EncoderError | ImageError) -> None:
        logger.error(
            "keyframe %d is set aside, questions are answered without it: %s",
            keyframe_id,
            error,
            exc_info=error,
        )
        self.set_aside[keyframe_id] = str(error)

    def _reads_another(self, keyframe_id: int) -> bool:
        """Whether it reads one of some other pictures; those that it read before, if any."""
        missing = self._memory.missing_features(self.digest)
        never_read = {keyframe_id, *missing}
        others = [r.id for r in self._memory.records() if r.id not in never_read]
        others = others[-_OTHERS_READ_BEFORE:]
        if not others:
            untried = [i for i in missing if i != keyframe_id and i not in self.set_aside]
            others = untried[:: max(1, len(untried) // _OTHERS_NEVER_READ)][:_OTHERS_NEVER_READ]
        for other in others:
            try:
                picture = self._memory.picture(other)
            except (KeyError, ImageError):
                continue  # gone, or unreadable by anybody
            if not isinstance(self._attempt(picture), EncoderError):
                return True
        return False
