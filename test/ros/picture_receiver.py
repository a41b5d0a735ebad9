"""A process that prints the size of each picture that arrives; run by test_dds_profiles.py."""

from __future__ import annotations

import sys
import time

import rclpy
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image


def main(count: int, patience_s: float) -> None:
    """Listen until ``count`` pictures came, or none came for 2 s after the first."""
    rclpy.init()
    node = rclpy.create_node("picture_receiver")
    quality = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
    sizes: list[int] = []
    node.create_subscription(Image, "image", lambda m: sizes.append(len(m.data)), quality)
    until = time.monotonic() + patience_s
    while len(sizes) < count and time.monotonic() < until:
        before = len(sizes)
        rclpy.spin_once(node, timeout_sec=0.1)
        if len(sizes) > before:
            until = time.monotonic() + 2.0
    print(*sizes)
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
