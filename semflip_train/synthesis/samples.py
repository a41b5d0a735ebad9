"""What synthesis makes: labelled (question, memory) pairs, as lines of ``samples.jsonl``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import Field

from semflip_core.decision import Reason
from semflip_core.errors import SynthesisError
from semflip_core.settings import Settings

Kind = Literal["answerable", "qflip", "vflip", "sham"]

PUBLISHED = ("referential", "false_premise", "subjective")
#: Q-Flip strategies, the published three first.
STRATEGIES = (
    *PUBLISHED, "object", "relation", "attribute", "unavailable", "needs_action", "vague",
)  # fmt: skip


class ErasedFrame(Settings):
    """A changed frame of a V-Flip or sham sample; all others are the memory's own.

    Args:
        index: of the keyframe in the sequence's memory, in order of its ids.
        file: JPEG, relative to the sample file's folder.
        sha256: of that file.
    """

    index: int = Field(ge=0)
    file: str
    sha256: str


class Sample(Settings):
    """One training pair.

    Args:
        source: id of the answerable question that it was made from.
        label: 1 is unanswerable.
        strategy: of a Q-Flip; empty otherwise.
        reason: what the reason head learns; None where answerable.
        referent: what the question asks about now.
        frames: erased frames; empty where the memory is unchanged.
    """

    id: str
    source: str
    sequence: str
    question: str
    label: Literal[0, 1]
    kind: Kind
    strategy: str = ""
    reason: Reason | None = None
    referent: str = ""
    frames: tuple[ErasedFrame, ...] = ()


def reason_for(kind: Kind, strategy: str, several: bool = False) -> Reason:
    """The reason that a sample teaches.

    Args:
        several: the detector finds two or more referents (``referential`` only).
    """
    if kind == "vflip" or strategy == "object":
        return Reason.ABSENT
    if strategy == "referential":
        return Reason.AMBIGUOUS if several else Reason.ABSENT
    if strategy in ("false_premise", "attribute", "relation"):
        return Reason.FALSE_PREMISE
    known = {
        "subjective": Reason.SUBJECTIVE,
        "unavailable": Reason.UNAVAILABLE,
        "needs_action": Reason.NEEDS_ACTION,
        "vague": Reason.AMBIGUOUS,
    }
    if strategy not in known:
        raise SynthesisError(f"unknown strategy '{strategy}'; known: {', '.join(STRATEGIES)}")
    return known[strategy]


def write_samples(path: Path, samples: Iterable[Sample]) -> None:
    """Write samples; the file appears whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    lines = (json.dumps(s.model_dump(mode="json"), ensure_ascii=False) for s in samples)
    partial.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    partial.replace(path)


def read_samples(path: Path) -> list[Sample]:
    """Read samples.

    Raises:
        SynthesisError: the file is missing or a line is no sample.
    """
    if not path.is_file():
        raise SynthesisError(f"{path}: no samples; make them with: semflip synth")
    samples = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            samples.append(Sample.model_validate_json(line))
        except ValueError as error:
            raise SynthesisError(f"{path}:{number}: not a sample: {error}") from error
    return samples


def stable_seed(*parts: object) -> int:
    """A seed that depends on the parts alone, the same in every process."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
