"""Furniture libraries of Sweet Home 3D: what models there are, how large, by whom, which licence.

They come from the Debian package ``sweethome3d-furniture``. A ``.sh3f`` file is a zip with a
``PluginFurnitureCatalog.properties`` (Java properties, sizes in centimetres) and OBJ models.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from semflip_core.errors import AssetError
from semflip_train.debian_packages import download_debian

PACKAGE = "sweethome3d-furniture"
INSIDE_PACKAGE = Path("usr/share/sweethome3d/furniture")
CURE = (
    f"Get it without root with `apt-get download {PACKAGE} && dpkg -x {PACKAGE}_*.deb DIR` and "
    f"pass `--assets DIR`, or install it with `sudo apt-get install {PACKAGE}`"
)


@dataclass(frozen=True, slots=True)
class Library:
    """One ``.sh3f`` file.

    Args:
        key: short name that model keys begin with.
        file: its name.
        licence: SPDX identifier, as stated in the package's copyright file and in the catalogue.
        url: of the licence's text.
        held_out: True for the library that only the "new things" slice may use.
    """

    key: str
    file: str
    licence: str
    url: str
    held_out: bool = False


_BY = "https://creativecommons.org/licenses/by/3.0/"
LIBRARIES: tuple[Library, ...] = (
    Library(
        "cc0",
        "BlendSwap-CC-0.sh3f",
        "CC0-1.0",
        "https://creativecommons.org/publicdomain/zero/1.0/",
    ),
    Library("ccby", "BlendSwap-CC-BY.sh3f", "CC-BY-3.0", _BY),
    Library("scopia", "Scopia.sh3f", "CC-BY-3.0", _BY),
    Library("kator", "KatorLegaz.sh3f", "CC-BY-3.0-US", _BY + "us/", held_out=True),
)


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """One model of a library.

    Args:
        key: ``LIBRARY/ID``, for example ``cc0/teddyBear``.
        name: the catalogue's own English name.
        author: creator as the catalogue names it.
        library: where it comes from.
        size: ``(width, depth, height)`` in metres.
        elevation: height of its lower edge above the floor in metres, 0 for what stands on it.
        top: height in metres at which things can be put on it, or None where they cannot.
        rotation: 3x3 row-major rotation to apply before scaling.
        path: of the OBJ file in the zip.
    """

    key: str
    name: str
    author: str
    library: Library
    size: tuple[float, float, float]
    elevation: float
    top: float | None
    rotation: tuple[float, ...]
    path: str


class FurnitureCatalogue:
    """All models of the libraries, by key.

    Args:
        folder: where the ``.sh3f`` files lie.
        held_out: also read the held-out library.

    Raises:
        AssetError: a library is missing or is not a furniture library.
    """

    def __init__(self, folder: Path, *, held_out: bool = False) -> None:
        self.folder = folder
        models: dict[str, CatalogueModel] = {}
        for library in LIBRARIES:
            if held_out or not library.held_out:
                models.update(read_library(folder, library))
        self.models: Mapping[str, CatalogueModel] = models

    def archive(self, model: CatalogueModel) -> zipfile.ZipFile:
        """The zip that holds the model, opened for reading."""
        return zipfile.ZipFile(self.folder / model.library.file)


def read_library(folder: Path, library: Library) -> dict[str, CatalogueModel]:
    """Models of one library by key; errors as for :class:`FurnitureCatalogue`."""
    file = folder / library.file
    if not file.is_file():
        raise AssetError(f"{file}: no such furniture library. {CURE}")
    try:
        with zipfile.ZipFile(file) as archive:
            text = archive.read("PluginFurnitureCatalog.properties").decode("latin-1")
    except (zipfile.BadZipFile, KeyError) as error:
        raise AssetError(f"{file}: not a Sweet Home 3D furniture library ({error})") from error
    fields: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        left, equals, value = line.partition("=")
        name, hash_sign, number = left.strip().rpartition("#")
        if equals and hash_sign and name and not line.startswith("#"):
            fields.setdefault(number, {})[name] = value.strip()
    models = (_model(entry, library) for entry in fields.values() if "model" in entry)
    return {model.key: model for model in models}


def _model(entry: Mapping[str, str], library: Library) -> CatalogueModel:
    def metres(field: str) -> float:
        return float(entry.get(field, "0")) / 100.0

    top = metres("dropOnTopElevation") if "dropOnTopElevation" in entry else metres("height")
    rotation = entry.get("modelRotation", "1 0 0 0 1 0 0 0 1").split()
    return CatalogueModel(
        key=f"{library.key}/{entry['id'].rpartition('#')[2]}",
        name=entry["name"],
        author=entry.get("creator", "unknown"),
        library=library,
        size=(metres("width"), metres("depth"), metres("height")),
        elevation=metres("elevation"),
        top=top if top > 0.0 else None,
        rotation=tuple(float(value) for value in rotation),
        path=entry["model"].lstrip("/"),
    )


def cache_folder() -> Path:
    """Where downloads and converted meshes are kept, ``$XDG_CACHE_HOME/semflip``."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "semflip"


def find_furniture(assets: Path | None = None, *, download: bool = True) -> Path:
    """The folder with the ``.sh3f`` files.

    Args:
        assets: a folder given by the user: that folder, or the root of an unpacked package.
        download: fetch the Debian package into the cache when it is nowhere else.

    Raises:
        AssetError: it is not there and cannot be fetched; names both cures.
    """
    if assets is not None:
        for folder in (assets, assets / INSIDE_PACKAGE):
            if (folder / LIBRARIES[0].file).is_file():
                return folder
        raise AssetError(f"{assets}: holds no {LIBRARIES[0].file}. {CURE}")
    cached = cache_folder() / PACKAGE
    given = os.environ.get("SEMFLIP_ASSETS")
    roots = [Path(given)] if given else []
    for root in (*roots, Path("/"), cached):
        if (root / INSIDE_PACKAGE / LIBRARIES[0].file).is_file():
            return root / INSIDE_PACKAGE
    if not download:
        raise AssetError(f"the furniture models ({PACKAGE}) are not installed. {CURE}")
    return download_debian(PACKAGE, cached, CURE) / INSIDE_PACKAGE
