"""Queue, deadlines and the action of a node whose encoder takes its time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("semflip.msg", reason="messages are not built")


from semflip.action import Ask
from support.live import Robot, active_robot, wait_until

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def slow(tmp_path_factory, slow_gate_file) -> Iterator[Robot]:
    """An active node with a deadline of 2 s and room for two waiting questions."""
    with active_robot(
        tmp_path_factory.mktemp("slow"),
        slow_gate_file,
        encoder="support.slow_colours:SlowColours",
        query_deadline_s=2.0,
        query_queue=2,
        decision__answer_tokens=4,
    ) as (_, robot):
        robot.show("red", x=0.0)
        robot.wait_for_keyframes(1)
        yield robot


def test_too_many_questions_are_overloaded_and_the_others_answered(slow) -> None:
    first = slow.send("red for 0.7 seconds")
    time.sleep(0.2)
    others = [slow.send("Where is the red thing?") for _ in range(4)]
    reasons = [slow.decision(query_id).reason for query_id in others]
    assert reasons == ["", "", "OVERLOADED", "OVERLOADED"]
    assert slow.decision(first).verdict == "answer"


def test_a_missed_deadline_is_a_timeout_and_the_late_answer_never_comes(slow) -> None:
    goals = len(slow.of("goal_pose"))
    asked = time.monotonic()
    query_id = slow.send("red for 2.6 seconds")
    assert slow.decision(query_id).reason == "TIMEOUT"
    assert time.monotonic() - asked > 1.9
    time.sleep(1.2)
    assert len(slow.of("decision", query_id)) == 1
    assert len(slow.of("refusal", query_id)) == 1
    assert len(slow.of("goal_pose")) == goals


def test_a_running_question_starves_neither_services_nor_diagnostics_nor_the_camera(slow) -> None:
    running = slow.send("red for 1.5 seconds")
    time.sleep(0.2)
    before = slow.keyframes()
    slow.show("green", x=before * 1.0 + 10.0)
    slow.wait_for_keyframes(before + 1)
    heard = slow.health.get("queries")
    wait_until(lambda: slow.health.get("queries") is not heard, what="fresh diagnostics")
    assert not slow.of("decision", running), "the question ended too early to show anything"
    assert slow.decision(running).verdict == "answer"


class Asker:
    """An action client of the robot's node."""

    def __init__(self, robot: Robot) -> None:
        self.states: list[str] = []
        self.words: list[str] = []
        self.client = robot.action_client()
        assert self.client.wait_for_server(10.0)

    def send(self, question: str, query_id: str = "") -> Any:
        goal = Ask.Goal(id=query_id, question=question)

        def told(message: Any) -> None:
            self.states.append(message.feedback.state)
            self.words.append(message.feedback.partial_answer)

        future = self.client.send_goal_async(goal, feedback_callback=told)
        wait_until(future.done)
        assert future.result().accepted
        return future.result()


@pytest.fixture
def asker(slow) -> Iterator[Asker]:
    made = Asker(slow)
    yield made
    made.client.destroy()


def test_the_action_gives_feedback_and_the_decision_that_is_published_too(slow, asker) -> None:
    handle = asker.send("red for 0.3 seconds", "by_action")
    result = handle.get_result_async()
    wait_until(result.done)
    decision = result.result().result.decision
    assert decision.verdict == "answer"
    assert decision.query_id == "by_action"
    assert result.result().status == 4  # SUCCEEDED
    assert slow.decision("by_action").score == decision.score
    assert "queued" in asker.states
    assert "encode" in asker.states
    assert decision.answer == "over there on the"
    # rclpy drops feedback that comes after the final status; the result has the whole answer.
    wait_until(lambda: any(asker.words), what="words of the answer")
    heard = {words for words in asker.words if words}
    assert heard <= {"over", "over there", "over there on", "over there on the"}


def test_a_cancelled_action_ends_at_once_with_cancelled(slow, asker) -> None:
    goals = len(slow.of("goal_pose"))
    handle = asker.send("red for 1.5 seconds", "cancelled")
    time.sleep(0.3)
    next_one = slow.send("Where is the yellow thing?")
    cancelling = handle.cancel_goal_async()
    result = handle.get_result_async()
    wait_until(lambda: cancelling.done() and result.done())
    assert not slow.of("decision", next_one), "it waited for the encoder"
    assert result.result().status == 5  # CANCELED
    assert result.result().result.decision.reason == "CANCELLED"
    assert slow.decision("cancelled").reason == "CANCELLED"
    assert slow.decision(next_one).reason == "ABSENT"  # so the encoder has finished the other
    assert len(slow.of("decision", "cancelled")) == 1
    assert len(slow.of("goal_pose")) == goals


def test_a_queued_action_can_be_cancelled_before_it_runs(slow, asker) -> None:
    running = slow.send("red for 0.8 seconds")
    time.sleep(0.1)
    handle = asker.send("Where is the red thing?", "queued")
    handle.cancel_goal_async()
    result = handle.get_result_async()
    wait_until(result.done)
    assert result.result().result.decision.reason == "CANCELLED"
    assert slow.decision(running).verdict == "answer"


def test_a_finished_action_cannot_be_cancelled(slow, asker) -> None:
    handle = asker.send("Where is the red thing?")
    result = handle.get_result_async()
    wait_until(result.done)
    cancelling = handle.cancel_goal_async()
    wait_until(cancelling.done)
    assert not cancelling.result().goals_canceling
    assert slow.ask("Where is the red thing?").verdict == "answer"
