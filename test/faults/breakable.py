"""The colour encoder with a control file: breaks, waits or hangs as the suite writes there.

The node loads it by name like any encoder, so nothing in the code under test knows of faults.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from semflip_core.encoders.contract import Fingerprint, JointEmbedding
from semflip_core.frames import FrameFeatures, MemoryFrame, Picture
from support.colours import COLOURS
from support.faulty_colours import FAULTS, FaultyColours

#: What ``encode`` may do beside :data:`support.faulty_colours.FAULTS`.
RAISED: dict[str, BaseException] = {
    "recursion": RecursionError("too deep, on purpose"),
    "runtime_error": RuntimeError("CUDA out of memory, on purpose"),
    "key_error": KeyError("on purpose"),
    "stop_iteration": StopIteration("on purpose"),
    "unicode_error": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "on purpose"),
    "system_exit": SystemExit(3),
    "keyboard_interrupt": KeyboardInterrupt(),
}
RETURNED = ("text_returned", "integers", "two_rows", "nan_regions", "giant_relevance")
ENCODE_FAULTS = (*FAULTS, *RAISED, *RETURNED, "slow")
FRAME_FAULTS = ("exception", "memory_error", "nan_features", "no_features", "none_returned")
LOAD_FAULTS = ("exception", "memory_error", "os_error", "other_fingerprint")
SLOW_S = 0.4


class Control:
    """The suite's side of the file: what breaks, and whether to wait.

    Args:
        path: a file that the encoder is given as option ``control``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.held = path.with_suffix(".held")
        self.set()

    def set(self, **values: Any) -> None:
        """Break these and nothing else: ``encode``, ``frame``, ``load``, and ``hold``."""
        self.holding = bool(values.get("hold"))
        if self.holding:
            self.held.unlink(missing_ok=True)  # touched again once something waits
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(values))
        partial.replace(self.path)


class BreakableColours(FaultyColours):
    """Sees colours until its control file says otherwise.

    Args:
        control: path of the file; without one nothing breaks.
    """

    name = "breakable_colours"

    def __init__(self, control: str = "") -> None:
        self._control = Path(control) if control else None
        self._wait("load")
        load = self._fault("load")
        if load in ("exception", "memory_error", "os_error"):
            _raise(load)
        self._other = load == "other_fingerprint"

    def fingerprint(self) -> Fingerprint:
        """The parent's, or another one where it is told so."""
        return {**super().fingerprint(), "name": "other" if self._other else self.name}

    def _state(self) -> dict[str, Any]:
        if self._control is None:
            return {}
        state: dict[str, Any] = json.loads(self._control.read_text())
        return state

    def _fault(self, step: str) -> str:
        return str(self._state().get(step, ""))

    def _wait(self, step: str) -> None:
        while self._control is not None and self._state().get("hold") == step:
            self._control.with_suffix(".held").touch()
            time.sleep(0.005)

    def encode_frame(self, rgb: Picture) -> FrameFeatures:
        """The parent's features, spoilt."""
        fault = self._fault("frame")
        if fault in ("exception", "memory_error"):
            _raise(fault)
        made = super().encode_frame(rgb)
        if fault == "nan_features":
            return FrameFeatures({"regions": np.full((9, 3), np.nan, np.float32)})
        if fault == "no_features":
            return FrameFeatures({})
        if fault == "none_returned":
            return None  # type: ignore[return-value]
        return made

    def encode(self, question: str, frames: Sequence[MemoryFrame]) -> JointEmbedding:
        """The parent's embedding, spoilt, after waiting where it is told to."""
        self._wait("encode")
        fault = self._fault("encode")
        if fault in RAISED:
            raise RAISED[fault]
        if fault == "slow":
            time.sleep(SLOW_S)
        while fault == "hang":
            time.sleep(1.0)
        joint = super().encode(f"{question} {fault}" if fault in FAULTS else question, frames)
        if not set(question.lower().replace("?", " ").split()) & set(COLOURS):
            nothing = np.array([-1.0, -1.0, 1.0], np.float32)  # it knows colours only
            joint = replace(joint, vector=nothing)
        if fault == "text_returned":
            return "over there"  # type: ignore[return-value]
        if fault == "integers":
            return replace(joint, vector=np.array([7, 7, 7], np.int64))
        if fault == "two_rows":
            return replace(joint, vector=np.stack([joint.vector] * 2))
        if fault == "nan_regions":
            return replace(joint, regions=np.full((len(frames), 4), np.nan, np.float32))
        if fault == "giant_relevance":
            return replace(joint, relevance=joint.relevance * np.float32(1e38))
        return joint


def _raise(fault: str) -> None:
    kinds = {"exception": RuntimeError, "memory_error": MemoryError, "os_error": OSError}
    raise kinds[fault]("on purpose")
