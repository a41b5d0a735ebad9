"""What all tests share: a ROS domain of their own, this machine only, no hub, paths of the data."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path

import pytest

from semflip_ros import shared_memory
from semflip_ros.domain import OwnDomain, local_environment

ROOT = Path(__file__).resolve().parent.parent

# Set when this file is read, before anything imports rclpy or transformers; children inherit it.
_DOMAIN = OwnDomain()
os.environ |= local_environment(_DOMAIN.id, ROOT / "config" / "dds_loopback.xml")
# The models of tests are so small that threads only wait for each other, 30 times as long where the
# cores are shared. Set before numpy and torch are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["ROS_LOG_DIR"] = tempfile.mkdtemp(prefix="semflip_ros_log_")


def pytest_report_header() -> list[str]:
    """Where this run happens, and whether pictures will get through."""
    lack = shared_memory.lack_of_room()
    return [
        f"ROS_DOMAIN_ID {_DOMAIN.id}, this machine only",
        *([f"WARNING: {lack}"] if lack else []),
    ]


def pytest_sessionfinish() -> None:
    """Tests that kill nodes leave their shared memory behind."""
    shared_memory.sweep()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests of live nodes where the messages are not built or not on the path, and say so."""
    if importlib.util.find_spec("rclpy") and importlib.util.find_spec("semflip"):
        return
    reason = "needs rclpy and the built messages: run `make test`, or `. ./env.bash` first"
    for item in items:
        if item.get_closest_marker("live"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def sample() -> Path:
    """The sample dataset (DESIGN section 8): train_0, train_1, calibration_0, test_0."""
    return ROOT / "data" / "sample"


@pytest.fixture(scope="session")
def sample_bag(sample: Path) -> Path:
    """A rosbag2 of the sample's test sequence: CompressedImage and Odometry."""
    return sample / "sequences" / "test_0"


@pytest.fixture(scope="session")
def programs() -> Path:
    """Where colcon installed refusal_node, replay and ask."""
    return ROOT / "install" / "semflip" / "lib" / "semflip"
