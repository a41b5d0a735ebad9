"""Which questions to ask of which sequence, so that labels are exact and words give nothing away.

An answerable question has exactly one referent, well visible. A third each of the unanswerable
ones: *absent* (the same words are answerable in another sequence: a ``pair``), *near miss* (right
noun, wrong look or relation) and those that no picture of the place answers or that are unclear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from semflip_train.simulation import wording
from semflip_train.simulation.furnish import Placed
from semflip_train.simulation.labels import DriveLabels
from semflip_train.simulation.phrases import (
    BROAD,
    PLAIN,
    ROOM_NAMES,
    Phrase,
    candidates,
    might_be,
    phrases_of,
    support_of,
)
from semflip_train.simulation.plan import Plan

#: How often an answerable question uses which kind of phrase; near misses use looks and relations.
KIND_WEIGHTS = {"name": 0.42, "look": 0.26, "on": 0.08, "room": 0.08, "beside": 0.06, "need": 0.1}
UNCLEAR = ("unavailable", "subjective", "needs_action", "false_premise", "ambiguous")


@dataclass(frozen=True, slots=True)
class Seen:
    """What question writing knows of a sequence.

    Args:
        name: of the sequence.
        split: ``train``, ``calibration`` or ``test``.
        slice: ``known``, or ``new`` for sequences about things never trained on.
    """

    name: str
    split: str
    slice: str
    objects: tuple[Placed, ...]
    plan: Plan
    labels: DriveLabels


@dataclass(frozen=True, slots=True)
class Referent:
    """A way to point at one object of a sequence.

    Args:
        phrase: its words; the usual name where ``need`` is set.
        need: asked for by a need instead, or empty.
    """

    label: int
    phrase: Phrase
    need: str = ""

    @property
    def kind(self) -> str:
        """Key of :data:`KIND_WEIGHTS`."""
        return "need" if self.need else self.phrase.kind


@dataclass
class QuestionWriter:
    """Writes the questions of all sequences; the same seed gives the same ones.

    Args:
        per_sequence: answerable questions for each sequence, and as many unanswerable ones for
            each test sequence.
    """

    sequences: Sequence[Seen]
    per_sequence: int
    seed: int
    rows: list[dict[str, Any]] = field(default_factory=list)

    def write(self) -> list[dict[str, Any]]:
        """Rows of ``queries.jsonl`` in the order of sequences."""
        self._rng = np.random.default_rng([self.seed, 21])
        self._asked: set[tuple[str, str]] = set()
        self._pairs = 0
        tests = [seen for seen in self.sequences if seen.split == "test"]
        for seen in tests:
            self._unanswerable(seen)
        for seen in self.sequences:
            self._answerable(seen)
        order = {seen.name: index for index, seen in enumerate(self.sequences)}
        self.rows.sort(key=lambda row: order[row["sequence"]])
        counts: dict[str, int] = {}
        for row in self.rows:
            number = counts[row["sequence"]] = counts.get(row["sequence"], -1) + 1
            row["id"] = f"{row['sequence']}_{number:03d}"
        return [{"id": row.pop("id"), **row} for row in self.rows]

    # -- answerable ---------------------------------------------------------------------------

    def _answerable(self, seen: Seen) -> None:
        words = wording.TEST if seen.split == "test" else wording.TRAIN
        pool = list(referents(seen))
        have = sum(row["sequence"] == seen.name and row["answerable"] for row in self.rows)
        uses = np.zeros(len(seen.objects))
        for _ in range(40 * self.per_sequence):
            if have >= self.per_sequence or not pool:
                return
            weights = np.array(
                [KIND_WEIGHTS[item.kind] / (1.0 + 2.0 * uses[item.label]) for item in pool]
            )
            item = pool[int(self._rng.choice(len(pool), p=weights / weights.sum()))]
            if self._ask(seen, item, self._text(item, words)):
                uses[item.label] += 1
                have += 1

    def _text(self, item: Referent, words: wording.Wordings) -> str:
        if item.need:
            return wording.put(wording.draw(self._rng, words.needed), need=item.need)
        return wording.put(wording.draw(self._rng, words.named), item.phrase)

    def _ask(self, seen: Seen, item: Referent, text: str, pair: str | None = None) -> bool:
        """Add an answerable question unless the sequence was asked the same already."""
        if (seen.name, text) in self._asked:
            return False
        self._asked.add((seen.name, text))
        placed = seen.objects[item.label]
        view = seen.labels.best_view(item.label, placed.centre)
        self.rows.append(
            {
                "sequence": seen.name,
                "question": text,
                "answerable": True,
                "category": None,
                "referent": item.phrase.words,
                "pair": pair,
                "slice": seen.slice,
                "answer": {
                    "position": _rounded(view.position),
                    "yaw": round(view.yaw, 4),
                    "object_position": _rounded(placed.centre),
                    "visible": [list(span) for span in seen.labels.visible(item.label)],
                    "text": describe(placed, seen),
                },
            }
        )
        return True

    # -- unanswerable -------------------------------------------------------------------------

    def _unanswerable(self, seen: Seen) -> None:
        absent = self.per_sequence - 2 * (self.per_sequence // 3)
        absent -= self._from_others(seen, absent, "absent")
        near = self.per_sequence // 3
        near -= self._from_others(seen, (near + 1) // 2, "near_miss")
        near -= self._own_near_misses(seen, near)
        unclear = self.per_sequence // 3 + near + absent
        for index in range(unclear):
            category = UNCLEAR[index % len(UNCLEAR)]
            for _ in range(20):
                text, phrase = self._unclear(seen, category)
                if self._refuse(seen, text, category, phrase):
                    break

    def _refuse(
        self, seen: Seen, text: str, category: str, phrase: str | None, pair: str | None = None
    ) -> bool:
        if (seen.name, text) in self._asked:
            return False
        self._asked.add((seen.name, text))
        self.rows.append(
            {
                "sequence": seen.name,
                "question": text,
                "answerable": False,
                "category": category,
                "referent": phrase,
                "pair": pair,
                "slice": seen.slice,
                "answer": None,
            }
        )
        return True

    def _from_others(self, seen: Seen, count: int, category: str) -> int:
        """Questions whose words are answerable in another sequence and not here, with the twin.

        Test sequences are paired among each other; a single one with the rest.
        """
        others = [
            other
            for other in self.sequences
            if other is not seen and other.slice == seen.slice and other.split == "test"
        ] or [other for other in self.sequences if other is not seen]
        pool = [
            (other, item)
            for other in others
            for item in referents(other)
            if unsupported(item, seen) == category
        ]
        done = 0
        used: set[str] = set()
        for _ in range(30 * count):
            if done == count or not pool:
                break
            weights = np.array([KIND_WEIGHTS[item.kind] for _, item in pool])
            other, item = pool[int(self._rng.choice(len(pool), p=weights / weights.sum()))]
            text = self._text(item, wording.TEST)
            if item.phrase.noun in used or (other.name, text) in self._asked:
                continue
            pair = f"pair_{self._pairs:03d}"
            if self._refuse(seen, text, category, item.phrase.words, pair):
                self._ask(other, item, text, pair)
                self._pairs += 1
                used.add(item.phrase.noun)
                done += 1
        return done

    def _own_near_misses(self, seen: Seen, count: int) -> int:
        pool = list(near_misses(seen))
        done = 0
        used: set[str] = set()
        for index in self._rng.permutation(len(pool)):
            if done == count:
                break
            phrase = pool[int(index)]
            if phrase.noun in used and self._rng.random() < 0.8:
                continue
            text = wording.put(wording.draw(self._rng, wording.TEST.named), phrase)
            if self._refuse(seen, text, "near_miss", phrase.words):
                used.add(phrase.noun)
                done += 1
        return done

    def _unclear(self, seen: Seen, category: str) -> tuple[str, str | None]:
        pool = list(referents(seen, needs=False))
        phrase = pool[int(self._rng.integers(len(pool)))].phrase
        rooms = [ROOM_NAMES[room.kind] for room in seen.plan.rooms]
        room = rooms[int(self._rng.integers(len(rooms)))]
        if category == "ambiguous":
            many = sorted(ambiguous_nouns(seen))
            if not many or self._rng.random() < 0.25:
                return wording.draw(self._rng, wording.VAGUE), None
            noun = Phrase(many[int(self._rng.integers(len(many)))])
            return wording.put(wording.draw(self._rng, wording.AMBIGUOUS), noun), noun.words
        if category == "false_premise":
            missing = self._missing(seen)
            template = wording.draw(self._rng, wording.FALSE_PREMISE)
            return wording.put(template, phrase, absent=missing.the), missing.words
        templates = {
            "unavailable": wording.UNAVAILABLE,
            "subjective": wording.SUBJECTIVE,
            "needs_action": wording.NEEDS_ACTION,
        }[category]
        return wording.put(wording.draw(self._rng, templates), phrase, room=room), phrase.words

    def _missing(self, seen: Seen) -> Phrase:
        """Something that stands in another sequence and not here."""
        names = sorted(
            {
                item.thing.name
                for other in self.sequences
                for item in other.objects
                if other is not seen and not any(might_be(item.thing.name, o) for o in seen.objects)
            }
        )
        return Phrase(names[int(self._rng.integers(len(names)))])


def referents(seen: Seen, *, needs: bool = True) -> Iterator[Referent]:
    """All ways to point at exactly one object that is well visible."""
    for label, item in enumerate(seen.objects):
        if not seen.labels.is_answerable(label):
            continue
        if seen.slice == "new" and not item.thing.held_out:
            continue
        for phrase in phrases_of(label, seen.objects, seen.plan):
            if candidates(phrase, seen.objects, seen.plan) == [label]:
                yield Referent(label, phrase)
        if needs and item.thing.need and not _serves(item, seen, label):
            yield Referent(label, Phrase(item.thing.name), item.thing.need)


def _serves(item: Placed, seen: Seen, but: int = -1) -> bool:
    """Whether something else of the sequence might serve the same need."""
    words = item.thing.words - BROAD
    return any(
        words & (other.thing.words - BROAD)
        for label, other in enumerate(seen.objects)
        if label != but
    )


def unsupported(item: Referent, seen: Seen) -> str | None:
    """Why a sequence does not support words of another one, or None where it might."""
    if item.need:
        thing_words = {item.phrase.noun.lower()}
        absent = not any(thing_words & other.thing.words for other in seen.objects)
        alike = any(
            other.thing.need == item.need or other.thing.words & _need_words(item)
            for other in seen.objects
        )
        return "absent" if absent and not alike else None
    if candidates(item.phrase, seen.objects, seen.plan):
        return None
    same = [i for i, other in enumerate(seen.objects) if might_be(item.phrase.noun, other)]
    if not same:
        return "absent" if item.phrase.kind in ("name", "look") else None
    if not any(seen.labels.is_answerable(label) for label in same):
        return None
    return "near_miss" if _anchor_is_here(item.phrase, seen) else None


def _need_words(item: Referent) -> frozenset[str]:
    return frozenset({item.phrase.noun.lower()})


def _anchor_is_here(phrase: Phrase, seen: Seen) -> bool:
    """Whether what a relation names (the desk, the kitchen) is in the sequence at all."""
    if not phrase.relation:
        return True
    _, _, anchor = phrase.relation.partition(" the ")
    if phrase.kind == "room":
        return anchor in {ROOM_NAMES[room.kind] for room in seen.plan.rooms}
    return any(might_be(anchor, item) for item in seen.objects)


def near_misses(seen: Seen) -> Iterator[Phrase]:
    """Phrases with the noun of a well visible object and a look or relation that fits nothing."""
    supports = sorted({item.thing.name for item in seen.objects if item.thing.surface})
    rooms = sorted({ROOM_NAMES[room.kind] for room in seen.plan.rooms})
    for label, item in enumerate(seen.objects):
        if not seen.labels.is_answerable(label):
            continue
        if seen.slice == "new" and not item.thing.held_out:
            continue
        wrong = [Phrase(noun, look, kind="look") for noun in item.thing.names for look in PLAIN]
        on = support_of(item, seen.objects)
        for noun in item.thing.names:
            if on is not None:
                wrong += [Phrase(noun, relation=f"on the {s}", kind="on") for s in supports]
            if len(rooms) > 1:
                wrong += [Phrase(noun, relation=f"in the {r}", kind="room") for r in rooms]
        for phrase in wrong:
            if not candidates(phrase, seen.objects, seen.plan):
                yield phrase


def ambiguous_nouns(seen: Seen) -> set[str]:
    """Names shared by several well visible objects at least 1.5 m apart."""
    nouns: set[str] = set()
    for label, item in enumerate(seen.objects):
        for noun in item.thing.names:
            twins = [
                other
                for index, other in enumerate(seen.objects)
                if index != label and might_be(noun, other) and seen.labels.is_answerable(index)
            ]
            far = any(
                np.hypot(*(np.array(other.centre[:2]) - item.centre[:2])) > 1.5 for other in twins
            )
            if far and seen.labels.is_answerable(label):
                nouns.add(noun)
    return nouns


def describe(item: Placed, seen: Seen) -> str:
    """The answer in words."""
    support = support_of(item, seen.objects)
    where = f"on the {support.thing.name} " if support is not None else ""
    phrase = Phrase(item.thing.name, item.look if item.look not in item.thing.name else "")
    verb = "are" if phrase.plural else "is"
    room = ROOM_NAMES[seen.plan.rooms[item.room].kind]
    return f"The {phrase.words} {verb} {where}in the {room}."


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(float(value), 3) for value in values]
