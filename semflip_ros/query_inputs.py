"""The ways in which a question reaches the node: two topics and an action."""

from __future__ import annotations

import threading
import time
from typing import Any

from rclpy.action.server import ActionServer, CancelResponse
from rclpy.callback_groups import CallbackGroup
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode
from rclpy.subscription import Subscription
from std_msgs.msg import String

from semflip.action import Ask
from semflip.msg import Query
from semflip_core.decision import Decision, Reason
from semflip_ros.messages import decision_message, wire_text
from semflip_ros.outlets import RELIABLE
from semflip_ros.queries import PendingQuery, QueryDesk

#: Steps that worker and agent name; any other progress is the answer's text so far.
STATES = ("queued", "features", "recall", "encode", "gate", "locate", "decide", "answer")


class QueryTopics:
    """Subscriptions of ``query`` and ``query_text``; they exist from configure on."""

    def __init__(self, node: LifecycleNode, desk: QueryDesk, group: CallbackGroup) -> None:
        self._node = node

        def query(message: Query) -> None:
            desk.ask(message.text, message.id)

        def query_text(message: String) -> None:
            desk.ask(message.data)

        self._subscriptions: list[Subscription[Any]] = [
            node.create_subscription(kind, topic, callback, RELIABLE, callback_group=group)
            for kind, topic, callback in (
                (Query, "query", query),
                (String, "query_text", query_text),
            )
        ]

    def close(self) -> None:
        """End the subscriptions."""
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)


class AskAction:
    """The ``ask`` action: question in, feedback while it runs, decision out.

    No callback waits: an accepted goal is put on the desk, and its result is set when the desk has
    its decision. A cancelled one is refused with CANCELLED once the middleware says so.
    """

    def __init__(
        self, node: LifecycleNode, desk: QueryDesk, group: CallbackGroup, *, global_frame: str
    ) -> None:
        self._node = node
        self._desk = desk
        self._global_frame = global_frame
        self._lock = threading.Lock()
        self._asked: dict[bytes, PendingQuery] = {}
        self._decided: dict[bytes, Decision] = {}
        self._server: ActionServer[Any, Any, Any] = ActionServer(
            node,
            Ask,
            "ask",
            self._finish,
            callback_group=group,
            handle_accepted_callback=self._accept,
            cancel_callback=self._cancel,
        )

    def _accept(self, handle: Any) -> None:
        began = time.monotonic()

        def progress(step: str) -> None:
            if not handle.is_active:
                return  # cancelled or timed out; the worker has not noticed yet
            feedback = Ask.Feedback()
            feedback.state = step if step in STATES else "answer"
            feedback.partial_answer = "" if step in STATES else wire_text(step)
            feedback.elapsed = Duration(seconds=time.monotonic() - began).to_msg()
            handle.publish_feedback(feedback)

        key = bytes(handle.goal_id.uuid)

        def decided(decision: Decision) -> None:
            with self._lock:
                self._decided[key] = decision
                self._asked.pop(key, None)
            handle.execute()

        pending = self._desk.ask(
            handle.request.question, handle.request.id, on_progress=progress, on_decision=decided
        )
        with self._lock:
            if key not in self._decided:
                self._asked[key] = pending

    def _cancel(self, handle: Any) -> CancelResponse:
        with self._lock:
            pending = self._asked.get(bytes(handle.goal_id.uuid))
        if pending is None:
            return CancelResponse.REJECT
        self._desk.cancel(pending, lambda: bool(handle.is_cancel_requested))
        return CancelResponse.ACCEPT

    def _finish(self, handle: Any) -> Any:
        with self._lock:
            decision = self._decided.pop(bytes(handle.goal_id.uuid))
        stamp = self._node.get_clock().now().to_msg()
        result = Ask.Result()
        result.decision = decision_message(decision, stamp, self._global_frame)
        if decision.reason is Reason.CANCELLED and handle.is_cancel_requested:
            handle.canceled()
        else:
            handle.succeed()
        return result

    def close(self) -> None:
        """End the action server."""
        self._server.destroy()
