"""Frozen Qwen2.5-VL behind the encoder contract.

Three levels of reuse, each exact: the vision tower's output per keyframe, stored with it
(``vision``); the keys and values of everything read so far, kept from query to query
(``prefix_cache``); and a new keyframe, which is appended to them. A question is always read anew,
behind the frames, and cut off again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from semflip_core.encoders.contract import Fingerprint, JointEmbedding, Vector
from semflip_core.encoders.qwen2_5_vl import prompt as prompt_module
from semflip_core.encoders.qwen2_5_vl.answer import GreedyDecoder
from semflip_core.encoders.qwen2_5_vl.layers import LayerStates, resolve_layers
from semflip_core.encoders.qwen2_5_vl.loading import MODEL_TYPE, load_checkpoint
from semflip_core.encoders.qwen2_5_vl.positions import with_picture
from semflip_core.encoders.qwen2_5_vl.prefix_cache import PrefixCache
from semflip_core.encoders.qwen2_5_vl.prompt import Prompt, Segment, frame_tags, prompt_digest
from semflip_core.encoders.qwen2_5_vl.relevance import AttentionProbe, Span
from semflip_core.encoders.qwen2_5_vl.settings import QwenSettings
from semflip_core.encoders.qwen2_5_vl.vision import PictureTokens, VisionTower, picture_tokens
from semflip_core.errors import EncoderError
from semflip_core.frames import FrameFeatures, MemoryFrame, Picture
from semflip_core.settings import read_settings

if TYPE_CHECKING:
    import torch

logger = logging.getLogger("semflip")
ResultT = TypeVar("ResultT")


def load(**options: Any) -> QwenEncoder:
    """The encoder from options as they stand in a configuration; see :class:`QwenSettings`.

    Raises:
        ConfigError: an option is unknown or has a wrong value.
        MissingExtraError: a library is not installed.
        AssetError: the checkpoint is missing or damaged.
        EncoderError: it is of another model.
    """
    return QwenEncoder(read_settings(QwenSettings, options, "encoder 'qwen2_5_vl'"))


class QwenEncoder:
    """A frozen Qwen2.5-VL. One thread at a time owns it, and with it all state of the model.

    Args:
        settings: which checkpoint, and how it is read.

    Raises:
        MissingExtraError, AssetError, EncoderError: as for :func:`load`.
    """

    name = "qwen2_5_vl"

    def __init__(self, settings: QwenSettings) -> None:
        checkpoint = load_checkpoint(settings)
        self._settings = settings
        self._model = checkpoint.model
        self._dtype = checkpoint.dtype
        self._digests = checkpoint.digests
        text = checkpoint.model.config.text_config
        self._hidden = int(text.hidden_size)
        self._limit = min(settings.max_sequence_tokens, int(text.max_position_embeddings))
        depth = int(text.num_hidden_layers)
        self._states = LayerStates(self._decoder, resolve_layers(settings.layers, depth, "layers"))
        self._relevance_layers = _relevance_layers(settings.relevance_layers, depth)
        self._probe = AttentionProbe(self._decoder, self._relevance_layers)
        self._prompt = Prompt(
            checkpoint.tokenizer,
            int(checkpoint.model.config.image_token_id),
            settings.max_question_tokens,
        )
        self._tower = VisionTower(checkpoint.model.model, checkpoint.processor, checkpoint.dtype)
        self._answers = GreedyDecoder(
            checkpoint.model.lm_head, checkpoint.tokenizer, checkpoint.stop
        )
        self._cache = PrefixCache(depth)

    @property
    def _decoder(self) -> Any:
        return self._model.model.language_model

    @property
    def cached_tokens(self) -> int:
        """Tokens whose keys and values are held at present."""
        return self._cache.tokens

    @property
    def cached_bytes(self) -> int:
        """Memory that the kept keys and values take."""
        return self._cache.nbytes

    @property
    def cached_on_device_bytes(self) -> int:
        """What of that is on the model's device; 0 once they had to leave it."""
        return self._cache.device_bytes

    @property
    def dimension(self) -> int:
        """Width of the model, times the number of joined layers."""
        return self._hidden * len(self._states.layers)

    def fingerprint(self) -> Fingerprint:
        """Everything that changes a joint embedding. The model is named by its content."""
        return {
            **self.frame_fingerprint(),
            "tokenizer": self._digests["tokenizer"],
            "prompt": prompt_digest(),
            "prompt_version": prompt_module.VERSION,
            "layers": " ".join(map(str, self._states.layers)),
            "relevance_layers": " ".join(map(str, self._relevance_layers)),
        }

    def frame_fingerprint(self) -> Fingerprint:
        """What changes the vision tower's output."""
        import transformers

        return {
            "name": self.name,
            "architecture": MODEL_TYPE,
            "weights": self._digests["weights"],
            "config": self._digests["config"],
            "processor": self._digests["processor"],
            "min_pixels": self._settings.min_pixels,
            "max_pixels": self._settings.max_pixels,
            "dtype": self._dtype,
            "attention": self._settings.attention,
            "transformers": transformers.__version__,
        }

    def encode_frame(self, rgb: Picture) -> FrameFeatures:
        """Vision-tower output of one picture; see :meth:`VisionTower.encode`."""
        return self._surviving(lambda: self._tower.encode(rgb))

    def prepare(
        self, frames: Sequence[MemoryFrame], *, cancelled: Callable[[], bool] | None = None
    ) -> bool:
        """Read frames ahead of a question, so that the question costs only its own words.

        Args:
            frames: as for :meth:`encode`; the prefix alone while nobody asks; may be none.
            cancelled: asked before each frame; what was read until then stays read.

        Returns:
            False where it was cancelled.
        """
        if not frames:
            return True
        segments, pictures = self._frame_segments(frames)
        return self._surviving(lambda: self._hold(segments, pictures, cancelled))

    def encode(self, question: str, frames: Sequence[MemoryFrame]) -> JointEmbedding:
        """Embed the question behind the frames.

        Raises:
            EncoderError: no frames, foreign features, too long, out of memory, or NaN.
            QuestionError: the question has too many tokens.
        """
        asked = self._prompt.question(question)
        segments, pictures = self._frame_segments(frames)
        return self._surviving(lambda: self._embed(segments, pictures, asked))

    def answer(
        self,
        question: str,
        frames: Sequence[MemoryFrame],
        *,
        max_tokens: int,
        on_text: Callable[[str], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> str:
        """Greedy answer from the same kept states; empty where it was cancelled before a word."""
        asked = self._prompt.question(question)
        segments, pictures = self._frame_segments(frames)

        def decode() -> str:
            if not self._hold(segments, pictures, cancelled):
                return ""
            self._check_length([*segments, asked], max_tokens)
            try:
                hidden, position = self._read(asked, None, self._cache.position)
                next_position = iter(range(position, position + max_tokens))
                return self._answers.decode(
                    hidden,
                    lambda token: self._read_token(token, next(next_position)),
                    max_tokens=max_tokens,
                    on_text=on_text,
                    cancelled=cancelled,
                )
            finally:
                self._cache.rollback()

        return self._surviving(decode)

    def close(self) -> None:
        """Release the model and what it has read."""
        self._cache.clear()
        del self._model, self._tower, self._answers, self._probe, self._states
        _empty_device_cache()

    def _frame_segments(
        self, frames: Sequence[MemoryFrame]
    ) -> tuple[list[Segment], list[PictureTokens]]:
        """The sequence before the question: head, then one segment a frame."""
        if not frames:
            raise EncoderError("no frames to encode; the memory is empty")
        pictures = [picture_tokens(f.features, self._hidden, self._dtype) for f in frames]
        tags = frame_tags([frame.record for frame in frames])
        segments = [self._prompt.head()]
        for number, (frame, picture) in enumerate(zip(frames, pictures, strict=True)):
            looking_back = not frame.prefix and number > 0 and frames[number - 1].prefix
            segments.append(
                self._prompt.frame(
                    number,
                    tags[number],
                    picture.grid,
                    picture.identity,
                    looking_back=looking_back,
                )
            )
        return segments, pictures

    def _check_length(self, segments: Sequence[Segment], extra: int = 0) -> int:
        tokens = sum(len(segment.ids) for segment in segments) + extra
        if tokens > self._limit:
            raise EncoderError(
                f"{len(segments)} parts of {tokens} tokens are more than {self._limit}: use fewer "
                "frames (recall.prefix_frames, recall.recalled_frames) or fewer pixels (max_pixels)"
            )
        return tokens

    def _hold(
        self,
        segments: Sequence[Segment],
        pictures: Sequence[PictureTokens],
        cancelled: Callable[[], bool] | None = None,
    ) -> bool:
        """Bring the kept states to exactly these segments; False where cancelled on the way."""
        tokens = self._check_length(segments)
        held = self._cache.keep(segments)
        self._cache.reserve(tokens + self._settings.max_question_tokens)
        for segment in segments[held:]:
            if cancelled is not None and cancelled():
                return False
            picture = None if segment.frame is None else pictures[segment.frame]
            _, position = self._read(segment, picture, self._cache.position)
            self._cache.commit(segment, position)
        return True

    def _embed(
        self, segments: Sequence[Segment], pictures: Sequence[PictureTokens], asked: Segment
    ) -> JointEmbedding:
        self._check_length([*segments, asked])
        self._hold(segments, pictures)
        try:
            with self._probe.watching(), self._states.watching():
                hidden, _ = self._read(asked, None, self._cache.position)
            vector: Vector = self._states.joined(hidden).numpy().astype(np.float32)
            relevance = self._probe.relevance(self._cache, _picture_spans(segments))
        finally:
            self._cache.rollback()
        if not (np.isfinite(vector).all() and np.isfinite(relevance).all()):
            self._cache.clear()
            raise EncoderError(
                f"the model gave NaN or infinity in {self._dtype}; use bfloat16 or float32"
            )
        return JointEmbedding(vector, relevance)

    def _read(
        self, segment: Segment, picture: PictureTokens | None, position: int
    ) -> tuple[torch.Tensor, int]:
        """One forward pass over a segment, behind everything in the cache.

        Returns:
            ``(hidden,)`` final hidden state of its last token, and the next free position.
        """
        import torch
        from transformers.modeling_outputs import BaseModelOutputWithPooling

        device = self._model.device
        places, after = with_picture(position, len(segment.ids), segment.picture_at, segment.grid)
        shown = None
        if picture is not None:
            pooled: Any = [picture.tensor(device)]  # a list, one tensor a picture
            shown = {"image": BaseModelOutputWithPooling(pooler_output=pooled)}
        with torch.inference_mode():
            output = self._model.model(
                input_ids=torch.tensor([segment.ids], device=device),
                position_ids=torch.from_numpy(places.copy())[:, None].to(device),
                past_key_values=self._cache.states,
                use_cache=True,
                mm_encoder_outputs=shown,
            )
        return output.last_hidden_state[0, -1], after

    def _read_token(self, token: int, position: int) -> torch.Tensor:
        hidden, _ = self._read(Segment(b"", (token,)), None, position)
        return hidden

    def _surviving(self, work: Callable[[], ResultT]) -> ResultT:
        """Do the work; where memory runs out, give some back and try again, twice at most.

        First the kept states are dropped, then the frames' keys and values leave the device. Both
        give the same numbers. Frames are never left out to make it fit: the gate was calibrated on
        the whole sequence, so a shorter one must be refused rather than judged.
        """
        for said, give_back in self._measures():
            try:
                return work()
            except _out_of_memory_errors() as error:
                if not _is_out_of_memory(error):
                    raise
            logger.warning("out of memory with %d tokens kept; %s", self._cache.tokens, said)
            give_back()
            _empty_device_cache()
        try:
            return work()
        except _out_of_memory_errors() as error:
            if not _is_out_of_memory(error):
                raise
            self._cache.clear()
            _empty_device_cache()
            raise EncoderError(
                "out of memory even without kept states: use fewer frames or pixels, or another "
                "dtype; 'semflip doctor' shows what fits"
            ) from error

    def _measures(self) -> list[tuple[str, Callable[[], None]]]:
        """What can be given back and how it is said, the cheapest first."""
        measures = [("dropped", self._cache.clear)]
        if not self._cache.in_host_memory:
            said = "from now on frames' keys and values wait in the computer's memory, slower"
            measures.append((said, self._cache.move_out))
        return measures


def _empty_device_cache() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _relevance_layers(chosen: tuple[int, ...] | None, depth: int) -> tuple[int, ...]:
    if chosen is None:
        return tuple(sorted({depth // 2, 2 * depth // 3, 5 * depth // 6}))
    wrong = [layer for layer in chosen if not 0 <= layer < depth]
    if wrong or not chosen:
        raise EncoderError(
            f"relevance_layers {list(chosen)}: the model has layers 0 to {depth - 1}"
        )
    return chosen


def _picture_spans(segments: Sequence[Segment]) -> list[Span]:
    spans = []
    start = 0
    for segment in segments:
        if segment.grid is not None:
            first = start + segment.picture_at
            spans.append((first, first + segment.grid[0] * segment.grid[1]))
        start += len(segment.ids)
    return spans


def _out_of_memory_errors() -> tuple[type[BaseException], ...]:
    return (MemoryError, RuntimeError)  # torch's are RuntimeErrors


def _is_out_of_memory(error: BaseException) -> bool:
    import torch

    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    text = str(error).lower()
    return "out of memory" in text or "can't allocate memory" in text
