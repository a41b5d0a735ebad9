"""The moments at which a fault strikes, each held open by an event, never by a sleep."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lifecycle_msgs.msg import Transition
from std_srvs.srv import Trigger

from faults.stage import PATIENCE_S, Stage
from support.live import wait_until

IDLE, INGEST, QUERY, SAVE, ACTIVATION = "idle", "ingest", "query", "save", "activation"
MOMENTS = (IDLE, INGEST, QUERY, SAVE, ACTIVATION)
RUNNING = (IDLE, INGEST, QUERY, SAVE)
#: Where the camera's stream drives: far from the colours.
STREAM_X = 20.0


@contextmanager
def during(stage: Stage, moment: str) -> Iterator[None]:
    """The node is in this moment while the block runs.

    A question that runs meanwhile is judged like any other; an activation must succeed in the end.
    """
    moments: dict[str, Callable[[Stage], object]] = {
        INGEST: _streaming,
        QUERY: _questioned,
        SAVE: _saving,
        ACTIVATION: _activating,
    }
    if moment == IDLE:
        yield
        return
    with moments[moment](stage):  # type: ignore[attr-defined]
        yield


@contextmanager
def _repeating(step: Callable[[int], None]) -> Iterator[None]:
    stop = threading.Event()

    def run() -> None:
        number = 0
        while not stop.wait(0.03):
            step(number)
            number += 1

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def _streaming(stage: Stage) -> Iterator[None]:
    robot = stage.robot

    def step(number: int) -> None:
        robot.drive(STREAM_X + number % 40, robot.picture)

    before = robot.camera_messages()
    with _repeating(step):
        wait_until(lambda: robot.camera_messages() > before or not stage.alive(), PATIENCE_S)
        yield


@contextmanager
def _questioned(stage: Stage) -> Iterator[None]:
    stage.control.set(hold="encode")
    running = stage.send("Where is the green thing?")
    wait_until(
        lambda: stage.control.held.exists() or stage.robot.of("decision", running), PATIENCE_S
    )
    yield
    if stage.control.holding:
        stage.control.set()
    if stage.alive():
        stage.decided(running)


@contextmanager
def _saving(stage: Stage) -> Iterator[None]:
    robot = stage.robot
    client = robot.node.create_client(Trigger, "refusal_node/save_memory")
    client.wait_for_service(PATIENCE_S)
    pending = [client.call_async(Trigger.Request())]

    def step(_: int) -> None:
        if pending[-1].done():
            pending[:] = [client.call_async(Trigger.Request())]

    robot.drive(STREAM_X, robot.picture)  # something to save
    with _repeating(step):
        yield
    if stage.alive():
        wait_until(pending[-1].done, PATIENCE_S, "the last save")
    robot.node.destroy_client(client)


@contextmanager
def _activating(stage: Stage) -> Iterator[None]:
    assert stage.robot.change_state(Transition.TRANSITION_DEACTIVATE)
    stage.control.set(hold="load")
    activation = stage.robot.start_transition(Transition.TRANSITION_ACTIVATE)
    wait_until(lambda: stage.control.held.exists() or activation.done(), PATIENCE_S)
    yield
    if stage.control.holding:
        stage.control.set()
    if stage.alive():
        wait_until(activation.done, PATIENCE_S, "the activation")
        if not activation.result().success:
            stage.ledger.other.append("the activation failed")
        stage.robot.wait_for_camera()
