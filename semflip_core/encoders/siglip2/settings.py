"""Options of the SigLIP 2 / CLIP encoder."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from semflip_core.settings import CheckpointSettings

DEFAULT_MODEL = "google/siglip2-base-patch16-256"


class SiglipSettings(CheckpointSettings):
    """What can be chosen.

    All but where the model lies is in the fingerprint; of the model its content is, which a hub id
    with its revision and a copied directory have in common.
    """

    model: str = Field(
        default=DEFAULT_MODEL, min_length=1, description="Directory of a checkpoint, or its hub id."
    )
    dtype: Literal["float32", "bfloat16"] = Field(
        default="float32", description="Of weights and arithmetic; features are always int8."
    )
    feature_bytes: int = Field(
        default=60_000, ge=8_192, le=65_536, description="Most bytes of a keyframe's features."
    )
