"""From names in a configuration to a ready agent; robot and offline load the same way."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from semflip_core.agent import RefusalAgent
from semflip_core.encoders import Encoder, Retriever, load_encoder, load_retriever
from semflip_core.errors import AssetError
from semflip_core.gate import Gate
from semflip_core.memory import VideoMemory
from semflip_core.settings import DecisionSettings, RecallSettings

WEIGHTS = Path(__file__).resolve().parent / "weights"
OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
GATE_SUFFIX = "_gate.safetensors"


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
    file = WEIGHTS / f"{encoder}{GATE_SUFFIX}"
    if not file.is_file():
        shipped = sorted(p.name.removesuffix(GATE_SUFFIX) for p in WEIGHTS.glob(f"*{GATE_SUFFIX}"))
        raise AssetError(
            f"no gate is shipped for encoder '{encoder}' (shipped: {', '.join(shipped) or 'none'}"
            "): name a gate file, or train one with semflip train"
        )
    return file


def load_backends(
    encoder: str,
    retriever: str | None = None,
    options: Mapping[str, Any] | None = None,
    retriever_options: Mapping[str, Any] | None = None,
) -> tuple[Encoder, Retriever | None]:
    """Encoder and retriever by name; the retriever is None where the encoder is its own.

    Raises:
        ConfigError: a name or an option is unknown.
        MissingExtraError: a library is not installed.
        EncoderError: weights cannot be loaded.
    """
    stay_offline()
    made = load_encoder(encoder, **(options or {}))
    if not retriever or retriever == encoder:
        return made, None
    return made, load_retriever(retriever, **(retriever_options or {}))


def load_agent(
    memory: VideoMemory,
    *,
    encoder: str,
    encoder_options: Mapping[str, Any] | None = None,
    retriever: str | None = None,
    retriever_options: Mapping[str, Any] | None = None,
    gate: str | Path | None = None,
    threshold: float | None = None,
    recall: RecallSettings | None = None,
    decision: DecisionSettings | None = None,
    global_frame: str = "map",
    map_id: str = "",
) -> RefusalAgent:
    """A ready agent over a memory; the gate is read first, because it fails fastest.

    Args:
        gate: gate file; None or empty for the one shipped with the encoder.
        threshold: overrides the gate's tau; None keeps it.

    Raises:
        GateMismatchError: the gate was made for another pipeline; names the fields.
        GateError, AssetError, ConfigError, MissingExtraError, EncoderError: as for the parts.
    """
    loaded_gate = Gate.load(Path(gate) if gate else shipped_gate(encoder))
    made, chooser = load_backends(encoder, retriever, encoder_options, retriever_options)
    with ExitStack() as undo:
        undo.callback(made.close)
        if chooser is not None:
            undo.callback(chooser.close)
        agent = RefusalAgent(
            memory,
            made,
            loaded_gate,
            retriever=chooser,
            recall=recall,
            decision=decision,
            global_frame=global_frame,
            map_id=map_id,
            threshold=threshold,
        )
        undo.pop_all()
    return agent
