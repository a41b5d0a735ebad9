"""Broken pose sources: missing, stale, not finite, jumping, of another part of the robot."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any

from faults.camera import BROKEN_X, broken_bytes
from faults.fault import Fault, see_again
from faults.stage import NEVER, Stage
from support.odometry import odometry

Change = Callable[[Any], None]
NAN, INF = math.nan, math.inf


def _position(**values: float) -> Change:
    def change(message: Any) -> None:
        for name, value in values.items():
            setattr(message.pose.pose.position, name, value)

    return change


def _turn(**values: float) -> Change:
    def change(message: Any) -> None:
        for name, value in values.items():
            setattr(message.pose.pose.orientation, name, value)

    return change


def _frame(name: str) -> Change:
    return lambda message: setattr(message.header, "frame_id", name)


def _child(name: str) -> Change:
    return lambda message: setattr(message, "child_frame_id", name)


CHANGES: dict[str, Change] = {
    "nan_position": _position(y=NAN),
    "infinite_position": _position(x=INF),
    "giant_position": _position(x=1e308),
    "opposite_giants": _position(x=-1e308, y=1e308),
    "beyond_the_earth": _position(x=1e9),
    "nan_turn": _turn(z=NAN),
    "infinite_turn": _turn(w=INF),
    "zero_turn": _turn(w=0.0),
    "turn_too_long": _turn(w=2.0),
    "turn_too_short": _turn(w=0.9),
    "giant_turn": _turn(x=1e200, w=1e200),
    "empty_frame": _frame(""),
    "other_frame": _frame("odom"),
    "frame_of_escapes": _frame("\x1b[2J\nmap"),
    "endless_frame": _frame("map" * 5000),
    "other_part": _child("gripper"),
    "part_that_forges_a_line": _child("x\n[INFO] [refusal_node]: query 'a': answer"),
}


def _steering(step: Callable[..., None]) -> Callable[..., None]:
    """Only this drives meanwhile: the stamps of the stream go on after it."""

    @wraps(step)
    def alone(stage: Stage, **values: Any) -> None:
        with stage.robot.wheel:
            step(stage, **values)

    return alone


def _around(stage: Stage, before: Any, after: Any) -> None:
    """A yellow picture between two messages of a broken source."""
    robot = stage.robot

    def publish() -> None:
        robot.poses.publish(before)
        robot.publish_picture(robot.picture(NEVER))
        robot.poses.publish(after)

    if robot.poses.get_subscription_count():
        robot.until_noticed(publish, robot.pose_messages)
    else:
        publish()  # nobody listens while it is being activated


@_steering
def changed(stage: Stage, change: Change) -> None:
    """Both poses broken in the same way."""
    stage.robot.time_ns += 1_000_000_000
    now = stage.robot.time_ns
    both = [odometry(BROKEN_X, now - 10**8), odometry(BROKEN_X, now + 10**8)]
    for message in both:
        change(message)
    _around(stage, *both)


@_steering
def jumped(stage: Stage, metres: float, turn: float) -> None:
    """The localiser corrects itself while a picture is taken."""
    stage.robot.time_ns += 1_000_000_000
    now = stage.robot.time_ns
    after = odometry(BROKEN_X + metres, now + 10**8)
    _turn(z=math.sin(turn / 2), w=math.cos(turn / 2))(after)
    _around(stage, odometry(BROKEN_X, now - 10**8), after)


@_steering
def shifted(stage: Stage, before_s: float, after_s: float) -> None:
    """Poses whose stamps are not those of their time."""
    stage.robot.time_ns += 1_000_000_000
    now = stage.robot.time_ns
    stamps = [max(0, now + round(s * 10**9)) for s in (before_s, after_s)]
    _around(stage, *(odometry(BROKEN_X, stamp) for stamp in stamps))


@_steering
def missing(stage: Stage) -> None:
    """A picture, and no pose at all."""
    robot = stage.robot
    robot.time_ns += 1_000_000_000
    robot.publish_picture(robot.picture(NEVER))


@_steering
def malformed(stage: Stage, data: bytes) -> None:
    """Bytes that are no odometry, and a yellow picture."""
    _around(stage, odometry(BROKEN_X, 0), data)


@_steering
def flood(stage: Stage) -> None:
    """A thousand poses at once."""
    now = stage.robot.time_ns
    for number in range(1000):
        stage.robot.poses.publish(odometry(BROKEN_X, now + number))


def faults() -> Iterator[Fault]:
    """Every broken pose source."""
    for name, change in CHANGES.items():
        yield Fault("poses", name, partial(changed, change=change))
    for name, data in broken_bytes().items():
        yield Fault("poses", name, partial(malformed, data=data))
    yield Fault("poses", "missing", missing)
    yield Fault("poses", "jump_of_a_kilometre", partial(jumped, metres=1000.0, turn=0.0))
    yield Fault("poses", "jump_of_three_metres", partial(jumped, metres=3.0, turn=0.0))
    yield Fault("poses", "half_a_turn_at_once", partial(jumped, metres=0.0, turn=math.pi))
    yield Fault("poses", "stamps_zero", partial(shifted, before_s=-1e11, after_s=-1e11))
    yield Fault("poses", "stale", partial(shifted, before_s=-0.9, after_s=-0.9))
    yield Fault("poses", "too_far_apart", partial(shifted, before_s=-0.6, after_s=0.6))
    yield Fault("poses", "far_ahead", partial(shifted, before_s=1e7, after_s=1e7), see_again)
    yield Fault("poses", "an_hour_back", partial(shifted, before_s=-3600, after_s=-3599), see_again)
    yield Fault("poses", "flood", flood, see_again)
