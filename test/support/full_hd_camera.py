"""A process of its own: a 1920x1080 camera and odometry of a robot that drives along x.

Usage: ``python -m support.full_hd_camera NAMESPACE FRAMES HZ``; prints how many frames it sent, and
how many of them must become keyframes at 0.5 m apart.
"""

from __future__ import annotations

import array
import sys
import time

import numpy as np
import rclpy
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image

from semflip_ros.messages import to_time
from support.odometry import odometry

WIDTH, HEIGHT = 1920, 1080
#: Metres a frame; odometry comes twice a frame, half a frame apart from the picture's stamp.
STEP_M = 0.06
APART_M = 0.5


def picture(red: bool) -> Image:
    """A grey wall, with a red block where asked for."""
    rgb = np.full((HEIGHT, WIDTH, 3), 100, np.uint8)
    if red:
        rgb[400:700, 0:600] = (200, 30, 30)
    message = Image(width=WIDTH, height=HEIGHT, encoding="rgb8", step=WIDTH * 3)
    message.header.frame_id = "camera"
    message.data = array.array("B", rgb.tobytes())
    return message


def main(namespace: str, frames: int, hz: float) -> None:
    """Send the frames in real time, stamped with the wall clock."""
    rclpy.init()
    node = Node("camera", namespace=namespace)
    best_effort = QoSProfile(depth=30, reliability=ReliabilityPolicy.BEST_EFFORT)
    images = node.create_publisher(Image, "image", best_effort)
    poses = node.create_publisher(Odometry, "odom", 100)
    red, grey = picture(True), picture(False)
    while not (images.get_subscription_count() and poses.get_subscription_count()):
        time.sleep(0.02)
    time.sleep(0.5)
    print("driving", flush=True)
    began, kept, last = time.monotonic(), 0, -1e9
    for index in range(frames):
        time.sleep(max(0.0, began + index / hz - time.monotonic()))
        stamp_ns, x = time.time_ns(), index * STEP_M
        message = red if index < 20 else grey
        message.header.stamp = to_time(stamp_ns)
        poses.publish(odometry(x, stamp_ns - 5_000_000))
        images.publish(message)
        poses.publish(odometry(x, stamp_ns + 5_000_000))
        if x - last >= APART_M:
            kept, last = kept + 1, x
    took = time.monotonic() - began
    print(f"sent {frames} in {took:.1f} s, keyframes {kept} expected", flush=True)
    time.sleep(1.0)
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
