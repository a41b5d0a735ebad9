"""What each furniture model may be called, for training mini's projection.

The models that the simulation describes in everyday words keep those words; the other ones of the
training libraries add breadth under their catalogue names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from semflip_core.encoders.mini.colours import COLOUR_WORDS
from semflip_train.simulation.catalogue import FurnitureCatalogue
from semflip_train.simulation.phrases import ROOM_NAMES
from semflip_train.simulation.sequence import HOMES, models_for
from semflip_train.simulation.things import all_things

#: Catalogue entries that show nothing to learn: flat marks, plugs, whole interiors.
_SKIP = re.compile(
    r"plug|arrow|parking|crossing|rails|switch|socket|swimming|living room|tool$|bill |garage|"
    r"island|corner cabinet|shadow|antenna|speech|bell|little bank|^box$|contemporary|escalator|"
    r"mp3|barnum|hashtray|ryokan|tatami|rock$|^children game|railing|elevator$|hut|container"
)
#: Catalogue words that nobody says.
_EVERYDAY = {
    "teck chair": "wooden chair",
    "wood bank": "garden bench",
    "ford focus": "car",
    "seat leon": "car",
    "peugeot 308 cc": "car",
    "renault scenic": "car",
    "chevrolet": "car",
    "suv": "car",
    "smart car": "car",
    "yamaha yzr r6": "motorcycle",
    "motorbike": "motorcycle",
    "apple iphone": "mobile phone",
    "cctv": "security camera",
    "surveillance camera": "security camera",
    "spathiphyllum": "potted plant",
    "augalas": "potted plant",
    "plant": "potted plant",
    "little plant": "potted plant",
    "frame chambord": "picture frame",
    "frame hôi an": "picture frame",
    "wall flat tv": "television",
    "bulldog": "dog",
    "cup cake": "cupcake",
    "opened convertible sofa bz": "sofa bed",
    "air conditioning - external unit": "air conditioner",
    "air conditioning - internal unit": "air conditioner",
    "playstation": "game console",
    "short": "shorts",
    "mocassin": "shoes",
    "woman shoes": "high heels",
    "mannequin male": "mannequin",
    "mannequin female": "mannequin",
    "gaz water heater": "water heater",
    "table tennis": "table tennis table",
    "flacon": "perfume bottle",
}
#: What else people call kinds of room.
_ROOM_SYNONYMS = {
    "living": ("lounge", "sitting room"),
    "bathroom": ("washroom",),
    "office": ("study",),
    "kids": ("nursery", "kids' room"),
    "gym": ("playroom",),
    "hall": ("entrance hall",),
}
#: What somebody might call them all the same.
_ROOM_BROADER = {"hall": ("corridor",)}
#: Between a model and the colour that it is painted over with.
PAINTED = "#"
#: A fold does without one in so many models of the kinds of thing that it does know.
MODEL_FOLDS = 3


@dataclass(frozen=True, slots=True)
class Named:
    """A model and its words.

    Args:
        model: catalogue key, with the colour it is painted over with, if any (:func:`painted_key`).
        category: what it is counted as; folds and held-out sets are by category.
        names: true names, the usual one first.
        words: every word somebody might use for it, lower case; never negatives for it.
        look: colour or material in words, or "".
        told: ``words`` were written by eye and are all there are: what another such thing is
            called, and is not among them, is false of it.
    """

    model: str
    category: str
    names: tuple[str, ...]
    words: frozenset[str]
    look: str = ""
    told: bool = False

    @property
    def colour(self) -> str | None:
        """The colour term in its look, if any."""
        found = [COLOUR_WORDS[w] for w in self.look.split() if w in COLOUR_WORDS]
        return found[0] if len(found) == 1 else None

    def painted(self, colour: str) -> Named:
        """The same model painted over."""
        return replace(self, model=painted_key(self.model, colour), look=colour)

    @property
    def described(self) -> str:
        """Look and name, as in "red armchair"; the name where it has no look."""
        return f"{self.look} {self.names[0]}".strip()


def room_model(kind: str) -> str:
    """What a kind of room is called among the models."""
    return f"room/{kind}"


def _room(kind: str) -> Named:
    names = (ROOM_NAMES[kind], *_ROOM_SYNONYMS.get(kind, ()))
    words = frozenset((*names, *_ROOM_BROADER.get(kind, ())))
    return Named(room_model(kind), f"room {kind}", names, words, told=True)


#: Kinds of room that scenes are made of: what the whole of a picture may show. Folds know them all.
ROOMS = tuple(_room(kind) for kind in sorted({kind for home in HOMES for kind in home}))


def vocabulary(catalogue: FurnitureCatalogue) -> tuple[Named, ...]:
    """Every model that may be trained on and has a name worth learning, in a stable order.

    Models that the benchmark keeps for its test sequences are left out, as is the held-out library.
    """
    allowed = models_for("train", catalogue)
    described: set[str] = set()
    found: dict[str, Named] = {}
    for thing in all_things():
        described |= thing.models.keys()
        for model, look in thing.models.items():
            if model in allowed:
                found[model] = Named(
                    model, thing.name, thing.names, thing.words, look.split("|")[0], told=True
                )
    for model, entry in catalogue.models.items():
        name = " ".join(entry.name.lower().split())
        if model in described or _SKIP.search(name) or entry.library.held_out:
            continue
        name = _EVERYDAY.get(name, name)
        found[model] = Named(model, name, (name,), frozenset([name]))
    return tuple(found[model] for model in sorted(found))


def painted_key(model: str, colour: str) -> str:
    """What a model painted in a colour is called; the model's own key without a colour."""
    return f"{model}{PAINTED}{colour}" if colour else model


def shown(words: Sequence[Named], models: Iterable[str]) -> tuple[Named, ...]:
    """``words``, and those of them that occur painted over among ``models``, in a stable order."""
    by_model = {w.model: w for w in words}
    found = [
        by_model[model].painted(colour)
        for model, mark, colour in (key.partition(PAINTED) for key in sorted(set(models)))
        if mark and model in by_model
    ]
    return (*words, *found)


def fold_of(category: str, folds: int) -> int:
    """Which of ``folds`` a category belongs to; words decide, so every run agrees."""
    return int.from_bytes(hashlib.sha256(category.encode()).digest()[:4], "big") % folds


def split(
    words: Sequence[Named], folds: int, held_out: int
) -> tuple[tuple[Named, ...], tuple[Named, ...]]:
    """Models of the other folds, and of the held-out one."""
    inside = tuple(w for w in words if fold_of(w.category, folds) != held_out)
    outside = tuple(w for w in words if fold_of(w.category, folds) == held_out)
    return inside, outside


def without_some_models(words: Sequence[Named], fold: int) -> tuple[Named, ...]:
    """``words`` without about a third of the models, another third for another fold.

    The painted ones go with the model itself; each kind of thing keeps its first model.
    """
    kept: set[str] = set()
    first: dict[str, str] = {}
    for word in words:
        model = word.model.partition(PAINTED)[0]
        known_by = first.setdefault(word.category, model)
        if known_by == model or fold_of(model, MODEL_FOLDS) != fold % MODEL_FOLDS:
            kept.add(model)
    return tuple(word for word in words if word.model.partition(PAINTED)[0] in kept)
