"""Broken encoders and gate files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from lifecycle_msgs.msg import Transition

from faults.breakable import ENCODE_FAULTS, FRAME_FAULTS, LOAD_FAULTS
from faults.fault import Fault, Step
from faults.moments import ACTIVATION, RUNNING, STREAM_X
from faults.stage import Stage
from semflip_core.gate import HEADER_KEY
from support.live import wait_until

#: Encoder faults under which an answer is right: they only cost time or a picture's region.
HARMLESS = ("slow", "nan_regions", "integers")
#: What ends the worker's thread by design, and the node with it.
ENDING = ("system_exit", "keyboard_interrupt")
NOT_ACTIVE = "NOT_ACTIVE"


def _whole(stage: Stage) -> None:
    stage.control.set()


def _encode(stage: Stage, fault: str) -> None:
    """From now on the encoder breaks; a question that it holds goes on into the fault."""
    stage.control.set(encode=fault)


def _frame(stage: Stage, fault: str) -> None:
    """A picture whose features cannot be made, and the next one."""
    stage.control.set(frame=fault)
    _drive_past(stage, stage.robot.picture)


def _unreadable(stage: Stage) -> None:
    """A picture that the encoder can never read, while it reads every other."""
    _drive_past(stage, lambda: stage.robot.picture("yellow", "yellow", "yellow"))


def _drive_past(stage: Stage, picture: Callable[[], Any]) -> None:
    seen = stage.robot.camera_messages()
    stage.robot.drive(STREAM_X, picture)
    wait_until(lambda: stage.robot.camera_messages() > seen or not stage.alive(), what="a picture")


def _activation_fails(stage: Stage, spoil: Step, mend: Step, may_activate: bool = False) -> None:
    """Deactivate, break, activate in vain, ask the node, mend, activate.

    Args:
        may_activate: it shows at the first question only, which must be refused then.
    """
    robot = stage.robot
    assert robot.change_state(Transition.TRANSITION_DEACTIVATE)
    spoil(stage)
    activated = robot.change_state(Transition.TRANSITION_ACTIVATE)
    if activated and not may_activate:
        stage.ledger.other.append("it activated all the same")
    if robot.state() != ("active" if activated else "inactive"):
        stage.ledger.other.append(f"it is {robot.state()}")
    decision = stage.ask("Where is the red thing?")
    if decision is not None and decision.verdict != "refuse":
        stage.ledger.other.append("it answered")
    if decision is not None and not activated and decision.reason != NOT_ACTIVE:
        stage.ledger.other.append(f"an inactive node said {decision.reason}")
    mend(stage)
    if activated:
        assert robot.change_state(Transition.TRANSITION_DEACTIVATE)
    assert robot.change_state(Transition.TRANSITION_ACTIVATE)
    robot.wait_for_camera()


def encoder_faults() -> Iterator[Fault]:
    """Everything that an encoder may do wrong."""
    for name in ENCODE_FAULTS:
        if name in ENDING:
            continue
        under = "answer" if name in HARMLESS else "refuse"
        if name in ("giant_relevance", "integers"):
            under = "any"
        yield Fault(
            "encoder", f"encode: {name}", partial(_encode, fault=name), _whole, RUNNING, under
        )
    for name in FRAME_FAULTS:
        yield Fault(
            "encoder", f"features: {name}", partial(_frame, fault=name), _whole, RUNNING, "any"
        )
    yield Fault(
        "encoder", "features: one never readable", _unreadable, moments=RUNNING, under="answer"
    )
    for name in LOAD_FAULTS:
        spoil = partial(_load, fault=name)
        step = partial(_activation_fails, spoil=spoil, mend=_whole)
        yield Fault("encoder", f"load: {name}", step, moments=(ACTIVATION,), by_hand=True)


def _load(stage: Stage, fault: str) -> None:
    stage.control.set(load=fault)


# Gate files --------------------------------------------------------------------------------------


def _header(**changes: Any) -> Callable[[bytes], bytes]:
    """The gate with fields of its header changed; None takes a field away."""

    def spoil(good: bytes) -> bytes:
        size = int.from_bytes(good[:8], "little")
        outer = json.loads(good[8 : 8 + size])
        inner = json.loads(outer["__metadata__"][HEADER_KEY])
        for name, value in changes.items():
            if value is None:
                inner.pop(name)
            else:
                inner[name] = value
        outer["__metadata__"][HEADER_KEY] = json.dumps(inner)
        text = json.dumps(outer).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text + good[8 + size :]

    return spoil


def _tensors(change: Callable[[dict[str, Any]], None]) -> Callable[[bytes], bytes]:
    """The gate with tensors changed, its header as it was."""

    def spoil(good: bytes) -> bytes:
        from safetensors.numpy import load, save

        size = int.from_bytes(good[:8], "little")
        metadata = json.loads(good[8 : 8 + size])["__metadata__"]
        tensors = dict(load(good))
        change(tensors)
        return bytes(save(tensors, metadata=metadata))

    return spoil


def _fill(name: str, value: float) -> Callable[[dict[str, Any]], None]:
    return lambda tensors: tensors.update({name: np.full_like(tensors[name], value)})


def _cast(kind: Any) -> Callable[[dict[str, Any]], None]:
    return lambda tensors: tensors.update({k: v.astype(kind) for k, v in tensors.items()})


def gates() -> dict[str, Callable[[bytes], bytes]]:
    """Gate files that no node may run with."""
    other = {"encoder.name": "another encoder"}
    return {
        "empty": lambda good: b"",
        "cut_in_header": lambda good: good[:100],
        "cut_in_weights": lambda good: good[:-50],
        "padded": lambda good: good + bytes(64),
        "endless_header": lambda good: (2**60).to_bytes(8, "little") + good[8:],
        "header_of_braces": lambda good: (80_000).to_bytes(8, "little") + b'{"a":' * 16_000,
        "garbage": lambda good: bytes(range(256)) * 4,
        "pickle": lambda good: b"\x80\x04cos\nsystem\n(S'true'\ntR.",
        "text": lambda good: b"version https://git-lfs.github.com/spec/v1\n",
        "nan_weights": _tensors(_fill("layer1.weight", np.nan)),
        "infinite_bias": _tensors(_fill("layer3.bias", np.inf)),
        "nan_distance": _tensors(_fill("distance.mean", np.nan)),
        "zero_scale": _tensors(_fill("input.scale", 0.0)),
        "negative_floor": _tensors(_fill("distance.floor", -1.0)),
        "giant_weights": _tensors(_fill("layer1.weight", 3e38)),
        "half_precision": _tensors(_cast(np.float16)),
        "tensor_missing": _tensors(lambda tensors: tensors.pop("layer2.bias")),
        "tensor_unknown": _tensors(lambda tensors: tensors.update(extra=np.ones(3, np.float32))),
        "wrong_shape": _tensors(lambda tensors: tensors.update(
            {"layer2.weight": np.ones((5, 3, 3), np.float32)})),
        "other_fingerprint": _header(fingerprint=other),
        "no_fingerprint": _header(fingerprint=None),
        "tau_nan": _header(tau=float("nan")),
        "tau_one": _header(tau=1.0),
        "tau_above_one": _header(tau=7.5),
        "tau_negative": _header(tau=-0.1),
        "tau_text": _header(tau="0.5x"),
        "limit_infinite": _header(distance_limit=float("inf")),
        "limit_zero": _header(distance_limit=0.0),
        "temperature_zero": _header(temperature=0.0),
        "members_differ": _header(members=4),
        "no_members": _header(members=0),
        "dimension_differs": _header(dimension=4),
        "newer_format": _header(format=2),
        "unknown_field": _header(allow_everything=True),
    }  # fmt: skip


def _in_place(stage: Stage, spoil: Callable[[bytes], bytes]) -> None:
    """Overwrite the file itself, not its name: whoever mapped it would see that."""
    data = spoil(stage.good_gate.read_bytes())
    with stage.gate.open("r+b") as file:
        file.write(data)
        file.truncate(len(data))


def _gone(stage: Stage) -> None:
    stage.gate.unlink()


def _folder(stage: Stage) -> None:
    stage.gate.unlink()
    stage.gate.mkdir()


def _no_folder(stage: Stage) -> None:
    if stage.gate.is_dir():
        stage.gate.rmdir()
    stage.restore_gate()


def _fifo(stage: Stage) -> None:
    stage.gate.unlink()
    os.mkfifo(stage.gate)


def _restored(stage: Stage) -> None:
    stage.gate.unlink(missing_ok=True)
    stage.restore_gate()


def gate_faults() -> Iterator[Fault]:
    """Files that must not activate, and files swapped while the node runs on the old one."""
    for name, spoil in gates().items():
        step = partial(
            _activation_fails,
            spoil=partial(_in_place, spoil=spoil),
            mend=Stage.restore_gate,
            may_activate=name == "giant_weights",
        )
        yield Fault("gate", name, step, moments=(ACTIVATION,), by_hand=True)
    for name, inject, mend in (
        ("missing", _gone, _restored),
        ("a_folder", _folder, _no_folder),
        ("a_fifo", _fifo, _restored),
    ):
        step = partial(_activation_fails, spoil=inject, mend=mend)
        yield Fault("gate", name, step, moments=(ACTIVATION,), by_hand=True)
    refusing = partial(_in_place, spoil=_header(tau=0.0))
    swaps = {
        "swapped: cut to nothing": partial(_in_place, spoil=lambda good: b""),
        "swapped: garbage": partial(_in_place, spoil=gates()["garbage"]),
        "swapped: nan weights": partial(_in_place, spoil=gates()["nan_weights"]),
        "swapped: refuses all": refusing,
        "swapped: removed": _gone,
    }
    for name, inject in swaps.items():
        yield Fault("gate", name, inject, _restored, RUNNING, "answer")
