"""What is released at the end of a ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod

from typing_extensions import Self


class Closing(ABC):
    """Has :meth:`close`, and calls it at the end of a ``with`` block, also after an exception."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
