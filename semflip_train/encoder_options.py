"""Options of an encoder on the command line: a YAML mapping in one string."""

from __future__ import annotations

from typing import Any

from semflip_core.errors import ConfigError
from semflip_core.plain_text import read_yaml

EXAMPLE = "'{model: /models/qwen}'"


def encoder_options(text: str) -> dict[str, Any]:
    """The mapping; no text, no options.

    Raises:
        ConfigError: it is not a mapping with text keys.
    """
    try:
        options = read_yaml(text) if text.strip() else {}
    except ConfigError as error:
        raise ConfigError(f"--encoder-options: {error}") from error
    if not isinstance(options, dict) or not all(isinstance(key, str) for key in options):
        raise ConfigError(f"--encoder-options needs a YAML mapping, {EXAMPLE}")
    return options
