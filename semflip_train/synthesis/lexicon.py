"""Words for slot filling, read from a data file and checked."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import Field

from semflip_core.settings import Settings, read_settings_file

DEFAULT = Path(__file__).with_name("lexicon.yaml")


class Lexicon(Settings):
    """What Q-Flip may put in place of a question's words; see ``lexicon.yaml``."""

    objects: tuple[str, ...] = Field(min_length=1)
    places: tuple[str, ...] = Field(min_length=1)
    relations: dict[str, tuple[str, ...]]
    colours: tuple[str, ...] = Field(min_length=2)
    attributes: tuple[tuple[str, str], ...]
    subjective: tuple[str, ...] = Field(min_length=1)
    unavailable: tuple[str, ...] = Field(min_length=1)
    needs_action: tuple[str, ...] = Field(min_length=1)
    vague: tuple[str, ...] = Field(min_length=1)
    pronouns: tuple[str, ...] = Field(min_length=1)
    plural_pronouns: tuple[str, ...] = Field(min_length=1)

    def exchange(self, word: str) -> tuple[str, ...]:
        """Describing words that contradict ``word``; empty where none is known."""
        if word in self.colours:
            return tuple(colour for colour in self.colours if colour != word)
        return tuple(b if a == word else a for a, b in self.attributes if word in (a, b))


@lru_cache(maxsize=4)
def load_lexicon(path: Path = DEFAULT) -> Lexicon:
    """Read a lexicon.

    Raises:
        ConfigError: names the file and the key that is wrong.
    """
    return read_settings_file(Lexicon, path)
