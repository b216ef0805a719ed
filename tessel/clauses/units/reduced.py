"""A unit whose rows were reduced to groups, before there is a table of these.

It has one piece, whose table is made when it is touched; a clause that merges partial states takes
the groups without a table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from tessel.cached import cached
from tessel.ecs import ColRange, Piece, ProcessingUnit
from tessel.expression.schema import TableSchema

if TYPE_CHECKING:  # queries that group nothing do not import it
    from tessel.clauses.grouped.group_tables import GroupShape
    from tessel.clauses.grouped.partial_groups import PartialGroups

__all__ = ["ReducedUnit", "groups_of"]


class ReducedUnit(ProcessingUnit):
    """A unit whose table is made when somebody asks for it.

    Parameters
    ----------
    ordinal, schema
        As of any unit.
    groups
        Groups with their partial states, in parts in the order of their rows, at least one; a group
        may be in several.
    place
        The piece that will have it: where the rows came from, and no table yet.
    """

    def __init__(
        self, ordinal: int, schema: TableSchema, groups: Sequence[PartialGroups], place: Piece
    ) -> None:
        super().__init__(ordinal, schema)
        del self.pieces
        self.groups = groups
        self._place = place

    @classmethod
    def of(
        cls, unit: ProcessingUnit, schema: TableSchema, groups: Sequence[PartialGroups]
    ) -> ReducedUnit:
        """Return the unit of the groups of another, in the same place of the plan."""
        return cls(unit.ordinal, schema, groups, unit._span())

    @cached
    def num_rows(self) -> int:
        """Rows of the unit; no table is made for it."""
        return sum(each.num_rows for each in self.groups)

    @property
    def nbytes(self) -> int:
        """Bytes of the states; no table is made for it."""
        return sum(each.nbytes for each in self.groups)

    @property
    def attached(self) -> tuple[object, ...]:
        """All components that are attached to rows of the unit; no table is made for it."""
        return self._place.components

    @cached
    def pieces(self) -> tuple[Piece, ...]:
        """The piece with its table."""
        table = pa.concat_tables([each.table for each in self.groups])
        columns = ColRange(0, table.num_columns)
        return (dataclasses.replace(self._place, table=table, col_range=columns, segments=()),)


def groups_of(unit: ProcessingUnit, shape: GroupShape) -> Sequence[PartialGroups]:
    """Return the groups of a unit of partial states, also of one that came as a table."""
    if isinstance(unit, ReducedUnit):
        return unit.groups
    from tessel.clauses.grouped.partial_groups import PartialGroups

    return PartialGroups.of_table(shape, unit.table)
