"""Text of strangers: plain values or one error, whatever it holds."""

from __future__ import annotations

import pytest

from semflip_core.errors import ConfigError
from semflip_core.plain_text import read_json, read_yaml

BOMB = "a: &a [x, x]\n" + "\n".join(f"k{n}: &k{n} [*a, *a]" for n in range(30))


def test_plain_values_come_through() -> None:
    assert read_yaml("a: [1, 2.5, x]\nb: {c: null}") == {"a": [1, 2.5, "x"], "b": {"c": None}}
    assert read_yaml("") is None
    assert read_json('{"a": [1, "x"]}') == {"a": [1, "x"]}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (BOMB, "aliases"),
        ("[" * 5000, "deep"),
        ("a: 2001-99-99", "YAML"),
        ("a: !!python/object/apply:os.system [ls]", "YAML"),
        ("a: [", "YAML"),
        ("\x00", "YAML"),
        ("!!binary 'x'", "YAML"),
        ("? {a: b}\n: c", "YAML"),
    ],
)
def test_yaml_that_is_none_or_a_trap_is_one_error(text: str, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        read_yaml(text)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, b"\xff\xfe\x00", "1" * 10_000, "nul"])
def test_json_that_is_none_is_one_error(text: str) -> None:
    with pytest.raises(ConfigError, match="JSON"):
        read_json(text)
