"""A Qwen2.5-VL checkpoint from a directory or the local hub cache, checked before it is trusted."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semflip_core.checkpoints import (
    digest_of,
    find_folder,
    load_model,
    load_tokenizer,
    require,
    torch_device,
    weight_digest,
    weight_files,
)
from semflip_core.encoders.qwen2_5_vl.settings import QwenSettings
from semflip_core.errors import AssetError, EncoderError

if TYPE_CHECKING:
    import torch

MODEL_TYPE = "qwen2_5_vl"
#: transformers from the first with precomputed pictures to before the first not tried.
PROVEN = ((5, 18), (5, 21))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A loaded checkpoint.

    Args:
        model: ``Qwen2_5_VLForConditionalGeneration``, frozen, in evaluation mode.
        tokenizer: fast tokenizer.
        processor: ``Qwen2VLImageProcessorPil`` with the pixel budget set.
        dtype: of the language model, as text.
        stop: token ids that end an answer.
        digests: hashes of ``weights``, ``config``, ``tokenizer`` and ``processor``.
    """

    model: Any
    tokenizer: Any
    processor: Any
    dtype: str
    stop: frozenset[int]
    digests: dict[str, str]


def load_checkpoint(settings: QwenSettings) -> Checkpoint:
    """Load and check everything.

    Raises:
        MissingExtraError: a library is not installed.
        AssetError: no such model, a file is missing or damaged, weights do not fill the model.
        EncoderError: a model or a transformers that this encoder does not read.
    """
    require(("torch", "transformers", "accelerate", "PIL"), "qwen", "the encoder qwen2_5_vl")
    check_transformers()
    folder = find_folder(
        settings.model, settings.revision, local_files_only=settings.local_files_only
    )
    config = read_config(folder)
    shards = weight_files(folder)
    with ThreadPoolExecutor(1) as beside:
        weights = beside.submit(weight_digest, shards)
        model = _load_model(folder, settings, config)
        tokenizer = load_tokenizer(folder)
        processor = load_processor(folder, settings)
        digests = {
            "weights": weights.result(),
            "config": digest_of((folder / "config.json").read_bytes()),
            "tokenizer": digest_of(tokenizer.backend_tokenizer.to_str().encode()),
            "processor": _processor_digest(processor),
        }
    dtype = str(model.model.language_model.embed_tokens.weight.dtype).removeprefix("torch.")
    return Checkpoint(model, tokenizer, processor, dtype, _stop_tokens(model), digests)


def check_transformers() -> None:
    """Only versions on which this encoder was proven: others count positions or crop otherwise.

    Raises:
        EncoderError: another version is installed.
    """
    import transformers

    numbers = tuple(int(part) for part in transformers.__version__.split(".")[:2])
    if not PROVEN[0] <= numbers < PROVEN[1]:
        low, high = (".".join(map(str, bound)) for bound in PROVEN)
        raise EncoderError(
            f"transformers {transformers.__version__} is not >= {low}, < {high}, on which "
            'qwen2_5_vl is exact: pip install "semflip[qwen]"'
        )


def read_config(folder: Path) -> dict[str, Any]:
    """``config.json`` of a checkpoint.

    Raises:
        AssetError: missing or not JSON.
        EncoderError: of another kind of model.
    """
    file = folder / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AssetError(f"{file} cannot be read: {error}") from error
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind != MODEL_TYPE:
        raise EncoderError(f"{file}: model_type is '{kind}', this encoder reads '{MODEL_TYPE}'")
    return dict(config)


def _load_model(folder: Path, settings: QwenSettings, config: dict[str, Any]) -> Any:
    import torch
    from transformers import Qwen2_5_VLForConditionalGeneration

    method = (config.get("quantization_config") or {}).get("quant_method")
    if method in ("awq", "gptq"):
        require(("gptqmodel",), "qwen-awq", f"a checkpoint quantised with {method}")
    device = torch_device(settings.device)
    model = load_model(
        Qwen2_5_VLForConditionalGeneration,
        folder,
        dtype=_dtype(settings.dtype, quantised=method is not None),
        attn_implementation=settings.attention,
        device_map={"": str(device)},
    )
    if any(kind != "full_attention" for kind in model.config.text_config.layer_types):
        raise EncoderError(f"{folder}: sliding-window attention cannot be kept between queries")
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return model


def _dtype(name: str, *, quantised: bool) -> torch.dtype:
    import torch

    if name == "auto":
        return torch.float16 if quantised else torch.bfloat16
    result: torch.dtype = getattr(torch, name)
    return result


def load_processor(folder: Path, settings: QwenSettings) -> Any:
    """The picture processor on Pillow: torchvision's gives other pixels, and need not be there."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    try:
        processor = Qwen2VLImageProcessorPil.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise AssetError(f"{folder}: preprocessor_config.json cannot be read: {error}") from error
    # from_pretrained keeps min_pixels and max_pixels beside size where a file has both
    processor.size = {
        "shortest_edge": settings.min_pixels,
        "longest_edge": settings.max_pixels,
    }
    return processor


def _processor_digest(processor: Any) -> str:
    """Hash of what changes pixels; the pixel budget has fields of its own."""
    names = (
        "do_resize do_rescale do_normalize do_convert_rgb resample rescale_factor image_mean "
        "image_std patch_size temporal_patch_size merge_size"
    )
    values = {name: getattr(processor, name, None) for name in names.split()}
    text = json.dumps(values, sort_keys=True, default=lambda v: getattr(v, "value", str(v)))
    return digest_of(f"{type(processor).__name__}{text}".encode())


def _stop_tokens(model: Any) -> frozenset[int]:
    ends = model.generation_config.eos_token_id
    if ends is None:
        ends = model.config.text_config.eos_token_id
    return frozenset([ends] if isinstance(ends, int) else ends or ())
