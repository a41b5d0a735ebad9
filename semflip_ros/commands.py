"""Entry points of the executables; a Ctrl-C while Python still loads its libraries is quiet too."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from importlib import import_module


def _run(module: str) -> int:
    # numpy reads this when it is loaded. The matrices of a query are small, and where cameras and
    # drivers keep the cores busy its threads only wait for each other: measured on two such cores,
    # a phrase of mini took 28 ms with one thread and 155 to 894 ms with two.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    main: Callable[[], int] = import_module(module).main
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return main()


def refusal_node() -> int:
    """The lifecycle refusal node."""
    return _run("semflip_ros.refusal_node")


def replay() -> int:
    """Publishes a recording."""
    return _run("semflip_ros.replay")


def ask() -> int:
    """Asks a running node."""
    return _run("semflip_ros.ask")
