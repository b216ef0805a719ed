"""A spool: tables held in memory while there is room, in a file from there on; units put aside."""

from __future__ import annotations

import threading

import pyarrow as pa

from tessel.arrays import empty_table
from tessel.clauses.spill.file import SpillBlock, SpillFile
from tessel.clauses.spill.workspace import Account
from tessel.closing import Closing
from tessel.ecs import ProcessingUnit


class Parked:
    """A table that a spool keeps: in memory or in its file."""

    __slots__ = ("_block", "_table", "nbytes", "rows")

    def __init__(self, table: pa.Table, block: SpillBlock | None) -> None:
        self.rows = table.num_rows
        self.nbytes = table.nbytes
        self._table = None if block is not None else table
        self._block = block

    @property
    def in_memory(self) -> bool:
        """Whether the table itself is held."""
        return self._table is not None


class Spool(Closing):
    """Tables that are put aside for later; use as a context manager.

    A table stays in memory where it fits into what may be held (see :class:`Account`), and goes to
    the file where it does not; what is held once never moves. Tables are taken from any thread.
    """

    def __init__(self, account: Account, directory: str = "") -> None:
        self._account = account
        self._file = SpillFile(directory, account)
        self._held = 0
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        """Bytes held in memory."""
        return self._held

    @property
    def spilled(self) -> int:
        """Bytes in the file."""
        return self._file.nbytes

    def put(self, table: pa.Table, *, to_file: bool = False) -> Parked:
        """Put a table aside; ``to_file`` leaves it no choice."""
        fits = self._account.fits(table.nbytes)
        # A table without columns takes nothing, and Arrow's files would lose its rows.
        if table.num_columns and (to_file or not fits):
            return Parked(table, self._file.write(table))
        self._count(table.nbytes)
        return Parked(table, None)

    def read(self, parked: Parked) -> pa.Table:
        """Return a table and keep it."""
        if parked._table is not None:
            return parked._table
        assert parked._block is not None
        return self._file.read(parked._block)

    def take(self, parked: Parked) -> pa.Table:
        """Return a table, which is held no more from now on."""
        table = self.read(parked)
        self.drop(parked)
        return table

    def drop(self, parked: Parked) -> None:
        """Hold a table no more."""
        if parked._table is not None:
            parked._table = None
            self._count(-parked.nbytes)

    def close(self) -> None:
        """Hold nothing more and give the file's space back."""
        self._count(-self._held)
        self._file.close()

    def _count(self, size: int) -> None:
        with self._lock:
            self._held += size
        self._account.hold(size)


class AsideUnit:
    """A unit that may have to wait; its data are kept by a spool.

    Parameters
    ----------
    holds
        Whether the data stay here all the same: of a unit that need not wait.
    """

    def __init__(self, unit: ProcessingUnit, spool: Spool, *, holds: bool = False) -> None:
        self.nbytes = unit.nbytes
        self.rows = unit.num_rows
        self._unit = unit
        self._spool = spool
        self._parked: list[Parked] | None = None
        if not holds:
            self._parked = [spool.put(piece.table) for piece in unit.pieces]
            # An empty table of its own: a slice without rows would still hold all of them.
            facts = [piece.with_table(empty_table(piece.table.schema)) for piece in unit.pieces]
            self._unit = unit.with_pieces(facts, unit.schema)

    def unit(self) -> ProcessingUnit:
        """Return the unit with its data, which are no longer put aside."""
        if self._parked is None:
            return self._unit
        pieces = [
            piece.with_table(self._spool.take(parked))
            for piece, parked in zip(self._unit.pieces, self._parked, strict=True)
        ]
        return self._unit.with_pieces(pieces, self._unit.schema)

    def drop(self) -> None:
        """Keep the data no more."""
        for parked in self._parked or ():
            self._spool.drop(parked)
