"""Every error of semflip, in one hierarchy; messages name the thing at fault and the cure."""

from __future__ import annotations

from collections.abc import Mapping


class SemflipError(Exception):
    """Base of all errors that semflip raises on purpose."""


class ConfigError(SemflipError, ValueError):
    """A setting has an unknown name or a value out of range."""


class MissingExtraError(SemflipError, ImportError):
    """An optional library is needed and not installed.

    Args:
        library: import name of what is missing.
        extra: the semflip extra that brings it.
        purpose: what needs it, as the end of "... is needed for".
    """

    def __init__(self, library: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{library} is needed for {purpose} and is not installed: "
            f'pip install "semflip[{extra}]"'
        )
        self.library = library
        self.extra = extra


class ImageError(SemflipError, ValueError):
    """A picture cannot be used; ``reason`` is a short code to count drops by (``truncated``...)."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PoseError(SemflipError, ValueError):
    """A pose is not finite, has no frame, or its quaternion is not a rotation."""


class MemoryFileError(SemflipError):
    """A video memory file cannot be opened, read or written."""


class EncoderError(SemflipError):
    """An encoder cannot be loaded, or returned something that breaks its contract."""


class GateError(SemflipError):
    """A gate file cannot be read, or holds values that no gate may have."""


class GateMismatchError(GateError):
    """The gate was made for another encoder or recall policy.

    Attributes:
        differences: field -> (what the gate was made for, what is running).
    """

    def __init__(self, message: str, differences: Mapping[str, tuple[object, object]]) -> None:
        super().__init__(message)
        self.differences = dict(differences)


class CancelledError(SemflipError):
    """Whoever asked does not want it any more; nothing is wrong."""


class QuestionError(SemflipError, ValueError):
    """A question that cannot be asked: empty, too long, or not text."""


class BagError(SemflipError):
    """A recording cannot be read, or lacks the topic asked for."""


class DatasetError(SemflipError):
    """A dataset breaks its layout; the message names file, line, field and cure."""


class AssetError(SemflipError):
    """A packaged model, texture or data file is missing or is not the expected one."""


class SynthesisError(SemflipError):
    """Training data could not be synthesised."""
