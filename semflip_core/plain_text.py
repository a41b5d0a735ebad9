"""YAML and JSON from files that somebody else wrote: plain values only, and never endless.

The parsers' own ways to fail (deep nesting, dates that are none, aliases that unfold to gigabytes)
all become one error.
"""

from __future__ import annotations

import json
from typing import Any

from semflip_core.errors import ConfigError


def read_yaml(text: str) -> Any:
    """A YAML document as plain values; None where it is empty.

    Aliases (``*name``) are refused: ten lines of them unfold to gigabytes when they are printed.

    Raises:
        ConfigError: it is not YAML, nests too deeply, or holds an alias.
    """
    import yaml

    class PlainLoader(yaml.SafeLoader):
        """The safe loader without aliases."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
                raise ConfigError(f"line {mark.line + 1}: YAML aliases (*name) are not read here")
            return super().compose_node(parent, index)

    try:
        return yaml.load(text, PlainLoader)
    except RecursionError as error:
        raise ConfigError("not usable YAML: it nests too deeply") from error
    except (yaml.YAMLError, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"not valid YAML: {error}") from error


def read_json(text: str | bytes) -> Any:
    """A JSON document as plain values.

    Raises:
        ConfigError: it is not JSON, or nests too deeply; the message names the column.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ConfigError("not usable JSON: it nests too deeply") from error
    except json.JSONDecodeError as error:
        raise ConfigError(f"not JSON: {error.msg} at column {error.colno}") from error
    except ValueError as error:  # bytes that are no UTF-8, numbers of thousands of digits
        raise ConfigError(f"not JSON: {error}") from error
