"""Last-token states of chosen decoder layers, joined into the embedding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from semflip_core.errors import EncoderError

if TYPE_CHECKING:
    import torch


def resolve_layers(chosen: Sequence[int], depth: int, option: str) -> tuple[int, ...]:
    """Indices into transformers' ``hidden_states``, all counted from the front.

    Raises:
        EncoderError: one is out of range, or there is none.
    """
    resolved = tuple(layer + depth + 1 if layer < 0 else layer for layer in chosen)
    if not resolved or any(not 1 <= layer <= depth for layer in resolved):
        raise EncoderError(
            f"{option} {list(chosen)}: choose from 1 to {depth}, or -1 to -{depth} from the end"
        )
    return resolved


class LayerStates:
    """Notes the last token's state behind chosen layers during one forward pass.

    Args:
        decoder: ``Qwen2_5_VLTextModel``.
        layers: as :func:`resolve_layers` gives them; the depth itself is the final state, which is
            the last layer's after the norm.
    """

    def __init__(self, decoder: Any, layers: tuple[int, ...]) -> None:
        self.layers = layers
        self._decoder = decoder
        self._depth = len(decoder.layers)
        self._seen: dict[int, torch.Tensor] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note states of the forward pass inside the block."""
        self._seen = {}
        with ExitStack() as stack:
            for layer in self.layers:
                if layer < self._depth:
                    module = self._decoder.layers[layer - 1]
                    stack.callback(module.register_forward_hook(self._noting(layer)).remove)
            yield

    def _noting(self, layer: int) -> Any:
        def note(_: Any, __: Any, output: Any) -> None:
            states = output[0] if isinstance(output, tuple) else output
            self._seen[layer] = states[0, -1]

        return note

    def joined(self, final: torch.Tensor) -> torch.Tensor:
        """``(dim,)`` float32 on the CPU; ``final`` is the pass's last hidden state."""
        import torch

        parts = [final if layer == self._depth else self._seen[layer] for layer in self.layers]
        return torch.cat([part.detach().float().cpu() for part in parts])
