"""Encoder and retriever names, and how each is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from semflip_core.encoders.contract import Encoder, Retriever, encoder_errors
from semflip_core.errors import ConfigError

#: name -> "module:factory"; the factory takes the encoder's options as keywords.
ENCODERS: dict[str, str] = {
    "mini": "semflip_core.encoders.mini:MiniEncoder",
    "qwen2_5_vl": "semflip_core.encoders.qwen2_5_vl:load",
    "siglip2": "semflip_core.encoders.siglip2:load",
}
RETRIEVERS: dict[str, str] = {
    "mini": "semflip_core.encoders.mini:MiniEncoder",
    "siglip2": "semflip_core.encoders.siglip2:load",
}


def _load(kind: str, table: Mapping[str, str], name: str, options: Mapping[str, Any]) -> Any:
    target = name if ":" in name else table.get(name, "")
    if not target:
        raise ConfigError(
            f"unknown {kind} '{name}'; known: {', '.join(sorted(table))}, or your own as "
            "'module:Class'"
        )
    with encoder_errors(f"{kind} '{name}' cannot be loaded"):
        try:
            return _factory(kind, target)(**options)
        except TypeError as error:
            if "unexpected keyword argument" in str(error):
                raise ConfigError(f"{kind} '{name}': {error}") from error
            raise


def _factory(kind: str, target: str) -> Any:
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # something that the module itself imports
        raise ConfigError(f"{kind} '{target}': no module '{error.name}' on PYTHONPATH") from error
    except (AttributeError, ValueError) as error:
        raise ConfigError(f"{kind} '{target}': module '{module}' has no '{attribute}'") from error


def load_encoder(name: str, **options: Any) -> Encoder:
    """Load an encoder by name, or one's own as ``module:Class``.

    Raises:
        ConfigError: the name or an option is unknown.
        MissingExtraError: a library it needs is not installed.
        EncoderError: its weights cannot be loaded.
    """
    encoder: Encoder = _load("encoder", ENCODERS, name, options)
    return encoder


def load_retriever(name: str, **options: Any) -> Retriever:
    """Load a retriever by name; errors as for :func:`load_encoder`."""
    retriever: Retriever = _load("retriever", RETRIEVERS, name, options)
    return retriever
