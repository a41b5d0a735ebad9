"""Client: ask a running refusal node, print its decision.

Exit codes: 0 every question got a goal; 1 some question was refused; 3 no decision came in time,
which a client treats as a refusal (DESIGN section 5.3); 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import rclpy
from rclpy.action.client import ActionClient
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.utilities import remove_ros_args

from semflip.action import Ask
from semflip.msg import Decision as DecisionMsg
from semflip.msg import Query
from semflip_core.decision import Decision, Reason, Verdict, refuse
from semflip_core.questions import printable
from semflip_ros.messages import decision_from, wire_text
from semflip_ros.outlets import RELIABLE
from semflip_ros.process import teardown

REFUSED, SILENT = 1, 3
#: How often the graph is looked at while waiting for the node; seconds.
LOOK_S = 0.02


class AskClient:
    """Sends questions to a running node and waits for their decisions.

    Args:
        node: an rclpy node that nobody else spins.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(node)
        self._decisions: dict[str, Decision] = {}
        self._query = node.create_publisher(Query, "query", RELIABLE)
        self._listening = node.create_subscription(DecisionMsg, "decision", self._receive, RELIABLE)
        self._action: ActionClient[Any, Any, Any] | None = None

    def _receive(self, message: DecisionMsg) -> None:
        self._decisions[message.query_id] = decision_from(message)

    def _spin_until(self, done: Callable[[], bool], end: float) -> bool:
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._executor.spin_once(timeout_sec=min(left, LOOK_S))
        return True

    def connect(self, timeout_s: float) -> bool:
        """Wait until the node hears questions and its decisions are heard."""
        return self._spin_until(
            lambda: (
                self._query.get_subscription_count() > 0
                and self._node.count_publishers(self._listening.topic_name) > 0
            ),
            time.monotonic() + timeout_s,
        )

    def ask(self, question: str, *, timeout_s: float, query_id: str = "") -> Decision | None:
        """Ask on the topic ``query``; None where no decision came within the timeout."""
        chosen = query_id or str(uuid.uuid4())
        self._decisions.pop(chosen, None)
        self._query.publish(Query(id=wire_text(chosen), text=wire_text(question)))
        self._spin_until(lambda: chosen in self._decisions, time.monotonic() + timeout_s)
        return self._decisions.get(chosen)

    def ask_by_action(
        self,
        question: str,
        *,
        timeout_s: float,
        query_id: str = "",
        on_state: Callable[[str, str], None] | None = None,
    ) -> Decision | None:
        """Ask with the action ``ask``; cancels it when the timeout passes.

        Args:
            on_state: told each step and the answer's words so far.
        """
        if self._action is None:
            self._action = ActionClient(self._node, Ask, "ask")
        end = time.monotonic() + timeout_s
        if not self._spin_until(self._action.server_is_ready, end):
            return None

        def told(message: Any) -> None:
            if on_state is not None:
                on_state(message.feedback.state, message.feedback.partial_answer)

        goal = Ask.Goal(id=wire_text(query_id), question=wire_text(question))
        sent = self._action.send_goal_async(goal, feedback_callback=told)
        if not self._spin_until(sent.done, end):
            return None
        handle: Any = sent.result()
        if not handle.accepted:
            return None
        result = handle.get_result_async()
        if not self._spin_until(result.done, end):
            cancelling = handle.cancel_goal_async()
            self._spin_until(cancelling.done, time.monotonic() + 1.0)
            return None
        outcome: Any = result.result()
        return decision_from(outcome.result.decision)

    def close(self) -> None:
        """Release the node's share of the client."""
        if self._action is not None:
            self._action.destroy()
        self._executor.shutdown()


def describe(decision: Decision) -> str:
    """A decision in a few lines for a terminal."""
    score = ""
    if math.isfinite(decision.score):
        sign = "<=" if decision.score <= decision.threshold else ">"
        score = f"  (score {decision.score:.3f} {sign} {decision.threshold:.3f})"
    lines = [f"Q: {printable(decision.question)}"]
    if decision.verdict is Verdict.ANSWER and decision.goal is not None:
        x, y, _ = decision.goal.position
        turn = math.degrees(decision.goal.yaw)
        lines.append(
            f"   goal in {printable(decision.goal.frame_id)}: "
            f"x {x:.2f} m, y {y:.2f} m, yaw {turn:.0f} deg{score}"
        )
        if decision.answer:
            lines.append(f"   answer: {printable(decision.answer)}")
    else:
        reason = decision.reason.value if decision.reason else ""
        lines.append(f"   {decision.statement} [{reason}]: {printable(decision.sentence)}{score}")
    for item in decision.evidence[:1]:
        lines.append(f"   saw: keyframe {item.keyframe_id} at {item.stamp_ns / 1e9:.3f} s")
    if decision.threshold_overridden:
        lines.append("   threshold set by hand: the calibration statement does not hold")
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ask", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", nargs="+", metavar="QUESTION")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds for each question")
    parser.add_argument(
        "--connect-timeout", type=float, default=10.0, help="seconds to find the node"
    )
    parser.add_argument("--id", default="", help="query id, for a single question")
    parser.add_argument("--action", action="store_true", help="use the action, with feedback")
    return parser


def _ask(client: AskClient, question: str, options: argparse.Namespace) -> Decision | None:
    if not options.action:
        return client.ask(question, timeout_s=options.timeout, query_id=options.id)

    def show(state: str, words: str) -> None:
        print(f"   ... {state} {printable(words)}".rstrip(), file=sys.stderr)

    return client.ask_by_action(
        question, timeout_s=options.timeout, query_id=options.id, on_state=show
    )


def _ask_all(client: AskClient, options: argparse.Namespace) -> int:
    if not options.action and not client.connect(options.connect_timeout):
        print(
            f"no refusal node listens on 'query' within {options.connect_timeout:.0f} s: is it "
            "running and configured, in this ROS_DOMAIN_ID and namespace?",
            file=sys.stderr,
        )
        return SILENT
    code = 0
    for question in options.questions:
        decision = _ask(client, question, options)
        if decision is None:
            sentence = f"No decision came within {options.timeout:g} s."
            decision = refuse(options.id, question, Reason.TIMEOUT, sentence)
            code = SILENT
        elif decision.verdict is Verdict.REFUSE:
            code = max(code, REFUSED)
        shown = json.dumps(decision.to_json()) if options.json else describe(decision)
        print(shown, flush=True)
    return code


def main(args: Sequence[str] | None = None) -> int:
    """Entry point of the executable ``ask``."""
    given = list(sys.argv if args is None else ["ask", *args])
    options = _parser().parse_args(remove_ros_args(given)[1:])
    if options.id and len(options.questions) > 1:
        print("--id goes with one question only", file=sys.stderr)
        return 2
    rclpy.init(args=given)
    try:
        node = Node(f"ask_{uuid.uuid4().hex[:8]}")
        client = AskClient(node)
        code = _ask_all(client, options)
        with teardown():
            client.close()
            node.destroy_node()
    except (KeyboardInterrupt, ExternalShutdownException):
        return 130
    finally:
        rclpy.try_shutdown()
    return code


if __name__ == "__main__":
    sys.exit(main())
