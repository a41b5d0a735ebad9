"""Thin ROS 2 glue around :mod:`semflip_core`."""
