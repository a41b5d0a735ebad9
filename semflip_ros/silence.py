"""Notices what does not come: no images, no poses, no clock."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from rclpy.event_handler import SubscriptionEventCallbacks

logger = logging.getLogger("semflip")


class Silence:
    """Warns when something expected has been silent, and again when it is back.

    Args:
        what: for the message, "images on 'image'".
        cure: what to look at.
        after_s: wall seconds of silence before it warns.
    """

    def __init__(self, what: str, cure: str, after_s: float) -> None:
        self.what = what
        self._cure = cure
        self._after_s = after_s
        self.silent = False

    def check(self, last: float) -> bool:
        """Look at the ``time.monotonic()`` of the last arrival; True while silent."""
        silent = time.monotonic() - last > self._after_s
        if silent and not self.silent:
            logger.warning("no %s for %.0f s: %s", self.what, self._after_s, self._cure)
        elif self.silent and not silent:
            logger.info("%s are coming again", self.what)
        self.silent = silent
        return silent


def qos_events(
    topic: str, reliability: str, parameter: str, on_incompatible: Callable[[str], None]
) -> SubscriptionEventCallbacks:
    """Event callbacks that name the cure when a publisher's QoS does not fit ours.

    Args:
        reliability: what this side asks for.
        parameter: the parameter that changes it.
        on_incompatible: told the message, for the diagnostics.
    """

    def incompatible(event: object) -> None:
        policy = str(getattr(event, "last_policy_kind", "policy")).rsplit(".", 1)[-1].lower()
        if reliability == "reliable" and "reliab" in policy:
            cure = f"set {parameter} to 'best_effort', or make the publisher reliable"
        else:
            cure = f"change {policy} at the publisher; this node asks for '{reliability}'"
        message = (
            f"a publisher of '{topic}' offers an incompatible QoS ({policy}), so that nothing of "
            f"it will be received: {cure}"
        )
        logger.warning(message)
        on_incompatible(message)

    return SubscriptionEventCallbacks(incompatible_qos=incompatible)
