"""What transformers itself makes of the same frames and question: one plain forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from semflip_core.encoders import Encoder
from semflip_core.encoders.qwen2_5_vl.prompt import LOOKING_BACK, QUESTION, SYSTEM, frame_tags
from semflip_core.frames import KeyframeRecord, MemoryFrame, Picture
from semflip_core.poses import Pose, quaternion_from_yaw


class PlainQwen:
    """A checkpoint loaded the usual way; the sequence is written as text and tokenised whole."""

    def __init__(self, folder: Path, dtype: str = "float32", attention: str = "sdpa") -> None:
        import torch
        from transformers import AutoTokenizer, Qwen2_5_VLForConditionalGeneration
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
            Qwen2VLImageProcessorPil,
        )

        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.processor: Any = Qwen2VLImageProcessorPil.from_pretrained(
            folder, size={"shortest_edge": 3136, "longest_edge": 307_200}
        )
        self.model: Any = Qwen2_5_VLForConditionalGeneration.from_pretrained(
            folder, dtype=getattr(torch, dtype), attn_implementation=attention
        )
        self.model.eval()

    def text(self, question: str, frames: Sequence[MemoryFrame], tokens: Sequence[int]) -> str:
        """The whole conversation as text with every picture token written out."""
        tags = frame_tags([frame.record for frame in frames])
        parts = [f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n"]
        for number, (frame, tag, count) in enumerate(zip(frames, tags, tokens, strict=True)):
            if number and not frame.prefix and frames[number - 1].prefix:
                parts.append(LOOKING_BACK)
            parts.append(f"{tag}<|vision_start|>{'<|image_pad|>' * count}<|vision_end|>\n")
        parts.append(f"{QUESTION.format(question=question)}<|im_end|>\n<|im_start|>assistant\n")
        return "".join(parts)

    def inputs(self, question: str, frames: Sequence[MemoryFrame]) -> dict[str, Any]:
        """What a user passes to the model: ids, pixels, grids and token types."""
        import torch

        seen = self.processor(images=[f.picture() for f in frames], return_tensors="pt")
        counts = (seen["image_grid_thw"].prod(-1) // 4).tolist()
        ids = self.tokenizer(self.text(question, frames, counts), return_tensors="pt")["input_ids"]
        return {
            "input_ids": ids,
            "mm_token_type_ids": (ids == self.model.config.image_token_id).to(torch.int32),
            "pixel_values": seen["pixel_values"],
            "image_grid_thw": seen["image_grid_thw"],
        }

    def forward(self, question: str, frames: Sequence[MemoryFrame], **options: Any) -> Any:
        """Output of ``Qwen2_5_VLModel`` without any cache."""
        import torch

        with torch.inference_mode():
            return self.model.model(**self.inputs(question, frames), use_cache=False, **options)

    def final_state(self, inputs: dict[str, Any]) -> Any:
        """``(hidden,)`` float32 final state of the last token."""
        import torch

        with torch.inference_mode():
            output = self.model.model(**inputs, use_cache=False)
        return output.last_hidden_state[0, -1].float().numpy()

    def embedding(self, question: str, frames: Sequence[MemoryFrame]) -> Any:
        """:meth:`final_state` of a question and frames."""
        return self.final_state(self.inputs(question, frames))


def scene(seed: int, height: int = 120, width: int = 160) -> Picture:
    """Blocks of colour on a gradient, no two alike."""
    rng = np.random.default_rng(seed)
    picture = np.empty((height, width, 3), np.uint8)
    picture[:] = np.linspace(60, 200, width, dtype=np.uint8)[None, :, None]
    for _ in range(6):
        y, x = rng.integers(0, height - 10), rng.integers(0, width - 10)
        picture[y : y + 40, x : x + 40] = rng.integers(0, 255, 3)
    return picture


def seen(
    encoder: Encoder,
    number: int,
    size: tuple[int, int] = (120, 160),
    *,
    prefix: bool = True,
    place: tuple[float, float, float] | None = (0.0, 0.0, 0.0),
) -> MemoryFrame:
    """A frame with number ``number`` as its id, its time in seconds and its picture's seed.

    Args:
        place: x, y, yaw in ``map``; None for a frame without a pose.
    """
    picture = scene(number, *size)
    pose = None
    if place is not None:
        pose = Pose("map", (place[0], place[1], 0.0), quaternion_from_yaw(place[2]))
    height, width = size
    record = KeyframeRecord(number, number * 10**9, pose, "map", 0, width, height)
    return MemoryFrame(record, encoder.encode_frame(picture), lambda: picture, prefix)
