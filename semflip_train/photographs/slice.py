"""The committed list of pictures and questions, and the dataset that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from semflip_core.errors import AssetError, MissingExtraError
from semflip_core.frames import Picture
from semflip_core.settings import Settings, read_settings_file
from semflip_train.dataset import Dataset, Query, read_queries
from semflip_train.importers import write_dataset, write_picture_bag
from semflip_train.photographs.packages import PackagedPicture, PicturePackage, find_pictures
from semflip_train.pictures import jpeg

DATA = Path(__file__).parent / "data"
#: ``first`` has a development and a test part; ``fresh`` is a second test part, of other pictures.
Part = Literal["first", "fresh"]
#: Name of each part's dataset, and what its files in :data:`DATA` begin with.
PARTS: dict[Part, tuple[str, str]] = {
    "first": ("real-pictures", ""),
    "fresh": ("real-pictures-fresh", "fresh_"),
}
#: A film's frames are this far apart in the recording that is made of them; seconds.
FRAME_STEP_S = 1.0
#: Longest side of a stored picture; pixels. Larger ones are scaled down and stored as JPEG.
LONGEST_SIDE = 1280
JPEG_QUALITY = 92
#: Side of a window that a camera panning over a photograph sees, as a share of the photograph's.
WINDOW = 0.75


class PictureList(Settings):
    """``pictures.yaml``, ``fresh_pictures.yaml``."""

    packages: dict[str, PicturePackage]
    pictures: tuple[PackagedPicture, ...]

    @model_validator(mode="after")
    def _known_packages(self) -> PictureList:
        for picture in self.pictures:
            if picture.package not in self.packages:
                raise ValueError(f"picture '{picture.name}': unknown package '{picture.package}'")
        return self


@dataclass(frozen=True, slots=True)
class PictureSlice:
    """Pictures and the questions about them."""

    listed: PictureList
    queries: tuple[Query, ...]


def read_slice(part: Part = "first") -> PictureSlice:
    """The committed pictures and questions, checked.

    Raises:
        ConfigError, DatasetError: name the file and field that is wrong.
    """
    begin = PARTS[part][1]
    listed = read_settings_file(PictureList, DATA / f"{begin}pictures.yaml")
    known = {picture.name for picture in listed.pictures}
    return PictureSlice(listed, read_queries(DATA / f"{begin}queries.jsonl", known))


def build_slice(
    out: Path,
    assets: Path | None = None,
    *,
    part: Part = "first",
    download: bool = True,
    views: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Dataset:
    """Write the dataset (task ``eqa``): a sequence is one photograph, or a film's few frames.

    Args:
        part: ``fresh`` is one split, ``test``.
        assets: as for :func:`~.packages.find_pictures`.
        views: frames of a photograph's memory: the whole, then windows along a path over it, as
            a turning camera would see them. What the photograph lacks, they lack too.
        progress: told what is being done.

    Raises:
        AssetError: a package is not here and cannot be fetched, or holds other pictures.
    """
    content = read_slice(part)
    for name, package in content.listed.packages.items():
        pictures = [p for p in content.listed.pictures if p.package == name]
        if progress is not None:
            progress(f"{name}: {len(pictures)} pictures")
        files = find_pictures(name, package, pictures, assets, download=download)
        for picture in pictures:
            write_picture_bag(
                frames(picture, files[picture.name], views), out / "sequences" / picture.name
            )
    return write_dataset(
        out,
        name=PARTS[part][0],
        licence="questions Apache-2.0; pictures as their packages say (ORIGIN.md)",
        task="eqa",
        splits={
            split: names
            for split in ("calibration", "test")
            if (names := [p.name for p in content.listed.pictures if p.split == split])
        },
        queries=[query.model_dump(exclude_none=True) for query in content.queries],
        description="Real photographs and film frames that packages carry, labelled by eye.",
    )


def frames(picture: PackagedPicture, file: Path, views: int) -> Iterable[tuple[int, bytes]]:
    """``(stamp_ns, jpeg)`` of a photograph or of a film's chosen frames."""
    try:
        import cv2
    except ImportError as error:
        raise MissingExtraError("cv2", "cpu", "reading pictures") from error
    if picture.frames is None:
        bgr = cv2.imread(str(file), cv2.IMREAD_COLOR)
        if bgr is None:
            raise AssetError(f"{file}: OpenCV cannot read this picture")
        for number, view in enumerate(_pan(_bounded(bgr[..., ::-1].copy()), views)):
            yield 1 + round(number * FRAME_STEP_S * 1e9), jpeg(view, JPEG_QUALITY)
        return
    capture = cv2.VideoCapture(str(file))
    try:
        for number in range(max(picture.frames) + 1):
            done, bgr = capture.read()
            if not done:
                raise AssetError(f"{file}: OpenCV cannot read frame {number} of this film")
            if number in picture.frames:
                stamp = 1 + round(picture.frames.index(number) * FRAME_STEP_S * 1e9)
                yield stamp, jpeg(_bounded(bgr[..., ::-1].copy()), JPEG_QUALITY)
    finally:
        capture.release()


def _bounded(rgb: Picture) -> Picture:
    """Scaled down to :data:`LONGEST_SIDE`, the shape kept."""
    from semflip_train.pictures import thumbnail

    height, width = rgb.shape[:2]
    if max(height, width) <= LONGEST_SIDE:
        return rgb
    return thumbnail(rgb, round(width * LONGEST_SIDE / max(height, width)))


def _pan(rgb: Picture, views: int) -> Iterable[Picture]:
    """The picture, then ``views - 1`` windows: along its upper edge and back along the lower."""
    yield rgb
    height, width = rgb.shape[:2]
    rows, columns = round(height * WINDOW), round(width * WINDOW)
    for number in range(views - 1):
        way = 2 * number / max(1, views - 2)
        across = way if way <= 1 else 2 - way
        top = 0 if way <= 1 else height - rows
        left = round(across * (width - columns))
        yield rgb[top : top + rows, left : left + columns].copy()
