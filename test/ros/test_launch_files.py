"""What can be held of launch and parameter files where `launch` is not installed."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml

from semflip_core.errors import ConfigError

pytest.importorskip("rclpy", reason="parameters are checked by the node's own declaration")

from semflip_ros.node_settings import NodeSettings
from semflip_ros.parameters import check_values, flat_fields

LAUNCH_FILES = ("semflip.launch.py", "replay.launch.py")


def constants(path: Path) -> dict[str, Any]:
    """Top-level literals of a launch file, read without running it."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested parameters under their dotted names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= (
            flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
        )
    return found


@pytest.mark.parametrize("name", LAUNCH_FILES)
def test_launch_files_compile_and_describe_themselves(root: Path, name: str) -> None:
    source = (root / "launch" / name).read_text()
    compile(source, name, "exec")
    functions = {n.name for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)}
    assert "generate_launch_description" in functions


def test_launch_arguments_that_set_parameters_are_parameters_of_the_node(root: Path) -> None:
    found = constants(root / "launch" / "semflip.launch.py")
    known = {name for name, _ in flat_fields(NodeSettings)} | {"use_sim_time"}
    assert found["PARAMETERS"].keys() | found["SWITCHES"].keys() <= known


def test_arguments_of_the_replay_launch_file_are_parameters_of_the_replay_node(root: Path) -> None:
    from semflip_ros.replay import ReplaySettings

    found = constants(root / "launch" / "replay.launch.py")["PARAMETERS"]
    values = {name: yaml.safe_load(default) for name, (default, _) in found.items()}
    assert check_values(ReplaySettings, values, "replay.launch.py") == ReplaySettings()


def test_nobody_is_cut_off_unknowingly_by_a_dds_profile(root: Path) -> None:
    """Empty by default; given, it is set under the names that old and new Fast DDS read."""
    found = constants(root / "launch" / "semflip.launch.py")
    assert found["OTHERS"]["dds_profile"][0] == ""
    assert set(found["PROFILE_VARIABLES"]) == {
        "FASTDDS_DEFAULT_PROFILES_FILE",
        "FASTRTPS_DEFAULT_PROFILES_FILE",
    }


def test_the_topics_that_are_remapped_are_topics_of_the_node(root: Path) -> None:
    from semflip_ros import cameras, pose_sources

    topics = constants(root / "launch" / "semflip.launch.py")["TOPICS"]
    assert {topic for topic, _ in topics["image_topic"]} == {
        cameras.RAW_TOPIC,
        cameras.COMPRESSED_TOPIC,
    }
    assert {topic for topic, _ in topics["pose_topic"]} == {
        topic for topic, _ in pose_sources.TOPICS.values()
    }


def test_the_parameter_file_is_what_the_node_takes(root: Path) -> None:
    text = (root / "config" / "refusal_node.yaml").read_text()
    values = flat(yaml.safe_load(text)["/**"]["ros__parameters"])
    settings = check_values(NodeSettings, values, "refusal_node.yaml")
    assert settings == NodeSettings(), "the file shows defaults; change both or neither"


def test_a_wrong_name_in_a_parameter_file_is_told(root: Path) -> None:
    with pytest.raises(ConfigError, match="memory_pth"):
        check_values(NodeSettings, {"memory_pth": "x"}, "refusal_node.yaml")
