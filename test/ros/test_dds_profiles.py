"""The DDS profiles carry whole 4K pictures between processes with best-effort QoS."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from semflip_ros.domain import local_environment

LARGEST_PICTURE = 3840 * 2160 * 3
SPACE = "{http://www.eprosima.com}"


@pytest.mark.parametrize("name", ["dds_loopback.xml", "dds_shared_memory.xml"])
def test_one_message_holds_a_4k_picture_and_a_segment_several(root: Path, name: str) -> None:
    tree = ElementTree.parse(root / "config" / name)
    message, segment = (
        int((tree.find(f".//{SPACE}{field}").text or "").strip())  # type: ignore[union-attr]
        for field in ("maxMessageSize", "segment_size")
    )
    assert message > LARGEST_PICTURE
    assert segment > 3 * LARGEST_PICTURE


def test_only_the_robot_profile_reaches_other_machines(root: Path) -> None:
    def addresses(name: str) -> list[str | None]:
        tree = ElementTree.parse(root / "config" / name)
        return [item.text for item in tree.iter(f"{SPACE}address")]

    assert addresses("dds_loopback.xml") == ["127.0.0.1"]
    assert addresses("dds_shared_memory.xml") == []


@pytest.mark.live
@pytest.mark.parametrize("name", ["dds_loopback.xml", "dds_shared_memory.xml"])
def test_4k_pictures_arrive_whole(root: Path, name: str, tmp_path: Path) -> None:
    count = 15
    env = os.environ | local_environment(int(os.environ["ROS_DOMAIN_ID"]), root / "config" / name)
    here = Path(__file__).parent
    log = (tmp_path / "sender.log").open("w+")
    sender = subprocess.Popen(
        [sys.executable, str(here / "picture_sender.py"), str(count), "5"],
        env=env,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        receiver = subprocess.run(
            [sys.executable, str(here / "picture_receiver.py"), str(count), "20"],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert sender.wait(timeout=20) == 0, log.name
    finally:
        sender.kill()
        sender.wait()
        log.close()
    sizes = [int(word) for word in receiver.stdout.split()]
    assert len(sizes) >= 0.9 * count, f"{len(sizes)} of {count} arrived"
    assert set(sizes) == {LARGEST_PICTURE}
