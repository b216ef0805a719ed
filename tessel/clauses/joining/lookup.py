"""Finding the rows of one table that have the keys of another's rows.

:class:`KeyTable` is made of the key columns of one side, the *built* one. It numbers their distinct
keys column by column, as :func:`tessel.clauses.grouped.grouping.group_codes` does, and finds for a
row of the other side the number of its key. Kernels find numbers, which are words of 64 bits
(:class:`tessel.kernels.WordNumbers`), and texts (:class:`tessel.kernels.TextNumbers`). Decimals are
found by their two words, one after the other, as several keys are. Of dictionaries only the entries
are looked at.

A left row has as many rows of output as right rows have its key, or one without a right row where
it has none and is kept. Any stretch of that output can be made without the rest of it: that is how
a join of many with many stays within its bytes.

A key that many rows of both sides have makes as many rows as there are pairs. So a bucket gives,
for each unit of the left, its rows beside the one row of the right that goes with each; where more
go with it, the rows of the right follow once, and the number of their key says what belongs
together. Only behind the barrier the pairs are made (:class:`Pairing`), from any place to any
other, and never more of them than are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array, one_array
from tessel.cached import cached
from tessel.clauses.grouped.group_states import POSITION
from tessel.clauses.grouped.numbering import dictionary_parts
from tessel.clauses.joining.shape import Sides
from tessel.clauses.values import decimal_words, integers, is_text_or_binary, raw_values
from tessel.expression.schema import TableSchema
from tessel.expression.text_bytes import texts_of
from tessel.kernels.group_rows import Texts, rows_by_code
from tessel.kernels.match_rows import match_ends, match_rows
from tessel.kernels.text_numbers import TextNumbers
from tessel.kernels.word_numbers import WordNumbers
from tessel.lazy import dataclass

Codes = NDArray[np.int64]
Truths = NDArray[np.bool_]


class KeyTable:
    """The distinct keys of the built side, and the rows that have each.

    Parameters
    ----------
    columns
        Its key columns, at least one, as :func:`tessel.clauses.joining.shape.as_keys` gives them.

    Attributes
    ----------
    codes
        The number of each row's key, −1 where a part of it is missing. int64, shape ``(rows,)``.
        Keys are numbered by their first rows.
    is_unique
        Whether each row has a key, and no other row has it; the number of a key is that of its row.
    """

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._values = [_numbered(column) for column in columns]
        self._pairs: list[WordNumbers] = []
        found: _Values | WordNumbers = self._values[0]
        for values in self._values[1:]:
            found = WordNumbers(*_combined(found.codes, values.codes, len(values)))
            self._pairs.append(found)
        self.codes: Codes = found.codes
        self.is_unique = len(found) == len(found.codes)
        self._count = len(found)

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> Codes:
        """The rows that have a key, those of key 0 first, each key's in their order."""
        return self._by_code[0]

    @property
    def starts(self) -> Codes:
        """Where in ``rows`` those of each key start; one entry more tells the end.

        Every key has a row. int64, shape ``(keys + 1,)``.
        """
        return self._by_code[1]

    @cached
    def _by_code(self) -> tuple[Codes, Codes]:
        if self.is_unique:  # numbers go by first appearance: each row's is its own
            return self.codes, np.arange(self._count + 1)
        return rows_by_code(self.codes, self._count)

    @property
    def most(self) -> int:
        """The largest number of rows that have one key; 0 where no row has a key."""
        if self.is_unique:
            return min(self._count, 1)
        counts = np.diff(self.starts)
        return int(counts.max()) if len(counts) else 0

    def find(self, columns: Sequence[pa.Array]) -> Codes:
        """Return the number of the key of each row of the other side, −1 where there is none."""
        codes = self._values[0].find(columns[0])
        for values, pairs, column in zip(self._values[1:], self._pairs, columns[1:], strict=True):
            codes = pairs.find(*_combined(codes, values.find(column), len(values)))
        return codes


