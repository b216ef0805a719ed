"""The workspace of one query: its account, and the spill buffers that clauses and barriers open.

The account says how many bytes one query keeps alive.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tessel import telemetry
from tessel.cancelling import check_cancelled
from tessel.closing import Closing
from tessel.ecs import ProcessingUnit
from tessel.options import Options, current

if TYPE_CHECKING:
    from tessel.clauses.spill.file import SpillFile
    from tessel.clauses.spill.local_pool import LocalPool
    from tessel.clauses.spill.spill_buffer import SpillBuffer


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
        # Of a small query this would be half of all events, and no profile shows it.
        if telemetry.has_subscribers():
            telemetry.emit("memory.alive", bytes=alive)


class Workspace(Closing):
    """What one query may hold, and where it puts the rest; use as a context manager.

    Leaving it closes what was opened here and is still open, in whatever way it is left.
    """

    pool: LocalPool | None = None

    def __init__(self, options: Options) -> None:
        self.account = Account(options.live_bytes)
        self._directory = options.spill_directory
        # Weak: a buffer that its clause has closed and forgotten is not kept alive by this.
        self._open: weakref.WeakSet[SpillBuffer | SpillFile] = weakref.WeakSet()

    def close(self) -> None:
        """Close what is open."""
        for each in list(self._open):
            each.close()

    def spill_buffer(self) -> SpillBuffer:
        """Return a spill buffer; close it when nothing in it is wanted any more."""
        from tessel.clauses.spill.spill_buffer import SpillBuffer

        buffer = SpillBuffer(self.account, self._directory)
        self._open.add(buffer)
        return buffer

    def file(self) -> SpillFile:
        """Return a file, for those who know that something does not fit."""
        from tessel.clauses.spill.file import SpillFile

        file = SpillFile(self._directory, self.account)
        self._open.add(file)
        return file

    def stream(self, units: Iterator[ProcessingUnit], *, is_result: bool = False) -> UnitStream:
        """Return units as a stream by which a clause finds this workspace.

        Whether what the clause gives is the result, collected whole, is known by it too.
        """
        return UnitStream(units, self, is_result)


class UnitStream(Iterator[ProcessingUnit]):
    """Units in plan order, on their way to a clause that takes a stream."""

    def __init__(
        self, units: Iterator[ProcessingUnit], workspace: Workspace, is_result: bool
    ) -> None:
        self._units = units
        self.workspace = workspace
        self.is_result = is_result

    def __next__(self) -> ProcessingUnit:
        check_cancelled()
        return next(self._units)


@contextlib.contextmanager
def workspace_of(units: Iterable[ProcessingUnit]) -> Iterator[Workspace]:
    """Give the workspace of the query that a stream of units belongs to.

    Units that are no :class:`UnitStream`, as in a test of a clause alone, get one of their own by
    the options in force.
    """
    if isinstance(units, UnitStream):
        yield units.workspace
        return
    with Workspace(current()) as own:
        yield own
