"""A ROS domain of one's own on this machine, so that runs beside each other never meet."""

from __future__ import annotations

import socket

#: Domains whose ports stay below Linux' ephemeral range (32768), 0 left to the user.
DOMAINS = range(1, 102)


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
