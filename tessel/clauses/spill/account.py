"""How many bytes one query keeps alive."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from tessel import telemetry

WORTH_GIVING_BACK_BYTES = 4 << 20
"""Fewer bytes that went through memory leave too little behind to be given back to the system."""

_SMALL_BUDGET_BYTES = 128 * 1024 * 1024


class Account:
    """Bytes that one query keeps alive, of all its stages together.

    Units under way or waiting for their turn are in it, and what clauses and barriers hold; the
    result of ``collect`` is not. Half of the budget may be held, by all who hold together: the rest
    is for units under way. It only counts: who adds asks :attr:`alive`, who holds asks
    :meth:`fits` first. Each change is told as an event ``memory.alive``, so that a test can find
    the most there ever was.

    Parameters
    ----------
    limit
        The budget, in bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._alive = 0
        self._held = 0
        self._passed = 0
        self._full = False
        self._lock = threading.Lock()

    @property
    def alive(self) -> int:
        """Bytes alive now."""
        return self._alive

    @property
    def held_limit(self) -> int:
        """Bytes that clauses and barriers may hold together."""
        return self.limit // 2

    @property
    def admitted_limit(self) -> int:
        """Bytes up to which units are taken on: what is made of them takes about as much again."""
        return self.limit * 5 // 8

    @property
    def is_tight(self) -> bool:
        """Whether free memory is worth giving back to the system: it takes time to get it again.

        So it is for a small budget, and when something went to a file, because not all may be held.
        """
        return self._full or self.limit < _SMALL_BUDGET_BYTES

    def note_full(self) -> None:
        """Say that something goes to a file."""
        self._full = True

    def passes(self, size: int) -> bool:
        """Count bytes that go through memory; return whether to give back now what is free.

        So it is each time that they are as many as the budget, an eighth of a small one: what is
        given back is soon taken again, and fresh pages take the system's time. Threads may lose
        some of it to each other.
        """
        self._passed += size
        worth = self.limit // 8 if self.limit < _SMALL_BUDGET_BYTES else self.limit
        if self._passed < max(WORTH_GIVING_BACK_BYTES, worth):
            return False
        self._passed = 0
        return True

    def fits(self, size: int) -> bool:
        """Return whether ``size`` bytes more may be held."""
        return self._held + size <= self.held_limit

    def hold(self, size: int) -> None:
        """Count ``size`` bytes more as held, and alive; fewer where it is negative."""
        with self._lock:
            self._held += size
        self.add(size)

    @contextlib.contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Count ``size`` bytes as held for as long as the block lasts."""
        self.hold(size)
        try:
            yield
        finally:
            self.hold(-size)

    @contextlib.contextmanager
    def taking(self, size: int) -> Iterator[None]:
        """Count ``size`` bytes as alive for as long as the block lasts."""
        self.add(size)
        try:
            yield
        finally:
            self.add(-size)

    def add(self, size: int) -> None:
        """Count ``size`` bytes more; fewer where it is negative."""
        with self._lock:
            self._alive += size
            alive = self._alive
        if (
            telemetry.has_subscribers()
        ):  # half of the events of a small query, which no profile shows
            telemetry.emit("memory.alive", bytes=alive)
