"""Publishes a recording on its topics, with /clock and a rate; any rosbag2 or ROS 1 bag.

Topics are renamed with ROS' own remapping (``--ros-args -r /camera/image:=/image``).
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Literal

import rclpy
from pydantic import Field
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import remove_ros_args
from rosgraph_msgs.msg import Clock

from semflip_core.bags import Bag, BagMessage, Topic, open_bag
from semflip_core.errors import ConfigError, SemflipError
from semflip_core.settings import Settings
from semflip_ros import parameters
from semflip_ros.messages import to_time
from semflip_ros.process import CONFIG, RosLogHandler, StopSignals, teardown

logger = logging.getLogger("semflip")

#: Types whose topics are worth waiting for: a robot without them sees nothing.
AWAITED_TYPES = {
    "sensor_msgs/msg/Image",
    "sensor_msgs/msg/CompressedImage",
    "nav_msgs/msg/Odometry",
    "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/PoseWithCovarianceStamped",
}
PICTURES = {"sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"}
#: A receipt that takes longer is one that the reader was not asked for.
SLOW_RECEIPT_S = 1.0
#: Topics that somebody who comes later must still get.
LATCHED_TOPICS = {"/tf_static", "/map", "/robot_description"}


class ReplaySettings(Settings):
    """Parameters of the replay node."""

    bag: str = Field(default="", description="Recording: rosbag2 directory, .mcap, .db3 or .bag.")
    rate: float = Field(default=1.0, gt=0.0, le=1000.0, description="Times real time.")
    loop: bool = Field(default=False, description="Start again at the end; time jumps back.")
    topics: tuple[str, ...] = Field(default=(), description="Topics to publish; empty: all.")
    clock: Literal["log", "header", "none"] = Field(
        default="log",
        description="What /clock follows: time of recording, header stamps, or no /clock.",
    )
    clock_hz: float = Field(
        default=50.0, gt=0.0, le=10_000.0, description="/clock messages a wall second, at least."
    )
    reliability: Literal["reliable", "best_effort"] = Field(
        default="reliable", description="Reliability of the publishers."
    )
    depth: int = Field(default=100, ge=1, description="Messages the middleware keeps a topic.")
    acknowledged_within_s: float = Field(
        default=10.0,
        ge=0.0,
        description="Reliable: pictures wait so long for every reader's receipt, and other topics "
        "before half of 'depth' is unreceipted, so that a slow reader loses nothing; 0 never; s.",
    )
    wait_for_subscribers_s: float = Field(
        default=10.0,
        ge=0.0,
        description="Wait so long until images and poses have a subscriber; 0 starts at once; s.",
    )
    awaited_topics: tuple[str, ...] = Field(
        default=(), description="Topics that must have a subscriber; empty: images and poses."
    )
    linger_s: float = Field(
        default=0.0, ge=0.0, description="Keep /clock running for this after the end; s."
    )


def message_class(msgtype: str) -> type[Any]:
    """The Python class of ``package/msg/Name``.

    Raises:
        ConfigError: its package is not installed.
    """
    package, _, name = msgtype.split("/")
    try:
        kind: type[Any] = getattr(import_module(f"{package}.msg"), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise ConfigError(f"message type {msgtype} is not installed here") from error
    return kind


class Replay:
    """Publishes one open recording.

    Args:
        node: publishes; need not be spun.
        signals: ends the replay between two messages.
    """

    def __init__(
        self, node: Node, bag: Bag, settings: ReplaySettings, signals: StopSignals
    ) -> None:
        self._bag = bag
        self._settings = settings
        self._signals = signals
        self._publishers: dict[str, Publisher[Any]] = {}
        self._types: dict[str, str] = {}
        for topic in self._chosen():
            try:
                kind = message_class(topic.msgtype)
            except ConfigError as error:
                logger.warning("%s is left out: %s", topic.name, error)
                continue
            self._publishers[topic.name] = node.create_publisher(
                kind, topic.name, self._qos(topic.name)
            )
            self._types[topic.name] = topic.msgtype
        self._clock = node.create_publisher(Clock, "/clock", 10)
        self._clock_ns = 0
        self._last_clock = 0.0
        self._open_receipts: Counter[str] = Counter()
        self._receipts_are_slow = False
        self.published = 0

    def _chosen(self) -> list[Topic]:
        known = {topic.name: topic for topic in self._bag.topics}
        names = self._settings.topics or tuple(known)
        if missing := [name for name in names if name not in known]:
            raise ConfigError(f"topics {missing} are not there; {self._bag.describe_topics()}")
        return [known[name] for name in names if known[name].name != "/clock"]

    def _qos(self, topic: str) -> QoSProfile:
        latched = topic in LATCHED_TOPICS
        return QoSProfile(
            depth=self._settings.depth,
            reliability=ReliabilityPolicy[self._settings.reliability.upper()],
            durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
        )

    def _awaited(self) -> list[str]:
        named = self._settings.awaited_topics
        if named:
            return [name for name in named if name in self._publishers]
        return [name for name, kind in self._types.items() if kind in AWAITED_TYPES]

    def wait_for_subscribers(self) -> list[str]:
        """Wait until the awaited topics have a subscriber; returns those that have none."""
        end = time.monotonic() + self._settings.wait_for_subscribers_s
        while True:
            lonely = [
                name
                for name in self._awaited()
                if not self._publishers[name].get_subscription_count()
            ]
            if not lonely or time.monotonic() >= end or self._signals.stopped.wait(0.05):
                return lonely

    def play(self) -> None:
        """Publish everything once, or over and over."""
        if lonely := self.wait_for_subscribers():
            logger.warning("nobody listens to %s: playing all the same", ", ".join(lonely))
        while not self._signals.stopped.is_set():
            self._play_once()
            if not self._settings.loop:
                break
            logger.info("once more from the start")
        self._run_clock(self._clock_ns, time.monotonic() + self._settings.linger_s)

    def _play_once(self) -> None:
        began, first_ns = time.monotonic(), -1
        for message in self._messages():
            at_ns = self._time_of(message)
            if first_ns < 0:
                first_ns = self._clock_ns = at_ns
            due = began + (at_ns - first_ns) / 1e9 / self._settings.rate
            self._run_clock(self._clock_ns, due)
            if self._signals.stopped.is_set():
                return
            self._clock_ns = max(self._clock_ns, at_ns)
            self._tick()
            self._publish(message)

    def _messages(self) -> Iterator[BagMessage]:
        return self._bag.messages(list(self._publishers)) if self._publishers else iter(())

    def _time_of(self, message: BagMessage) -> int:
        if self._settings.clock == "header" and message.msgtype in AWAITED_TYPES:
            return message.header_ns
        if self._settings.clock == "header":
            return self._clock_ns or message.log_ns
        return message.log_ns

    def _publish(self, message: BagMessage) -> None:
        publisher = self._publishers[message.topic]
        publisher.publish(message.cdr)
        self.published += 1
        self._open_receipts[message.topic] += 1
        wait_s = self._settings.acknowledged_within_s
        if self._settings.reliability != "reliable" or wait_s == 0.0:
            return
        picture = message.msgtype in PICTURES and not self._receipts_are_slow
        if not picture and self._open_receipts[message.topic] < max(1, self._settings.depth // 2):
            return
        began = time.monotonic()
        if not publisher.wait_for_all_acked(Duration(seconds=wait_s)):
            logger.warning("%s: a reader gave no receipt within %g s", message.topic, wait_s)
        self._open_receipts[message.topic] = 0
        self._note_receipt(time.monotonic() - began)

    def _note_receipt(self, took_s: float) -> None:
        if took_s > SLOW_RECEIPT_S and not self._receipts_are_slow:
            self._receipts_are_slow = True
            logger.warning(
                "a receipt took %.1f s: the middleware asks for them seldom. Pictures go on "
                "without waiting for each; semflip's DDS profiles (config/dds_*.xml) cure it",
                took_s,
            )

    def _run_clock(self, from_ns: int, due: float) -> None:
        """Let time pass until ``due``, publishing /clock meanwhile."""
        began = time.monotonic()
        period = 1.0 / self._settings.clock_hz
        while (now := time.monotonic()) < due:
            if now - self._last_clock >= period:
                self._clock_ns = from_ns + round((now - began) * 1e9 * self._settings.rate)
                self._tick()
            if self._signals.stopped.wait(min(due - now, period)):
                return

    def _tick(self) -> None:
        if self._settings.clock == "none":
            return
        self._last_clock = time.monotonic()
        self._clock.publish(Clock(clock=to_time(self._clock_ns)))


def _open(node: Node, settings: ReplaySettings, signals: StopSignals) -> int:
    with open_bag(settings.bag) as bag:
        replay = Replay(node, bag, settings, signals)
        replay.play()
        logger.info("%d messages published", replay.published)
    return 0


def main(args: Sequence[str] | None = None) -> int:
    """Entry point of the executable ``replay``: ``replay BAG [--ros-args -p rate:=4.0]``."""
    given = list(sys.argv if args is None else ["replay", *args])
    parser = argparse.ArgumentParser(prog="replay", description=__doc__)
    parser.add_argument("bag", nargs="?", default="", help="recording; or the parameter 'bag'")
    path = parser.parse_args(remove_ros_args(given)[1:]).bag
    rclpy.init(args=given, signal_handler_options=SignalHandlerOptions.NO)
    signals = StopSignals()
    node = Node("replay", automatically_declare_parameters_from_overrides=True)
    handler = RosLogHandler(node.get_logger())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        settings = parameters.declare(node, ReplaySettings)
        settings = settings.model_copy(update={"bag": path or settings.bag})
        if not settings.bag:
            raise ConfigError("replay: which recording? give its path, or the parameter 'bag'")
        return _open(node, settings, signals)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return CONFIG
    except SemflipError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        logger.removeHandler(handler)
        with teardown():
            node.destroy_node()
            rclpy.try_shutdown()


if __name__ == "__main__":
    sys.exit(main())
