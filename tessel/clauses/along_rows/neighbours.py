"""Rows of other units around a unit: the carry of clauses that look some rows back or ahead.

Of a run of rows the first ``ahead`` and the last ``back`` rows of each key are carried, copied,
with their keys and the columns that are read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array
from tessel.clauses.along_rows.key_order import (
    KeyOrder,
    codes_of_parts,
    edge_rows,
    key_fields,
    plain_keys,
)
from tessel.clauses.base import Carry
from tessel.ecs import ProcessingUnit
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

__all__ = ["Around", "Reach", "carried_keys", "values_around"]

_ROWS = pa.field("rows", pa.null())
"""What is carried where nothing is read: a table without columns has no rows."""


@dataclass(frozen=True)
class Around:
    """The rows of a unit and those around it, by key.

    Attributes
    ----------
    table
        The columns ``value_0``, ``value_1``, …: rows carried from before, of the unit, from after.
    keys
        These rows by key.
    start, stop
        Which of the rows are those of the unit.
    """

    table: pa.Table
    keys: KeyOrder
    start: int
    stop: int


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
        """Return the columns of the carry: keys, then values."""
        fields = key_fields([input_schema.type_of(name) for name in self.by])
        fields += [
            pa.field(f"value_{at}", input_schema.type_of(name))
            for at, name in enumerate(self.columns)
        ]
        return pa.schema(fields or [_ROWS])

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        """Return the rows of a unit at its edges."""
        keys = [unit.column(name) for name in self.by]
        ((codes,), groups) = codes_of_parts([keys], [unit.num_rows])
        rows = edge_rows(codes, groups, self.ahead, self.back)
        values = [unit.column(name).take(arrow_array(rows)) for name in self.columns]
        carried = [*plain_keys(keys, rows), *values] or [pa.nulls(len(rows))]
        return pa.table(carried, schema=self.schema(unit.schema))

    def combined(self, earlier: pa.Table, later: pa.Table) -> pa.Table:
        """Return the rows at the edges of two runs."""
        return self._edges(pa.concat_tables([earlier, later]), self.ahead, self.back)

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        """Say whether of each key of a unit enough rows were seen after it."""
        if not summary.num_rows:
            return True
        parts = [carried_keys(summary, self.by), carried_keys(after, self.by)]
        (own, others), groups = codes_of_parts(parts, [summary.num_rows, after.num_rows])
        seen = np.bincount(others, minlength=groups)
        return bool((seen[own] >= self.ahead).all())

    def around(self, unit: ProcessingUnit, before: pa.Table, after: pa.Table) -> Around:
        """Return the rows of a unit with those around it."""
        if self.ahead:
            before = self._edges(before, 0, self.back)
        if self.back:
            after = self._edges(after, self.ahead, 0)
        rows = unit.num_rows
        parts = [
            carried_keys(before, self.by),
            [unit.column(name) for name in self.by],
            carried_keys(after, self.by),
        ]
        codes, groups = codes_of_parts(parts, [before.num_rows, rows, after.num_rows])
        table = values_around(unit, before, after, self.columns)
        keys = KeyOrder.of_codes(np.concatenate(codes), groups)
        return Around(table, keys, before.num_rows, before.num_rows + rows)

    def _edges(self, carried: pa.Table, first: int, last: int) -> pa.Table:
        keys = carried_keys(carried, self.by)
        ((codes,), groups) = codes_of_parts([keys], [carried.num_rows])
        rows = edge_rows(codes, groups, first, last)
        return carried if len(rows) == carried.num_rows else carried.take(arrow_array(rows))


def values_around(
    unit: ProcessingUnit, before: pa.Table, after: pa.Table, columns: Sequence[str]
) -> pa.Table:
    """Return columns of a unit as ``value_0``, ``value_1``, …, between those that were carried."""
    names = [f"value_{at}" for at in range(len(columns))]
    values = [
        pa.chunked_array(
            [*before.column(name).chunks, *unit.column(column).chunks, *after.column(name).chunks],
            type=unit.schema.type_of(column),
        )
        for name, column in zip(names, columns, strict=True)
    ]
    return pa.table(values, names=names)


def carried_keys(carried: pa.Table, by: Sequence[str]) -> list[pa.ChunkedArray]:
    """Return the key columns of a carry."""
    return [carried.column(f"key_{at}") for at in range(len(by))]
