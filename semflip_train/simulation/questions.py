"""Which questions to ask of which sequence, so that labels are exact and words give nothing away.

An answerable question has exactly one referent, well visible. A third each of the unanswerable
ones: *absent* (the same words are answerable in another sequence: a ``pair``), *near miss* (right
noun, wrong look or relation) and those that no picture of the place answers or that are unclear.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from semflip_train.simulation import wording
from semflip_train.simulation.evenness import Evenness
from semflip_train.simulation.phrases import PLAIN, ROOM_NAMES, Phrase, might_be
from semflip_train.simulation.referents import (
    Referent,
    Seen,
    ambiguous_nouns,
    describe,
    might_be_in,
    near_misses,
    referents,
    unsupported,
)

#: How often an answerable question uses which kind of phrase; near misses use looks and relations.
KIND_WEIGHTS = {"name": 0.42, "look": 0.26, "on": 0.08, "room": 0.08, "beside": 0.06, "need": 0.1}
#: The same for training and calibration questions, as shares. There is less to gain from names
#: alone: a gate that saw colours in refusals only would refuse whoever names a colour.
TRAINING_SHARES = {
    "name": 0.36,
    "look": 0.34,
    "on": 0.08,
    "room": 0.08,
    "beside": 0.06,
    "need": 0.08,
}
UNCLEAR = ("unavailable", "subjective", "needs_action", "false_premise", "ambiguous")


@dataclass
class QuestionWriter:
    """Writes the questions of all sequences; the same seed gives the same ones.

    Args:
        per_sequence: answerable questions for each sequence, and as many unanswerable ones for
            each test sequence.
        balanced: a third of the absent things and near misses have no twin, and the answerable
            ones without a twin use looks and relations as often as those do, so that words alone
            tell nothing. False for a small dataset of mostly simple questions.
    """

    sequences: Sequence[Seen]
    per_sequence: int
    seed: int
    balanced: bool = True
    rows: list[dict[str, Any]] = field(default_factory=list)

    def write(self) -> list[dict[str, Any]]:
        """Rows of ``queries.jsonl`` in the order of sequences."""
        self._rng = np.random.default_rng([self.seed, 21])
        self._asked: set[tuple[str, str]] = set()
        self._pairs = 0
        self._even = Evenness()
        tests = [seen for seen in self.sequences if seen.split == "test"]
        for seen in tests:
            self._unanswerable(seen, tests)
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
        if self.balanced and seen.split == "test":
            pool = [item for item in pool if not _obvious_room(item, seen)]
        have = sum(row["sequence"] == seen.name and row["answerable"] for row in self.rows)
        alone = self.per_sequence - have
        even = self.balanced and seen.split == "test"
        uses = np.zeros(len(seen.objects))
        for _ in range(40 * self.per_sequence):
            if have >= self.per_sequence or not pool:
                return
            weights = np.array([KIND_WEIGHTS[item.kind] for item in pool])
            if even:
                weights = self._even.weights(seen, pool, alone)
            elif self.balanced:
                kinds = Counter(item.kind for item in pool)
                weights = np.array([TRAINING_SHARES[i.kind] / kinds[i.kind] for i in pool])
            weights /= 1.0 + 2.0 * uses[[item.label for item in pool]]
            item = pool[int(self._rng.choice(len(pool), p=weights / weights.sum()))]
            if self._ask(seen, item, self._text(item, words)):
                self._even.add(seen, item.phrase, item.kind, answerable=True)
                uses[item.label] += 1
                have += 1

    def _text(self, item: Referent, words: wording.Wordings) -> str:
        if item.need:
            return wording.put(wording.draw(self._rng, words.needed), need=item.need)
        plain = item.kind == "name" and bool(words.about)
        about = plain and self._rng.random() < wording.ABOUT_SHARE
        return wording.put(
            wording.draw(self._rng, words.about if about else words.named), item.phrase
        )

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

    def _unanswerable(self, seen: Seen, tests: Sequence[Seen]) -> None:
        third = self.per_sequence // 3
        absent, near = self.per_sequence - 2 * third, third
        alone = third // 3 if self.balanced else 0
        absent -= self._from_others(seen, absent - alone, "absent")
        near -= self._from_others(
            seen, near - alone if self.balanced else (near + 1) // 2, "near_miss"
        )
        if alone:
            absent -= self._from_others(seen, absent, "absent", twins=False)
        near -= self._own_near_misses(seen, near, tests)
        unclear = third + near + absent
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

    def _from_others(self, seen: Seen, count: int, category: str, *, twins: bool = True) -> int:
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
        weighed = [(entry, self._evening(entry[1])) for entry in pool]
        done = 0
        used: set[str] = set()
        for _ in range(30 * count):
            if done == count or not pool:
                break
            weights = np.array([KIND_WEIGHTS[item.kind] * rare for (_, item), rare in weighed])
            other, item = pool[int(self._rng.choice(len(pool), p=weights / weights.sum()))]
            text = self._text(item, wording.TEST)
            if item.phrase.noun in used or (other.name, text) in self._asked:
                continue
            pair = f"pair_{self._pairs:03d}" if twins else None
            if self._refuse(seen, text, category, item.phrase.words, pair):
                if pair is None:
                    self._even.add(seen, item.phrase, item.kind, answerable=False)
                else:
                    self._ask(other, item, text, pair)
                    self._pairs += 1
                used.add(item.phrase.noun)
                done += 1
        return done

    def _evening(self, item: Referent) -> float:
        """Weight that makes common things, which few places lack, as often absent as present."""
        if not self.balanced:
            return 1.0
        lacking = sum(
            not any(might_be(item.phrase.noun, placed) for placed in other.objects)
            for other in self.sequences
        )
        return 1.0 / max(lacking, 1)

    def _own_near_misses(self, seen: Seen, count: int, tests: Sequence[Seen]) -> int:
        looks: Sequence[str] = PLAIN
        if self.balanced:
            looks = [item.look for one in tests for item in one.objects if item.any_colour]
        pool = list(near_misses(seen, tuple(dict.fromkeys(looks)), plausible=self.balanced))
        often = Counter(looks)
        weights = np.array([float(often[phrase.look]) if phrase.look else 1.0 for phrase in pool])
        done = 0
        used: set[str] = set()
        order = (
            self._rng.choice(len(pool), len(pool), replace=False, p=weights / weights.sum())
            if self.balanced and pool
            else self._rng.permutation(len(pool))
        )
        for index in order:
            if done == count:
                break
            phrase = pool[int(index)]
            if phrase.noun in used and self._rng.random() < 0.8:
                continue
            text = wording.put(wording.draw(self._rng, wording.TEST.named), phrase)
            if self._refuse(seen, text, "near_miss", phrase.words):
                self._even.add(seen, phrase, phrase.kind, answerable=False)
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


def _obvious_room(item: Referent, seen: Seen) -> bool:
    """Whether a phrase names the only room of the place where such a thing belongs."""
    placed = seen.objects[item.label]
    return item.kind == "room" and len(might_be_in(placed, seen.plan)) < 2


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(float(value), 3) for value in values]
