"""A sample of what `make faults` does whole: thirty faults, lifecycles, hostile questions, load."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("semflip.msg", reason="messages are not built")

from faults import hostile, lifecycle, suite
from faults.soak import soak
from faults.stage import ENCODER, Stage
from support.colours import write_gate

pytestmark = pytest.mark.live

SAMPLE = 30
#: The process's own faults start a node each; a few of them are in test_live_process.
QUICK = ("camera", "poses", "encoder", "gate", "dds", "clock")


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """A node of the fault suite."""
    folder = tmp_path_factory.mktemp("stage")
    made = Stage(folder, write_gate(folder / "good.safetensors", ENCODER))
    yield made
    made.close()


def test_the_suite_holds_three_hundred_faults_and_moments() -> None:
    found = suite.trials()
    pairs = {(seam, name, moment) for _, seam, name, moment, _ in found}
    assert len(pairs) == len(found), "each is counted once"
    assert len(pairs) >= 300
    assert len({seam for seam, _, _ in pairs}) == 8


@pytest.mark.timeout(300)
def test_thirty_faults_break_no_promise(tmp_path) -> None:
    quick = [trial for trial in suite.trials() if trial[1] in QUICK]
    results = suite.run(suite.sample_of(quick, SAMPLE, seed=7), tmp_path, print)
    figures = suite.summary(results)
    assert figures.pop("faults tried (fault and moment)") == SAMPLE
    assert set(figures.values()) == {0}, [r.problems for r in results if r.problems]


def test_random_lifecycles_under_traffic_leak_nothing(stage) -> None:
    figures = lifecycle.sequences(stage, 8, seed=3)
    assert figures["allowed"] > 3 and figures["forbidden"] > 3
    assert not stage.ledger.problems()


def test_hostile_questions_get_one_decision_each(stage) -> None:
    assert len(list(hostile.questions())) >= 200
    figures = hostile.ask_all(stage, every=6)
    assert figures["questions"] > 30
    assert not stage.ledger.problems()


def test_more_than_it_can_do_for_a_while(tmp_path) -> None:
    figures, problems = soak(tmp_path, 6.0)
    assert not problems
    assert figures["by reason"]["OVERLOADED"] > figures["by reason"]["answered"] > 0
