"""Rows brought together by key: what clauses work on that look along the rows of each key.

Such a clause sees the rows of a unit and what was carried to it from the units around. Keys of all
of them are numbered alike, rows are put into one order in which those of a key stand side by side,
and what was computed there goes back to the rows it is of. A missing key is a key like others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.grouped.grouping import group_codes
from tessel.clauses.values import plain, plain_type

__all__ = ["KeyOrder", "codes_of_parts", "edge_rows", "in_rows", "key_fields", "plain_keys"]

Codes = NDArray[np.int64]
Column = Any  # pyarrow.Array or pyarrow.ChunkedArray; pyarrow has no stubs

_RADIX_CODES = 1 << 16
"""Below so many keys numpy sorts by counting, an order of magnitude faster."""


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
    start, stop
        int64, shape ``(rows,)``: the places where the key of each place begins and ends.
    """

    order: Codes | None
    start: Codes
    stop: Codes

    @classmethod
    def of_codes(cls, codes: Codes, groups: int) -> KeyOrder:
        """Order rows by the number of their key."""
        rows = len(codes)
        if groups <= 1:
            return cls(None, np.zeros(rows, np.int64), np.full(rows, rows))
        sortable = codes.astype(np.uint16) if groups <= _RADIX_CODES else codes
        order = np.argsort(sortable, kind="stable")
        counts = np.bincount(codes, minlength=groups)
        ends = np.cumsum(counts)
        return cls(order, np.repeat(ends - counts, counts), np.repeat(ends, counts))

    def __len__(self) -> int:
        return len(self.start)

    @property
    def places(self) -> Codes:
        """The numbers of the places, from 0 on."""
        return np.arange(len(self.start))

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
        return column[place] if isinstance(column, np.ndarray) else column.take(pa.array(place))

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
    place = np.empty(len(rows), np.int64)
    place[rows] = np.arange(len(rows))
    return values.take(pa.array(place))


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
    places = keys.places
    wanted = (places - keys.start < first) | (keys.stop - places <= last)
    assert keys.order is not None  # there are several keys
    return np.sort(keys.order[wanted])


def key_fields(types: Sequence[pa.DataType]) -> list[pa.Field]:
    """Return the columns of a carry that hold keys of these types."""
    return [pa.field(f"key_{at}", plain_type(kind)) for at, kind in enumerate(types)]


def plain_keys(columns: Sequence[Column], rows: Codes) -> list[pa.Array]:
    """Return the keys of some rows as a carry holds them."""
    return [plain(column.take(pa.array(rows))) for column in columns]
