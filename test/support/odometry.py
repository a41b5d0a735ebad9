"""Odometry as a wheel driver sends it."""

from __future__ import annotations

from nav_msgs.msg import Odometry

from semflip_ros.messages import to_time


def odometry(x: float, stamp_ns: int) -> Odometry:
    """The base at ``x`` metres of the map, looking along x."""
    message = Odometry(child_frame_id="base_link")
    message.header.frame_id = "map"
    message.header.stamp = to_time(stamp_ns)
    message.pose.pose.position.x = x
    message.pose.pose.orientation.w = 1.0
    return message
