"""Which rows of two tables go together, as row numbers.

A left row has as many rows of output as right rows have its key, or one without a right row where
it has none and is kept. Any stretch of that output can be made without the rest of it: that is how
a join of many with many stays within its bytes.

The rows of both sides of a join, each once: how a bucket's output travels to where it is made.

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
from tessel.clauses.grouped.group_states import POSITION
from tessel.clauses.joining.lookup import KeyTable
from tessel.clauses.joining.shape import JoinShape
from tessel.expression.schema import TableSchema
from tessel.kernels.match_rows import match_ends, match_rows
from tessel.lazy import dataclass

Rows = NDArray[np.int64]

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Matches:
    """The output of a join of some left rows with a built side, counted and not made yet.

    Attributes
    ----------
    codes
        For each left row the number of its key there, −1 for none. int64, shape ``(rows,)``.
    ends
        For each left row where its rows of output end. int64, shape ``(rows,)``.
    """

    table: KeyTable
    codes: Rows
    ends: Rows

    @classmethod
    def of(cls, table: KeyTable, codes: Rows, *, keep_unmatched: bool) -> Matches:
        """Count the rows of output; a left row without a match has one where it is kept."""
        starts = _NONE if table.is_unique else table.starts
        return cls(table, codes, match_ends(codes, starts, keep_unmatched=keep_unmatched))

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    @property
    def is_one_to_one(self) -> bool:
        """Whether each left row has exactly one row of output."""
        count = len(self.ends)
        return len(self) == count and bool((self.ends == np.arange(1, count + 1)).all())

    def rows(self, start: int, stop: int) -> tuple[Rows, Rows]:
        """Return the rows ``[start, stop)`` of the output as left rows and right rows.

        Left rows ascend, and the right rows of each do; a right row is −1 where there is none.
        """
        table = self.table
        starts, rows = (_NONE, _NONE) if table.is_unique else (table.starts, table.rows)
        return match_rows(self.codes, starts, rows, self.ends, start, stop)


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
