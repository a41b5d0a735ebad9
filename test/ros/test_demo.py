"""The demo notices what is wrong: a far goal, a turned goal, a wrong verdict, a thin choice."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="the demo starts real nodes")
pytest.importorskip("semflip", reason="the messages are not built: run `make build`")

from semflip_core.decision import Decision, Reason, Verdict, refuse
from semflip_core.errors import ConfigError
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_ros.demo import DemoSettings, chosen_queries
from semflip_ros.demo_truth import Result, decision_from_json, goal_error, seen_elsewhere
from semflip_train.dataset import Answer, Dataset, DatasetInfo, Query


def pose(x: float, y: float, yaw: float = 0.0) -> Pose:
    return Pose("map", (x, y, 0.0), quaternion_from_yaw(yaw))


def query(
    identity: str,
    *,
    answerable: bool,
    referent: str,
    sequence: str = "test_0",
    pair: str | None = None,
) -> Query:
    answer = Answer(object_position=(5.0, 0.0, 0.5), visible=((10, 20), (40, 50)))
    return Query(
        id=identity,
        sequence=sequence,
        question=f"Where is the {referent}?",
        answerable=answerable,
        referent=referent,
        pair=pair,
        answer=answer if answerable else None,
    )


def dataset(*queries: Query) -> Dataset:
    splits = {"train": ("train_0",), "test": ("test_0",)}
    info = DatasetInfo(name="d", licence="CC0-1.0", task="localization", splits=splits)
    return Dataset(Path("d"), info, queries)


ANSWERABLE = [query(f"a{i}", answerable=True, referent=f"thing {i}") for i in range(3)]
ABSENT = [query(f"u{i}", answerable=False, referent=f"other {i}", pair=f"p{i}") for i in range(3)]
ELSEWHERE = query("e", answerable=True, referent="other 1", sequence="train_0", pair="p1")

#: The robot at x = 1 sees the thing between 10 and 20 ns; at x = 9 it does not, at 30 ns.
POSES = [(15, pose(1.0, 0.0)), (30, pose(9.0, 0.0)), (45, pose(3.0, 0.0))]


@pytest.mark.parametrize(
    ("goal", "distance", "bearing", "success"),
    [
        (pose(3.0, 0.0), 0.0, 0.0, True),
        (pose(3.0, 1.9, math.atan2(-1.9, 2.0)), 1.9, 0.0, True),
        (pose(3.0, 2.1, math.atan2(-2.1, 2.0)), 2.1, 0.0, False),  # too far from where it stood
        (pose(9.0, 0.0, math.pi), 6.0, 0.0, False),  # stood there, but did not see it then
        (pose(3.0, 0.0, math.radians(44.0)), 0.0, 44.0, True),
        (pose(3.0, 0.0, math.radians(-46.0)), 0.0, 46.0, False),  # turned away
    ],
)
def test_goal_success_is_near_a_pose_that_saw_it_and_faces_it(
    goal: Pose, distance: float, bearing: float, success: bool
) -> None:
    error = goal_error(goal, ANSWERABLE[0], POSES)
    assert error.distance_m == pytest.approx(distance, abs=1e-9)
    assert error.bearing_deg == pytest.approx(bearing, abs=1e-6)
    assert error.success is success


def answered(goal: Pose) -> Decision:
    return Decision(query_id="q", question="Where?", verdict=Verdict.ANSWER, goal=goal)


def test_a_result_names_its_fault() -> None:
    good, bad = pose(3.0, 0.0), pose(9.0, 0.0)
    refused = refuse("q", "Where?", Reason.ABSENT)

    def fault(asked: Query, decision: Decision) -> str:
        compared = decision.goal is not None and asked.answerable
        error = goal_error(decision.goal, asked, POSES) if compared and decision.goal else None
        return Result(asked, decision, error).fault

    assert fault(ANSWERABLE[0], answered(good)) == ""
    assert fault(ANSWERABLE[0], answered(bad)) == "goal is off"
    assert fault(ANSWERABLE[0], refused) == "should answer"
    assert fault(ABSENT[0], refused) == ""
    assert fault(ABSENT[0], answered(good)) == "should refuse"


def settings(*names: str) -> DemoSettings:
    return DemoSettings(dataset=Path("d"), sequence="test_0", rate=5.0, queries=names)


def test_the_demo_asks_what_its_settings_name() -> None:
    data = dataset(*ANSWERABLE, *ABSENT, ELSEWHERE)
    assert seen_elsewhere(data, ABSENT[1]) == ("train_0",)
    names = ("u1", "a0", "a1", "u0", "a2", "u2")
    assert [q.id for q in chosen_queries(data, settings(*names))] == list(names)


@pytest.mark.parametrize(
    ("queries", "names", "message"),
    [
        ([*ANSWERABLE, *ABSENT, ELSEWHERE], ("a0", "a1", "a2", "u0", "u1", "x"), "no query x"),
        ([*ANSWERABLE, *ABSENT, ELSEWHERE], ("a0", "a1", "a2", "u0", "u1", "e"), "no query e"),
        ([*ANSWERABLE, *ABSENT, ELSEWHERE], ("a0", "a1", "u0", "u1", "u2", "u2"), "three answ"),
        ([*ANSWERABLE, *ABSENT], ("a0", "a1", "a2", "u0", "u1", "u2"), "only another sequence"),
    ],
)
def test_a_choice_that_shows_too_little_is_an_error(
    queries: list[Query], names: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        chosen_queries(dataset(*queries), settings(*names))


def test_what_the_client_prints_comes_back_as_the_decision() -> None:
    for decision in (answered(pose(1.5, -2.0, 0.3)), refuse("q", "Where?", Reason.NO_POSE)):
        printed: dict[str, Any] = decision.to_json()
        back = decision_from_json(printed, {})
        assert back.to_json() == printed
