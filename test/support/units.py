"""Units of work for tests of the engines; workers import them."""

from __future__ import annotations

import os
from typing import Any

from semflip_train.engines import THREAD_VARIABLES


def thread_settings(root: str, item: str, progress: object = None) -> dict[str, Any]:
    """What a worker's libraries are told of threads."""
    return {name: os.environ.get(name) for name in THREAD_VARIABLES}
