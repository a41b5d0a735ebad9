"""Cross-fitted features: training rows as encoders see them that never met the thing.

mini's projection is itself trained, on rendered things. In rooms of the same things it looks better
than it will anywhere else, and a gate that learns from such rooms trusts it too much. So there are
several projections, each trained without some kinds of thing, and without some models of the other
kinds (:mod:`semflip_train.projection_folds`); a training question is seen twice, by a projection
that does not know what it asks for, and by one that knows it from other models at most. That goes
for what the questions of Q-Flip ask for too, so that not knowing a thing tells nothing of whether
it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from semflip_core.encoders import Encoder, fingerprint_digest
from semflip_core.encoders.mini.encoder import MiniEncoder
from semflip_core.encoders.mini.projection import ProjectionWeights
from semflip_core.errors import ConfigError
from semflip_core.memory import VideoMemory
from semflip_train.memories import save_memory
from semflip_train.synthesis.samples import stable_seed

#: Header entry of a projection file: names of the kinds of thing that it was trained without.
HELD_OUT = "held_out"
#: Header entry of a projection file: how many folds there are.
FOLD_COUNT = "folds"
#: Files of the folds, in a folder of their own.
FOLD_FILES = "fold*.safetensors"
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class CrossFit:
    """Encoders that each have not met some names.

    Args:
        encoders: one a fold, with the same networks.
        folds: name, lower case -> the fold that has not met it.
    """

    encoders: tuple[MiniEncoder, ...]
    folds: dict[str, int]

    @classmethod
    def load(cls, folder: Path, encoder: object) -> CrossFit:
        """The folds in a folder, for the encoder of an experiment.

        Raises:
            ConfigError: some are missing, or the encoder is not one that is cross-fitted.
            EncoderError: a file is damaged.
        """
        files = sorted(folder.glob(FOLD_FILES))
        if not isinstance(encoder, MiniEncoder):
            raise ConfigError(
                "cross_fit: only mini's projection is trained here; leave it out for other encoders"
            )
        folds: dict[str, int] = {}
        counts = set()
        for number, file in enumerate(files):
            header = ProjectionWeights.load(file).header
            names, count = header.get(HELD_OUT), header.get(FOLD_COUNT)
            if not isinstance(names, list) or not isinstance(count, int):
                raise ConfigError(f"{file}: not made for cross-fitting; make the folds again")
            counts.add(count)
            folds |= {str(name).lower(): number for name in names}
        if counts != {len(files)}:
            of = f" of {max(counts)}" if counts else ""
            raise ConfigError(
                f"cross_fit: {folder} holds {len(files)} projections{of}; make the rest with: "
                f"python -m semflip_train.projection_folds --out {folder}"
            )
        return cls(tuple(encoder.with_weights(file) for file in files), folds)

    def chosen(self, question: str) -> tuple[int, int]:
        """The fold that has not met what a question asks for, and one that may have.

        What no fold knows by name is drawn for by its words.
        """
        head = self.encoders[0].parse(question).phrases[0].head
        count = len(self.encoders)
        unmet = next(
            (self.folds[n] for n in _endings(head) if n in self.folds),
            stable_seed("unmet", head) % count,
        )
        return unmet, (unmet + 1 + stable_seed("met", head) % (count - 1)) % count

    def encode_missing(
        self, memory: VideoMemory, encoder: Encoder, progress: Progress | None = None
    ) -> int:
        """Have every keyframe encoded by an encoder and every fold; each picture looked at once."""
        encoders = [e for e in (encoder, *self.encoders) if isinstance(e, MiniEncoder)]
        digests = [fingerprint_digest(e.frame_fingerprint()) for e in encoders]
        missing = sorted({i for digest in digests for i in memory.missing_features(digest)})
        for done, keyframe_id in enumerate(missing, start=1):
            made = self.encoders[0].encode_frame_by(memory.picture(keyframe_id), encoders)
            for digest, features in zip(digests, made, strict=True):
                memory.put_features(keyframe_id, digest, features)
            if progress is not None:
                progress(done, len(missing))
        if missing and memory.path is not None:
            save_memory(memory, memory.path)
        return len(missing)


def _endings(head: str) -> Sequence[str]:
    """``drip coffee maker``, ``coffee maker``, ``maker``."""
    words = head.lower().split()
    return [" ".join(words[i:]) for i in range(len(words))]
