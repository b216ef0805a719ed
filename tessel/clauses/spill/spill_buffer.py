"""A spill buffer holds tables in memory while there is room, and writes others to a file."""

from __future__ import annotations

import threading

import pyarrow as pa

from tessel.arrays import empty_table
from tessel.clauses.spill.file import SpillBlock, SpillFile
from tessel.clauses.spill.workspace import Account
from tessel.closing import Closing
from tessel.ecs import ProcessingUnit


class BufferedTable:
    """A table that a spill buffer keeps: in memory or in its file."""

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


class SpillBuffer(Closing):
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

    def put(self, table: pa.Table, *, to_file: bool = False) -> BufferedTable:
        """Put a table aside; ``to_file`` leaves it no choice."""
        fits = self._account.fits(table.nbytes)
        # A table without columns takes nothing, and Arrow's files would lose its rows.
        if table.num_columns and (to_file or not fits):
            return BufferedTable(table, self._file.write(table))
        self._count(table.nbytes)
        return BufferedTable(table, None)

    def read(self, buffered: BufferedTable) -> pa.Table:
        """Return a table and keep it."""
        if buffered._table is not None:
            return buffered._table
        assert buffered._block is not None
        return self._file.read(buffered._block)

    def take(self, buffered: BufferedTable) -> pa.Table:
        """Return a table, which is held no more from now on."""
        table = self.read(buffered)
        self.drop(buffered)
        return table

    def drop(self, buffered: BufferedTable) -> None:
        """Hold a table no more."""
        if buffered._table is not None:
            buffered._table = None
            self._count(-buffered.nbytes)

    def close(self) -> None:
        """Hold nothing more and give the file's space back."""
        self._count(-self._held)
        self._file.close()

    def _count(self, size: int) -> None:
        with self._lock:
            self._held += size
        self._account.hold(size)


class BufferedUnit:
    """A unit that may have to wait; its data are kept by a spill buffer.

    Parameters
    ----------
    holds
        Whether the data stay here all the same: of a unit that need not wait.
    """

    def __init__(self, unit: ProcessingUnit, buffer: SpillBuffer, *, holds: bool = False) -> None:
        self.nbytes = unit.nbytes
        self.rows = unit.num_rows
        self._unit = unit
        self._spill_buffer = buffer
        self._buffered: list[BufferedTable] | None = None
        if not holds:
            self._buffered = [buffer.put(piece.table) for piece in unit.pieces]
            # An empty table of its own: a slice without rows would still hold all of them.
            facts = [piece.with_table(empty_table(piece.table.schema)) for piece in unit.pieces]
            self._unit = unit.with_pieces(facts, unit.schema)

    def unit(self) -> ProcessingUnit:
        """Return the unit with its data, which are no longer put aside."""
        if self._buffered is None:
            return self._unit
        pieces = [
            piece.with_table(self._spill_buffer.take(buffered))
            for piece, buffered in zip(self._unit.pieces, self._buffered, strict=True)
        ]
        return self._unit.with_pieces(pieces, self._unit.schema)

    def drop(self) -> None:
        """Keep the data no more."""
        for buffered in self._buffered or ():
            self._spill_buffer.drop(buffered)