def _combined(codes: Codes, more: Codes, size: int) -> tuple[Codes, Truths]:
    """Return one word for two numbers, and which rows have none as either is missing.

    Both count distinct values of at most 2³¹ rows, so that the product stays in 64 bits.
    """
    return codes * size + more, (codes < 0) | (more < 0)


class _Values:
    """The distinct values of one column of the built side, numbered by the first row of each.

    Parameters
    ----------
    finder
        What numbers values, and finds them: of words, of texts, or of pairs of words.
    form
        What makes of a column the arguments that it takes.
    """

    def __init__(
        self, column: pa.Array, finder: Callable[..., Any], form: Callable[[pa.Array], Any]
    ) -> None:
        self._form = form
        self._finder = finder(*form(column))
        self.codes: Codes = self._finder.codes

    def __len__(self) -> int:
        return len(self._finder)

    def find(self, column: pa.Array) -> Codes:
        """Return the number of each value, −1 where it is missing or none of these."""
        if pa.types.is_dictionary(column.type):
            entries, places = dictionary_parts(column)
            found: Codes = np.append(self.find(entries), -1)[places]
            return found
        codes: Codes = self._finder.find(*self._form(column))
        return codes


def _numbered(column: pa.Array) -> _Values:
    if pa.types.is_dictionary(column.type):
        return _numbered_entries(column)
    if _has_words(column.type):
        return _Values(column, WordNumbers, _words)
    if is_text_or_binary(column.type):
        return _Values(column, TextNumbers, _texts)
    return _Values(column, KeyTable, _halves)


def _numbered_entries(column: pa.DictionaryArray) -> _Values:
    """Return numbers of those entries of a dictionary that rows have, by the first row of each."""
    # A row that is null itself, at -1, has the place after the last entry.
    entries, at = dictionary_parts(column)
    first = np.full(len(entries) + 1, -1, np.int64)
    first[at[::-1]] = np.arange(len(at))[::-1]  # of several rows the last that is written stays
    used = np.flatnonzero(first[:-1] >= 0)
    used = used[np.argsort(first[used])]
    values = _numbered(entries.take(arrow_array(used)))
    codes = np.full(len(first), -1, np.int64)
    codes[used] = values.codes
    values.codes = codes[at]
    return values


def _texts(column: pa.Array) -> tuple[Texts, Truths | None]:
    """Return texts as bytes, and which rows have none where some do not."""
    absent = numpy_array(column.is_null()) if column.null_count else None
    return texts_of(column), absent


def _has_words(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_null(kind)
    )


def _words(column: pa.Array) -> tuple[Codes, Truths | None]:
    """Return numbers as words, and which rows have none where some do not."""
    absent = numpy_array(column.is_null()) if column.null_count else None
    if pa.types.is_floating(column.type):
        doubles = raw_values(column, column.type.to_pandas_dtype()).astype(np.float64, copy=False)
        return doubles.view(np.int64), absent
    numbers = integers(column)
    if numbers.dtype == np.uint64:
        return numbers.view(np.int64), absent
    return numbers.astype(np.int64, copy=False), absent


def _halves(column: pa.Array) -> tuple[list[pa.Array]]:
    """Return decimals as two columns, of their low words and their high ones."""
    absent = numpy_array(column.is_null()) if column.null_count else None
    words = decimal_words(column)
    return ([arrow_array(words[:, at], mask=absent) for at in (0, 1)],)


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


def pairing_schema(shape: Sides) -> TableSchema:
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

    def __init__(self, shape: Sides, table: pa.Table) -> None:
        self._shape = shape
        # One chunk a column: rows are taken from it again and again.
        self._table = table = table.combine_chunks()
        position, key = (one_array(table.column(name)) for name in (POSITION, _KEY))
        placed = numpy_array(position.is_valid())
        rows = np.flatnonzero(placed)
        order = np.argsort(numpy_array(position.drop_null()), kind="stable")
        self._left = rows[order]
        self._right = np.flatnonzero(~placed)
        keys = KeyTable([key.take(arrow_array(self._right))])
        wanted = np.full(len(self._left), -1, np.int64)
        if len(self._right):
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
