"""Rows brought together by key: what clauses work on that look along the rows of each key.

Such a clause sees the rows of a unit and what was carried to it from the units around. The keys of
a unit are numbered once, whoever asks; a carry has a row a key, whose numbers are looked up among
those of the unit. Rows are put into one order in which those of a key stand side by side, and what
was computed there goes back to the rows it is of. A missing key is a key like others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array, unified
from tessel.cached import cached
from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.values import BoolArray, is_temporal, plain_type, raw_values
from tessel.ecs import ProcessingUnit
from tessel.kernels.group_rows import rows_by_code
from tessel.lazy import dataclass
from tessel.memory import recycled

Codes = NDArray[np.int64]
Column = Any  # pyarrow.Array or pyarrow.ChunkedArray; pyarrow has no stubs


@dataclass(frozen=True)
class KeyedRows:
    """The rows of a table and their keys.

    Attributes
    ----------
    codes
        int64, shape ``(rows,)``: the number of each row's key, by first appearance.
    keys
        An array a key column, a row each number; none where there is no key.
    groups
        How many numbers there are; without a key one, and none of no rows.
    """

    codes: Codes
    keys: list[pa.Array]
    groups: int

    @classmethod
    def of(cls, columns: Sequence[Column], rows: int) -> KeyedRows:
        """Return the rows of key columns by key; without columns, all rows are of one key."""
        if not columns:
            return cls(np.zeros(rows, np.int64), [], min(rows, 1))
        found = group_codes(columns, drop_missing=False)
        return cls(found.codes, found.keys, len(found))

    @cached
    def order(self) -> KeyOrder:
        """The rows by key."""
        return KeyOrder.of_codes(self.codes, self.groups)

    def numbers(self, *carries: pa.Table) -> tuple[list[Codes], int]:
        """Return the numbers of the keys of carries: those of these rows, then others.

        Returns
        -------
        codes : list of numpy.ndarray
            For each carry int64, the number of each of its keys, of which it has a row each.
        groups : int
            How many numbers there are, one at least.
        """
        lengths = [each.num_rows for each in carries]
        if not self.keys or not sum(lengths):
            return [np.zeros(rows, np.int64) for rows in lengths], max(self.groups, 1)
        parts = [self.keys, *(each.columns[: len(self.keys)] for each in carries)]
        joint = KeyedRows.of([_joined(each) for each in zip(*parts, strict=True)], 0)
        _, *codes = np.split(joint.codes, np.cumsum([self.groups, *lengths[:-1]]))
        return codes, joint.groups


def keyed_rows(unit: ProcessingUnit, by: Sequence[str]) -> KeyedRows:
    """Return the rows of a unit by key; numbered once, however often that is asked."""
    return unit.remembered(
        ("rows by key", *by),
        lambda: KeyedRows.of([unit.column_as_read(name) for name in by], unit.num_rows),
    )


def keyed_carries(earlier: pa.Table, later: pa.Table, by: Sequence[str]) -> KeyedRows:
    """Return the rows of two carries, one below the other, by key."""
    pairs = zip(*(each.columns[: len(by)] for each in (earlier, later)), strict=True)
    return KeyedRows.of(list(map(_joined, pairs)), earlier.num_rows + later.num_rows)


def key_fields(types: Sequence[pa.DataType]) -> list[pa.Field]:
    """Return the columns of a carry that hold keys of these types."""
    return [pa.field(f"key_{at}", plain_type(kind)) for at, kind in enumerate(types)]


def key_columns(by: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the columns of a carry that hold the keys, its first ones."""
    return tuple(f"key_{at}" for at in range(len(by)))


def _joined(columns: Sequence[Column]) -> pa.Array:
    parts = [each.chunks if isinstance(each, pa.ChunkedArray) else [each] for each in columns]
    chunks = [chunk for part in parts for chunk in part]
    return pa.concat_arrays(chunks) if chunks else arrow_array([], columns[0].type)


