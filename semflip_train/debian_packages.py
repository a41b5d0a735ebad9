"""Data packages of Debian and Ubuntu, fetched and unpacked without root."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from semflip_core.errors import AssetError


def download_debian(package: str, target: Path, cure: str) -> Path:
    """``apt-get download`` and ``dpkg -x`` of a package into a folder; returns the folder.

    Raises:
        AssetError: there is no apt-get, or one of them failed; ends with ``cure``.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise AssetError(f"no apt-get here to fetch {package} (Debian, Ubuntu). {cure}")
    target.mkdir(parents=True, exist_ok=True)
    run_client(["apt-get", "download", package], target, cure)
    for deb in sorted(target.glob(f"{package}_*.deb")):
        run_client(["dpkg", "-x", str(deb), str(target)], target, cure)
        deb.unlink()
    return target


def run_client(command: Sequence[str], folder: Path, cure: str) -> None:
    """Run a package client in a folder.

    Raises:
        AssetError: it failed; holds its last line and the cure.
    """
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise AssetError(f"`{' '.join(command)}` failed: {last}. {cure}")
