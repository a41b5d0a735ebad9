"""Encoders by name, or one's own as module:Class."""

from __future__ import annotations

import pytest

from semflip_core.encoders import load_encoder
from semflip_core.errors import AssetError, ConfigError, EncoderError
from semflip_core.loading import load_backends, shipped_gate


def test_ones_own_encoder_loads_by_module_and_class() -> None:
    assert load_encoder("support.colours:ColourEncoder").name == "colours"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("maxi", "known: .*mini.*'module:Class'"),
        ("no_such_module:Encoder", "no module 'no_such_module'"),
        ("support.nowhere:Encoder", "no module 'support.nowhere'"),
        ("support.colours:Nothing", "has no 'Nothing'"),
        ("support.colours:", "has no ''"),
        (":Encoder", "module"),
    ],
)
def test_a_name_that_is_none_says_what_is_missing(name, words) -> None:
    with pytest.raises(ConfigError, match=words):
        load_encoder(name)


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(ConfigError, match="colour_space"):
        load_encoder("support.slow_colours:SlowColours", colour_space="lab")


def test_an_import_error_inside_ones_own_module_names_what_is_missing(
    tmp_path, monkeypatch
) -> None:
    (tmp_path / "my_encoder.py").write_text("import a_library_that_is_missing\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EncoderError, match="No module named 'a_library_that_is_missing'"):
        load_encoder("my_encoder:Encoder")


def test_an_encoder_that_is_its_own_retriever_is_loaded_once() -> None:
    name = "support.colours:ColourEncoder"
    assert load_backends(name)[1] is None
    assert load_backends(name, name)[1] is None


def test_a_gate_that_is_not_shipped_is_named() -> None:
    with pytest.raises(AssetError, match="'siglip9'"):
        shipped_gate("siglip9")
