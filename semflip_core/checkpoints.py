"""Models of transformers on this machine: found in a directory or the local hub cache, and checked.

The production encoder, the chat rewriter and the detector load this way. Nothing is unpickled, and
the hub is asked only where one says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from semflip_core.errors import AssetError, EncoderError, MissingExtraError

if TYPE_CHECKING:
    import torch

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
TOKENIZER = "tokenizer.json"
#: What is read of a hub repository; never a pickled file.
FILES = ("*.safetensors", "*.json", "*.txt", "*.jinja")
READ_BYTES = 1 << 22
HASH_THREADS = 4
#: Name in ``import`` -> name to install, where they differ.
INSTALLED_AS = {"PIL": "pillow"}


class TextModel(NamedTuple):
    """A model that reads text, its tokenizer, and the hash of its weights."""

    model: Any
    tokenizer: Any
    weights: str


def require(libraries: tuple[str, ...], extra: str, purpose: str) -> None:
    """Look for libraries without importing them.

    Raises:
        MissingExtraError: one is not installed.
    """
    for library in libraries:
        if find_spec(library) is None:
            raise MissingExtraError(INSTALLED_AS.get(library, library), extra, purpose)


def find_folder(model: str, revision: str | None = None, *, local_files_only: bool = True) -> Path:
    """Directory of a checkpoint, out of the local hub cache where a hub id was given.

    Args:
        model: directory or hub id.
        revision: commit of the hub repository; None for the one in the cache.
        local_files_only: never ask the hub.

    Raises:
        AssetError: it is not on this machine, with what to do.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if folder.is_absolute() or model.startswith((".", "~")):
        raise AssetError(f"no checkpoint directory {folder}")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        found = snapshot_download(
            model,
            revision=revision,
            local_files_only=local_files_only,
            allow_patterns=list(FILES),
        )
    except (OSError, ValueError, HfHubHTTPError, HFValidationError) as error:
        raise AssetError(
            f"model '{model}' is neither a directory nor in the local hub cache: fetch it "
            f"once with 'hf download {model}', or copy it here and give its directory"
        ) from error
    return Path(found)


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors shards of a checkpoint, each with a sound header.

    Raises:
        AssetError: there are none, one is missing, or one is cut short.
    """
    from safetensors import SafetensorError, safe_open

    names = [SINGLE]
    if (index := folder / INDEX).is_file():
        try:
            names = sorted(
                set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
            )
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise AssetError(f"{index} cannot be read: {error!r}") from error
    files = tuple(folder / Path(name).name for name in names)
    for file in files:
        if not file.is_file():
            raise AssetError(f"{file} is missing; only safetensors are read, never pickled files")
        try:
            with safe_open(file, framework="numpy"):
                pass
        except (SafetensorError, OSError) as error:
            raise AssetError(f"{file} is damaged or cut short: {error}") from error
    return files


def weight_digest(files: tuple[Path, ...]) -> str:
    """Hash of all weights' content: the same for a hub snapshot and a copy of it elsewhere."""
    with ThreadPoolExecutor(HASH_THREADS) as pool:
        parts = list(pool.map(_file_sha256, files))
    return digest_of("".join(parts).encode())


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


def digest_of(data: bytes) -> str:
    """Sixteen hexadecimal digits of a SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]


def load_model(model_class: Any, folder: Path, **options: Any) -> Any:
    """A frozen model in evaluation mode, every weight of which was in the checkpoint.

    Args:
        model_class: a class of transformers with ``from_pretrained``.
        options: given to ``from_pretrained``.

    Raises:
        AssetError: it cannot be loaded, or weights are missing or of another shape.
    """
    weight_files(folder)
    return _loaded(model_class, folder, folder, use_safetensors=True, **options)


def load_gguf(model_class: Any, file: Path) -> TextModel:
    """A frozen model and its tokenizer from one GGUF file, as llama.cpp writes them.

    GGUF holds tensors and plain values alone; quantised weights are read as 32-bit floats.

    Args:
        model_class: a class of transformers with ``from_pretrained``.

    Raises:
        AssetError: it cannot be read, or weights are missing or of another shape.
    """
    from transformers import AutoTokenizer

    model = _loaded(model_class, file, file.parent, gguf_file=file.name)
    tokenizer = AutoTokenizer.from_pretrained(
        file.parent, gguf_file=file.name, local_files_only=True
    )
    return TextModel(model, tokenizer, weight_digest((file,)))


def _loaded(model_class: Any, named: Path, folder: Path, **options: Any) -> Any:
    """``from_pretrained`` without the hub, every weight found; errors name ``named``."""
    from safetensors import SafetensorError

    try:
        with _quietly():
            model, report = model_class.from_pretrained(
                folder, local_files_only=True, output_loading_info=True, **options
            )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        raise AssetError(f"{named} cannot be loaded: {error}") from error
    for kind in ("missing_keys", "mismatched_keys"):
        names = sorted(map(str, report.get(kind) or ()))
        if names:
            raise AssetError(
                f"{named}: {len(names)} weights are in {kind} (first {names[0]}); transformers "
                "would fill them with random numbers"
            )
    return model.requires_grad_(False).eval()


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


def load_tokenizer(folder: Path, **options: Any) -> Any:
    """The fast tokenizer of a checkpoint.

    Raises:
        AssetError: there is none, or it cannot be read.
    """
    from transformers import AutoTokenizer

    if not (folder / TOKENIZER).is_file():
        raise AssetError(f"{folder}: {TOKENIZER} is missing")  # else an empty one would be made
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, **options)
    except (OSError, ValueError, KeyError) as error:
        raise AssetError(f"{folder}: the tokenizer cannot be loaded: {error}") from error
    if not getattr(tokenizer, "is_fast", False):
        raise AssetError(f"{folder}: {TOKENIZER} makes no fast tokenizer")
    return tokenizer


def load_text_model(
    model_class: Any, name: str, cure: str = "give its directory", **tokenizer_options: Any
) -> TextModel:
    """A model with its tokenizer, from a directory or a hub id; the hub is never asked.

    Args:
        model_class: a class of transformers with ``from_pretrained``.
        name: directory or hub id.
        cure: what to do where it cannot be had, the end of the error's sentence.

    Raises:
        AssetError: it is not here, or damaged.
    """
    try:
        folder = find_folder(name)
        tokenizer = load_tokenizer(folder, **tokenizer_options)
        model = load_model(model_class, folder)
    except AssetError as error:
        raise AssetError(f"{error}; {cure}") from error
    return TextModel(model, tokenizer, weight_digest(weight_files(folder)))


def torch_device(name: str) -> torch.device:
    """A device of torch by its name; ``auto`` is the GPU where there is one.

    Raises:
        EncoderError: torch knows no such device, or sees no GPU.
    """
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
