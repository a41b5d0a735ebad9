"""The README's parameter table says what the node declares."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from semflip_ros.parameter_table import rewritten

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_readme_lists_every_parameter_as_it_is_declared() -> None:
    text = README.read_text(encoding="utf-8")
    assert rewritten(text) == text, "run: python -m semflip_ros.parameter_table README.md"
