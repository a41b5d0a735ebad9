"""Two Ray workers, one of them killed in the middle: the same samples and features as here."""

from __future__ import annotations

import json
import os

import pytest

pytest.importorskip("spacy")
pytest.importorskip("torch")
pytest.importorskip("ray", reason="ray has no wheel for this Python")

from semflip_train.engines import EngineError, RayEngine
from semflip_train.run_directory import RunDirectory
from semflip_train.stages import embed, features_unit, synthesise, synthesise_unit
from support.cli import with_support
from support.colour_runs import settings_for, stages
from support.killed_units import always_killed, features_killed, synthesise_killed

KILLED = {synthesise_unit: synthesise_killed, features_unit: features_killed}


class KillingEngine:
    """Ray, with a worker lost in each stage."""

    name = "ray"

    def __init__(self, engine):
        self.engine = engine

    def map(self, unit, root, items, progress):
        return self.engine.map(KILLED[unit], root, items, progress)


@pytest.fixture(scope="module")
def engine():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", with_support()["PYTHONPATH"])
        # Ray's workers stand back for everybody else: on a busy machine the test would wait long.
        patch.setenv("RAY_worker_niceness", "0")
        made = RayEngine(workers=2)
        yield made
        made.close()


def test_a_lost_worker_changes_nothing(engine, dataset, finished, tmp_path):
    here, _ = finished
    there = RunDirectory.create(tmp_path / "there", settings_for(dataset))
    counts = synthesise(there, KillingEngine(engine))
    assert counts == json.loads((here.synth / "counts.json").read_text())
    embed(there, KillingEngine(engine))
    for stage in ("synth", "features"):
        assert int((there.root / f"killed_{stage}").read_text()) != os.getpid()
    files = [*here.synth.glob("*.jsonl"), *here.features.rglob("*.*")]
    assert len(files) > 8
    for file in files:
        other = there.root / file.relative_to(here.root)
        assert other.read_bytes() == file.read_bytes(), file.name
    # Two questions of sequence b were finished before its worker died: they are not made again.
    whole, rest = stages(here)["synth"][0], stages(there)["synth"][0]
    assert rest["questions_made_now"] == whole["questions_made_now"] - 2
    rows = stages(here)["features"][0]["pairs_embedded_now"]
    assert stages(there)["features"][0]["pairs_embedded_now"] == rows - 2


def test_a_unit_that_always_kills_its_worker_is_tried_twice_and_named(engine, tmp_path):
    with pytest.raises(EngineError, match="the worker on 'x' was lost too often"):
        engine.map(always_killed, str(tmp_path), ["x"], None)
    assert len((tmp_path / "deaths").read_text().splitlines()) == 2
