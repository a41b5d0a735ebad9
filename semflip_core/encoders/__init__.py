"""Encoders and retrievers behind one contract, chosen by name."""

from semflip_core.encoders.contract import (
    AnsweringEncoder,
    Encoder,
    Fingerprint,
    JointEmbedding,
    PreparingEncoder,
    Retriever,
    fingerprint_digest,
)
from semflip_core.encoders.registry import load_encoder, load_retriever

__all__ = [
    "AnsweringEncoder",
    "Encoder",
    "Fingerprint",
    "JointEmbedding",
    "PreparingEncoder",
    "Retriever",
    "fingerprint_digest",
    "load_encoder",
    "load_retriever",
]
