"""The rules of a time index: its type, no missing values, never going back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, arrow_scalar, concat_tables, numpy_array, scalar_text
from tessel.errors import IndexColumnError, InvalidInputError, UnsortedIndexError
from tessel.store.segment.types import is_index_type

_TEXT_HINT = (
    '; times in text are parsed first, such as pandas.to_datetime(frame["when"]), or '
    "tessel import --time-format %d/%m/%Y"
)
_SORT_HINT = "write(…, sort=True) sorts the rows first, keeping the order of equal times"


def check_index_type(schema: pa.Schema, index: str) -> None:
    """Raise ``IndexColumnError`` unless ``index`` is a column that can be a time index.

    Timestamps, dates and integers that fit 64 signed bits can.
    """
    if index not in schema.names:
        raise IndexColumnError.absent(index, schema.names)
    type_ = schema.field(index).type
    if not is_index_type(type_):
        raise IndexColumnError(
            f"column {index!r} has type {type_} and cannot be a time index",
            hint="an index is a timestamp, a date, or an integer other than uint64"
            + (_TEXT_HINT if pa.types.is_string(type_) else ""),
            index=index,
            type=str(type_),
        )


def check_index(schema: pa.Schema, index: str | None, *, sort: bool) -> None:
    """Check the index of rows that are written; to be sorted, they need one."""
    if index is not None:
        check_index_type(schema, index)
    elif sort:
        raise InvalidInputError(
            "sort=True without an index: there is nothing to sort by",
            hint='name the time column with index="column"',
        )


def in_order(
    tables: Iterable[pa.Table], index: str | None, *, sort: bool, hint: str = _SORT_HINT
) -> Iterable[pa.Table]:
    """Return rows in the order of their index: sorted, or checked; as they are without an index."""
    if index is None:
        return tables
    if not sort:
        return checked_order(tables, index, hint=hint)
    listed = list(tables)
    return [sorted_by(concat_tables(listed), index)] if listed else []


def checked_order(
    tables: Iterable[pa.Table],
    index: str,
    *,
    after: int | None = None,
    row: int = 0,
    hint: str = _SORT_HINT,
) -> Iterator[pa.Table]:
    """Hand on tables whose index, one after the other, has no missing values and never goes back.

    Parameters
    ----------
    tables, index
        The rows, and the name of their index.
    after
        The time that the first row must not be before, in the index's own unit.
    row
        The number of the first row, for errors.
    hint
        What to do about an index that goes back.

    Raises
    ------
    IndexColumnError, UnsortedIndexError
        Naming the first row over all tables that breaks the rule.
    """
    last = after
    for table in tables:
        if table.num_rows:
            column = table.column(index)
            values = index_integers(column, index, row)
            before = np.concatenate([values[:1] if last is None else [last], values[:-1]])
            wrong = np.flatnonzero(values < before)
            if len(wrong):
                raise _goes_back(column, index, row, int(wrong[0]), int(before[wrong[0]]), hint)
            last = int(values[-1])
        row += table.num_rows
        yield table


def sorted_by(table: pa.Table, index: str) -> pa.Table:
    """Return the rows by time; rows of equal times keep their order."""
    values = index_integers(table.column(index), index)
    if (values[1:] >= values[:-1]).all():
        return table
    return table.take(arrow_array(np.argsort(values, kind="stable")))


def index_integers(column: pa.ChunkedArray, index: str, row: int = 0) -> np.ndarray[Any, Any]:
    """Return the values of an index as integers in its own unit. int64.

    Parameters
    ----------
    column, index
        The values, and the name of the column.
    row
        The number of the first row, for the error.

    Raises
    ------
    IndexColumnError
        Where a value is missing.
    """
    if column.null_count:
        at = pc.index(pc.is_null(column), True).as_py()
        raise IndexColumnError(
            f"the index {index!r} is missing in row {row + at} "
            f"({column.null_count} missing values)",
            hint="drop or fill these rows: an index has no missing values",
            index=index,
            row=row + at,
        )
    narrow = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
    values: np.ndarray[Any, Any] = numpy_array(column.cast(narrow)).astype(np.int64, copy=False)
    return values


def _goes_back(
    column: pa.ChunkedArray, index: str, row: int, at: int, before: int, hint: str
) -> UnsortedIndexError:
    narrow = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
    earlier = arrow_scalar(before, narrow).cast(column.type)
    return UnsortedIndexError(
        f"the index {index!r} goes back in row {row + at}: {scalar_text(column[at])} after "
        f"{scalar_text(earlier)}",
        hint=hint,
        index=index,
        row=row + at,
    )
