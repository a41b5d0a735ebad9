"""spaCy's English pipeline, which all who take questions apart share: loading it takes a second."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from semflip_core.encoders.mini.assets import SPACY_MODEL, packaged_file
from semflip_core.errors import MissingExtraError


@lru_cache(maxsize=1)
def english() -> Any:
    """The pipeline, loaded once in a process.

    Raises:
        MissingExtraError: spaCy or its English model is not installed.
    """
    try:
        import spacy
    except ImportError as error:
        raise MissingExtraError("spacy", "cpu", "taking questions apart") from error
    model = packaged_file(SPACY_MODEL, "taking questions apart")
    return spacy.load(model, exclude=["ner", "senter"])
