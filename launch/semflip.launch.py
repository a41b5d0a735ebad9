"""Start the refusal node on a robot, configured and active, and start it again when it dies.

    ros2 launch semflip semflip.launch.py image_topic:=/camera/image_raw pose_topic:=/odom
    ros2 launch semflip semflip.launch.py --show-args

The node makes its own way to `active` (its parameter `autostart`). A request from here could be
lost: after a crash the dead node's services are still listed for a while. With a lifecycle manager
of your own pass `autostart:=false`.
"""

from __future__ import annotations

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import LifecycleNode
from launch_ros.substitutions import FindPackageShare

#: Arguments that set the parameter of the same name, when they are not empty.
PARAMETERS = {
    "encoder": "Encoder by name: mini, qwen2_5_vl, ...; empty: as the parameter file says.",
    "gate": "Gate file (safetensors); empty: as the parameter file says, or the encoder's own.",
    "memory_path": "File of the video memory; empty: as the parameter file says.",
    "image_transport": "raw or compressed; empty: as the parameter file says.",
    "pose_source": "tf, odometry, pose or pose_with_covariance; empty: as the parameter file says.",
    "image_reliability": "best_effort or reliable; empty: as the parameter file says.",
    "pose_reliability": "best_effort or reliable; empty: as the parameter file says.",
    "map_id": "Name of a map that outlives restarts; empty: as the parameter file says.",
}
SWITCHES = {
    "autostart": ("true", "Configure and activate at start; false: a lifecycle manager does it."),
    "use_sim_time": ("false", "Follow /clock, as with a simulator or a replayed recording."),
}
OTHERS = {
    "image_topic": ("", "The camera's topic, without /compressed; empty: image."),
    "pose_topic": ("", "The pose's topic, of the type pose_source names; empty: odom, pose, ..."),
    "goal_topic": ("", "Where goals go; empty: goal_pose, where Nav2 listens."),
    "name": ("refusal_node", "Name of the node."),
    "namespace": ("", "Namespace of the node."),
    "log_level": ("info", "debug, info, warn, error."),
    "respawn": ("true", "Start the node again when it dies, as it does when a worker is stuck."),
    "dds_profile": (
        "",
        "Fast DDS profile for the node: share/semflip/config/dds_shared_memory.xml carries whole "
        "pictures; give it to the camera driver too. Empty: the environment decides.",
    ),
}
#: Argument -> the node's topics it stands for, with what is appended to it.
TOPICS = {
    "image_topic": (("image", ""), ("image/compressed", "/compressed")),
    "pose_topic": (("odom", ""), ("pose", ""), ("pose_with_covariance", "")),
    "goal_topic": (("goal_pose", ""),),
}
#: Fast DDS 3 (Kilted on) and 2 read different names.
PROFILE_VARIABLES = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")


def _value(context: LaunchContext, name: str) -> str:
    return LaunchConfiguration(name).perform(context)


def _switch(context: LaunchContext, name: str) -> bool:
    value = _value(context, name).lower()
    if value not in ("true", "false"):
        raise ValueError(f"{name}:={value}: must be true or false")
    return value == "true"


def _start(context: LaunchContext) -> list[LifecycleNode]:
    overrides: dict[str, str | bool] = {
        name: value for name in PARAMETERS if (value := _value(context, name))
    }
    overrides |= {name: _switch(context, name) for name in SWITCHES}
    remappings = [
        (topic, f"{given}{ending}")
        for argument, topics in TOPICS.items()
        if (given := _value(context, argument))
        for topic, ending in topics
    ]
    profile = _value(context, "dds_profile")
    node = LifecycleNode(
        package="semflip",
        executable="refusal_node",
        name=_value(context, "name"),
        namespace=_value(context, "namespace"),
        parameters=[_value(context, "params_file"), overrides],
        remappings=remappings,
        ros_arguments=["--log-level", _value(context, "log_level")],
        additional_env=dict.fromkeys(PROFILE_VARIABLES, profile) if profile else {},
        output="screen",
        emulate_tty=True,
        respawn=_switch(context, "respawn"),
        respawn_delay=2.0,
    )
    return [node]


def generate_launch_description() -> LaunchDescription:
    """The node and its arguments."""
    file = PathJoinSubstitution([FindPackageShare("semflip"), "config", "refusal_node.yaml"])
    arguments = [
        DeclareLaunchArgument("params_file", default_value=file, description="ROS parameters."),
        *(DeclareLaunchArgument(n, default_value="", description=d) for n, d in PARAMETERS.items()),
        *(
            DeclareLaunchArgument(name, default_value=default, description=text)
            for name, (default, text) in {**SWITCHES, **OTHERS}.items()
        ),
    ]
    return LaunchDescription([*arguments, OpaqueFunction(function=_start)])
