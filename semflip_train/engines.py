"""Where units of work run: on this machine, or on a Ray cluster, with the same result."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from typing import Any, Protocol

from semflip_core.errors import ConfigError, MissingExtraError, SemflipError

Unit = Callable[..., dict[str, Any]]
Progress = Callable[[str, int, int], None]

#: What the thread pools of numpy and torch read when they are loaded.
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class EngineError(SemflipError):
    """A unit of work was lost and could not be done again."""


class Engine(Protocol):
    """Runs units of work."""

    name: str

    def map(
        self, unit: Unit, root: str, items: Sequence[str], progress: Progress | None
    ) -> list[dict[str, Any]]:
        """``unit(root, item)`` for each item, results in the order of items."""


class LocalEngine:
    """Units on this machine: in this process, or in several.

    Args:
        workers: processes; 1 works in this one.
    """

    name = "local"

    def __init__(self, workers: int = 1) -> None:
        self._workers = max(1, workers)

    def map(
        self, unit: Unit, root: str, items: Sequence[str], progress: Progress | None
    ) -> list[dict[str, Any]]:
        """See :class:`Engine`."""
        if self._workers == 1 or len(items) < 2:
            results = []
            for number, item in enumerate(items, start=1):
                results.append(unit(root, item, progress))
                if progress is not None:
                    progress("sequences", number, len(items))
            return results
        with (
            _cores_shared(self._workers),
            ProcessPoolExecutor(
                self._workers,
                mp_context=get_context("spawn"),
                initializer=_die_with,
                initargs=(os.getpid(),),
            ) as pool,
        ):
            waiting = {pool.submit(unit, root, item): item for item in items}
            done: dict[str, dict[str, Any]] = {}
            for future in as_completed(waiting):
                try:
                    done[waiting[future]] = future.result()
                except BrokenProcessPool as error:
                    raise EngineError(
                        f"a worker process died at '{waiting[future]}'; what was done is kept, "
                        "start the same command again (with fewer --workers if memory is short)"
                    ) from error
                if progress is not None:
                    progress("sequences", len(done), len(items))
        return [done[item] for item in items]


@contextmanager
def _cores_shared(workers: int) -> Iterator[None]:
    """Give each worker started meanwhile its share of the cores, where nobody said otherwise.

    Otherwise each takes them all, and the threads wait for each other: with two workers on two
    cores a row of mini's features took 1.3 s where it takes 0.1 s.
    """
    if any(name in os.environ for name in THREAD_VARIABLES):
        yield
        return
    share = max(1, (os.cpu_count() or 1) // workers)
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(share)))
    try:
        yield
    finally:
        for name in THREAD_VARIABLES:
            os.environ.pop(name, None)


def _die_with(parent: int) -> None:
    """End this worker when its parent is gone, so that a run started again finds no file held."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class RayEngine:
    """Units as Ray tasks; a worker that dies has its unit done again.

    Units write into the run directory, which all nodes must see (a shared file system).

    Args:
        address: of a cluster; None starts workers on this machine.
        cpus: of one unit.
        gpus: of one unit; a fraction lets several units share a GPU.
        retries: times that a unit is done again after its worker died.
        workers: CPUs to start Ray with where it is started here.
        store_bytes: of the shared memory started here; results are small, pictures stay on disk.
    """

    name = "ray"

    def __init__(
        self,
        address: str | None = None,
        *,
        cpus: float = 1.0,
        gpus: float = 0.0,
        retries: int = 1,
        workers: int | None = None,
        store_bytes: int = 100_000_000,
    ) -> None:
        try:
            ray: Any = import_module("ray")
        except ImportError as error:
            raise MissingExtraError("ray", "ray", "--engine ray") from error
        self._ray = ray
        self._options = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": retries}
        self._started = not ray.is_initialized()
        if not self._started:
            return
        quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if address:
            ray.init(address=address, **quiet)
            return
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray.init(
            num_cpus=workers,
            include_dashboard=False,
            object_store_memory=store_bytes,
            _node_ip_address="127.0.0.1",  # nobody outside this machine may reach the workers
            **quiet,
        )

    def map(
        self, unit: Unit, root: str, items: Sequence[str], progress: Progress | None
    ) -> list[dict[str, Any]]:
        """See :class:`Engine`."""
        task = self._ray.remote(**self._options)(unit)
        waiting = {task.remote(root, item): index for index, item in enumerate(items)}
        results: list[dict[str, Any] | None] = [None] * len(items)
        while waiting:
            ready, _ = self._ray.wait(list(waiting), num_returns=1)
            index = waiting.pop(ready[0])
            try:
                results[index] = self._ray.get(ready[0])
            except self._ray.exceptions.RayTaskError as error:
                raise error.as_instanceof_cause() from None
            except self._ray.exceptions.RayError as error:
                raise EngineError(
                    f"the worker on '{items[index]}' was lost too often: {error}; what was done "
                    "is kept, start the same command again"
                ) from error
            if progress is not None:
                progress("sequences", len(items) - len(waiting), len(items))
        return [result for result in results if result is not None]

    def close(self) -> None:
        """Stop the workers that were started here, or leave the cluster."""
        if self._started:
            self._ray.shutdown()


def load_engine(name: str, **options: Any) -> Engine:
    """An engine by name.

    Raises:
        ConfigError: the name is unknown.
    """
    if name == "local":
        return LocalEngine(options.get("workers") or 1)
    if name == "ray":
        return RayEngine(**options)
    raise ConfigError(f"unknown engine '{name}'; known: local, ray")
