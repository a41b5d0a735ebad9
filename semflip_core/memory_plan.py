"""What a Qwen2.5-VL takes on a GPU, and how many frames fit beside it: arithmetic, no weights.

Parameters are counted on the real architecture, built on torch's meta device, which holds shapes
and no numbers. Keys and values follow from the shape too. What a forward pass needs for a moment,
and what CUDA takes for itself, are estimates and are marked so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semflip_core.errors import ConfigError, MissingExtraError

GIB = 2**30
BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
AWQ_SUFFIX = "-AWQ"
#: AWQ keeps 4 bits a weight and, for each group, a float16 scale and a 4-bit zero point.
AWQ_GROUP = 128
PATCH, MERGE = 14, 2
#: Tag of a frame, its vision markers and line end; head and template of the question.
WORDS_PER_FRAME, WORDS_ROUND = 30, 120
#: The cache makes room in steps, and for the longest question.
ROOM_STEP, QUESTION_ROOM = 2048, 1024
#: Estimates: CUDA context with kernels, and what the allocator loses to fragmentation.
CUDA_BYTES = int(0.7 * GIB)
FRAGMENTATION = 0.05
#: A card sold with so many GB reports down to this share of so many GiB (with error correction).
USABLE = 0.91


def _published(
    hidden: int,
    intermediate: int,
    layers: int,
    heads: tuple[int, int],
    vocabulary: int,
    vision_intermediate: int,
    tied: bool = False,
) -> dict[str, Any]:
    """A published ``config.json``, as far as it matters for sizes."""
    return {
        "model_type": "qwen2_5_vl",
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "vocab_size": vocabulary,
        "max_position_embeddings": 128_000,
        "tie_word_embeddings": tied,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        "vision_config": {
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": vision_intermediate,
            "num_heads": 16,
            "out_hidden_size": hidden,
        },
    }


#: Qwen2.5-VL-…-Instruct as published; ``-AWQ`` behind a name is its 4-bit checkpoint.
MODELS: dict[str, dict[str, Any]] = {
    "3B": _published(2048, 11008, 36, (16, 2), 151936, 3420, tied=True),
    "7B": _published(3584, 18944, 28, (28, 4), 152064, 3420),
    "32B": _published(5120, 27648, 64, (40, 8), 152064, 3456),
    "72B": _published(8192, 29568, 80, (64, 8), 152064, 3456),
}


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameter counts of a model.

    Args:
        total: all, tied ones once.
        vision: of the vision tower.
        linear: weights of the decoder's linear layers, what AWQ quantises.
    """

    total: int
    vision: int
    linear: int


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a model that memory depends on."""

    parameters: Parameters
    hidden: int
    intermediate: int
    layers: int
    heads: int
    key_heads: int
    vision_hidden: int
    vision_intermediate: int
    context: int
    quantised: bool = False
    dtype: str = "bfloat16"

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.hidden // self.heads

    @property
    def weight_bytes(self) -> int:
        """All weights on the GPU."""
        size = BYTES[self.dtype]
        if not self.quantised:
            return self.parameters.total * size
        packed = self.parameters.linear / 2 + self.parameters.linear / AWQ_GROUP * 2.5
        return math.ceil(packed) + (self.parameters.total - self.parameters.linear) * size

    @property
    def token_bytes(self) -> int:
        """Keys and values of one token in all layers."""
        return 2 * self.layers * self.key_heads * self.head_dim * BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Plan:
    """Memory of one model with so many frames, bytes.

    Args:
        frames: that the encoder sees for a question (prefix and recalled).
        tokens_per_frame: picture tokens of one.
        weights: of the model.
        states: keys and values of the frames, with the room made in advance.
        vision: the vision tower at work on one picture (estimate).
        reading: the decoder at work on one frame behind all others (estimate).
        cuda: context, kernels and fragmentation (estimate).
        stored_per_frame: vision features of a keyframe, in the memory file, not on the GPU.
    """

    frames: int
    tokens_per_frame: int
    weights: int
    states: int
    vision: int
    reading: int
    cuda: int
    stored_per_frame: int

    @property
    def total(self) -> int:
        """Peak on the GPU; the tower and the decoder never work at once."""
        return self.weights + self.states + max(self.vision, self.reading) + self.cuda


def model_shape(model: str | Path, dtype: str = "bfloat16") -> Shape:
    """Shape of a model by name (``7B``, ``32B-AWQ``…), hub id, or directory with a config.json.

    Raises:
        ConfigError: it is neither, or not a Qwen2.5-VL.
        MissingExtraError: torch or transformers is not installed.
    """
    config, quantised = _config(model)
    if dtype not in BYTES:
        raise ConfigError(f"dtype '{dtype}' is unknown; known: {', '.join(BYTES)}")
    try:
        import torch
        from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
    except ImportError as error:
        raise MissingExtraError(error.name or "torch", "qwen", "the memory plan") from error
    plain = {k: v for k, v in config.items() if k != "quantization_config"}
    made: Any = Qwen2_5_VLConfig(**plain)
    build: Any = Qwen2_5_VLForConditionalGeneration
    with torch.device("meta"):
        whole = build(made)
    text, vision = made.text_config, made.vision_config
    linear = sum(
        module.weight.numel()
        for module in whole.model.language_model.layers.modules()
        if isinstance(module, torch.nn.Linear)
    )
    counts = Parameters(
        sum(p.numel() for p in whole.parameters()),
        sum(p.numel() for p in whole.model.visual.parameters()),
        linear,
    )
    return Shape(
        counts,
        text.hidden_size,
        text.intermediate_size,
        text.num_hidden_layers,
        text.num_attention_heads,
        text.num_key_value_heads,
        vision.hidden_size,
        vision.intermediate_size,
        text.max_position_embeddings,
        quantised,
        dtype,
    )


def _config(model: str | Path) -> tuple[Mapping[str, Any], bool]:
    file = Path(model).expanduser() / "config.json"
    if file.is_file():
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{file} cannot be read: {error}") from error
        if config.get("model_type") != "qwen2_5_vl":
            raise ConfigError(f"{file}: model_type '{config.get('model_type')}' is no Qwen2.5-VL")
        return config, "quantization_config" in config
    name = str(model).removeprefix("Qwen/").removeprefix("Qwen2.5-VL-")
    size = name.removesuffix(AWQ_SUFFIX).removesuffix("-Instruct")
    if size not in MODELS:
        known = ", ".join(f"{n}, {n}{AWQ_SUFFIX}" for n in MODELS)
        raise ConfigError(f"model '{model}' is no directory and not known; known: {known}")
    return MODELS[size], name.endswith(AWQ_SUFFIX)


def picture_tokens(width: int, height: int, max_pixels: int, min_pixels: int = 3136) -> int:
    """Tokens of a picture of so many pixels, as Qwen's processor resizes it.

    Raises:
        ConfigError: the processor takes no such picture.
    """
    try:
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize
    except ImportError as error:
        raise MissingExtraError(error.name or "transformers", "qwen", "the memory plan") from error
    side = PATCH * MERGE
    resize: Any = smart_resize
    try:
        rows, columns = resize(height, width, side, min_pixels, max_pixels)
    except (ValueError, ZeroDivisionError) as error:
        raise ConfigError(f"a picture of {width} x {height} pixels: {error}") from error
    return int(rows * columns) // side**2


def plan(shape: Shape, frames: int, tokens_per_frame: int) -> Plan:
    """Memory for so many frames of so many tokens."""
    size = BYTES[shape.dtype]
    per_frame = tokens_per_frame + WORDS_PER_FRAME
    tokens = frames * per_frame + WORDS_ROUND
    room = -(-(tokens + QUESTION_ROOM) // ROOM_STEP) * ROOM_STEP
    patches = tokens_per_frame * MERGE**2
    # The widest moment of a block: its input, three widths of the MLP, queries to values.
    tower = patches * (6 * shape.vision_hidden + 3 * shape.vision_intermediate) * size
    tower += patches * (3 * 2 * PATCH**2) * (4 + size)  # the picture as patches
    decoder = per_frame * (6 * shape.hidden + 3 * shape.intermediate) * size
    repeated = 2 * tokens * shape.hidden * size  # keys and values once per query head, one layer
    mask = per_frame * tokens * (1 + size)
    scores = tokens * (shape.key_heads * shape.head_dim + 2 * shape.heads) * 4  # relevance, float32
    weights, states = shape.weight_bytes, room * shape.token_bytes
    passing = max(tower, decoder + repeated + mask + scores)
    return Plan(
        frames=frames,
        tokens_per_frame=tokens_per_frame,
        weights=weights,
        states=states,
        vision=tower,
        reading=decoder + repeated + mask + scores,
        cuda=CUDA_BYTES + math.ceil(FRAGMENTATION * (states + passing)),
        stored_per_frame=tokens_per_frame * shape.hidden * size,
    )


def nominal_gpu_bytes(gigabytes: float) -> int:
    """What a card sold with so many GB has at least."""
    return int(gigabytes * USABLE * GIB)


def frames_that_fit(shape: Shape, gpu_bytes: int, tokens_per_frame: int) -> int:
    """Most frames that fit the GPU's memory and the model's context; 0 where not even one does."""
    words = WORDS_ROUND + QUESTION_ROOM
    low, high = 0, max(0, (shape.context - words) // (tokens_per_frame + WORDS_PER_FRAME))
    while low < high:
        middle = (low + high + 1) // 2
        if plan(shape, middle, tokens_per_frame).total <= gpu_bytes:
            low = middle
        else:
            high = middle - 1
    return low
