"""A small random Qwen2.5-VL checkpoint in the format of the hub: shards, tokenizer, processor."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from semflip_core.encoders.qwen2_5_vl.encoder import QwenEncoder

#: Added tokens of Qwen2.5-VL in their order; the first fourteen are special, the rest are not.
ADDED_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
)
SPECIAL = 14
CORPUS = (
    "You are a mobile robot. The pictures are views that you saw, in order of time.",
    "Where is the red fire extinguisher? Which chair stands next to the table in the kitchen?",
    "Question: Is there a sofa in the bedroom? Answer in a few words, or say that you do not know.",
    "[12 s, at 1.5 -0.3 m, facing 90 deg] the door on the left, a bicycle, a piano, a backpack",
)
PREPROCESSOR = {
    "min_pixels": 3136,
    "max_pixels": 12845056,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2_5_VLProcessor",
}


@dataclass(frozen=True)
class Size:
    """Shape of the random model."""

    hidden: int = 64
    layers: int = 4
    heads: int = 4
    key_heads: int = 2
    intermediate: int = 128
    vision_hidden: int = 32
    vision_layers: int = 3
    vision_heads: int = 2
    vision_intermediate: int = 64
    words: int = 600
    shard: str = "200KB"
    tied: bool = False


#: For tests: a fraction of a second. For the benchmark: 8 layers of 512 on both sides.
TINY = Size()
BENCHMARK = Size(
    hidden=512,
    layers=8,
    heads=8,
    key_heads=4,
    intermediate=1024,
    vision_hidden=512,
    vision_layers=8,
    vision_heads=8,
    vision_intermediate=1024,
    words=2000,
    shard="40MB",
)


@cache
def tiny_checkpoint() -> Path:
    """One tiny checkpoint for all tests of a process, removed when it ends."""
    folder = Path(tempfile.mkdtemp(prefix="semflip_tiny_qwen_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write_checkpoint(folder)


def tiny_qwen(folder: Path | None = None, **options: Any) -> QwenEncoder:
    """The production encoder in float32 on a checkpoint, the tiny one where none is given."""
    from semflip_core.encoders import load_encoder

    given = {"model": str(folder or tiny_checkpoint()), "dtype": "float32", **options}
    return cast("QwenEncoder", load_encoder("qwen2_5_vl", **given))


def write_checkpoint(folder: Path, size: Size = TINY, seed: int = 0) -> Path:
    """Write a whole checkpoint directory; the same seed gives the same weights.

    Weights are drawn wider than for training, so that pictures and words visibly change the
    embedding, and the head prefers words of letters, so that answers are several words long.
    """
    import torch
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    folder.mkdir(parents=True, exist_ok=True)
    ids = _write_tokenizer(folder, size.words)
    config = _config(size, ids)
    torch.manual_seed(seed)
    model = Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(**config)).float()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.normal_(0.0, 1.2 / weight[0].numel() ** 0.5)
            elif "norm" not in name and "ln_q" not in name:
                weight.normal_(0.0, 0.1)
        model.model.language_model.embed_tokens.weight.normal_(0.0, 1.0)
        words = torch.zeros(config["vocab_size"], 1)
        words[_plain_words(folder)] = 1.0
        if not size.tied:
            model.lm_head.weight.mul_(words.clamp_min(0.05))
    model.save_pretrained(folder, max_shard_size=size.shard)
    _write_json(folder / "config.json", config | {"torch_dtype": "float32"})
    _write_json(folder / "preprocessor_config.json", PREPROCESSOR)
    _write_json(
        folder / "generation_config.json",
        {
            "bos_token_id": ids["<|endoftext|>"],
            "pad_token_id": ids["<|endoftext|>"],
            "eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]],
            "do_sample": True,
            "temperature": 0.1,
        },
    )
    return folder


def _config(size: Size, ids: dict[str, int]) -> dict[str, Any]:
    """Flat, as the hub's own ``config.json`` of Qwen2.5-VL is."""
    head = size.hidden // size.heads // 2
    return {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "model_type": "qwen2_5_vl",
        "attention_dropout": 0.0,
        "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "hidden_act": "silu",
        "hidden_size": size.hidden,
        "intermediate_size": size.intermediate,
        "max_position_embeddings": 128000,
        "max_window_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_hidden_layers": size.layers,
        "num_key_value_heads": size.key_heads,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0,
        "rope_scaling": {
            "type": "mrope",
            "mrope_section": [head - 2 * (head * 3 // 8), head * 3 // 8, head * 3 // 8],
        },
        "sliding_window": 32768,
        "use_sliding_window": False,
        "tie_word_embeddings": size.tied,
        "vocab_size": -(-(max(ids.values()) + 1) // 64) * 64,
        "vision_config": {
            "model_type": "qwen2_5_vl",
            "depth": size.vision_layers,
            "hidden_act": "silu",
            "hidden_size": size.vision_hidden,
            "intermediate_size": size.vision_intermediate,
            "num_heads": size.vision_heads,
            "in_chans": 3,
            "out_hidden_size": size.hidden,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "spatial_patch_size": 14,
            "temporal_patch_size": 2,
            "window_size": 112,
            "fullatt_block_indexes": [size.vision_layers - 1],
            "tokens_per_second": 2,
        },
    }


def _write_tokenizer(folder: Path, words: int) -> dict[str, int]:
    """Byte-level BPE as Qwen's, trained on a few sentences; returns the added tokens' ids."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import Qwen2Tokenizer

    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=words, initial_alphabet=alphabet, show_progress=False, min_frequency=1
    )
    trained.train_from_iterator(CORPUS, trainer)
    model = json.loads(trained.to_str())["model"]
    tokenizer = Qwen2Tokenizer(
        vocab=model["vocab"],
        merges=[tuple(pair) for pair in model["merges"]],
        eos_token="<|im_end|>",
    )
    tokenizer.add_tokens(
        [
            AddedToken(token, special=number < SPECIAL, normalized=False)
            for number, token in enumerate(ADDED_TOKENS)
        ]
    )
    tokenizer.save_pretrained(folder)
    return {token: int(tokenizer.convert_tokens_to_ids(token)) for token in ADDED_TOKENS}


def _plain_words(folder: Path) -> list[int]:
    """Ids of letters, digits and spaces."""
    vocabulary = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"][
        "vocab"
    ]
    shown = {word: word.replace("\u0120", " ") for word in vocabulary}  # byte-level's space
    return [
        vocabulary[word]
        for word, text in shown.items()
        if text.isascii() and text.replace(" ", "").isalnum()
    ]


def _write_json(file: Path, values: dict[str, Any]) -> None:
    file.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
