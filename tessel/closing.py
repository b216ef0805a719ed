"""What is used as a block, and undone when the block is left; every part may use it."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Self, TypeVar

__all__ = ["Closing", "scoped"]

Value = TypeVar("Value")


@contextlib.contextmanager
def scoped(variable: ContextVar[Any], value: Value) -> Iterator[Value]:
    """Give a context variable a value for a block, also in the tasks that it starts."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


class Closing(ABC):
    """An object that a ``with`` block closes when it is left, by an error too."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held."""
