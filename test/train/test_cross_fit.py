"""Cross-fitted features: who sees which question, and that rows say so and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("spacy")
pytest.importorskip("onnxruntime")

from semflip_core.encoders import fingerprint_digest
from semflip_core.encoders.mini.encoder import MiniEncoder
from semflip_core.encoders.mini.projection import DEFAULT_WEIGHTS, ProjectionWeights
from semflip_core.errors import ConfigError
from semflip_train.cross_fit import FOLD_COUNT, HELD_OUT, CrossFit
from semflip_train.engines import LocalEngine
from semflip_train.features import load_table
from semflip_train.projection_folds import FOLDS, missing_folds
from semflip_train.projection_vocabulary import Named, without_some_models
from semflip_train.run_directory import ExperimentSettings, RunDirectory
from semflip_train.stages import embed, synthesise
from support.colour_runs import write_colour_dataset

HELD = (["red chair", "coffee maker"], ["box"], ["lamp"])


@pytest.fixture(scope="module")
def folds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped projection three times, each with another bias and other names left out."""
    folder = tmp_path_factory.mktemp("folds")
    weights = ProjectionWeights.load(DEFAULT_WEIGHTS)
    for number, names in enumerate(HELD):
        moved = weights["mlp.bias2"] + np.float32(0.05 * (number + 1))
        tensors = {**weights.tensors, "mlp.bias2": moved}
        header = {**weights.header, HELD_OUT: names, FOLD_COUNT: len(HELD)}
        ProjectionWeights(tensors, header).save(folder / f"fold{number}.safetensors")
    return folder


@pytest.fixture(scope="module")
def encoder() -> MiniEncoder:
    return MiniEncoder(threads=1)


@pytest.mark.parametrize(
    ("question", "unmet"),
    [
        ("Where is the lamp?", 2),
        ("take me to the blue box", 1),
        ("Is there a drip coffee maker?", 0),  # by the end of its name
    ],
)
def test_a_question_is_seen_by_the_fold_that_never_met_its_target_and_by_another(
    folds, encoder, question, unmet
):
    chosen = CrossFit.load(folds, encoder).chosen(question)
    assert chosen[0] == unmet
    assert chosen[1] in {0, 1, 2} - {unmet}


def test_the_second_fold_varies_with_the_words_and_strange_words_are_drawn_for(folds, encoder):
    fit = CrossFit.load(folds, encoder)
    strange = [fit.chosen(f"Where is the {word}?") for word in ("yak", "flute", "tent", "anvil")]
    assert all(a != b for a, b in strange)
    assert len(set(strange)) > 1
    assert strange == [fit.chosen(f"find the {word}") for word in ("yak", "flute", "tent", "anvil")]


def test_folds_share_the_networks_and_each_frame_is_what_each_would_make(folds, encoder):
    fit = CrossFit.load(folds, encoder)
    rng = np.random.default_rng(3)
    picture = rng.integers(0, 255, (96, 128, 3), dtype=np.uint8)
    together = encoder.encode_frame_by(picture, (encoder, *fit.encoders))
    alone = [MiniEncoder(f, threads=1).encode_frame(picture) for f in sorted(folds.iterdir())[:1]]
    assert together[0].to_bytes() == encoder.encode_frame(picture).to_bytes()
    assert together[1].to_bytes() == alone[0].to_bytes()
    assert len({made.to_bytes() for made in together}) == 4
    digests = {fingerprint_digest(e.frame_fingerprint()) for e in (encoder, *fit.encoders)}
    assert len(digests) == 4


def test_missing_or_wrong_folds_are_named_with_the_cure(folds, encoder, tmp_path):
    with pytest.raises(ConfigError, match="python -m semflip_train.projection_folds --out"):
        CrossFit.load(tmp_path, encoder)
    with pytest.raises(ConfigError, match="leave it out for other encoders"):
        CrossFit.load(folds, object())
    for number in range(2):
        (tmp_path / f"fold{number}.safetensors").write_bytes(DEFAULT_WEIGHTS.read_bytes())
    with pytest.raises(ConfigError, match="make the folds again"):
        CrossFit.load(tmp_path, encoder)
    assert missing_folds(tmp_path) == list(range(2, FOLDS))
    for number in range(2):  # a run that was stopped leaves some of them
        name = f"fold{number}.safetensors"
        (tmp_path / name).write_bytes((folds / name).read_bytes())
    with pytest.raises(ConfigError, match="holds 2 projections of 3; make the rest with: python"):
        CrossFit.load(tmp_path, encoder)


def test_every_sample_gives_a_row_for_each_of_its_folds(folds, tmp_path):
    dataset = write_colour_dataset(tmp_path / "colours")
    values = {
        "name": "folds",
        "dataset": str(dataset),
        "synthesis": {"vflip": False, "strategies": ["attribute", "subjective"]},
        "evaluation": {"baselines": False},
    }
    tables = {}
    for name, cross_fit in (("plain", None), ("fitted", str(folds))):
        settings = ExperimentSettings.model_validate({**values, "cross_fit": cross_fit})
        run = RunDirectory.create(tmp_path / name, settings, tmp_path / "cache")
        synthesise(run, LocalEngine())
        embed(run, LocalEngine())
        tables[name] = load_table(run.features / "train")
    plain, fitted = tables["plain"], tables["fitted"]
    ids = [sample.id for sample in fitted.samples]
    assert sorted(ids) == sorted(2 * [sample.id for sample in plain.samples])
    assert fitted.fingerprint == plain.fingerprint  # the gate is for the encoder that robots run
    layout = fitted.layout  # as the encoder named it, read back from the files
    assert layout["wording"].stop == fitted.x.shape[1]
    assert {"space0.target", "colour"} <= layout.keys()
    for sample in plain.samples:
        rows = fitted.x[[i for i, name in enumerate(ids) if name == sample.id]]
        assert np.abs(rows[0] - rows[1]).max() > 1e-3  # two projections
    labels = {s.id: s.label for s in plain.samples}
    assert [labels[i] for i in ids] == fitted.y.tolist()


def test_a_fold_does_without_some_models_but_keeps_one_of_each_kind():
    words = tuple(
        Named(f"lib/{kind}{n}", kind, (kind,), frozenset([kind])).painted(colour)
        for kind in ("chair", "dog")
        for n in range(12)
        for colour in ("", "red")
    )
    kept = [without_some_models(words, fold) for fold in range(3)]
    for chosen in kept:
        assert {w.category for w in chosen} == {"chair", "dog"}
        assert len(chosen) < len(words)
        models = {w.model.partition("#")[0] for w in chosen}
        assert len(chosen) == 2 * len(models)  # the painted ones go with the model
    assert set().union(*kept) == set(words)
