"""Units that are put aside: their data in a spool, their facts in memory."""

from __future__ import annotations

from tessel.arrays import empty_table
from tessel.clauses.spill.spool import Parked, Spool
from tessel.ecs import ProcessingUnit

__all__ = ["AsideUnit"]


class AsideUnit:
    """A unit that may have to wait; its data are kept by a spool.

    Parameters
    ----------
    unit, spool
        What waits, and who keeps its data.
    holds
        Whether the data stay here all the same: of a unit that need not wait.

    Attributes
    ----------
    nbytes, rows
        Of its data.
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
