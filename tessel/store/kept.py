"""Keeping a bounded number of things that were read or made and never change."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Kept"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """The things used last, by key; safe to use from several threads and after a fork.

    It has no lock, which a fork could leave locked: each step is one call of a built-in type.

    Parameters
    ----------
    most
        How many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: K) -> V | None:
        """Return what is kept for a key; None where nothing is."""
        found = self._found.get(key)
        if found is not None:
            try:  # noqa: SIM105  single rows are looked up by the thousand, and this costs nothing
                self._found.move_to_end(key)
            except KeyError:  # another thread has dropped it
                pass
        return found

    def keep(self, key: K, value: V) -> None:
        """Keep something, and drop what was not used for longest if there is too much."""
        self._found[key] = value
        with contextlib.suppress(KeyError):  # other threads have dropped as much
            while len(self._found) > self._most:
                self._found.popitem(last=False)

    def made(self, key: K, make: Callable[[], V]) -> V:
        """Return what is kept for a key, made now where nothing is; threads may make it twice."""
        found = self.get(key)
        if found is None:
            found = make()
            self.keep(key, found)
        return found
