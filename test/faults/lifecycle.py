"""Random lifecycle transitions under traffic: the standard's state machine, and nothing leaks."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from typing import Any

from lifecycle_msgs.msg import Transition

from faults.moments import STREAM_X
from faults.stage import PATIENCE_S, Stage
from support.live import wait_until

CONFIGURE, ACTIVATE = Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE
DEACTIVATE, CLEANUP = Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP
#: The standard's primary states (design.ros2.org, managed nodes): what each transition leads to.
STANDARD: dict[str, dict[int, str]] = {
    "unconfigured": {CONFIGURE: "inactive"},
    "inactive": {ACTIVATE: "active", CLEANUP: "unconfigured"},
    "active": {DEACTIVATE: "inactive"},
}
STEPS = (CONFIGURE, ACTIVATE, DEACTIVATE, CLEANUP)
#: What the traffic asks; the memory may still show it when the first question comes.
QUESTION = "Where is the red thing?"
#: Threads and handles that the middleware may still be giving back; a leak grows beyond any.
SLACK = 4


class Traffic:
    """Pictures, poses and questions that never stop, whatever state the node is in."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.asked = 0

    def _run(self) -> None:
        robot = self._stage.robot
        while not self._stop.wait(0.03):
            robot.drive(STREAM_X + self.asked % 40, robot.picture)
            robot.send(QUESTION, f"traffic-{self.asked}")
            self.asked += 1

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def sequences(stage: Stage, count: int, seed: int) -> dict[str, Any]:
    """So many random sequences of transitions, some of them forbidden, under traffic."""
    rng = random.Random(seed)
    taken: Counter[str] = Counter()
    _bring(stage, "active")
    before = _handles(stage)
    state, transitions = "active", 0
    with Traffic(stage) as traffic:
        for _ in range(count):
            for _ in range(rng.randint(2, 5)):
                step = rng.choice(STEPS)
                expected = STANDARD[state].get(step)
                done = stage.robot.change_state(step)
                transitions += 1
                taken["allowed" if expected else "forbidden"] += 1
                if done != (expected is not None):
                    stage.ledger.other.append(f"{step} in {state}: success {done}")
                state = expected or state
            said = stage.robot.state()
            if said != state:
                stage.ledger.other.append(f"it is {said}, the standard says {state}")
                state = said
    _bring(stage, "active")
    for name in (f"traffic-{number}" for number in range(traffic.asked)):
        if any(decision.has_goal for decision in stage.robot.of("decision", name)):
            stage.asked[name] = QUESTION  # judged like the others, or its goal would be nobody's
    stage.robot.connect()
    stage.robot.wait_for_camera()
    stage.show_truth()
    after = _settled(stage, before)
    for name, value in after.items():
        if value > before[name] + SLACK:
            stage.ledger.other.append(f"{name}: {before[name]} before, {value} after")
    stage.check_health()
    return {
        "sequences": count,
        "transitions": transitions,
        "allowed": taken["allowed"],
        "forbidden": taken["forbidden"],
        "questions asked meanwhile": traffic.asked,
        "before": before,
        "after": after,
        "seed": seed,
    }


def _handles(stage: Stage) -> dict[str, int]:
    node = stage.robot.node
    name, namespace = "refusal_node", stage.namespace
    return {
        "threads": stage.threads(),
        "file handles": stage.open_files(),
        "subscriptions": len(node.get_subscriber_names_and_types_by_node(name, namespace)),
        "publishers": len(node.get_publisher_names_and_types_by_node(name, namespace)),
        "services": len(node.get_service_names_and_types_by_node(name, namespace)),
        "processes": len(stage.children()),
    }


def _settled(stage: Stage, before: dict[str, int]) -> dict[str, int]:
    """The counts once the middleware has given back what it gives back."""
    end = time.monotonic() + 10.0
    while True:
        now = _handles(stage)
        if time.monotonic() > end or all(now[k] <= before[k] for k in now):
            return now
        time.sleep(0.2)


def _bring(stage: Stage, wanted: str) -> None:
    """From any primary state to active."""
    while (state := stage.robot.state()) != wanted:
        step = {"unconfigured": CONFIGURE, "inactive": ACTIVATE}[state]
        done = stage.robot.change_state(step)
        wait_until(lambda d=done: d, PATIENCE_S, f"a transition from {state}")
