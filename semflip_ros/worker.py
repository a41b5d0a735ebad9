"""The one thread that owns the encoder and the agent."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Protocol

from semflip_core.decision import Decision
from semflip_core.encoders.contract import encoder_errors
from semflip_core.errors import SemflipError
from semflip_ros.queries import PendingQuery

logger = logging.getLogger("semflip")


class Agent(Protocol):
    """What the worker needs of :class:`semflip_core.agent.RefusalAgent`."""

    map_id: str

    @property
    def set_aside(self) -> Mapping[int, str]:
        """Keyframes whose pictures cannot be read, and why."""

    def catch_up(self, limit: int | None = None) -> int:
        """Compute missing features; of how many keyframes, with those newly set aside."""

    def read_ahead(self, cancelled: Callable[[], bool] | None = None) -> None:
        """Let the encoder read what every question sees."""

    def ask(
        self,
        question: str,
        *,
        query_id: str = "",
        cancelled: Callable[[], bool] | None = None,
        on_progress: Callable[[str], None] | None = None,
    ) -> Decision:
        """Decide one question; never raises."""

    def close(self) -> None:
        """Release the encoder."""


class QueryWorker:
    """Answers queued questions one after the other, and makes features when nobody asks.

    Args:
        load: makes the agent; called in the worker's thread, which alone touches it from then on.
        settle: takes each finished decision; False where the query was decided meanwhile.
        capacity: questions that may wait beside the one being answered.
        on_crash: told when the thread ends by an error that nothing here may survive.

    Attributes:
        features_made: keyframes whose features were computed.
        feature_errors: times that the encoder failed on all it was given.
        set_aside: keyframes whose pictures alone it cannot read, and why.
    """

    def __init__(
        self,
        load: Callable[[], Agent],
        settle: Callable[[PendingQuery, Decision], bool],
        *,
        capacity: int,
        on_crash: Callable[[], None],
    ) -> None:
        self._load = load
        self._settle = settle
        self._capacity = capacity
        self._on_crash = on_crash
        self._loaded: Future[Agent] = Future()
        self._queue: deque[PendingQuery] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._new_keyframes = True
        self._map_id: str | None = None
        self._busy_since: float | None = None
        self._catching_up = False
        self.features_made = 0
        self.feature_errors = 0
        self.set_aside: Mapping[int, str] = {}
        self._thread = threading.Thread(target=self._run, name="semflip-worker", daemon=True)

    def start(self) -> None:
        """Start the thread and wait until the agent is loaded; raises what loading raised."""
        self._thread.start()
        self._loaded.result()

    def submit(self, pending: PendingQuery) -> bool:
        """Queue a question; False where too many wait or the worker is ending."""
        with self._wake:
            waiting = sum(not item.claim.taken for item in self._queue)
            if self._stopping or waiting >= self._capacity:
                return False
            self._queue.append(pending)
            self._wake.notify_all()
        pending.on_progress("queued")
        return True

    def keyframes_changed(self) -> None:
        """Look for keyframes without features when there is time."""
        with self._wake:
            self._new_keyframes = True
            self._wake.notify_all()

    def set_map(self, map_id: str) -> None:
        """The robot is on another map from now on, also if the agent is still being loaded."""
        with self._wake:
            self._map_id = map_id
            if self._loaded.done() and self._loaded.exception() is None:
                self._loaded.result().map_id = map_id

    def stop(self, timeout_s: float | None = None) -> bool:
        """End the thread after its present step and release the encoder.

        Returns:
            False where the present step did not end in time; the thread goes on by itself.
        """
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def busy_since(self) -> float | None:
        """``time.monotonic()`` when the present step began; None while it waits."""
        return self._busy_since

    @property
    def waiting(self) -> int:
        """Questions in the queue that are still undecided."""
        with self._wake:
            return sum(not item.claim.taken for item in self._queue)

    @property
    def late_because(self) -> str:
        """Why a question timed out, where the reason is not the question itself."""
        if self._catching_up:
            return "I could not decide in time: I am still looking through pictures I stored."
        return ""

    def _run(self) -> None:
        try:
            agent = self._load()
        except BaseException as error:
            # Broad: the caller waits for this future, and would for ever after a SystemExit.
            self._loaded.set_exception(error)
            return
        with self._wake:
            if self._map_id is not None:
                agent.map_id = self._map_id
            self._loaded.set_result(agent)
        ended = False
        try:
            self._serve(agent)
            agent.close()
            ended = True
        finally:
            self._busy_since = None
            if not ended:
                self._on_crash()

    def _serve(self, agent: Agent) -> None:
        while True:
            with self._wake:
                while not (self._stopping or self._queue or self._new_keyframes):
                    self._busy_since = None
                    self._wake.wait()
                if self._stopping:
                    return
                pending = self._queue.popleft() if self._queue else None
            if pending is None:
                if not self._catch_up_once(agent):
                    self._read_ahead(agent)
            else:
                self._answer(agent, pending)

    def _catch_up_once(self, agent: Agent) -> bool:
        """Features of one keyframe; False when none is missing or it failed."""
        self._new_keyframes = False
        self._busy_since = time.monotonic()
        before = len(agent.set_aside)
        try:
            done = agent.catch_up(limit=1)
        except SemflipError:
            self.feature_errors += 1
            logger.exception("features of a stored keyframe could not be made")
            return False
        self.set_aside = agent.set_aside
        self.features_made += done - (len(self.set_aside) - before)
        if done:
            self._new_keyframes = True
        return done > 0

    def _read_ahead(self, agent: Agent) -> None:
        """Nobody asks and no features are missing: read the prefix, until somebody does."""

        def wanted_elsewhere() -> bool:
            self._busy_since = time.monotonic()  # asked before each frame: it is not stuck
            return bool(self._queue) or self._new_keyframes or self._stopping

        try:
            with encoder_errors("reading ahead"):
                agent.read_ahead(wanted_elsewhere)
        except SemflipError:
            self.feature_errors += 1
            logger.exception("the frames that every question sees could not be read")

    def _answer(self, agent: Agent, pending: PendingQuery) -> None:
        """Decide one question; a backlog of features is worked off step by step before."""
        self._catching_up = True
        if not pending.claim.taken:
            pending.on_progress("features")
        while not pending.claim.taken and not self._stopping and self._catch_up_once(agent):
            pass
        self._catching_up = False
        if pending.claim.taken or self._stopping:
            return
        self._busy_since = time.monotonic()
        decision = agent.ask(
            pending.question,
            query_id=pending.query_id,
            cancelled=lambda: pending.claim.taken or self._stopping,
            on_progress=pending.on_progress,
        )
        self.set_aside = agent.set_aside
        self._settle(pending, decision)
