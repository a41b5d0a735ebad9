"""Keys and values of what the model has read, kept from query to query.

The sequence is read segment by segment, one forward pass each, always in the same pieces. So the
kept part is what reading it anew would give, to the last bit, and appending a frame costs that
frame. A segment counts only when it is committed: whatever a failed or cancelled pass left behind
is cut off before the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from semflip_core.encoders.qwen2_5_vl.prompt import Segment

if TYPE_CHECKING:
    import torch

#: Room is made in steps of so many tokens, so that appending a frame seldom copies.
BLOCK_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class _Held:
    key: bytes
    tokens: int
    position: int


class PrefixCache:
    """What has been read, as a list of committed segments.

    Args:
        layers: decoder layers of the model.

    Attributes:
        in_host_memory: keys and values live in the computer's memory and visit the model's device
            one layer at a time: the same numbers, slower.
    """

    def __init__(self, layers: int) -> None:
        self._layers = layers
        self.in_host_memory = False
        self._held: list[_Held] = []
        self.reserved = 0
        self.states = self._empty()

    def _empty(self) -> Any:
        from transformers.cache_utils import Cache

        return Cache(layers=[_room_layer()(self) for _ in range(self._layers)])

    @property
    def segments(self) -> int:
        """How many segments are held."""
        return len(self._held)

    @property
    def tokens(self) -> int:
        """How many tokens are held."""
        return self._held[-1].tokens if self._held else 0

    @property
    def position(self) -> int:
        """m-RoPE position of the next token."""
        return self._held[-1].position if self._held else 0

    @property
    def nbytes(self) -> int:
        """Memory taken, with the room made in advance."""
        return sum(layer.room_bytes for layer in self.states.layers)

    @property
    def device_bytes(self) -> int:
        """What of it is taken from the model's device between two layers."""
        return 0 if self.in_host_memory else self.nbytes

    def keys(self, layer: int) -> torch.Tensor:
        """``(heads, tokens, dim)`` rotated keys of a layer, uncommitted ones included."""
        result: torch.Tensor = self.states.layers[layer].keys[0]
        return result

    def keep(self, wanted: Sequence[Segment]) -> int:
        """Cut down to what begins the wanted sequence.

        Returns:
            How many of the wanted segments are held.
        """
        same = 0
        for held, segment in zip(self._held, wanted, strict=False):
            if held.key != segment.key:
                break
            same += 1
        del self._held[same:]
        self.rollback()
        return same

    def reserve(self, tokens: int) -> None:
        """Make room for so many tokens at once when the next are added."""
        self.reserved = max(tokens, self.tokens)

    def commit(self, segment: Segment, position: int) -> None:
        """The segment was read to its end; ``position`` is where the next one begins."""
        self._held.append(_Held(segment.key, self.tokens + len(segment.ids), position))

    def rollback(self) -> None:
        """Cut off everything that was not committed."""
        for layer in self.states.layers:
            layer.cut(self.tokens)

    def clear(self) -> None:
        """Forget everything and give the memory back."""
        self._held.clear()
        self.reserved = 0
        self.states = self._empty()

    def move_out(self) -> None:
        """Forget everything, and from now on keep nothing on the model's device."""
        self.clear()
        self.in_host_memory = True


@cache
def _room_layer() -> Any:
    """A layer that writes into room made in advance, where transformers' own copies all each time.

    It cuts by moving its end, and so does not depend on ``DynamicCache.crop``, whose argument was a
    length and is now a negative count.
    """
    from transformers import cache_utils

    dynamic_layer: Any = cache_utils.DynamicLayer  # its methods carry no types

    class RoomLayer(dynamic_layer):  # type: ignore[misc]
        def __init__(self, owner: PrefixCache) -> None:
            super().__init__()
            self._owner = owner
            self._room: tuple[torch.Tensor, torch.Tensor] | None = None
            self.keys: torch.Tensor
            self.values: torch.Tensor
            self.is_initialized: bool

        @property
        def room_bytes(self) -> int:
            return sum(part.nbytes for part in self._room) if self._room else 0

        def update(
            self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
        ) -> tuple[torch.Tensor, torch.Tensor]:
            start = self.get_seq_length()
            end = start + key_states.shape[-2]
            if not self.is_initialized:
                self.dtype, self.device = key_states.dtype, key_states.device
                self.is_initialized = True
            if self._room is None or end > self._room[0].shape[-2]:
                self._room = self._grown(key_states, value_states, start, end)
            keys, values = self._room
            keys[..., start:end, :] = key_states
            values[..., start:end, :] = value_states
            self.cut(end)
            return self.keys.to(self.device), self.values.to(self.device)

        def _grown(
            self, key_states: torch.Tensor, value_states: torch.Tensor, start: int, end: int
        ) -> tuple[torch.Tensor, torch.Tensor]:
            wanted = max(end, self._owner.reserved)
            length = -(-wanted // BLOCK_TOKENS) * BLOCK_TOKENS
            home = "cpu" if self._owner.in_host_memory else key_states.device
            room = []
            for states, old in zip(
                (key_states, value_states), self._room or (None, None), strict=True
            ):
                shape = (*states.shape[:-2], length, states.shape[-1])
                fresh = states.new_empty(shape, device=home)
                if old is not None:
                    fresh[..., :start, :] = old[..., :start, :]
                room.append(fresh)
            return room[0], room[1]

        def cut(self, length: int) -> None:
            if self._room is not None:
                self.keys, self.values = (part[..., :length, :] for part in self._room)

    return RoomLayer
