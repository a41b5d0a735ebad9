"""A furniture library in the real format, with a plain box for every model: no download needed."""

from __future__ import annotations

import zipfile
from pathlib import Path

from semflip_train.simulation.catalogue import LIBRARIES
from semflip_train.simulation.things import Thing, all_things

#: Width, depth, height in centimetres by place.
SIZES = {
    "wall": (110.0, 50.0, 90.0),
    "middle": (120.0, 80.0, 72.0),
    "floor": (36.0, 34.0, 45.0),
    "seat": (44.0, 46.0, 85.0),
    "table": (28.0, 24.0, 34.0),
    "shelf": (38.0, 30.0, 32.0),
    "hang": (42.0, 12.0, 50.0),
}
COLOURS = {
    "red": (0.8, 0.1, 0.1),
    "blue": (0.1, 0.2, 0.8),
    "green": (0.1, 0.6, 0.2),
    "yellow": (0.9, 0.8, 0.1),
    "black": (0.05, 0.05, 0.05),
    "white": (0.95, 0.95, 0.95),
    "wooden": (0.6, 0.4, 0.2),
}
CORNERS = [(x, y, z) for x in (-1, 1) for y in (0, 1) for z in (-1, 1)]
SIDES = [(1, 2, 4, 3), (5, 7, 8, 6), (1, 5, 6, 2), (3, 4, 8, 7), (2, 6, 8, 4), (1, 3, 7, 5)]


def box_furniture(folder: Path) -> Path:
    """Write the four libraries into ``folder`` and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for library in LIBRARIES:
        lines = ["id=boxes"]
        with zipfile.ZipFile(folder / library.file, "w") as archive:
            number = 0
            for thing in all_things():
                for key, looks in thing.models.items():
                    if not key.startswith(library.key + "/"):
                        continue
                    number += 1
                    lines += _entry(number, key.partition("/")[2], thing)
                    name = f"boxes/{number}/box"
                    archive.writestr(f"{name}.obj", _obj())
                    archive.writestr(f"{name}.mtl", _mtl(looks.split("|")[0]))
            archive.writestr("PluginFurnitureCatalog.properties", "\n".join(lines))
    return folder


def _entry(number: int, identity: str, thing: Thing) -> list[str]:
    width, depth, height = SIZES[thing.place]
    return [
        f"id#{number}=Boxes#{identity}",
        f"name#{number}={thing.name}",
        f"model#{number}=/boxes/{number}/box.obj",
        f"width#{number}={width}",
        f"depth#{number}={depth}",
        f"height#{number}={height}",
        f"elevation#{number}={110.0 if thing.place == 'hang' else 0.0}",
        f"creator#{number}=Box Maker",
    ]


def _obj() -> str:
    lines = ["mtllib box.mtl", *(f"v {x} {y} {z}" for x, y, z in CORNERS), "usemtl paint"]
    lines += [f"f {a} {b} {c} {d}" for a, b, c, d in SIDES]
    return "\n".join(lines) + "\n"


def _mtl(look: str) -> str:
    words = [word for word in look.split() if word in COLOURS]
    red, green, blue = COLOURS[words[-1]] if words else (0.5, 0.5, 0.5)
    return f"newmtl paint\nKd {red} {green} {blue}\nKs 0.1 0.1 0.1\nd 1.0\n"
