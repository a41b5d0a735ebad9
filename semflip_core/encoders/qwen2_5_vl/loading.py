"""A Qwen2.5-VL checkpoint from a directory or the local hub cache, checked before it is trusted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semflip_core.encoders.qwen2_5_vl.settings import QwenSettings
from semflip_core.errors import EncoderError, MissingExtraError

if TYPE_CHECKING:
    import torch

MODEL_TYPE = "qwen2_5_vl"
INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
#: What is read of a hub repository; never a pickled file.
FILES = ("*.safetensors", "*.json", "*.txt")
#: transformers from the first with precomputed pictures to before the first not tried.
PROVEN = ((5, 18), (5, 21))
READ_BYTES = 1 << 22
HASH_THREADS = 4


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
        EncoderError: no such model, a file is missing or damaged, weights do not fill the model.
    """
    for library in ("torch", "transformers", "accelerate", "PIL"):
        if find_spec(library) is None:
            name = "pillow" if library == "PIL" else library
            raise MissingExtraError(name, "qwen", "the encoder qwen2_5_vl")
    check_transformers()
    folder = find_folder(settings)
    config = read_config(folder)
    shards = weight_files(folder)
    with ThreadPoolExecutor(1) as beside:
        weights = beside.submit(weight_digest, shards)
        model = _load_model(folder, settings, config)
        tokenizer = load_tokenizer(folder)
        processor = load_processor(folder, settings)
        digests = {
            "weights": weights.result(),
            "config": _digest((folder / "config.json").read_bytes()),
            "tokenizer": _digest(tokenizer.backend_tokenizer.to_str().encode()),
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


def find_folder(settings: QwenSettings) -> Path:
    """Directory of the checkpoint, out of the local hub cache where a hub id was given.

    Raises:
        EncoderError: it is not on this machine, with what to do.
    """
    folder = Path(settings.model).expanduser()
    if folder.is_dir():
        return folder
    if folder.is_absolute() or settings.model.startswith((".", "~")):
        raise EncoderError(f"no checkpoint directory {folder}")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        found = snapshot_download(
            settings.model,
            revision=settings.revision,
            local_files_only=settings.local_files_only,
            allow_patterns=list(FILES),
        )
    except (OSError, ValueError, HfHubHTTPError, HFValidationError) as error:
        raise EncoderError(
            f"model '{settings.model}' is neither a directory nor in the local hub cache: fetch it "
            f"once with 'hf download {settings.model}', copy it here and give its directory, or "
            "set local_files_only to false"
        ) from error
    return Path(found)


def read_config(folder: Path) -> dict[str, Any]:
    """``config.json`` of a checkpoint.

    Raises:
        EncoderError: missing, not JSON, or of another kind of model.
    """
    file = folder / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EncoderError(f"{file} cannot be read: {error}") from error
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind != MODEL_TYPE:
        raise EncoderError(f"{file}: model_type is '{kind}', this encoder reads '{MODEL_TYPE}'")
    return dict(config)


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors shards of a checkpoint, each with a sound header.

    Raises:
        EncoderError: there are none, one is missing, or one is cut short.
    """
    from safetensors import SafetensorError, safe_open

    names = [SINGLE]
    if (index := folder / INDEX).is_file():
        try:
            names = sorted(
                set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
            )
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise EncoderError(f"{index} cannot be read: {error!r}") from error
    files = tuple(folder / Path(name).name for name in names)
    for file in files:
        if not file.is_file():
            raise EncoderError(f"{file} is missing; only safetensors are read, never pickled files")
        try:
            with safe_open(file, framework="numpy"):
                pass
        except (SafetensorError, OSError) as error:
            raise EncoderError(f"{file} is damaged or cut short: {error}") from error
    return files


def weight_digest(files: tuple[Path, ...]) -> str:
    """Hash of all weights' content: the same for a hub snapshot and a copy of it elsewhere."""
    with ThreadPoolExecutor(HASH_THREADS) as pool:
        parts = list(pool.map(_file_sha256, files))
    return _digest("".join(parts).encode())


def _file_sha256(file: Path) -> str:
    """SHA-256 of a file; the hub's cache already names its large files by it."""
    blob = file.resolve()
    if file.is_symlink() and blob.parent.name == "blobs" and len(blob.name) == 64:
        return blob.name
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _load_model(folder: Path, settings: QwenSettings, config: dict[str, Any]) -> Any:
    import torch
    from safetensors import SafetensorError
    from transformers import Qwen2_5_VLForConditionalGeneration

    from_pretrained: Any = Qwen2_5_VLForConditionalGeneration.from_pretrained
    method = (config.get("quantization_config") or {}).get("quant_method")
    if method in ("awq", "gptq") and find_spec("gptqmodel") is None:
        raise MissingExtraError("gptqmodel", "qwen-awq", f"a checkpoint quantised with {method}")
    device = _device(settings.device)
    try:
        with _quietly():
            model, report = from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                dtype=_dtype(settings.dtype, quantised=method is not None),
                attn_implementation=settings.attention,
                device_map={"": str(device)},
                output_loading_info=True,
            )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        raise EncoderError(f"{folder} cannot be loaded: {error}") from error
    wrong = {k: sorted(map(str, report.get(k) or ())) for k in ("missing_keys", "mismatched_keys")}
    for kind, names in wrong.items():
        if names:
            raise EncoderError(
                f"{folder}: {len(names)} weights are in {kind} (first {names[0]}); transformers "
                "would fill them with random numbers"
            )
    if any(kind != "full_attention" for kind in model.config.text_config.layer_types):
        raise EncoderError(f"{folder}: sliding-window attention cannot be kept between queries")
    model.requires_grad_(False).eval()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return model


@contextmanager
def _quietly() -> Iterator[None]:
    """Without transformers' progress bars, which make a mess of a node's log."""
    from transformers.utils import logging as transformers_logging

    bars: Any = transformers_logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()


def _device(name: str) -> torch.device:
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise EncoderError(f"device '{name}' is none of torch's: {error}") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise EncoderError(f"device '{name}': torch sees no CUDA GPU here; use 'cpu' or 'auto'")
    return device


def _dtype(name: str, *, quantised: bool) -> torch.dtype:
    import torch

    if name == "auto":
        return torch.float16 if quantised else torch.bfloat16
    result: torch.dtype = getattr(torch, name)
    return result


def load_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise EncoderError(f"{folder}: the tokenizer cannot be loaded: {error}") from error
    if not getattr(tokenizer, "is_fast", False):
        raise EncoderError(f"{folder}: no fast tokenizer; tokenizer.json is missing")
    return tokenizer


def load_processor(folder: Path, settings: QwenSettings) -> Any:
    """The picture processor on Pillow: torchvision's gives other pixels, and need not be there."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    try:
        processor = Qwen2VLImageProcessorPil.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise EncoderError(f"{folder}: preprocessor_config.json cannot be read: {error}") from error
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
    return _digest(f"{type(processor).__name__}{text}".encode())


def _stop_tokens(model: Any) -> frozenset[int]:
    ends = model.generation_config.eos_token_id
    if ends is None:
        ends = model.config.text_config.eos_token_id
    return frozenset([ends] if isinstance(ends, int) else ends or ())
