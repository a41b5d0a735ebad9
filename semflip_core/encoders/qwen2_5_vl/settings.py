"""Options of the Qwen2.5-VL encoder."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from semflip_core.settings import CheckpointSettings

Dtype = Literal["auto", "bfloat16", "float16", "float32"]
Attention = Literal["sdpa", "eager", "flash_attention_2"]
DEFAULT_MODEL = "Qwen/Qwen2.5-VL-7B-Instruct"


class QwenSettings(CheckpointSettings):
    """What can be chosen; all but ``model``, ``revision``, ``device`` and bounds that only refuse
    are in the fingerprint (of the model its content is, not its name)."""

    model: str = Field(
        default=DEFAULT_MODEL, min_length=1, description="Directory of a checkpoint, or its hub id."
    )
    dtype: Dtype = Field(
        default="auto", description="auto: bfloat16, and float16 for AWQ, whose kernels need it."
    )
    attention: Attention = Field(default="sdpa", description="Attention implementation.")
    min_pixels: int = Field(
        default=3136, ge=784, description="Smaller pictures are scaled up; pixels."
    )
    max_pixels: int = Field(
        default=307_200,
        ge=784,
        description="Larger pictures are scaled down; 784 pixels are one token; pixels.",
    )
    layers: tuple[int, ...] = Field(
        default=(-1,),
        min_length=1,
        description="Hidden states of the last token that are joined; as transformers' "
        "hidden_states: 0 the embedding, -1 the last layer after its norm.",
    )
    relevance_layers: tuple[int, ...] | None = Field(
        default=None,
        description="Decoder layers whose attention gives relevance; None: at half, two thirds "
        "and five sixths of the depth.",
    )
    max_question_tokens: int = Field(
        default=1024, ge=16, description="Longer questions are refused; tokens."
    )
    max_sequence_tokens: int = Field(
        default=65_536, ge=256, description="More frames than fit are an error; tokens."
    )

    @model_validator(mode="after")
    def _pixels_in_order(self) -> QwenSettings:
        if self.min_pixels > self.max_pixels:
            raise ValueError(f"min_pixels {self.min_pixels} is above max_pixels {self.max_pixels}")
        return self
