"""What tests of the core share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a test's memory file goes."""
    return tmp_path / "memory.sqlite"
