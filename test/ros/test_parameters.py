"""Parameters: declared once, checked at start, wrong ones named with what is allowed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("rclpy")

import rclpy
from rclpy.node import Node
from rclpy.parameter import Parameter

from semflip_core.errors import ConfigError
from semflip_ros import parameters
from semflip_ros.node_settings import NodeSettings


@pytest.fixture
def context() -> Iterator[rclpy.Context]:
    context = rclpy.Context()
    context.init()
    yield context
    context.try_shutdown()


def node_with(context: rclpy.Context, **given: object) -> Node:
    return Node(
        "settings",
        context=context,
        automatically_declare_parameters_from_overrides=True,
        parameter_overrides=[
            Parameter(name.replace("__", "."), value=value) for name, value in given.items()
        ],
    )


def test_every_setting_is_a_described_parameter_with_its_default(context) -> None:
    node = node_with(context)
    parameters.declare(node, NodeSettings)
    for name, field in parameters.flat_fields(NodeSettings):
        described = node.describe_parameter(name)
        assert described.description, name
        assert described.additional_constraints, name
        shown = node.get_parameter(name).value
        default = field.get_default()
        assert (tuple(shown) if isinstance(default, tuple) else shown) == default, name
    node.destroy_node()


def test_ranges_reach_the_descriptor(context) -> None:
    node = node_with(context)
    parameters.declare(node, NodeSettings)
    quality = node.describe_parameter("keyframes.jpeg_quality").integer_range[0]
    assert (quality.from_value, quality.to_value) == (50, 100)
    novelty = node.describe_parameter("keyframes.min_novelty").floating_point_range[0]
    assert (novelty.from_value, novelty.to_value) == (0.0, 1.0)
    node.destroy_node()


def test_an_integer_is_a_number_at_start_and_later(context) -> None:
    node = node_with(context, query_deadline_s=5, camera_position=[0, 0, 1])
    settings = parameters.declare(node, NodeSettings)
    assert settings.query_deadline_s == 5.0
    assert settings.camera_position == (0.0, 0.0, 1.0)
    assert node.set_parameters([Parameter("query_deadline_s", value=7)])[0].successful
    assert parameters.read(node, NodeSettings).query_deadline_s == 7.0
    node.destroy_node()


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("pose_source", "odom", "'odometry'"),
        ("keyframes__jpeg_quality", 30, ">= 50 and <= 100"),
        ("query_deadline_s", "5", "a number > 0"),
        ("query_queue", 2.5, "a whole number"),
        ("autostart", 1, "true or false"),
        ("threshold", -0.5, "-1, or in [0, 1)"),
        ("camera_position", [1.0, 2.0], "x, y, z"),
        ("camera_orientation", [1.0, 1.0, 0.0, 0.0], "unit quaternion"),
        ("encoder_options", "[1]", "YAML mapping"),
        ("image_reliability", "besteffort", "'best_effort'"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(context, name, value, allowed) -> None:
    node = node_with(context, **{name: value})
    with pytest.raises(ConfigError) as caught:
        parameters.declare(node, NodeSettings)
    message = str(caught.value)
    assert f"'{name.replace('__', '.')}'" in message
    assert allowed in message
    node.destroy_node()


def test_an_unknown_name_is_an_error_that_lists_the_known_ones(context) -> None:
    node = node_with(context, pose_sorce="tf")
    with pytest.raises(ConfigError, match="unknown parameter 'pose_sorce'") as caught:
        parameters.declare(node, NodeSettings)
    assert "pose_source" in str(caught.value)
    node.destroy_node()


def test_changes_are_checked_and_locked_while_configured(context) -> None:
    node = node_with(context)
    parameters.declare(node, NodeSettings)
    locked = ""
    node.add_on_set_parameters_callback(
        lambda changes: parameters.check_change(node, NodeSettings, changes, locked)
    )
    refused = node.set_parameters([Parameter("query_deadline_s", value=-1)])[0]
    assert not refused.successful
    assert "query_deadline_s" in refused.reason
    assert node.set_parameters([Parameter("query_deadline_s", value=2.0)])[0].successful
    locked = "not while configured"
    refused = node.set_parameters([Parameter("query_deadline_s", value=3.0)])[0]
    assert "not while configured" in refused.reason
    node.destroy_node()


def test_a_range_holds_for_an_integer_given_to_a_number(context) -> None:
    node = node_with(context)
    parameters.declare(node, NodeSettings)
    node.add_on_set_parameters_callback(
        lambda changes: parameters.check_change(node, NodeSettings, changes, "")
    )
    assert not node.set_parameters([Parameter("tf_rate_hz", value=0)])[0].successful
    node.destroy_node()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("encoder", "os:system"),
        ("encoder_options", "{command: 'touch /tmp/owned'}"),
        ("gate", "/tmp/yes.safetensors"),
        ("memory_path", "/home/somebody/.bashrc"),
        ("threshold", 0.99),
        ("map_id", "office"),
        ("decision.min_peak", 1.0),
    ],
)
def test_what_names_code_or_files_or_allows_goals_is_fixed_at_start(context, name, value) -> None:
    """Everybody on the network may call set_parameters on a node that is not configured."""
    node = node_with(context, map_id="lab")
    parameters.declare(node, NodeSettings)
    assert node.describe_parameter(name).read_only
    before = node.get_parameter(name).value
    assert not node.set_parameters([Parameter(name, value=value)])[0].successful
    assert node.get_parameter(name).value == before
    assert node.get_parameter("map_id").value == "lab"
    node.destroy_node()
