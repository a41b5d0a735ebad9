"""What every offline stage shares: weights found, hubs off, memories and agents made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from semflip_core.encoders import Encoder, Retriever, load_encoder, load_retriever
from semflip_core.errors import AssetError

WEIGHTS = Path(__file__).resolve().parent.parent / "semflip_core" / "weights"
OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")


def stay_offline() -> None:
    """Keep hub clients from calling home; weights come from packages or local directories."""
    for name in OFFLINE_VARIABLES:
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def shipped_gate(encoder: str) -> Path:
    """The gate that is installed with semflip for an encoder.

    Raises:
        AssetError: none is shipped for it.
    """
    file = WEIGHTS / f"{encoder}_gate.safetensors"
    if not file.is_file():
        shipped = sorted(p.name.removesuffix("_gate.safetensors") for p in WEIGHTS.glob("*_gate.*"))
        raise AssetError(
            f"no gate is shipped for encoder '{encoder}' (shipped: {', '.join(shipped) or 'none'}"
            "): give one with --gate FILE, or train one: semflip train"
        )
    return file


def load_backends(
    encoder: str, retriever: str | None = None, options: dict[str, Any] | None = None
) -> tuple[Encoder, Retriever | None]:
    """Encoder and retriever by name; the retriever is None where the encoder is its own."""
    stay_offline()
    made = load_encoder(encoder, **(options or {}))
    if retriever is None or retriever == encoder:
        return made, None
    return made, load_retriever(retriever)
