"""Checkpoints as they come: whole, damaged, foreign, absent; and what the fingerprint notices."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from semflip_core.checkpoints import INDEX, find_folder, weight_digest, weight_files
from semflip_core.encoders import load_encoder
from semflip_core.encoders.qwen2_5_vl.loading import read_config
from semflip_core.errors import AssetError, ConfigError, EncoderError, MissingExtraError
from support.plain_qwen import scene
from support.tiny_qwen import TINY, Size, tiny_checkpoint, write_checkpoint
from support.tiny_qwen import tiny_qwen as load


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy that may be broken."""
    return Path(shutil.copytree(tiny_checkpoint(), tmp_path / "checkpoint"))


def change_json(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))


def test_the_checkpoint_is_in_the_hubs_format() -> None:
    folder = tiny_checkpoint()
    names = set(json.loads((folder / INDEX).read_text())["weight_map"])
    assert {
        "visual.patch_embed.proj.weight",
        "visual.merger.mlp.0.weight",
        "lm_head.weight",
    } <= names
    assert "model.layers.0.self_attn.q_proj.weight" in names
    assert len(weight_files(folder)) > 1
    assert read_config(folder)["rope_scaling"]["type"] == "mrope"


def test_a_missing_shard_is_named(folder: Path) -> None:
    file = weight_files(folder)[1]
    file.unlink()
    with pytest.raises(AssetError, match=file.name):
        load(folder)


def test_a_shard_cut_short_is_named(folder: Path) -> None:
    file = weight_files(folder)[1]
    file.write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(AssetError, match=f"{file.name} is damaged or cut short"):
        load(folder)


def test_weights_that_transformers_would_draw_at_random_are_an_error(folder: Path) -> None:
    def forget(index: dict[str, Any]) -> None:
        for file in weight_files(folder):
            from safetensors.numpy import load_file, save_file

            tensors = load_file(file)
            if tensors.pop("model.norm.weight", None) is not None:
                save_file(tensors, file, {"format": "pt"})
        index["weight_map"].pop("model.norm.weight")

    change_json(folder / INDEX, forget)
    with pytest.raises(AssetError, match=r"missing_keys.*norm\.weight"):
        load(folder)


def test_weights_of_another_shape_are_an_error(folder: Path) -> None:
    change_json(folder / "config.json", lambda c: c.update(intermediate_size=256))
    with pytest.raises(AssetError, match="mismatch"):
        load(folder)


def test_pickled_weights_are_not_read(folder: Path) -> None:
    for file in (*weight_files(folder), folder / INDEX):
        file.unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(AssetError, match="never pickled"):
        load(folder)


def test_another_kind_of_model_is_named(folder: Path) -> None:
    change_json(folder / "config.json", lambda c: c.update(model_type="qwen3_vl"))
    with pytest.raises(EncoderError, match="'qwen3_vl', this encoder reads 'qwen2_5_vl'"):
        load(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "preprocessor_config.json"])
def test_a_missing_or_broken_file_is_an_error(folder: Path, name: str) -> None:
    (folder / name).write_text("{ not json")
    with pytest.raises(AssetError):
        load(folder)
    (folder / name).unlink()
    with pytest.raises(AssetError):
        load(folder)


def test_a_model_that_is_not_here_says_how_to_get_it() -> None:
    with pytest.raises(AssetError, match="hf download Qwen/Qwen2.5-VL-7B-Instruct"):
        load_encoder("qwen2_5_vl")
    with pytest.raises(AssetError, match="no checkpoint directory"):
        load_encoder("qwen2_5_vl", model="/no/such/place")


