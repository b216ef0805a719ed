"""Carries with a row a key: its key, and lists of what is known of its rows, in their order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, numpy_array, one_array
from tessel.clauses.along_rows.key_order import Codes, Column, taken
from tessel.expression.schema import TableSchema

_ROWS = "rows"
"""Lists of nothing, where no column is read: how many rows there are."""


def list_fields(columns: Sequence[str], schema: TableSchema) -> list[pa.Field]:
    """Return the columns of a carry that hold lists: of values, or of nothing for each row."""
    if not columns:
        return [pa.field(_ROWS, pa.large_list(pa.null()))]
    return [
        pa.field(f"value_{at}", pa.large_list(schema.type_of(name)))
        for at, name in enumerate(columns)
    ]


def lists(bounds: Codes, columns: Sequence[Column]) -> list[pa.Array]:
    """Return columns whose values are side by side by key as lists, one a key.

    Parameters
    ----------
    bounds
        int64, shape ``(keys + 1,)``: where each key begins, and the end of the last.
    columns
        Values; without any, lists are of nothing.
    """
    ends = arrow_array(bounds)
    values = list(map(one_array, columns)) or [pa.nulls(int(bounds[-1]))]
    return [pa.LargeListArray.from_arrays(ends, each) for each in values]


def list_values(column: pa.ChunkedArray) -> pa.Array:
    """Return the values of lists, one list after another."""
    return one_array(column).flatten()


def list_bounds(carry: pa.Table) -> Codes:
    """Return where the values of each key of a carry begin, and the end of the last."""
    offsets = numpy_array(one_array(carry.column(_list_names(carry)[0])).offsets)
    bounds: Codes = offsets - offsets[0]
    return bounds


def key_runs(codes: Sequence[Codes], groups: int, *carries: pa.Table) -> Codes:
    """Return where the values of each key lie in those of the lists of carries.

    Parameters
    ----------
    codes
        For each carry the number of each of its keys.
    carries
        Keys, and lists beside them. The values of each follow those of the one before.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(carries, 2, groups)``: where they begin, and where they end.
    """
    found = np.zeros((len(carries), 2, groups), np.int64)
    start = 0
    for (begin, end), own, carry in zip(found, codes, carries, strict=True):
        bounds = list_bounds(carry) + start
        begin[:] = end[:] = start
        begin[own], end[own] = bounds[:-1], bounds[1:]
        start = int(bounds[-1])
    return found


def joined_values(earlier: pa.Table, later: pa.Table, rows: Codes) -> list[Column]:
    """Return some values of the lists of two carries, a column each; none of lists of nothing."""
    found: list[Column] = []
    for name in _list_names(earlier):
        if name != _ROWS:
            values = [list_values(each.column(name)) for each in (earlier, later)]
            found.append(taken(pa.chunked_array(values), rows))
    return found


def ends_of(firsts: Codes, lasts: Codes) -> Codes:
    """Return where the rows of lines of runs begin, and the end of the last."""
    return np.append(0, np.cumsum((lasts - firsts).sum(1)))


def _list_names(carry: pa.Table) -> list[str]:
    return [name for name in carry.column_names if not name.startswith("key_")]
