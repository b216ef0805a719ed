"""Rows brought together by key: what clauses work on that look along the rows of each key.

Such a clause sees the rows of a unit and what was carried to it from the units around. Keys of all
of them are numbered alike, rows are put into one order in which those of a key stand side by side,
and what was computed there goes back to the rows it is of. A missing key is a key like others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, numpy_array
from tessel.cached import cached
from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.values import is_temporal, plain, plain_type, raw_values
from tessel.kernels.rows_by_code import rows_by_code
from tessel.lazy import dataclass

__all__ = [
    "KeyOrder",
    "codes_of_parts",
    "edge_rows",
    "in_rows",
    "key_fields",
    "patched",
    "plain_keys",
]

Codes = NDArray[np.int64]
Column = Any  # pyarrow.Array or pyarrow.ChunkedArray; pyarrow has no stubs


def codes_of_parts(
    parts: Sequence[Sequence[Column]], lengths: Sequence[int]
) -> tuple[list[Codes], int]:
    """Return a number for each row of several tables by key, equal keys alike in all of them.

    Parameters
    ----------
    parts
        The key columns of each table, as many in each; none where there is no key.
    lengths
        How many rows each table has.

    Returns
    -------
    codes : list of numpy.ndarray
        For each table int64, shape ``(rows,)``, in ``[0, groups)``.
    groups : int
    """
    if not parts[0]:
        return [np.zeros(rows, np.int64) for rows in lengths], 1
    found = [group_codes(columns, drop_missing=False) for columns in parts]
    if len(found) == 1:
        return [found[0].codes], len(found[0])
    # Only the distinct keys of each table are compared across tables.
    keys = [pa.concat_arrays(columns) for columns in zip(*(g.keys for g in found), strict=True)]
    joint = group_codes(keys, drop_missing=False)
    ends = np.cumsum([len(groups) for groups in found])
    codes = [
        joint.codes[end - len(groups) : end][groups.codes]
        for groups, end in zip(found, ends, strict=True)
    ]
    return codes, len(joint)


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

    @cached
    def stop(self) -> Codes:
        """The place where the key of each place ends; int64, shape ``(rows,)``."""
        return np.repeat(self.bounds[1:], np.diff(self.bounds))

    def arranged(self, column: Column) -> Column:
        """Return the values of a column, Arrow or numpy, in this order."""
        if self.order is None:
            return column
        return column[self.order] if isinstance(column, np.ndarray) else column.take(self.order)

    def restored(self, column: Column) -> Column:
        """Return values in this order, Arrow or numpy, in the order of the rows."""
        if self.order is None:
            return column
        place = np.empty(len(self.order), np.int64)
        place[self.order] = np.arange(len(self.order))
        return column[place] if isinstance(column, np.ndarray) else column.take(arrow_array(place))

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


def in_rows(values: Column, rows: Codes) -> Column:
    """Return values, Arrow or numpy, in the order of rows, given the row that each is of."""
    if isinstance(values, np.ndarray):
        found = np.empty_like(values)
        found[rows] = values
        return found
    if _is_of_numbers(values.type) and not values.null_count:
        width = _WIDTHS[values.type.bit_width]
        numbers = in_rows(raw_values(values, width), rows)
        return pa.Array.from_buffers(values.type, len(rows), [None, pa.py_buffer(numbers)])
    place = np.empty(len(rows), np.int64)
    place[rows] = np.arange(len(rows))
    return values.take(arrow_array(place))


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
    kind = column.type
    width = _WIDTHS.get(kind.bit_width) if _is_of_numbers(kind) else None
    if width is None:
        wanted = np.arange(offset, len(both))
        wanted[rows] = sources
        return both.take(arrow_array(wanted))
    values = np.concatenate([raw_values(chunk, width) for chunk in both.chunks])
    values[offset + rows] = values[sources]
    buffers = [None, pa.py_buffer(values[offset:])]
    if column.null_count and not all_valid:
        valid = numpy_array(column.is_valid())
        valid[rows] = True
        buffers[0] = arrow_array(valid).buffers()[1]
    return pa.Array.from_buffers(kind, len(column), buffers)


_WIDTHS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def _is_of_numbers(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or is_temporal(kind))


def edge_rows(codes: Codes, groups: int, first: int, last: int) -> Codes:
    """Return the rows that are among the first or the last ones of their key.

    Returns
    -------
    numpy.ndarray
        int64, ascending.
    """
    if groups <= 1:
        rows = len(codes)
        if first + last >= rows:
            return np.arange(rows)
        return np.concatenate([np.arange(first), np.arange(rows - last, rows)])
    keys = KeyOrder.of_codes(codes, groups)
    assert keys.order is not None  # there are several keys
    begins, ends = keys.bounds[:-1], keys.bounds[1:]
    head = np.minimum(begins + min(first, len(codes)), ends)
    tail = np.maximum(ends - min(last, len(codes)), head)
    starts, lengths = np.concatenate([begins, tail]), np.concatenate([head - begins, ends - tail])
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.sort(keys.order[np.repeat(starts, lengths) + within])


def key_fields(types: Sequence[pa.DataType]) -> list[pa.Field]:
    """Return the columns of a carry that hold keys of these types."""
    return [pa.field(f"key_{at}", plain_type(kind)) for at, kind in enumerate(types)]


def plain_keys(columns: Sequence[Column], rows: Codes) -> list[pa.Array]:
    """Return the keys of some rows as a carry holds them."""
    return [plain(column.take(arrow_array(rows))) for column in columns]
