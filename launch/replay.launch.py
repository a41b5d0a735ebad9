"""Play a recording to the refusal node, both started here, in the recording's time.

    ros2 launch semflip replay.launch.py bag:=/data/run_7 image_topic:=/camera/image_raw \\
        image_transport:=compressed pose_topic:=/odom rate:=4.0

All arguments of semflip.launch.py apply. Any rosbag2 or ROS 1 recording is read, without rosbag2
installed. Frames and poses are sent reliably and each waits for its receipt, so that however fast
the replay, none is lost.
"""

from __future__ import annotations

from launch import LaunchContext, LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    IncludeLaunchDescription,
    OpaqueFunction,
)
from launch.conditions import IfCondition
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

#: Parameters of the replay node: default and meaning.
PARAMETERS = {
    "rate": ("1.0", "Times real time."),
    "loop": ("false", "Start again at the end; time jumps back, the memory stays."),
    "clock": ("log", "What /clock follows: log, header, or none."),
}


def _replay(context: LaunchContext) -> list[Node]:
    def value(name: str) -> str:
        return LaunchConfiguration(name).perform(context)

    parameters = {
        "bag": value("bag"),
        "rate": float(value("rate")),
        "loop": value("loop").lower() == "true",
        "clock": value("clock"),
    }
    return [
        Node(
            package="semflip",
            executable="replay",
            name="replay",
            parameters=[parameters],
            output="screen",
            emulate_tty=True,
        )
    ]


def generate_launch_description() -> LaunchDescription:
    """The replay, and the refusal node unless ``with_node:=false``."""
    file = PathJoinSubstitution([FindPackageShare("semflip"), "launch", "semflip.launch.py"])
    node = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(file),
        condition=IfCondition(LaunchConfiguration("with_node")),
    )
    arguments = [
        DeclareLaunchArgument("bag", description="rosbag2 directory, .mcap, .db3 or ROS 1 .bag."),
        *(
            DeclareLaunchArgument(name, default_value=default, description=text)
            for name, (default, text) in PARAMETERS.items()
        ),
        DeclareLaunchArgument(
            "with_node", default_value="true", description="Start the refusal node, too."
        ),
        DeclareLaunchArgument(
            "use_sim_time", default_value="true", description="The node follows /clock."
        ),
        DeclareLaunchArgument(
            "image_reliability", default_value="reliable", description="So that no frame is lost."
        ),
        DeclareLaunchArgument(
            "pose_reliability", default_value="reliable", description="So that no pose is lost."
        ),
    ]
    return LaunchDescription([*arguments, node, OpaqueFunction(function=_replay)])
