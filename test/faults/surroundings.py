"""Broken surroundings: the clock, and the other ends of the topics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage
from std_srvs.srv import Trigger

from faults.camera import broken_bytes
from faults.fault import Fault, see_again
from faults.moments import RUNNING
from faults.stage import Stage
from semflip.action import Ask
from semflip.msg import Query
from semflip_ros.messages import to_time
from support.live import START_NS, wait_until

SIMULATED = "simulated clock"


def _clock(stage: Stage, *seconds: float) -> None:
    for value in seconds:
        stage.robot.clock.publish(Clock(clock=to_time(START_NS + round(value * 1e9))))
        time.sleep(0.02)


def _absolute(stage: Stage, stamp_ns: int) -> None:
    stage.robot.clock.publish(Clock(clock=to_time(stamp_ns)))
    time.sleep(0.05)


def clock_faults() -> Iterator[Fault]:
    """A /clock that is silent, stops, races or jumps."""
    clock = partial(Fault, "clock", setting=SIMULATED)
    yield clock("silent", lambda stage: time.sleep(0.1), under="answer")
    yield clock("stopped", partial(_clock_steps, steps=(0.0, 0.0, 0.0)), see_again)
    yield clock("runs a hundredfold", partial(_clock_steps, steps=(0, 2, 4, 6, 8)), see_again)
    yield clock("a day ahead", partial(_clock_steps, steps=(0, 86_400)), see_again)
    yield clock("an hour back", partial(_clock_steps, steps=(7200, 3600)), see_again)
    yield clock("back and forth", partial(_clock_steps, steps=(0, 50, 1, 60, 2)), see_again)
    yield clock("trembles", partial(_clock_steps, steps=(1, 1.01, 1.0, 1.02, 1.01)), see_again)
    yield clock("zero", partial(_absolute, stamp_ns=0), see_again)
    yield clock("the last second there is", partial(_absolute, stamp_ns=2**31 * 10**9 - 1),
                see_again)  # fmt: skip


def _clock_steps(stage: Stage, steps: tuple[float, ...]) -> None:
    _clock(stage, *steps)


# The other ends of the topics --------------------------------------------------------------------


def _late_joiner(stage: Stage) -> None:
    """Who comes after a goal must not get it: it may be a minute old."""
    stage.ask("Where is the red thing?")
    late: list[Any] = []
    profile = QoSProfile(
        depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.VOLATILE
    )
    subscription = stage.robot.node.create_subscription(
        PoseStamped, "goal_pose", late.append, profile
    )
    wait_until(
        lambda: any(
            i.node_name == stage.robot.node.get_name()
            for i in stage.robot.node.get_subscriptions_info_by_topic(
                f"{stage.namespace}/goal_pose"
            )
        )
    )
    time.sleep(0.2)
    if late:
        stage.ledger.wrong_goals.append("a late joiner got an old goal")
    stage.robot.node.destroy_subscription(subscription)


def _duplicates(stage: Stage, count: int, pause_s: float) -> None:
    """The same id again and again: one goal, and the decision again each time."""
    goals = len(stage.robot.of("goal_pose"))
    chosen = stage.send("Where is the red thing?", repeat=True)
    for _ in range(count - 1):
        time.sleep(pause_s)
        stage.send("Where is the red thing?", chosen, repeat=True)
    stage.control.set()  # whatever moment it is, the encoder goes on
    stage.decided(chosen)
    time.sleep(0.1)
    given = len(stage.robot.of("goal_pose")) - goals
    own = [d for d in stage.robot.of("decision", chosen) if d.has_goal]
    if not own or given < 1:
        stage.ledger.other.append(f"{len(own)} answers and {given} goals of {count} askings")


def _other_words(stage: Stage) -> None:
    """An id used for two questions: the second is not answered with another goal."""
    chosen = stage.send("Where is the red thing?", repeat=True)
    stage.control.set()
    first = stage.decided(chosen)
    stage.robot.send("Where is the blue thing?", chosen)
    wait_until(lambda: len(stage.robot.of("decision", chosen)) > 1, what="the decision again")
    again = stage.robot.of("decision", chosen)[-1]
    if first is not None and (again.has_goal, again.question) != (first.has_goal, first.question):
        stage.ledger.other.append("one id, two questions, two decisions")


def _junk(stage: Stage, data: bytes) -> None:
    """Bytes that are none of our messages, on every topic."""
    stage.robot.publish_bytes(data)


def _unfitting(stage: Stage) -> None:
    """A camera of another reliability comes and goes."""
    profile = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    node = stage.robot.node
    publisher = node.create_publisher(CompressedImage, "image/compressed", profile)
    publisher.publish(stage.robot.picture("yellow"))
    node.destroy_publisher(publisher)


def _listener_gone(stage: Stage) -> None:
    """A process that asked and listened is not there any more."""
    other = Node("passer_by", context=stage.robot.node.context, namespace=stage.namespace)
    other.create_subscription(PoseStamped, "goal_pose", lambda _: None, 1)
    query = other.create_publisher(Query, "query", 10)
    wait_until(query.get_subscription_count)
    name = f"passer-{time.monotonic_ns()}"
    stage.asked[name] = "Where is the blue thing?"
    query.publish(Query(id=name, text="Where is the blue thing?"))
    wait_until(lambda: query.wait_for_all_acked() or True)
    other.destroy_node()
    stage.control.set()
    stage.decided(name)


def _namesake(stage: Stage) -> None:
    """A second node of the same name, with services of its own, comes and goes."""
    other = Node("refusal_node", context=stage.robot.node.context, namespace="/elsewhere")
    other.create_service(Trigger, "~/save_memory", lambda _, response: response)
    other.destroy_node()


def _caller_gone(stage: Stage) -> None:
    """A service is called by somebody who does not wait for the answer."""
    node = stage.robot.node
    client = node.create_client(Trigger, "refusal_node/save_memory")
    client.wait_for_service(10.0)
    client.call_async(Trigger.Request())
    node.destroy_client(client)


def _asker_gone(stage: Stage) -> None:
    """An action client leaves before its result."""
    client = stage.robot.action_client()
    client.wait_for_server(10.0)
    name = f"asker-{time.monotonic_ns()}"
    stage.asked[name] = "Where is the blue thing?"
    sent = client.send_goal_async(Ask.Goal(id=name, question="Where is the blue thing?"))
    wait_until(sent.done)
    client.destroy()
    stage.control.set()
    stage.decided(name)


def _cancelled(stage: Stage, times: int) -> None:
    """An action that is cancelled as soon as it is accepted, several times."""
    client = stage.robot.action_client()
    client.wait_for_server(10.0)
    for _ in range(times):
        query_id = f"cancel-{time.monotonic_ns()}"
        stage.asked[query_id] = "Where is the blue thing?"
        sent = client.send_goal_async(Ask.Goal(id=query_id, question="Where is the blue thing?"))
        wait_until(sent.done)
        cancelled = sent.result().cancel_goal_async()
        result = sent.result().get_result_async()
        stage.control.set()
        wait_until(lambda c=cancelled, r=result: c.done() and r.done(), what="a cancelled result")
        stage.decided(query_id)
    client.destroy()


def dds_faults() -> Iterator[Fault]:
    """Everything that the other ends of the topics may do."""
    made = partial(Fault, "dds", moments=RUNNING)
    yield made("late joiner", _late_joiner, moments=("idle", "ingest", "save"))
    yield made("id twice", partial(_duplicates, count=2, pause_s=0.0))
    yield made("id twenty times", partial(_duplicates, count=20, pause_s=0.0))
    yield made("id again a moment later", partial(_duplicates, count=3, pause_s=0.05))
    yield made("id for another question", _other_words)
    yield made("camera of another reliability", _unfitting)
    yield made("asker gone", _listener_gone)
    yield made("namesake", _namesake)
    yield made("service caller gone", _caller_gone)
    yield made("action client gone", _asker_gone)
    yield made("action cancelled", partial(_cancelled, times=1))
    yield made("action cancelled ten times", partial(_cancelled, times=10))
    for name, data in broken_bytes().items():
        yield made(f"every topic: {name}", partial(_junk, data=data))
