"""The example security policy names what a running node has: no more, no less."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("semflip.msg", reason="messages are not built")

from semflip_ros.node_settings import NodeSettings
from support.live import PATIENCE_S, active_robot, wait_until

pytestmark = pytest.mark.live

#: The action's own topics and services are covered by its name in the policy.
ACTION = "/ask/_action/"
#: In the policy for other settings: another camera transport, pose source, or a simulated clock.
OTHER_SETTINGS = {"image", "pose", "pose_with_covariance", "/clock", "/tf", "/tf_static"}


def profile(root: Path, node: str) -> ElementTree.Element:
    tree = ElementTree.parse(root / "config" / "sros2_policy.xml")
    found = tree.find(f".//profile[@node='{node}']")
    assert found is not None
    return found


def named(root: Path, node: str, kind: str, attribute: str) -> set[str]:
    """Names that a profile allows, of topics, services or actions."""
    groups = [g for g in profile(root, node).findall(kind) if g.get(attribute) == "ALLOW"]
    return {item.text or "" for group in groups for item in group}


def come(names: set[str], read: Callable[[], set[str]]) -> set[str]:
    """What was read last: as soon as it holds all the names, or when patience ends."""
    end = time.monotonic() + PATIENCE_S
    while not names <= (found := read()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def test_the_policy_allows_the_node_exactly_what_it_has(tmp_path, colour_gate_file, root) -> None:
    with active_robot(tmp_path, colour_gate_file) as (_, robot):
        here, node = robot.namespace, robot.node

        def relative(names: list[tuple[str, list[str]]]) -> set[str]:
            plain = {name for name, _ in names if ACTION not in name}
            return {
                name.replace(f"{here}/refusal_node/", "~/").removeprefix(f"{here}/")
                for name in plain
            }

        # Names of another process come one by one: wait for those that must come.
        known = ("refusal_node", here)
        wait_until(lambda: known in node.get_node_names_and_namespaces(), what="its name")
        to_publish = named(root, "refusal_node", "topics", "publish")
        to_hear = named(root, "refusal_node", "topics", "subscribe")
        to_serve = named(root, "refusal_node", "services", "reply")
        always = to_hear - OTHER_SETTINGS - {"/parameter_events"}
        published = come(
            to_publish, lambda: relative(node.get_publisher_names_and_types_by_node(*known))
        )
        heard = come(always, lambda: relative(node.get_subscriber_names_and_types_by_node(*known)))
        services = come(
            to_serve, lambda: relative(node.get_service_names_and_types_by_node(*known))
        )
    assert published == to_publish
    assert always <= heard <= to_hear
    assert services == to_serve
    assert named(root, "refusal_node", "actions", "execute") == {"ask"}


def test_only_the_refusal_node_may_send_goals_and_only_the_operator_sees_pictures(root) -> None:
    tree = ElementTree.parse(root / "config" / "sros2_policy.xml")
    nodes = [found.get("node", "") for found in tree.iter("profile")]
    senders = [n for n in nodes if "goal_pose" in named(root, n, "topics", "publish")]
    viewers = [n for n in nodes if "evidence/compressed" in named(root, n, "topics", "subscribe")]
    callers = [n for n in nodes if named(root, n, "services", "request")]
    assert senders == ["refusal_node"]
    assert viewers == callers == ["operator"]


def test_the_page_names_every_parameter_that_is_fixed_at_start(root) -> None:
    page = (root / "docs" / "security.md").read_text(encoding="utf-8")
    for start in NodeSettings.fixed_at_start:
        assert f"`{start}" in page
