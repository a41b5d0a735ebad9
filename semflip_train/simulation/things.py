"""What catalogue models are in everyday words: names, synonyms, looks, and where they belong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from semflip_core.errors import AssetError

PLACES = ("wall", "middle", "floor", "seat", "table", "shelf", "hang")


@dataclass(frozen=True, slots=True)
class Thing:
    """One kind of object.

    Args:
        name: how people call it first.
        also: other names that are equally true.
        kind: broader or neighbouring words; somebody might use them for it, so none of them may
            be asked as absent where it stands.
        place: where it is put, one of :data:`PLACES`.
        rooms: kinds of room it belongs to, or ``any``.
        models: model key -> colour or look in words, then more colours after bars; may be empty.
        need: what somebody wants who needs it, as the end of "I need ...", or empty.
        surface: other things can be put on it.
        bare: models of it that nothing is put on.
        paint: it may come in any colour.
        keep: models of it that keep their own colour all the same.
    """

    name: str
    also: tuple[str, ...]
    kind: tuple[str, ...]
    place: str
    rooms: tuple[str, ...]
    models: Mapping[str, str]
    need: str = ""
    surface: bool = False
    bare: tuple[str, ...] = ()
    paint: bool = False
    keep: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All words that name it truly, the usual one first."""
        return (self.name, *self.also)

    @property
    def words(self) -> frozenset[str]:
        """All words that somebody might call it by, lower case."""
        return frozenset(word.lower() for word in (*self.names, *self.kind))

    def paintable(self, model: str) -> bool:
        """Whether a model of it may be painted over."""
        return self.paint and model not in self.keep

    @property
    def held_out(self) -> bool:
        """True when its models come from the library that is never trained on."""
        return any(key.startswith("kator/") for key in self.models)


@cache
def all_things() -> tuple[Thing, ...]:
    """The table of ``things.yaml``, held-out things included.

    Raises:
        AssetError: an entry lacks a field or has a wrong one.
    """
    file = Path(__file__).with_name("things.yaml")
    things = tuple(_thing(entry) for entry in yaml.safe_load(file.read_text(encoding="utf-8")))
    names = [thing.name for thing in things]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise AssetError(f"{file.name}: named twice: {', '.join(sorted(twice))}")
    return things


def _thing(entry: Mapping[str, Any]) -> Thing:
    try:
        thing = Thing(
            name=entry["name"],
            also=tuple(entry["also"]),
            kind=tuple(entry["kind"]),
            place=entry["place"],
            rooms=tuple(entry["rooms"]),
            models=dict(entry["models"]),
            need=entry.get("need", ""),
            surface=bool(entry.get("surface", False)),
            bare=tuple(entry.get("bare", ())),
            paint=bool(entry.get("paint", False)),
            keep=tuple(entry.get("keep", ())),
        )
    except KeyError as error:
        raise AssetError(f"things.yaml: {entry.get('name', entry)} lacks {error}") from error
    if thing.place not in PLACES or not thing.models:
        raise AssetError(f"things.yaml: {thing.name}: wrong place '{thing.place}' or no models")
    return thing
