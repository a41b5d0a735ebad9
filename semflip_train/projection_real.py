"""Real photographs that packages carry, to keep mini's projection honest about the real world.

Debian's ``opencv-doc`` holds photographs among many diagrams. Two thirds of its files are left for
evaluation: the ones used here are chosen by a hash of their name (:func:`is_training_picture`), and
no label of any of them is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from semflip_core.errors import AssetError
from semflip_core.frames import Picture

INSIDE_PACKAGE = Path("usr/share/doc/opencv-doc")
SUFFIXES = (".jpg", ".jpeg", ".png")
MIN_SIDE = 150
#: Diagrams, plots and screenshots have few colours or large flat white areas.
MAX_FLAT_SHARE = 0.35
CURE = (
    "Get it without root with `apt-get download opencv-doc && dpkg -x opencv-doc_*.deb DIR` and "
    "pass `--assets DIR`"
)


def is_training_picture(name: str) -> bool:
    """Whether a picture may be trained on; file name without folder decides, a third may."""
    return hashlib.sha256(name.encode()).digest()[0] % 3 == 0


def training_pictures(assets: Path, limit: int = 200) -> Iterator[Picture]:
    """Real photographs that may be trained on, RGB, in a stable order.

    Raises:
        AssetError: there are none below ``assets``; names the package that brings them.
    """
    import cv2

    root = assets / INSIDE_PACKAGE if (assets / INSIDE_PACKAGE).is_dir() else assets
    seen: set[bytes] = set()
    count = 0
    for path in sorted(root.rglob("*"), key=lambda p: (p.name, str(p))):
        if path.suffix.lower() not in SUFFIXES or not is_training_picture(path.name):
            continue
        data = path.read_bytes()
        digest = hashlib.sha256(data).digest()
        if digest in seen or len(data) < 8000:
            continue
        seen.add(digest)
        picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        if picture is None or min(picture.shape[:2]) < MIN_SIDE:
            continue
        rgb = np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), np.uint8)
        if is_photograph(rgb):
            count += 1
            yield rgb
        if count == limit:
            return
    if count == 0:
        raise AssetError(f"{root}: no photographs found. {CURE}")


def is_photograph(rgb: Picture) -> bool:
    """Colourful and without large flat areas, as plots and screenshots have them."""
    import cv2

    small = cv2.resize(rgb, (160, 120), interpolation=cv2.INTER_AREA)
    _, counts = np.unique(small.reshape(-1, 3) // 8, axis=0, return_counts=True)
    saturation = small.max(axis=2).astype(int) - small.min(axis=2)
    flat = counts.max() / counts.sum()
    return bool(flat < MAX_FLAT_SHARE and len(counts) > 250 and saturation.mean() > 12)
