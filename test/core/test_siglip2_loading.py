"""Checkpoints for siglip2 are checked before they are trusted; what judges them is kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from semflip_core.encoders import load_encoder, load_retriever
from semflip_core.encoders.contract import NamingRetriever
from semflip_core.encoders.siglip2 import reference
from semflip_core.errors import AssetError, ConfigError, EncoderError
from semflip_core.loading import shipped_gate
from support.tiny_siglip import tiny_checkpoint


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkpoint that a test may damage."""
    return Path(shutil.copytree(tiny_checkpoint(), tmp_path / "copy"))


def load(folder: Path) -> object:
    return load_encoder("siglip2", model=str(folder))


def test_a_copy_elsewhere_is_the_same_encoder(copy: Path) -> None:
    here = load_encoder("siglip2", model=str(tiny_checkpoint()))
    assert here.fingerprint() == load_encoder("siglip2", model=str(copy)).fingerprint()


def test_another_kind_of_model_is_refused(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "model_type": "qwen2_5_vl"}))
    with pytest.raises(
        EncoderError, match="'qwen2_5_vl', this encoder reads clip, siglip, siglip2"
    ):
        load(copy)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(AssetError, match=name):
        load(copy)


@pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json"])
def test_a_file_that_is_no_json_is_named(copy: Path, name: str) -> None:
    (copy / name).write_text("{")
    with pytest.raises(EncoderError, match=name):
        load(copy)


def test_weights_that_do_not_fill_the_model_are_refused(copy: Path) -> None:
    from safetensors.numpy import load_file, save_file

    tensors = load_file(copy / "model.safetensors")
    del tensors["vision_model.head.probe"]
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(AssetError, match="missing_keys"):
        load(copy)


def test_a_model_that_is_not_here_is_not_fetched() -> None:
    with pytest.raises(AssetError, match="hf download nobody/no-such-model"):
        load_encoder("siglip2", model="nobody/no-such-model")


def test_wrong_options_are_named() -> None:
    with pytest.raises(ConfigError, match="colour.*known here:.*feature_bytes"):
        load_encoder("siglip2", colour="red")
    with pytest.raises(ConfigError, match="dtype = 'int4'"):
        load_encoder("siglip2", dtype="int4")
    with pytest.raises(EncoderError, match="device 'abacus'"):
        load_encoder("siglip2", model=str(tiny_checkpoint()), device="abacus")


def test_no_gate_is_shipped_and_the_cure_is_told() -> None:
    with pytest.raises(AssetError, match="no gate is shipped for encoder 'siglip2'.*semflip train"):
        shipped_gate("siglip2")


def test_it_names_many_things_at_once_for_recall() -> None:
    retriever = load_retriever("siglip2", model=str(tiny_checkpoint()))
    assert isinstance(retriever, NamingRetriever)
    names = retriever.name_vectors(["sofa", "backpack"])
    np.testing.assert_array_equal(names[0], retriever.phrase_vectors("sofa")[0])


def test_what_judges_a_checkpoint_is_computed_once_and_mended_where_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMFLIP_CACHE", str(tmp_path))
    computed: list[str] = []

    def regions(picture: np.ndarray) -> np.ndarray:
        computed.append("picture")
        rng = np.random.default_rng(int(picture.astype(int).sum()))
        rows = rng.normal(size=(3, 8)).astype(np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def texts(names: object) -> np.ndarray:
        rows = [np.random.default_rng(len(str(n))).normal(size=8) for n in names]  # type: ignore[attr-defined]
        return np.asarray(rows, np.float32)

    first = reference.load_reference("key", regions, texts)
    assert len(computed) == len(first["regions"]) >= 12
    again = reference.load_reference("key", regions, texts)
    assert len(computed) == len(first["regions"])
    (tmp_path / "siglip2-key.safetensors").write_bytes(b"cut short")
    mended = reference.load_reference("key", regions, texts)
    assert len(computed) == 2 * len(first["regions"])
    for name in reference.TENSORS:
        np.testing.assert_array_equal(first[name], again[name])
        np.testing.assert_array_equal(first[name], mended[name])


def test_other_reference_pictures_are_another_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = reference.reference_digest()
    pictures = Path(shutil.copytree(reference.PICTURES, tmp_path / "data"))
    monkeypatch.setattr(reference, "PICTURES", pictures)
    assert reference.reference_digest() == before
    next(iter(pictures.glob("*.jpg"))).unlink()
    assert reference.reference_digest() != before
    shutil.rmtree(pictures)
    with pytest.raises(AssetError, match="install semflip again"):
        reference.reference_digest()
