"""Units that clauses make: rows reduced to groups, before there is a table, and tables in order.

It has one piece, whose table is made when it is touched; a clause that merges partial states takes
the groups without a table.

Units of tables in plan order are here too, and what does to a unit that is read what was bound to
its batch.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel import telemetry
from tessel.arrays import arrow_array, concat_tables, places
from tessel.cached import cached
from tessel.clauses.spill.workspace import Workspace
from tessel.ecs import ColRange, Piece, ProcessingUnit, RowRange, TimeRange
from tessel.expression.schema import TableSchema
from tessel.expression.text_bytes import rows_at
from tessel.store.index_column import index_integers
from tessel.store.manifest.bindings import Bound, Computed, Conjunct

if TYPE_CHECKING:
    from tessel.clauses.grouped.group_states import GroupShape
    from tessel.clauses.grouped.partial_groups import PartialGroups


class ReducedUnit(ProcessingUnit):
    """A unit whose table is made when somebody asks for it.

    Parameters
    ----------
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
        table = concat_tables([each.table for each in self.groups])
        columns = ColRange(0, table.num_columns)
        return (dataclasses.replace(self._place, table=table, col_range=columns, segments=()),)


def groups_of(unit: ProcessingUnit, shape: GroupShape) -> Sequence[PartialGroups]:
    """Return the groups of a unit of partial states, also of one that came as a table."""
    if isinstance(unit, ReducedUnit):
        return unit.groups
    from tessel.clauses.grouped.partial_groups import PartialGroups

    return PartialGroups.of_table(shape, unit.table)


def runs_of(left: Sequence[Bound]) -> Iterator[list[Bound]]:
    """Give steps one by one, but columns of a clause together."""
    run: list[Bound] = []
    for each in left:
        are_columns = all(isinstance(step, Computed) for step in (*run[:1], each))
        if run and not (are_columns and each.clause == run[0].clause):
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def done(run: Sequence[Bound], unused: Sequence[Set[str]], unit: ProcessingUnit) -> ProcessingUnit:
    """Do to a unit that is read what was bound to its batch.

    Parameters
    ----------
    run
        One step, or columns of one clause.
    unused
        For each of them the columns that nothing reads after it; they go.
    unit
        A unit that is read.
    """
    from tessel.clauses.index_values import cut_index

    first = run[0]
    with telemetry.span("clause.process", clause=first.clause, unit=unit.ordinal) as facts:
        facts.update(rows_in=unit.num_rows)
        if isinstance(first, Conjunct):
            unit = unit.filter(first.predicate)
        elif isinstance(first, Computed):
            unit = unit.with_columns(_computed(run, unused, unit))
        else:
            unit = cut_index(unit, first.low, first.high)
        facts.update(rows_out=unit.num_rows)
    dropped = frozenset().union(*unused)
    kept = [name for name in unit.schema.names if name not in dropped]
    return unit.select(kept) if len(kept) < len(unit.schema.names) else unit


def _computed(
    run: Sequence[Bound], unused: Sequence[Set[str]], unit: ProcessingUnit
) -> dict[str, pa.ChunkedArray]:
    """Return the columns of a run that something reads behind it."""
    values: dict[str, pa.ChunkedArray] = {}
    for each, dropped in zip(run, unused, strict=True):
        if isinstance(each, Computed):
            values[each.name] = unit.evaluate(each.expression, values)
        for name in dropped:
            values.pop(name, None)
    return values


def unused_after(left: Sequence[Bound], wanted: Sequence[str]) -> list[Set[str]]:
    """Return, for each step, the computed columns that neither a later one nor the end reads."""
    needed, found = set(wanted), list[Set[str]]()
    for each in reversed(left):
        used = columns_of(each) | ({each.name} if isinstance(each, Computed) else set())
        found.append(used - needed)
        needed |= used
    computed = {each.name for each in left if isinstance(each, Computed)}
    return [names & computed for names in reversed(found)]


def columns_of(bound: Bound) -> Set[str]:
    """Return the columns that a step reads."""
    if isinstance(bound, Computed):
        return bound.expression.columns()
    return bound.predicate.columns() if isinstance(bound, Conjunct) else frozenset()


UNIT_ROWS = 65_536
"""Rows that a unit has at least, but for the last: enough to be worth a task."""

_UNITS_ALIVE = 16


def unit_of_table(ordinal: int, row: int, table: pa.Table, index: str | None) -> ProcessingUnit:
    """Return a table as a unit of one piece whose first row is ``row`` of the whole."""
    schema = TableSchema(pa.schema([(f.name, f.type) for f in table.schema]), index)
    times = None
    if table.num_rows and index is not None:
        ends = table.column(index).take(arrow_array(np.array([0, table.num_rows - 1])))
        first, last = index_integers(ends, index).tolist()
        times = TimeRange(first, last)
    rows = RowRange(row, row + table.num_rows)
    piece = Piece(table, rows, ColRange(0, table.num_columns), times)
    return ProcessingUnit(ordinal, schema, [piece])


def unit_in_buckets(
    unit: ProcessingUnit,
    table: pa.Table,
    schema: TableSchema,
    codes: NDArray[np.int64],
    buckets: int,
    rows: NDArray[np.int64] | None = None,
) -> ProcessingUnit:
    """Return a unit with a piece for each bucket that has rows of it, which stay in order.

    Parameters
    ----------
    unit
        Whose rows they are.
    table, schema
        What comes out of it; there may be more columns than in the unit.
    codes
        The bucket of each row, int64, in ``[0, buckets)``.
    buckets
        How many there are.
    rows
        Of which rows of the table the codes are, ascending; by default of all.
    """
    from tessel.kernels.group_rows import rows_by_code

    order, starts = rows_by_code(codes, buckets)
    at = places(order if rows is None or len(rows) == table.num_rows else rows[order])
    taken = pa.Table.from_arrays([rows_at(each, at) for each in table.columns], table.column_names)
    pieces: list[Piece] = []
    for bucket, (start, stop) in enumerate(itertools.pairwise(starts.tolist())):
        if start < stop:
            pieces += unit.replace(taken.slice(start, stop - start), bucket=bucket).pieces
    return unit.with_pieces(pieces, schema)


def units_of_tables(
    tables: Iterable[pa.Table], index: str | None, workspace: Workspace | None = None
) -> Iterator[ProcessingUnit]:
    """Gather tables, in order, into units of a size worth a task.

    Parameters
    ----------
    tables
        Of one schema.
    workspace
        Of the query, to whose byte budget many units fit.
    """
    most = None if workspace is None else workspace.account.limit // _UNITS_ALIVE
    waiting: list[pa.Table] = []
    ordinal = row = count = size = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        size += table.nbytes
        if count >= UNIT_ROWS or (most is not None and size >= most):
            yield unit_of_table(ordinal, row, concat_tables(waiting), index)
            ordinal, row, count, size, waiting = ordinal + 1, row + count, 0, 0, []
    if waiting:
        yield unit_of_table(ordinal, row, concat_tables(waiting), index)