@dataclass(frozen=True)
class KeyOrder:
    """Rows in an order in which those of one key stand side by side, in their own order.

    Attributes
    ----------
    order
        int64, shape ``(rows,)``: the row at each place; None where rows are in place already.
    bounds
        int64, shape ``(groups + 1,)``: the place where each key begins, and the end of the last.
    """

    order: Codes | None
    bounds: Codes

    @classmethod
    def of_codes(cls, codes: Codes, groups: int) -> KeyOrder:
        """Order rows by the number of their key."""
        if groups <= 1:
            return cls(None, np.array([0, len(codes)]))
        return cls(*rows_by_code(codes, groups))

    def __len__(self) -> int:
        return int(self.bounds[-1])

    @cached
    def places(self) -> Codes:
        """The numbers of the places, from 0 on."""
        return np.arange(len(self))

    @cached
    def start(self) -> Codes:
        """The place where the key of each place begins; int64, shape ``(rows,)``."""
        return np.repeat(self.bounds[:-1], np.diff(self.bounds))

    def arranged(self, column: Column) -> Column:
        """Return the values of a column, Arrow or numpy, in this order."""
        return column if self.order is None else taken(column, self.order)

    def restored(self, column: Column) -> Column:
        """Return values in this order, Arrow or numpy, in the order of the rows."""
        return column if self.order is None else in_rows(column, self.order)

    def places_of(self, first: int, last: int) -> tuple[Codes, Codes]:
        """Return the places of the rows ``[first, last)``, ascending, and the row at each of them.

        Rows are counted from ``first`` on.
        """
        if self.order is None:
            return np.arange(first, last), np.arange(last - first)
        places = np.flatnonzero((self.order >= first) & (self.order < last))
        return places, self.order[places] - first

    def rows_at(self, places: Codes) -> Codes:
        """Return the rows at some places; −1 stays −1."""
        if self.order is None:
            return places
        return np.where(places < 0, -1, self.order[places])


def taken(column: Column, rows: Codes, absent: BoolArray | None = None) -> Column:
    """Return the values of some rows of a column, Arrow or numpy; null in the absent ones."""
    if isinstance(column, np.ndarray):
        # Absent rows have any number, and any value.
        found = recycled(len(rows), column.dtype)
        return np.take(column, rows, out=found, mode="clip") if len(column) else column[rows]
    width = _width(column.type)
    if width is None or not len(column):
        return unified(column).take(arrow_array(rows, mask=absent))
    valid = None
    if column.null_count:
        valid = taken(numpy_array(column.is_valid()), rows)
    if absent is not None:
        valid = ~absent if valid is None else valid & ~absent
    return _of_numbers(taken(_numbers(column, width), rows), column.type, valid)


def in_rows(values: Column, rows: Codes) -> Column:
    """Return values, Arrow or numpy, in the order of rows, given the row that each is of."""
    if isinstance(values, np.ndarray):
        found = recycled(len(values), values.dtype)
        found[rows] = values
        return found
    width = _width(values.type)
    if width is None:
        return unified(values).take(arrow_array(in_rows(np.arange(len(rows)), rows)))
    valid = in_rows(numpy_array(values.is_valid()), rows) if values.null_count else None
    return _of_numbers(in_rows(_numbers(values, width), rows), values.type, valid)


def patched(
    column: pa.ChunkedArray,
    rows: Codes,
    before: pa.ChunkedArray,
    sources: Codes,
    *,
    all_valid: bool,
) -> pa.ChunkedArray | pa.Array:
    """Return a column with other values in some rows.

    Parameters
    ----------
    column
        Of any type.
    rows
        int64: the rows that change.
    before
        Other values of the same type, which are counted before those of the column.
    sources
        int64: which value each of the rows gets; one that is not null.
    all_valid
        Whether no row is null then.
    """
    both = pa.chunked_array([*before.chunks, *column.chunks], type=column.type)
    offset = len(before)
    width = _width(column.type)
    if width is None:
        wanted = np.arange(offset, len(both))
        wanted[rows] = sources
        return taken(both, wanted)
    values = np.concatenate([raw_values(chunk, width) for chunk in both.chunks])
    values[offset + rows] = values[sources]
    valid = None
    if column.null_count and not all_valid:
        valid = numpy_array(column.is_valid())
        valid[rows] = True
    return _of_numbers(values[offset:], column.type, valid)


_WIDTHS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def _width(kind: pa.DataType) -> Any:
    """Return the type of integers as wide as numbers and times of a type; None for others."""
    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or is_temporal(kind):
        return _WIDTHS.get(kind.bit_width)
    return None


def _numbers(column: Column, width: Any) -> NDArray[Any]:
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [raw_values(chunk, width) for chunk in chunks if len(chunk)]
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, width), *parts])


def _of_numbers(numbers: NDArray[Any], kind: pa.DataType, valid: BoolArray | None) -> pa.Array:
    """Return numbers as values of a type that is as wide."""
    known = None if valid is None else arrow_array(valid).buffers()[1]
    return pa.Array.from_buffers(kind, len(numbers), [known, pa.py_buffer(numbers)])
