"""The rows of both sides of a join, each once: how a bucket's output travels to where it is made.

A key that many rows of both sides have makes as many rows as there are pairs. So a bucket gives,
for each unit of the left, its rows beside the one row of the right that goes with each; where more
go with it, the rows of the right follow once, and the number of their key says what belongs
together. Only behind the barrier the pairs are made (:class:`Pairing`), from any place to any
other, and never more of them than are asked for.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.grouped.group_tables import POSITION
from tessel.clauses.joining.lookup import KeyTable
from tessel.clauses.joining.matching import Matches
from tessel.clauses.joining.shape import JoinShape
from tessel.expression.schema import TableSchema

__all__ = ["Pairing", "pairing_schema", "with_pairing"]

Numbers = NDArray[np.int64]

_KEY = "__tessel_key"


def pairing_schema(shape: JoinShape) -> TableSchema:
    """Return the columns of the join, and those that tell where a row belongs and its key."""
    schema = TableSchema(shape.schema.arrow).with_column(POSITION, pa.int64())
    return schema.with_column(_KEY, pa.int64())


def with_pairing(table: pa.Table, positions: Numbers, keys: Numbers) -> pa.Table:
    """Return rows of a join with where they belong, and what goes with what.

    Parameters
    ----------
    table
        Rows of the join's columns.
    positions
        Where each belongs, −1 for a row of the right alone that rows of the left want.
    keys
        The number of a key of such a row, and of a row of the left that wants it; −1 for a row
        that is whole.
    """
    for name, numbers in ((POSITION, positions), (_KEY, keys)):
        values = arrow_array(numbers, pa.int64(), mask=numbers < 0)
        table = table.append_column(pa.field(name, pa.int64()), values)
    return table


class Pairing:
    """The rows of output of one unit, counted and not made yet.

    Parameters
    ----------
    shape
        The join.
    table
        What buckets gave for the unit, of :func:`pairing_schema`, in any order but that of the rows
        of one key, which are of one bucket.
    """

    def __init__(self, shape: JoinShape, table: pa.Table) -> None:
        self._shape = shape
        # One chunk a column: rows are taken from it again and again.
        self._table = table = table.combine_chunks()
        position, key = _column(table, POSITION), _column(table, _KEY)
        placed = numpy_array(position.is_valid())
        rows = np.flatnonzero(placed)
        order = np.argsort(numpy_array(position.drop_null()), kind="stable")
        self._left = rows[order]
        self._right = np.flatnonzero(~placed)
        keys = KeyTable([key.take(arrow_array(self._right))])
        wanted = keys.find([key.take(arrow_array(self._left))])
        self._matches = Matches.of(keys, wanted, keep_unmatched=True)

    def __len__(self) -> int:
        return len(self._matches)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows of both sides, each once."""
        return int(self._table.select(self._shape.schema.names).nbytes)

    def rows(self, start: int, stop: int) -> pa.Table:
        """Return the rows ``[start, stop)`` of the output."""
        left, right = self._matches.rows(start, stop)
        ours = self._left[left]
        # What has no other row of the right has its own beside it; row −1 finds the added one.
        theirs = np.where(right < 0, ours, np.append(self._right, -1)[right])
        shape, table = self._shape, self._table
        columns = [
            *table.select(shape.left.names).take(arrow_array(ours)).columns,
            *table.select(list(shape.right_names.values())).take(arrow_array(theirs)).columns,
        ]
        return pa.Table.from_arrays(columns, schema=shape.schema.arrow)


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks else arrow_array([], column.type)
