"""A unit whose batches were reduced on stored integers, before there is a table of it.

The first stage makes it of what a clause that reduces batches returned. It has one piece, whose
table is made when it is touched; a clause that merges partial states takes those without a table.
"""

from __future__ import annotations

import dataclasses

from tessel.cached import cached
from tessel.clauses.capabilities import Reduced
from tessel.ecs import ColRange, Piece, ProcessingUnit
from tessel.expression.schema import TableSchema

__all__ = ["ReducedUnit"]


class ReducedUnit(ProcessingUnit):
    """A unit whose table is made when somebody asks for it.

    Parameters
    ----------
    ordinal, schema
        As of any unit.
    reduced
        What its table would be made of.
    place
        The piece that will have it: where the rows came from, and no table yet.
    """

    def __init__(self, ordinal: int, schema: TableSchema, reduced: Reduced, place: Piece) -> None:
        super().__init__(ordinal, schema)
        del self.pieces
        self.reduced = reduced
        self._place = place

    @cached
    def num_rows(self) -> int:
        """Rows of the unit; no table is made for it."""
        return self.reduced.num_rows

    @property
    def attached(self) -> tuple[object, ...]:
        """All components that are attached to rows of the unit; no table is made for it."""
        return self._place.components

    @cached
    def pieces(self) -> tuple[Piece, ...]:
        """The piece with its table."""
        columns = ColRange(0, self.reduced.table.num_columns)
        return (dataclasses.replace(self._place, table=self.reduced.table, col_range=columns),)
