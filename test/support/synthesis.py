"""Pictures, queries and a colour detector for tests of synthesis, small and with known answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from semflip_core.frames import FrameFeatures, Picture
from semflip_train.dataset import Query
from semflip_train.synthesis.detect import Detection, View


def query(name: str, text: str, referent: str | None, sequence: str = "a") -> Query:
    """An answerable question."""
    return Query(id=name, sequence=sequence, question=text, answerable=True, referent=referent)


class NamedDetector:
    """Strengths by phrase, in a table."""

    name = "named"
    present = 5.0

    def __init__(self, table: Mapping[str, Sequence[float]]) -> None:
        self._table = table

    def fingerprint(self) -> dict[str, str]:
        return {"name": self.name}

    def strengths(self, phrase: str, views: Sequence[View]) -> np.ndarray:
        return np.array(self._table.get(phrase, [0.0] * len(views)), np.float32)

    def detect(self, phrase: str, views: Sequence[View]) -> list[list[Detection]]:
        whole = (0.0, 0.0, 1.0, 1.0)
        return [[Detection(whole, float(s))] for s in self.strengths(phrase, views)]


#: What :class:`ColourDetector` knows: phrase -> RGB.
COLOURS = {"red box": (220, 30, 30), "blue box": (30, 30, 220), "green box": (30, 180, 30)}
GRID = 8


class ColourDetector:
    """Finds boxes by colour: strength is ten times the share of a cell's pixels of that colour."""

    name = "colour"
    present = 5.0

    def fingerprint(self) -> dict[str, str]:
        return {"name": self.name}

    def _cells(self, phrase: str, picture: Picture) -> np.ndarray:
        target = np.array(COLOURS[phrase])
        close = (np.abs(picture.astype(int) - target).max(axis=2) < 50).astype(float)
        high, wide = close.shape[0] // GRID, close.shape[1] // GRID
        return close.reshape(GRID, high, GRID, wide).mean(axis=(1, 3)) * 10.0

    def strengths(self, phrase: str, views: Sequence[View]) -> np.ndarray:
        return np.array([self._cells(phrase, v.picture).max() for v in views], np.float32)

    def detect(self, phrase: str, views: Sequence[View]) -> list[list[Detection]]:
        found = []
        for view in views:
            cells = self._cells(phrase, view.picture)
            rows = [
                Detection((c / GRID, r / GRID, (c + 1) / GRID, (r + 1) / GRID), float(cells[r, c]))
                for r in range(GRID)
                for c in range(GRID)
                if cells[r, c] > 0
            ]
            found.append(sorted(rows, key=lambda d: -d.strength))
        return found


def room(boxes: Mapping[str, tuple[int, int]], size: int = 128) -> Picture:
    """A grey wall over a brown floor with 32-pixel boxes at (x, y)."""
    picture = np.full((size, size, 3), 170, np.uint8)
    picture[size * 2 // 3 :] = (120, 90, 60)
    for name, (x, y) in boxes.items():
        picture[y : y + 32, x : x + 32] = COLOURS[name]
    return picture


def no_features(picture: Picture) -> FrameFeatures:
    """Stands where the encoder would: the colour detector reads pictures alone."""
    return FrameFeatures({"mean": picture.mean(axis=(0, 1)).astype(np.float32)})


class DriveDetector:
    """Finds the colour that a phrase names in the pictures of ``support.colour_bag``."""

    name = "drive"
    present = 5.0

    def fingerprint(self) -> dict[str, str]:
        return {"name": self.name}

    def strengths(self, phrase: str, views: Sequence[View]) -> np.ndarray:
        return np.array(
            [max((d.strength for d in found), default=0.0) for found in self.detect(phrase, views)],
            np.float32,
        )

    def detect(self, phrase: str, views: Sequence[View]) -> list[list[Detection]]:
        from support.colours import COLOURS as BLOCKS

        named = [BLOCKS[word] for word in phrase.lower().split() if word in BLOCKS]
        return [self._cells(view.picture, named) for view in views]

    @staticmethod
    def _cells(picture: Picture, named: Sequence[tuple[int, int, int]]) -> list[Detection]:
        found = []
        high, wide = picture.shape[0] // 3, picture.shape[1] // 3
        small = picture[2::6, 2::6].astype(np.int16)
        for colour in named:
            close = np.abs(small - np.array(colour, np.int16)).max(axis=2) < 60
            for r in range(3):
                for c in range(3):
                    cell = close[r * high // 6 : (r + 1) * high // 6, c * wide // 6 :]
                    share = float(cell[:, : wide // 6].mean())
                    if share > 0.05:
                        box = (c / 3, r / 3, (c + 1) / 3, (r + 1) / 3)
                        found.append(Detection(box, 10.0 * share))
        return sorted(found, key=lambda d: -d.strength)
