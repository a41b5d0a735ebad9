"""How much the end of the question looks at each frame, from queries and keys of a few layers.

For each chosen layer the last token's query meets the keys that the cache holds anyway: softmax
over the whole sequence, mean over heads and layers (the attention that the layer itself computed
for that token, no full maps). A frame's relevance is the mean over its picture tokens, so that a
larger picture is not more relevant for its size, given as share of all frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from semflip_core.encoders.contract import Vector
from semflip_core.encoders.qwen2_5_vl.prefix_cache import PrefixCache

if TYPE_CHECKING:
    import torch

Span = tuple[int, int]
"""``[start, end)`` of a frame's picture tokens in the sequence."""


class AttentionProbe:
    """Notes the last token's queries in chosen layers during one forward pass.

    Args:
        decoder: ``Qwen2_5_VLTextModel``.
        layers: indices of its layers.
    """

    def __init__(self, decoder: Any, layers: Sequence[int]) -> None:
        self._decoder = decoder
        self._layers = tuple(layers)
        self._queries: dict[int, torch.Tensor] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note queries of the forward pass inside the block."""
        self._queries = {}
        handles = [
            self._decoder.layers[index].self_attn.register_forward_pre_hook(
                self._noting(index), with_kwargs=True
            )
            for index in self._layers
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _noting(self, index: int) -> Any:
        from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import apply_rotary_pos_emb

        def note(attention: Any, args: tuple[Any, ...], given: dict[str, Any]) -> None:
            hidden = given["hidden_states"] if "hidden_states" in given else args[0]
            cos, sin = (part[..., -1:, :] for part in given["position_embeddings"])
            query = attention.q_proj(hidden[:, -1:])
            query = query.view(1, 1, -1, attention.head_dim).transpose(1, 2)
            rotated, _ = apply_rotary_pos_emb(query, query, cos, sin)
            self._queries[index] = rotated[0, :, 0] * attention.scaling

        return note

    def relevance(self, cache: PrefixCache, spans: Sequence[Span]) -> Vector:
        """``(frames,)`` shares, from the pass just watched and the keys it left in the cache."""
        import torch

        attention = torch.stack(
            [_attention(query, cache.keys(index)).cpu() for index, query in self._queries.items()]
        ).mean(dim=0)
        parts = torch.stack([attention[start:end].mean() for start, end in spans])
        total = float(parts.sum())
        shares = parts / total if total > 0.0 else parts
        result: Vector = shares.numpy().astype(np.float32)
        return result


def _attention(query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """``(tokens,)`` mean over heads, in float32.

    Args:
        query: ``(heads, dim)``, rotated and scaled.
        keys: ``(key_heads, tokens, dim)``, rotated, on any device; each serves
            ``heads / key_heads`` queries.
    """
    grouped = query.float().view(keys.shape[0], -1, keys.shape[2])
    return (
        (grouped @ keys.to(query.device).float().transpose(1, 2)).softmax(dim=-1).mean(dim=(0, 1))
    )
