"""The desk and its worker: one decision a query, whoever is first, and never a blocked asker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from semflip_core.decision import Decision, Reason, Verdict
from semflip_core.errors import EncoderError
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_ros.deadlines import DeadlineWatch
from semflip_ros.queries import REMEMBERED, PendingQuery, QueryDesk
from semflip_ros.worker import QueryWorker

GOAL = Pose("map", (1.0, 2.0, 0.0), quaternion_from_yaw(0.0))


class ScriptedAgent:
    """Answers at once, waits for a signal (``wait``), or has features to make."""

    map_id = "m"

    def __init__(self, backlog: int = 0) -> None:
        self.go_on = threading.Event()
        self.began = threading.Event()
        self.backlog = backlog
        self.asked: list[str] = []
        self.threads: set[str] = set()
        self.closed = False
        self.broken = False
        self.unreadable: set[int] = set()
        self.set_aside: dict[int, str] = {}

    def catch_up(self, limit: int | None = None) -> int:
        self.threads.add(threading.current_thread().name)
        if self.broken:
            raise EncoderError("cannot")
        if self.backlog:
            time.sleep(0.01)
            self.backlog -= 1
            if self.backlog in self.unreadable:
                self.set_aside = {**self.set_aside, self.backlog: "too long"}
            return 1
        return 0

    def read_ahead(self, cancelled: object = None) -> None:
        self.threads.add(threading.current_thread().name)

    def ask(
        self,
        question: str,
        *,
        query_id: str = "",
        cancelled: Callable[[], bool] | None = None,
        on_progress: Callable[[str], None] | None = None,
    ) -> Decision:
        self.threads.add(threading.current_thread().name)
        self.asked.append(question)
        self.began.set()
        if question == "wait":
            self.go_on.wait(10.0)
        if question == "crash":
            raise SystemExit
        return Decision(query_id, question, Verdict.ANSWER, goal=GOAL)

    def close(self) -> None:
        self.closed = True


class Office:
    """Desk, worker and watch together, and what was published."""

    def __init__(self, *, deadline_s: float = 5.0, capacity: int = 2, backlog: int = 0) -> None:
        self.published: list[Decision] = []
        self.repeated: list[Decision] = []
        self.stuck: list[float] = []
        self.crashed = threading.Event()
        self.agent = ScriptedAgent(backlog)
        self.desk = QueryDesk(
            deadline_s=deadline_s,
            repeat_window_s=60.0,
            publish=self.published.append,
            repeat=self.repeated.append,
        )
        self.worker = QueryWorker(
            lambda: self.agent, self.desk.settle, capacity=capacity, on_crash=self.crashed.set
        )
        self.watch = DeadlineWatch(
            self.desk,
            stuck_after_s=2 * deadline_s,
            busy_since=lambda: self.worker.busy_since,
            on_stuck=self.stuck.append,
        )

    def open(self) -> None:
        self.worker.start()
        self.desk.open(self.worker)
        self.watch.start()

    def wait(self, done: Callable[[], object], timeout_s: float = 5.0) -> None:
        end = time.monotonic() + timeout_s
        while not done():
            assert time.monotonic() < end, (self.published, self.repeated)
            time.sleep(0.005)

    def reasons(self) -> dict[str, Reason | None]:
        return {decision.query_id: decision.reason for decision in self.published}


@pytest.fixture
def office() -> Iterator[Callable[..., Office]]:
    made: list[Office] = []

    def make(**options: float) -> Office:
        made.append(Office(**options))
        made[-1].open()
        return made[-1]

    yield make
    for one in made:
        one.agent.go_on.set()
        one.watch.stop()
        one.worker.stop(5.0)


def test_a_question_gets_one_decision_and_an_empty_id_gets_one(office) -> None:
    here = office()
    pending = here.desk.ask("where?")
    here.wait(lambda: here.published)
    assert here.published[0].query_id == pending.query_id != ""
    assert here.published[0].verdict is Verdict.ANSWER


def test_without_a_worker_it_is_not_active() -> None:
    here = Office()
    here.desk.ask("where?", "a")
    assert here.reasons() == {"a": Reason.NOT_ACTIVE}


def test_a_repeated_id_gets_its_decision_again_and_nothing_is_published_twice(office) -> None:
    here = office()
    told: list[Decision] = []
    here.desk.ask("where?", "a")
    here.wait(lambda: here.published)
    here.desk.ask("something else", "a", on_decision=told.append)
    assert here.repeated == told == here.published
    assert here.agent.asked == ["where?"]


def test_an_id_repeated_while_it_is_pending_waits_for_the_same_decision(office) -> None:
    here = office()
    told: list[Decision] = []
    here.desk.ask("wait", "a")
    here.agent.began.wait(5.0)
    here.desk.ask("wait", "a", on_decision=told.append)
    here.agent.go_on.set()
    here.wait(lambda: told)
    assert len(here.published) == 1
    assert here.agent.asked == ["wait"]


def test_an_id_is_free_again_after_the_window() -> None:
    here = Office()
    here.desk = QueryDesk(
        deadline_s=1.0, repeat_window_s=0.05, publish=here.published.append, repeat=print
    )
    here.desk.ask("where?", "a")
    time.sleep(0.1)
    here.desk.ask("where?", "a")
    assert len(here.published) == 2


def test_a_full_queue_is_overloaded_and_what_waited_is_answered(office) -> None:
    here = office(capacity=2)
    here.desk.ask("wait", "running")
    here.agent.began.wait(5.0)
    for query_id in ("w1", "w2", "over"):
        here.desk.ask("where?", query_id)
    assert here.reasons() == {"over": Reason.OVERLOADED}
    here.agent.go_on.set()
    here.wait(lambda: len(here.published) == 4)
    assert here.reasons()["w1"] is here.reasons()["w2"] is None


def test_a_missed_deadline_is_a_timeout_and_the_late_answer_is_discarded(office) -> None:
    here = office(deadline_s=0.2)
    asked = time.monotonic()
    pending = here.desk.ask("wait", "late")
    here.wait(lambda: here.published)
    assert time.monotonic() - asked >= 0.2
    here.agent.go_on.set()
    here.desk.ask("where?", "next")
    here.wait(lambda: len(here.published) == 2)
    assert here.reasons() == {"late": Reason.TIMEOUT, "next": None}
    assert pending.claim.owner == "timeout"


def test_a_question_that_timed_out_in_the_queue_is_never_run(office) -> None:
    here = office(deadline_s=0.3)
    here.desk.ask("wait", "running")
    here.desk.ask("queued", "queued")
    here.wait(lambda: len(here.published) == 2)
    here.agent.go_on.set()
    here.desk.ask("after", "after")
    here.wait(lambda: len(here.published) == 3)
    assert here.agent.asked == ["wait", "after"]


def test_a_cancelled_question_is_refused_once_the_middleware_says_so(office) -> None:
    here = office()
    acknowledged = threading.Event()
    pending = here.desk.ask("wait", "a")
    here.desk.cancel(pending, acknowledged.is_set)
    time.sleep(0.1)
    assert not here.published
    acknowledged.set()
    here.wait(lambda: here.published)
    assert here.reasons() == {"a": Reason.CANCELLED}


def test_closing_refuses_what_waits(office) -> None:
    here = office()
    here.desk.ask("wait", "running")
    here.agent.began.wait(5.0)
    here.desk.ask("where?", "queued")
    here.desk.close()
    assert here.reasons() == {"running": Reason.NOT_ACTIVE, "queued": Reason.NOT_ACTIVE}


def test_a_stuck_worker_is_noticed_once_after_twice_the_deadline(office) -> None:
    here = office(deadline_s=0.2)
    here.desk.ask("wait", "a")
    here.wait(lambda: here.stuck)
    assert here.stuck[0] >= 0.4
    time.sleep(0.6)
    assert len(here.stuck) == 1


def test_features_are_made_when_nobody_asks_and_questions_come_first(office) -> None:
    here = office(backlog=5)
    here.wait(lambda: here.worker.features_made == 5)
    assert here.agent.threads == {"semflip-worker"}


def test_a_long_backlog_times_out_a_question_without_a_stuck_worker(office) -> None:
    here = office(deadline_s=0.2, backlog=100)
    here.desk.ask("where?", "a")
    here.wait(lambda: here.published)
    assert here.reasons() == {"a": Reason.TIMEOUT}
    assert "looking through" in here.published[0].sentence
    here.wait(lambda: here.agent.backlog == 0)
    assert not here.stuck
    assert here.agent.asked == []


def test_features_that_cannot_be_made_do_not_end_the_worker(office) -> None:
    here = office()
    here.agent.broken = True
    here.worker.keyframes_changed()
    here.wait(lambda: here.worker.feature_errors)
    here.agent.broken = False
    here.desk.ask("where?", "a")
    here.wait(lambda: here.published)
    assert here.reasons() == {"a": None}


def test_pictures_set_aside_are_told_and_not_counted_as_read(office) -> None:
    here = office()
    here.agent.unreadable = {0, 3}
    here.agent.backlog = 5
    here.worker.keyframes_changed()
    here.wait(lambda: here.agent.backlog == 0 and len(here.worker.set_aside) == 2)
    assert here.worker.set_aside == {3: "too long", 0: "too long"}
    assert (here.worker.features_made, here.worker.feature_errors) == (3, 0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_crash_of_the_worker_is_told(office) -> None:
    here = office()
    here.desk.ask("crash", "a")
    assert here.crashed.wait(5.0)


def test_loading_errors_reach_whoever_starts_the_worker() -> None:
    def broken() -> ScriptedAgent:
        raise EncoderError("no weights")

    worker = QueryWorker(broken, lambda *_: True, capacity=1, on_crash=lambda: None)
    with pytest.raises(EncoderError, match="no weights"):
        worker.start()


class DeafWorker:
    """Takes every question and never answers."""

    late_because = ""

    def submit(self, pending: PendingQuery) -> bool:
        return True


def test_of_many_racing_claims_one_publishes() -> None:
    for number in range(50):
        here = Office()
        here.desk.open(DeafWorker())
        raced = here.desk.ask("where?", f"q{number}")
        start = threading.Barrier(4)

        def race(desk: QueryDesk, pending: PendingQuery, start: threading.Barrier) -> None:
            start.wait()
            desk.refuse(pending, Reason.TIMEOUT)

        threads = [threading.Thread(target=race, args=(here.desk, raced, start)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(here.published) == 1


def test_an_endless_id_is_refused_and_not_remembered(office) -> None:
    one = office()
    endless = "i" * 10_000
    for _ in range(3):
        one.desk.ask("Where?", endless)
    one.wait(lambda: len(one.published) == 3)
    assert {d.reason for d in one.published} == {Reason.INVALID_QUESTION}
    assert {d.query_id for d in one.published} == {endless}
    assert not one.repeated


def test_a_flood_of_ids_does_not_make_the_desk_remember_without_bound(office) -> None:
    one = office()
    one.desk.close()  # refuses at once, so that the flood is fast
    for number in range(REMEMBERED + 500):
        one.desk.ask("x" * 1000, str(number))
    assert len(one.desk._decided) <= REMEMBERED + 1
    one.desk.ask("again", str(REMEMBERED + 499))
    assert [d.query_id for d in one.repeated] == [str(REMEMBERED + 499)]


def test_a_map_that_changes_while_the_agent_is_loaded_is_the_agents_map() -> None:
    """Else poses of before a time jump would give goals after it."""
    agent, go_on = ScriptedAgent(), threading.Event()

    def load() -> ScriptedAgent:
        go_on.wait(5.0)
        return agent

    worker = QueryWorker(load, lambda *_: True, capacity=1, on_crash=lambda: None)
    starting = threading.Thread(target=worker.start)
    starting.start()
    worker.set_map("after the jump")
    go_on.set()
    starting.join(5.0)
    assert agent.map_id == "after the jump"
    worker.stop()
