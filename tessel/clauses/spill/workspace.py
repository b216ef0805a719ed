"""The workspace of one query: its account, and the spools that its clauses and barriers open."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tessel.cancelling import check_cancelled
from tessel.clauses.spill.account import Account
from tessel.closing import Closing
from tessel.ecs import ProcessingUnit
from tessel.options import Options, current

if TYPE_CHECKING:
    from tessel.clauses.spill.file import SpillFile
    from tessel.clauses.spill.local_pool import LocalPool
    from tessel.clauses.spill.spool import Spool


class Workspace(Closing):
    """What one query may hold, and where it puts the rest; use as a context manager.

    Leaving it closes what was opened here and is still open, in whatever way it is left.

    Attributes
    ----------
    account
        Bytes that the query keeps alive.
    pool
        The threads of the query; None where it has none.
    """

    pool: LocalPool | None = None

    def __init__(self, options: Options) -> None:
        self.account = Account(options.live_bytes)
        self._directory = options.spill_directory
        # Weak: a spool that its clause has closed and forgotten is not kept alive by this.
        self._open: weakref.WeakSet[Spool | SpillFile] = weakref.WeakSet()

    def close(self) -> None:
        """Close what is open."""
        for each in list(self._open):
            each.close()

    def spool(self) -> Spool:
        """Return a spool; close it when nothing in it is wanted any more."""
        from tessel.clauses.spill.spool import Spool

        spool = Spool(self.account, self._directory)
        self._open.add(spool)
        return spool

    def file(self) -> SpillFile:
        """Return a file, for those who know that something does not fit."""
        from tessel.clauses.spill.file import SpillFile

        file = SpillFile(self._directory, self.account)
        self._open.add(file)
        return file

    def stream(self, units: Iterator[ProcessingUnit]) -> UnitStream:
        """Return units as a stream by which a clause finds this workspace."""
        return UnitStream(units, self)


class UnitStream(Iterator[ProcessingUnit]):
    """Units in plan order, on their way to a clause that takes a stream."""

    def __init__(self, units: Iterator[ProcessingUnit], workspace: Workspace) -> None:
        self._units = units
        self.workspace = workspace

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