def test_the_hub_is_not_asked_unless_one_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no environment variable forbids it; a robot starts without a network."""
    from huggingface_hub import constants

    called: list[object] = []

    def connect(_: object, address: object) -> None:
        called.append(address)
        raise OSError("no network in this test")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_, **__: connect(None, host))
    with pytest.raises(AssetError, match="nor in the local hub cache"):
        find_folder("nobody/nothing")
    assert not called
    with pytest.raises(AssetError, match="nor in the local hub cache"):
        find_folder("nobody/nothing", local_files_only=False)
    assert called


@pytest.mark.parametrize("found", ["5.4.0", "5.17.3", "5.21.0", "6.0.0.dev0"])
def test_a_transformers_that_was_not_proven_is_refused(
    monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    import transformers

    monkeypatch.setattr(transformers, "__version__", found)
    with pytest.raises(EncoderError, match=f"{found} is not >= 5.18, < 5.21"):
        load(tiny_checkpoint())


def test_an_option_that_is_unknown_or_wrong_is_named() -> None:
    with pytest.raises(ConfigError, match="unknown key 'colour'.*max_pixels"):
        load_encoder("qwen2_5_vl", colour="red")
    with pytest.raises(ConfigError, match="min_pixels 4000 is above max_pixels 3000"):
        load_encoder("qwen2_5_vl", min_pixels=4000, max_pixels=3000)
    with pytest.raises(ConfigError, match="dtype = 'int8'"):
        load_encoder("qwen2_5_vl", dtype="int8")


def test_layers_and_devices_out_of_range_are_named() -> None:
    with pytest.raises(EncoderError, match="choose from 1 to 4"):
        load(tiny_checkpoint(), layers=[5])
    with pytest.raises(EncoderError, match="layers 0 to 3"):
        load(tiny_checkpoint(), relevance_layers=[4])
    with pytest.raises(EncoderError, match="none of torch's"):
        load(tiny_checkpoint(), device="abacus")


def test_an_awq_checkpoint_names_the_extra_it_needs(folder: Path) -> None:
    quantised = {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}
    change_json(folder / "config.json", lambda c: c.update(quantization_config=quantised))
    with pytest.raises(MissingExtraError, match=r"gptqmodel.*semflip\[qwen-awq\]"):
        load(folder)


def test_the_fingerprint_names_content_not_place(folder: Path) -> None:
    assert load(folder).fingerprint() == load(tiny_checkpoint()).fingerprint()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"dtype": "bfloat16"}, "dtype"),
        ({"attention": "eager"}, "attention"),
        ({"max_pixels": 100_000}, "max_pixels"),
        ({"min_pixels": 4000}, "min_pixels"),
        ({"layers": [2, 4]}, "layers"),
        ({"relevance_layers": [0]}, "relevance_layers"),
    ],
)
def test_the_fingerprint_has_every_option_that_changes_an_embedding(
    options: dict[str, Any], field: str
) -> None:
    usual, changed = load(tiny_checkpoint()), load(tiny_checkpoint(), **options)
    a, b = usual.fingerprint(), changed.fingerprint()
    assert {name for name in a if a[name] != b[name]} == {field}


def flip_a_bit(folder: Path) -> None:
    file = weight_files(folder)[-1]
    data = bytearray(file.read_bytes())
    data[-2] ^= 1
    file.write_bytes(data)


def other_mean(folder: Path) -> None:
    change_json(folder / "preprocessor_config.json", lambda c: c.update(image_mean=[0.5] * 3))


def other_theta(folder: Path) -> None:
    change_json(folder / "config.json", lambda c: c.update(rope_theta=500000.0))


def other_words(folder: Path) -> None:
    def swap(values: dict[str, Any]) -> None:
        vocabulary = values["model"]["vocab"]
        vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]

    change_json(folder / "tokenizer.json", swap)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (flip_a_bit, "weights"),
        (other_mean, "processor"),
        (other_theta, "config"),
        (other_words, "tokenizer"),
    ],
)
def test_the_fingerprint_notices_a_changed_file(
    folder: Path, change: Callable[[Path], None], field: str
) -> None:
    change(folder)
    a, b = load(tiny_checkpoint()).fingerprint(), load(folder).fingerprint()
    assert {name for name in a if a[name] != b[name]} == {field}


def test_pictures_are_prepared_on_pillow_whatever_else_is_installed(folder: Path) -> None:
    """The trap: torchvision's processor gives other pixels; which one is in the fingerprint."""
    from semflip_core.encoders.qwen2_5_vl.loading import _processor_digest, load_processor
    from semflip_core.encoders.qwen2_5_vl.settings import QwenSettings

    processor = load_processor(folder, QwenSettings(model=str(folder)))
    assert type(processor).__name__ == "Qwen2VLImageProcessorPil"
    usual = _processor_digest(processor)
    other = type("Qwen2VLImageProcessor", (type(processor),), {})
    processor.__class__ = other
    assert _processor_digest(processor) != usual


def test_the_hub_caches_own_hashes_are_used(tmp_path: Path) -> None:
    """A snapshot is links into blobs named by their SHA-256; their content need not be read."""
    import hashlib

    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for file in weight_files(tiny_checkpoint()):
        blob = blobs / hashlib.sha256(file.read_bytes()).hexdigest()
        shutil.copy(file, blob)
        (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))
    shutil.copy(tiny_checkpoint() / INDEX, snapshot)
    assert weight_digest(weight_files(snapshot)) == weight_digest(weight_files(tiny_checkpoint()))


def test_tied_weights_load_as_those_of_the_3b_model(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, Size(**{**TINY.__dict__, "tied": True}))
    encoder = load(folder)
    assert encoder._model.lm_head.weight is encoder._decoder.embed_tokens.weight


@pytest.mark.parametrize(("size", "tokens"), [((480, 640), 391), ((224, 336), 96), ((64, 64), 4)])
def test_a_pictures_tokens(size: tuple[int, int], tokens: int) -> None:
    """640 x 480 is 23 x 17 tokens of 28 pixels."""
    features = load(tiny_checkpoint()).encode_frame(scene(0, *size))
    assert features.arrays["tokens"].shape == (tokens, TINY.hidden)


def test_a_large_picture_is_held_to_the_pixel_budget() -> None:
    features = load(tiny_checkpoint()).encode_frame(scene(0, 1080, 1920))
    rows, columns = features.arrays["grid"]
    assert rows * columns * 784 <= 307_200
    assert abs(columns / rows - 1920 / 1080) < 0.15
