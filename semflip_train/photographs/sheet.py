"""A contact sheet: pictures in a grid, below each its questions, green right and red wrong."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from semflip_core.frames import Picture

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

COLUMNS = 6
#: Size of a picture on the sheet, and height of the text below it; pixels.
WIDTH, HEIGHT, TEXT = 216, 150, 66
FONT_SIZE = 12
LINE = 15
GREEN, RED = (20, 120, 50), (190, 30, 30)
QUALITY = 72


@dataclass(frozen=True, slots=True)
class Cell:
    """A picture and what stands below it: (text, right)."""

    rgb: Picture
    lines: Sequence[tuple[str, bool]]


def contact_sheet(cells: Sequence[Cell]) -> bytes:
    """A JPEG of all cells, row by row."""
    from PIL import Image, ImageDraw, ImageFont

    rows = -(-len(cells) // COLUMNS)
    size = (COLUMNS * WIDTH, rows * (HEIGHT + TEXT))
    sheet = Image.new("RGB", size, "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(FONT_SIZE)
    for number, cell in enumerate(cells):
        left = number % COLUMNS * WIDTH
        top = number // COLUMNS * (HEIGHT + TEXT)
        sheet.paste(_covering(cell.rgb), (left + 2, top + 2))
        _write(draw, font, cell.lines, left + 4, top + HEIGHT)
    data = io.BytesIO()
    sheet.save(data, "JPEG", quality=QUALITY, optimize=True)
    return data.getvalue()


def _covering(rgb: Picture) -> Image:
    """Scaled and cut to fill a cell, about its middle."""
    from PIL import Image, ImageOps

    return ImageOps.fit(Image.fromarray(rgb), (WIDTH - 4, HEIGHT - 4))


def _write(
    draw: ImageDraw,
    font: FreeTypeFont | ImageFont,
    lines: Sequence[tuple[str, bool]],
    left: int,
    top: int,
) -> None:
    for text, right in lines:
        for part in wrapped(text, WIDTH - 8, lambda words: draw.textlength(words, font)):
            draw.text((left, top), part, fill=GREEN if right else RED, font=font)
            top += LINE
        top += 1


def wrapped(text: str, width: float, length: Callable[[str], float]) -> list[str]:
    """Text in lines of at most ``width``; a longer word has a line of its own.

    Args:
        length: of a text, in the unit of ``width``.
    """
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and length(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
