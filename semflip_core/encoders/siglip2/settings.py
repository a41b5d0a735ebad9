"""Options of the SigLIP 2 / CLIP encoder."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from semflip_core.settings import Settings

DEFAULT_MODEL = "google/siglip2-base-patch16-256"


class SiglipSettings(Settings):
    """What can be chosen.

    All but where the model lies is in the fingerprint; of the model its content is, which a hub id
    with its revision and a copied directory have in common.
    """

    model: str = Field(
        default=DEFAULT_MODEL, min_length=1, description="Directory of a checkpoint, or its hub id."
    )
    revision: str | None = Field(
        default=None, description="Commit of the hub repository; None: the one in the local cache."
    )
    local_files_only: bool = Field(
        default=True, description="Never ask the hub; the model must be on this machine."
    )
    dtype: Literal["float32", "bfloat16"] = Field(
        default="float32", description="Of weights and arithmetic; features are always int8."
    )
    device: str = Field(default="auto", description="'auto', 'cpu', 'cuda', 'cuda:1'...")
    feature_bytes: int = Field(
        default=60_000, ge=8_192, le=65_536, description="Most bytes of a keyframe's features."
    )
