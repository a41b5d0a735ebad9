"""What the node says about a decision: the decision, its goal or refusal, then pictures."""

from __future__ import annotations

import logging
from collections.abc import Callable

from geometry_msgs.msg import PoseStamped
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CompressedImage
from visualization_msgs.msg import MarkerArray

from semflip.msg import Decision as DecisionMsg
from semflip.msg import Refusal as RefusalMsg
from semflip_core.decision import Decision
from semflip_core.errors import SemflipError
from semflip_core.evidence import evidence_jpeg
from semflip_core.memory import VideoMemory
from semflip_core.questions import printable
from semflip_ros.markers import memory_markers
from semflip_ros.messages import decision_message, refusal_message

logger = logging.getLogger("semflip")

#: Decisions and refusals that the middleware keeps for a slow but reliable reader.
DECISION_DEPTH = 100
RELIABLE = QoSProfile(depth=DECISION_DEPTH, reliability=ReliabilityPolicy.RELIABLE)
#: Nav2's own: a goal is never given again to somebody who comes later.
GOAL = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.VOLATILE
)
LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)


class DecisionOutlets:
    """The publishers of decisions and of what belongs to them.

    Args:
        memory: where evidence pictures and keyframe poses come from.
        map_id: tells the map the robot is on now.
    """

    def __init__(
        self,
        node: LifecycleNode,
        memory: VideoMemory,
        *,
        global_frame: str,
        map_id: Callable[[], str],
    ) -> None:
        self._node = node
        self._memory = memory
        self._global_frame = global_frame
        self._map_id = map_id
        self._decision = node.create_publisher(DecisionMsg, "decision", RELIABLE)
        self._refusal = node.create_publisher(RefusalMsg, "refusal", RELIABLE)
        self._goal = node.create_lifecycle_publisher(PoseStamped, "goal_pose", GOAL)
        self._evidence = node.create_publisher(CompressedImage, "evidence/compressed", 5)
        self._markers = node.create_publisher(MarkerArray, "memory_markers", LATCHED)
        self._drawn: tuple[int, str, Decision | None] | None = None

    def publish(self, decision: Decision) -> None:
        """The decision, and then its goal or its refusal, stamped now."""
        stamp = self._node.get_clock().now().to_msg()
        message = decision_message(decision, stamp, self._global_frame)
        self._decision.publish(message)
        if decision.goal is not None:
            self._goal.publish(message.goal)
        else:
            self._refusal.publish(refusal_message(decision, stamp, self._global_frame))
        logger.info(
            "query '%s' \"%s\": %s%s",
            printable(decision.query_id),
            printable(decision.question),
            decision.verdict.value,
            f" ({decision.reason.value})" if decision.reason else "",
        )

    def repeat(self, decision: Decision) -> None:
        """The decision once more for somebody who asked again; no second goal or refusal."""
        stamp = self._node.get_clock().now().to_msg()
        self._decision.publish(decision_message(decision, stamp, self._global_frame))

    def illustrate(self, decision: Decision) -> None:
        """The evidence picture, where somebody watches; never changes a decision."""
        if not decision.evidence or not self._evidence.get_subscription_count():
            return
        try:
            data = evidence_jpeg(self._memory, decision)
        except SemflipError as error:
            logger.warning("no evidence picture: %s", error)
            return
        if data is not None:
            message = CompressedImage(format="jpeg")
            message.header.stamp = self._node.get_clock().now().to_msg()
            message.data.frombytes(data)
            self._evidence.publish(message)

    def draw_markers(self, last: Decision | None) -> None:
        """The memory's markers, where something changed since the last time."""
        state = (self._memory.revision, self._map_id(), last)
        if state == self._drawn or not self._markers.get_subscription_count():
            return
        self._drawn = state
        self._markers.publish(
            memory_markers(
                self._memory.records(),
                last,
                global_frame=self._global_frame,
                map_id=self._map_id(),
                stamp=self._node.get_clock().now().to_msg(),
            )
        )

    def close(self) -> None:
        """Destroy the publishers."""
        self._node.destroy_lifecycle_publisher(self._goal)
        for publisher in (self._decision, self._refusal, self._evidence, self._markers):
            self._node.destroy_publisher(publisher)
