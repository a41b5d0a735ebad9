"""Sentence vectors by all-MiniLM-L6-v2, in plain numpy.

The model is six BERT layers of width 384 (Devlin et al. 2019; Reimers and Gurevych 2019); a phrase
takes a few milliseconds, so no inference library is needed. Each text is computed by itself,
without padding: its vector never depends on what else is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.mini.assets import (
    MINILM,
    MINILM_TOKENIZER,
    checked_bytes,
)
from semflip_core.errors import MissingExtraError

Array = NDArray[np.float32]

DIMENSION = 384
LAYERS = 6
HEADS = 12
MAX_TOKENS = 128
CACHED_TEXTS = 4096


class TextEncoder:
    """Text to unit vectors ``(384,)``; sofa and couch 0.86, sofa and fire extinguisher 0.25.

    Raises:
        MissingExtraError: the weights or the tokenizer library are not installed.
        AssetError: the weights are not the expected file.
    """

    def __init__(self) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingExtraError("tokenizers", "cpu", "reading questions with mini") from error
        from safetensors.numpy import load

        purpose = "reading questions with mini"
        self._tokenizer = Tokenizer.from_str(checked_bytes(MINILM_TOKENIZER, purpose).decode())
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._w: dict[str, Array] = {
            name: np.asarray(value, dtype=np.float32)
            for name, value in load(checked_bytes(MINILM, purpose)).items()
            if value.dtype.kind == "f"
        }
        self._cached = lru_cache(CACHED_TEXTS)(self._vector)

    def vectors(self, texts: Iterable[str]) -> Array:
        """``(texts, 384)`` unit vectors."""
        rows = [self._cached(text) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, DIMENSION), np.float32)

    def bulk_vectors(self, texts: Sequence[str], batch: int = 64) -> Array:
        """:meth:`vectors` for thousands of texts, several times faster.

        Texts of the same length go through together, which may change the last bits: training
        uses it, questions do not.
        """
        tokens = [np.asarray(encoded.ids) for encoded in self._tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
        result = np.zeros((len(texts), DIMENSION), np.float32)
        start = 0
        while start < len(order):
            length = len(tokens[order[start]])
            rows = [i for i in order[start : start + batch] if len(tokens[i]) == length]
            result[rows] = self._encode(np.stack([tokens[i] for i in rows]))
            start += len(rows)
        return result

    def _vector(self, text: str) -> Array:
        row: Array = self._encode(np.asarray(self._tokenizer.encode(text).ids)[None])[0]
        return row

    def _encode(self, ids: NDArray[np.int64]) -> Array:
        """``(n, 384)`` unit vectors of ``(n, length)`` token numbers."""
        w = self._w
        x = w["embeddings.word_embeddings.weight"][ids]
        x = x + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = x + w["embeddings.token_type_embeddings.weight"][0]
        x = self._normalise(x, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            x = self._layer(x, f"encoder.layer.{layer}")
        mean = x.mean(axis=1)
        norm = np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), np.float32(1e-12))
        unit: Array = (mean / norm).astype(np.float32)
        return unit

    def _layer(self, x: Array, name: str) -> Array:
        count, length, width = x.shape
        query, key, value = (
            self._linear(x, f"{name}.attention.self.{part}")
            .reshape(count, length, HEADS, -1)
            .transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        logits = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(query.shape[-1]))
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = (weights @ value).transpose(0, 2, 1, 3).reshape(count, length, width)
        x = self._normalise(
            x + self._linear(mixed, f"{name}.attention.output.dense"),
            f"{name}.attention.output.LayerNorm",
        )
        hidden = gelu(self._linear(x, f"{name}.intermediate.dense"))
        return self._normalise(
            x + self._linear(hidden, f"{name}.output.dense"), f"{name}.output.LayerNorm"
        )

    def _linear(self, x: Array, name: str) -> Array:
        flat = x.reshape(-1, x.shape[-1]) @ self._w[f"{name}.weight"].T + self._w[f"{name}.bias"]
        result: Array = flat.reshape(*x.shape[:-1], -1)
        return result

    def _normalise(self, x: Array, name: str) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        result: Array = centred / scale * self._w[f"{name}.weight"] + self._w[f"{name}.bias"]
        return result


def gelu(x: Array) -> Array:
    """``x * Phi(x)`` with erf by Abramowitz and Stegun 7.1.26 (error below 2e-7)."""
    z = np.abs(x) * np.float32(1 / np.sqrt(2))
    t = 1 / (1 + np.float32(0.3275911) * z)
    poly = np.float32(1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        poly = poly * t + np.float32(coefficient)
    erf = np.sign(x) * (1 - poly * t * np.exp(-z * z))
    result: Array = np.float32(0.5) * x * (1 + erf)
    return result
