"""A process that sends pictures of 3840x2160 to whoever listens; run by test_dds_profiles.py."""

from __future__ import annotations

import array
import sys
import time

import rclpy
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image


def main(count: int, rate_hz: float) -> None:
    """Wait for a listener, then send ``count`` pictures."""
    rclpy.init()
    node = rclpy.create_node("picture_sender")
    quality = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
    publisher = node.create_publisher(Image, "image", quality)
    picture = Image(width=3840, height=2160, step=3840 * 3, encoding="rgb8")
    picture.data = array.array("B", bytes(3840 * 2160 * 3))
    while publisher.get_subscription_count() == 0:
        time.sleep(0.05)
    for number in range(count):
        picture.header.stamp.sec = number
        publisher.publish(picture)
        time.sleep(1.0 / rate_hz)
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
