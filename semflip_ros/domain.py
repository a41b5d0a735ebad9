"""A ROS domain of one's own on this machine, so that runs beside each other never meet."""

from __future__ import annotations

import os
import socket
from pathlib import Path

#: Domains whose ports stay below Linux' ephemeral range (32768), 0 left to the user.
DOMAINS = range(1, 102)

#: ROS 2 releases whose Fast DDS (2.x) reads the older name; newer ones warn about it.
FAST_DDS_2 = ("humble", "iron", "jazzy")


def local_environment(domain: int, profile: Path) -> dict[str, str]:
    """Variables that keep ROS processes on this machine and in one domain, without a model hub.

    Args:
        domain: ``ROS_DOMAIN_ID``.
        profile: Fast DDS profile, as ``config/dds_loopback.xml``.
    """
    older = os.environ.get("ROS_DISTRO") in FAST_DDS_2
    name = "FASTRTPS_DEFAULT_PROFILES_FILE" if older else "FASTDDS_DEFAULT_PROFILES_FILE"
    return {
        "ROS_DOMAIN_ID": str(domain),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        name: str(profile),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
    }


class OwnDomain:
    """Holds one ``ROS_DOMAIN_ID`` that no other holder on this machine has.

    The claim is a bound socket in Linux' abstract namespace: it leaves no file and ends with the
    process, however that ends.

    Raises:
        OSError: every domain is taken.
    """

    def __init__(self) -> None:
        for number in DOMAINS:
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                claim.bind(f"\0semflip-ros-domain-{number}")
            except OSError:
                claim.close()
                continue
            self._claim, self.id = claim, number
            return
        raise OSError(f"all ROS domains {DOMAINS.start} to {DOMAINS[-1]} are in use here")

    def release(self) -> None:
        """Give the domain back."""
        self._claim.close()
