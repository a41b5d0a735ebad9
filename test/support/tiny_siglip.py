"""Small random SigLIP and CLIP checkpoints in the format of the hub."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

CORPUS = (
    "where is the red fire extinguisher which chair stands next to the table in the kitchen",
    "a photo of a sofa a backpack in a room bring me to the door what colour is the thing",
)
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
VISION = {**TEXT, "image_size": 64, "patch_size": 8}
NAFLEX = {"patch_size": 8, "max_num_patches": 64}
KINDS = ("siglip", "siglip2", "naflex", "clip")


@cache
def tiny_checkpoint(kind: str = "siglip") -> Path:
    """A random checkpoint, made once a process and removed at its end.

    Args:
        kind: ``siglip``; ``siglip2`` (fixed resolution: the same model class and ``model_type``
            as SigLIP, with Gemma's tokenizer class); ``naflex`` (``model_type`` siglip2); ``clip``.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"semflip_tiny_{kind}_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    words = _write_tokenizer(folder, kind)
    _write_model(folder, kind, words)
    values = {
        "do_resize": True,
        "size": {"height": 64, "width": 64} if kind != "clip" else {"shortest_edge": 64},
        "image_mean": [0.5, 0.5, 0.5] if kind != "clip" else [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.5, 0.5, 0.5] if kind != "clip" else [0.26862954, 0.26130258, 0.27577711],
        **({"crop_size": {"height": 64, "width": 64}} if kind == "clip" else {}),
        "rescale_factor": 1 / 255,
        "image_processor_type": "CLIPImageProcessor" if kind == "clip" else "SiglipImageProcessor",
    }
    if kind == "naflex":
        del values["size"]
        values |= {"image_processor_type": "Siglip2ImageProcessor", **NAFLEX}
    (folder / "preprocessor_config.json").write_text(json.dumps(values, indent=2))
    return folder


def _write_model(folder: Path, kind: str, words: int) -> None:
    import torch
    from transformers import (
        CLIPConfig,
        CLIPModel,
        Siglip2Config,
        Siglip2Model,
        SiglipConfig,
        SiglipModel,
    )

    torch.manual_seed(5)
    text: dict[str, Any] = {**TEXT, "vocab_size": words, "pad_token_id": 0, "eos_token_id": 1}
    if kind == "clip":
        config: Any = CLIPConfig(
            text_config={**text, "bos_token_id": 2, "max_position_embeddings": 24},
            vision_config=VISION,
            projection_dim=24,
        )
        model: Any = CLIPModel(config)
    elif kind == "naflex":
        config = Siglip2Config(
            text_config={**text, "bos_token_id": 2, "max_position_embeddings": 16},
            vision_config={**TEXT, "patch_size": 8, "num_patches": 64},
        )
        model = Siglip2Model(config)
    else:
        config = SiglipConfig(
            text_config={**text, "bos_token_id": 2, "max_position_embeddings": 16},
            vision_config=VISION,
        )
        model = SiglipModel(config)
    with torch.no_grad():  # so that vectors differ as a trained model's do
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.copy_(torch.randn_like(weight) * (0.6 if "embedding" in name else 0.25))
    model.eval().save_pretrained(folder, safe_serialization=True)


def _write_tokenizer(folder: Path, kind: str) -> int:
    """``tokenizer.json`` and ``tokenizer_config.json``; returns how many words it knows."""
    if kind in ("siglip2", "naflex"):
        return _write_gemma(folder)
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=["<pad>", "</s>", "<s>", "<unk>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    single = "<s> $A </s>" if kind == "clip" else "$A </s>"
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[("</s>", 1), ("<s>", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    values = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "bos_token": "<s>",
        "unk_token": "<unk>",
        "padding_side": "right",
        "model_max_length": 24 if kind == "clip" else 16,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(values, indent=2))
    return int(tokenizer.get_vocab_size())


def _write_gemma(folder: Path) -> int:
    """SigLIP 2's: Gemma's pieces, an end token, no start token, padded on the right."""
    from tokenizers import Tokenizer, models, normalizers, trainers
    from transformers import GemmaTokenizer

    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.normalizer = normalizers.Replace(" ", "\u2581")
    trainer = trainers.BpeTrainer(
        vocab_size=560,
        special_tokens=[
            *("<pad>", "<eos>", "<bos>", "<unk>", "<mask>"),
            *(f"<0x{byte:02X}>" for byte in range(256)),
        ],
        show_progress=False,
    )
    trained.train_from_iterator(CORPUS, trainer)
    model = json.loads(trained.to_str())["model"]
    merges: Any = [tuple(pair) for pair in model["merges"]]
    tokenizer = GemmaTokenizer(
        vocab=model["vocab"],
        merges=merges,
        add_bos_token=False,
        add_eos_token=True,
        padding_side="right",
    )
    tokenizer.save_pretrained(folder)
    return len(tokenizer)
