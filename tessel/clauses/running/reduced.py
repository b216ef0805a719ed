"""A unit whose rows were reduced as they are stored, before there is a table of it.

Readers make it of what a clause with the power to reduce gave. Whoever looks at its pieces finds
one, whose table is made then; a clause that can go on with what was reduced takes that instead.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pyarrow as pa

from tessel.cached import cached
from tessel.clauses.powers import Reduced
from tessel.ecs import ColRange, Piece, ProcessingUnit
from tessel.expression.schema import TableSchema

__all__ = ["ReducedPiece", "ReducedUnit"]


@dataclass(frozen=True)
class ReducedPiece:
    """What the rows of a unit were reduced to.

    Attributes
    ----------
    reduced
        A table, or what one can be made of.
    place
        The piece that has it: where the rows came from, and no table yet.
    """

    reduced: pa.Table | Reduced
    place: Piece

    def made(self) -> Piece:
        """Return the piece with its table."""
        table = self.reduced if isinstance(self.reduced, pa.Table) else self.reduced.table
        columns = ColRange(0, table.num_columns)
        return dataclasses.replace(self.place, table=table, col_range=columns)

    def unit(self, ordinal: int, schema: TableSchema) -> ProcessingUnit:
        """Return the unit of the piece."""
        if isinstance(self.reduced, pa.Table):
            return ProcessingUnit(ordinal, schema, [self.made()])
        return ReducedUnit(ordinal, schema, self.reduced, self)


class ReducedUnit(ProcessingUnit):
    """A unit whose table is made when somebody asks for it.

    Parameters
    ----------
    ordinal, schema
        As of any unit.
    reduced
        What its table would be made of.
    piece
        Its piece, not made yet.
    """

    def __init__(
        self, ordinal: int, schema: TableSchema, reduced: Reduced, piece: ReducedPiece
    ) -> None:
        super().__init__(ordinal, schema)
        del self.pieces
        self.reduced = reduced
        self._piece = piece

    @cached
    def num_rows(self) -> int:
        """Rows of the unit; no table is made for it."""
        return self.reduced.num_rows

    @cached
    def pieces(self) -> tuple[Piece, ...]:
        """The piece with its table."""
        return (self._piece.made(),)
