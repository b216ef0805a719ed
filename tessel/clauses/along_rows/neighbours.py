"""Rows of other units around a unit: the carry of clauses that look some rows back or ahead.

Of a run of rows the first ``ahead`` and the last ``back`` rows of each key are carried: a row a
key, with a list of the values of each column that is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tessel.clauses.along_rows.carried_lists import (
    ends_of,
    joined_values,
    key_runs,
    list_fields,
    list_values,
    lists,
)
from tessel.clauses.along_rows.key_order import (
    Codes,
    Column,
    KeyOrder,
    in_rows,
    key_fields,
    keyed_carries,
    keyed_rows,
    taken,
)
from tessel.clauses.base import Carry
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema
from tessel.kernels.rows_by_code import rows_of_runs
from tessel.kernels.window_rows import KeyRuns
from tessel.lazy import dataclass

__all__ = ["Around", "Reach", "rows_around"]


@dataclass(frozen=True)
class Around:
    """The rows of a unit and those around it, by key.

    Attributes
    ----------
    keys
        Their order by key; rows are those carried from before, of the unit, from after.
    runs
        Where keys begin, and the places of the unit's rows in each.
    order
        The rows of the unit in key order; None where they are in place.
    start, stop
        Which of the rows are those of the unit.
    kept
        Of what was carried from before and from after the values that are among the rows.
    """

    keys: KeyOrder
    runs: KeyRuns
    order: Codes | None
    start: int
    stop: int
    kept: tuple[slice, slice]

    def column(
        self, before: pa.ChunkedArray, own: pa.ChunkedArray, after: pa.ChunkedArray
    ) -> pa.ChunkedArray:
        """Return a column of the rows: of lists that were carried, and of the unit between them."""
        edges = (list_values(each) for each in (before, after))
        first, last = (each[kept] for each, kept in zip(edges, self.kept, strict=True))
        return pa.chunked_array([first, *own.chunks, last], type=own.type)

    def restored(self, column: Column) -> Column:
        """Return a value a row of the unit, in key order, in the order of its rows."""
        return column if self.order is None else in_rows(column, self.order)


@dataclass(frozen=True)
class Reach:
    """How far a clause looks, in rows of a key, and what it looks at.

    Attributes
    ----------
    columns, by
        The columns that are read, and the keys.
    back, ahead
        Rows of the same key before and after a row that its result may depend on.
    """

    columns: tuple[str, ...]
    by: tuple[str, ...]
    back: int
    ahead: int

    @property
    def carries(self) -> Carry | None:
        """From which side rows of other units matter."""
        if self.back:
            return Carry.BOTH if self.ahead else Carry.BEFORE
        return Carry.AFTER if self.ahead else None

    def schema(self, input_schema: TableSchema) -> pa.Schema:
        """Return the columns of the carry: keys, then lists of values."""
        fields = key_fields([input_schema.type_of(name) for name in self.by])
        return pa.schema([*fields, *list_fields(self.columns, input_schema)])

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return the rows of a unit at its edges."""
        keyed = keyed_rows(unit, self.by)
        begins, ends = keyed.order.bounds[:-1], keyed.order.bounds[1:]
        head = begins + np.minimum(self.ahead, ends - begins)
        tail = np.maximum(ends - np.minimum(self.back, ends - begins), head)
        firsts, lasts = np.stack([begins, tail], 1), np.stack([head, ends], 1)
        rows = rows_of_runs(firsts, lasts, keyed.order.order)
        values = [taken(unit.column(name), rows) for name in self.columns]
        held = lists(ends_of(firsts, lasts)[: keyed.groups + 1], values)
        return pa.table([*keyed.keys, *held], schema=self.schema(unit.schema))

    def combined(self, earlier: pa.Table, later: pa.Table) -> pa.Table:
        """Return the rows at the edges of two runs."""
        keyed = keyed_carries(earlier, later, self.by)
        (begin, end), (more, stop) = key_runs(
            np.split(keyed.codes, [earlier.num_rows]), keyed.groups, earlier, later
        )
        passed, rows = end - begin, (end - begin) + (stop - more)
        # What lies between the first and the last rows of a key, in both runs, is dropped.
        head = np.minimum(self.ahead, rows)
        tail = np.maximum(rows - np.minimum(self.back, rows), head)
        (near, left), (far, right) = (
            (begin + np.minimum(each, passed), more + np.maximum(each - passed, 0))
            for each in (head, tail)
        )
        firsts, lasts = np.stack([begin, far, more, right], 1), np.stack([near, end, left, stop], 1)
        values = joined_values(earlier, later, rows_of_runs(firsts, lasts))
        held = lists(ends_of(firsts, lasts), values)
        return pa.table([*keyed.keys, *held], schema=earlier.schema)

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        """Say whether of each key of a unit enough rows were seen after it."""
        keyed = keyed_carries(summary, after, self.by)
        own, others = np.split(keyed.codes, [summary.num_rows])
        ((more, stop),) = key_runs([others], keyed.groups, after)
        seen = (stop - more)[own]
        return bool((seen >= self.ahead).all())

    def around(self, unit: ProcessingUnit, before: pa.Table, after: pa.Table) -> Around:
        """Return the rows of a unit with those around it."""
        return rows_around(unit, self.by, before, after, self.back, self.ahead)


def rows_around(
    unit: ProcessingUnit,
    by: Sequence[str],
    before: pa.Table,
    after: pa.Table,
    back: int | None = None,
    ahead: int | None = None,
) -> Around:
    """Return the rows of a unit, by key, with those that were carried from before and after.

    Parameters
    ----------
    unit, by
        Whose rows, and the keys.
    before, after
        A row a key, lists behind the columns of keys.
    back, ahead
        How many of the last rows before and of the first rows after a key has; None for all.
    """
    keyed = keyed_rows(unit, by)
    codes, groups = keyed.numbers(before, after)
    (begin, end), (more, stop) = key_runs(codes, groups, before, after)
    if back is not None:
        begin = end - np.minimum(back, end - begin)
    if ahead is not None:
        stop = more + np.minimum(ahead, stop - more)
    start, rows = int(end.max(initial=0)), unit.num_rows
    if groups == 1:
        return _of_one_key(rows, *(int(each[0]) for each in (begin, end, more, stop)))
    own = np.full(groups + 1, rows)
    own[: len(keyed.order.bounds)] = keyed.order.bounds
    firsts = np.stack([begin, own[:-1] + start, more + rows], 1)
    lasts = np.stack([end, own[1:] + start, stop + rows], 1)
    # The rows of a unit of one key are in its order as they are.
    places = np.arange(rows) if keyed.order.order is None else keyed.order.order
    order, bounds = rows_of_runs(firsts, lasts, places, start), ends_of(firsts, lasts)
    first = bounds[:-1] + (end - begin)
    runs = KeyRuns(bounds, first, first + np.diff(own))
    return Around(KeyOrder(order, bounds), runs, places, start, start + rows, _ALL)


def _of_one_key(rows: int, begin: int, end: int, more: int, stop: int) -> Around:
    """Return the rows of a unit between those of carries, which are in place as they are."""
    first = end - begin
    runs = KeyRuns.of_one(first + rows + stop - more, first, first + rows)
    kept = slice(begin, end), slice(more - end, stop - end)
    return Around(KeyOrder(None, runs.bounds), runs, None, first, first + rows, kept)


_ALL = slice(None), slice(None)
