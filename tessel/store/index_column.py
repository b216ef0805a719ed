"""The rules of a time index: its type, no missing values, never going back; merging by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, arrow_scalar, concat_tables, numpy_array, scalar_text
from tessel.errors import (
    IndexColumnError,
    InvalidInputError,
    SchemaMismatchError,
    TesselError,
    UnsortedIndexError,
)
from tessel.lazy import dataclass
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

    Raises IndexColumnError or UnsortedIndexError, naming the first row over all tables that breaks
    the rule.

    Parameters
    ----------
    after
        The time that the first row must not be before, in the index's own unit.
    hint
        What to do about an index that goes back.
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

    Raises IndexColumnError where a value is missing.

    Parameters
    ----------
    row
        The number of the first row, for the error.
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


def index_ends(table: pa.Table, index: str) -> tuple[int, int]:
    """Return the first and the last index value of a table, which has rows."""
    column = table.column(index)
    narrow = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
    return column[0].cast(narrow).as_py(), column[-1].cast(narrow).as_py()


def time_text(value: int, kind: pa.DataType) -> str:
    """Return a value of an index, in its own unit, as the date or time that it stands for."""
    narrow = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    return scalar_text(arrow_scalar(value, narrow).cast(kind))


def _goes_back(
    column: pa.ChunkedArray, index: str, row: int, at: int, before: int, hint: str
) -> UnsortedIndexError:
    return UnsortedIndexError(
        f"the index {index!r} goes back in row {row + at}: {scalar_text(column[at])} after "
        f"{time_text(before, column.type)}",
        hint=hint,
        index=index,
        row=row + at,
    )


# --- merging --------------------------------------------------------------------------------------

OUT_OF_ORDER = "each input of a merge is ordered by time: sort it first"
"""What to do about one that is not."""


@dataclass(frozen=True)
class Run:
    """One input of a merge.

    Attributes
    ----------
    tables
        The rows: tables of one schema, ordered by the index over all of them.
    name
        What errors call it.
    not_before
        A time, in the index's own unit, that no row is before; the input is not begun until the
        merge has come there. None begins it at once.
    """

    tables: Iterable[pa.Table]
    name: str
    not_before: int | None = None


def merge_ordered(runs: Sequence[Run], schema: pa.Schema, index: str) -> Iterator[pa.Table]:
    """Merge ordered inputs into one ordered stream of tables.

    Rows of equal times keep the order of the inputs, and within an input their own. Of each input
    that has begun one table is held, so the memory needed grows with the number of inputs whose
    times overlap, not with their rows.

    Raises SchemaMismatchError for a table with other columns; IndexColumnError or
    UnsortedIndexError for an input with a missing time, or one that goes back; names the input.

    Parameters
    ----------
    schema
        The columns that all of their tables have, in this order, with these types.

    Notes
    -----
    The merge goes in rounds. Let *bound* be the least last time over the tables that are held, and
    *limit* the first input whose table ends with it. No row that is still to come belongs before
    those that go out now: of inputs up to *limit* the rows not after *bound*, of those behind it
    the rows before *bound*, since *limit* may have more rows of that time and its rows come first.
    A round uses up the table of *limit*, so there are as many rounds as tables. Rows of one round
    are ordered by a stable sort, which on a few ordered runs is a merge.
    """
    heads = [_Head(run, schema, index) for run in runs]
    while True:
        found = _limit(heads)
        if found is None:
            return
        limit, bound = found
        parts = [head.up_to(bound, included=at <= limit) for at, head in enumerate(heads)]
        ordered = _in_order([part for part in parts if part is not None])
        if ordered is not None:
            yield ordered


class _Head:
    """What is held of one input: a table, and how many of its rows have gone out."""

    def __init__(self, run: Run, schema: pa.Schema, index: str) -> None:
        self.waits_until = run.not_before
        self._tables = _checked(run, schema, index)
        self._index = index
        self._table: pa.Table | None = None
        self._at = 0
        self.times: npt.NDArray[np.int64] | None = None
        """Index values of the table that is held; None where the input has ended."""
        if self.waits_until is None:
            self._advance()

    def begin(self) -> None:
        """Read the first table of an input that was left until now."""
        self.waits_until = None
        self._advance()

    def up_to(self, bound: int, *, included: bool) -> tuple[pa.Table, npt.NDArray[np.int64]] | None:
        """Take the rows before ``bound``, or not after it; None where there are none."""
        if self.times is None or self._table is None:
            return None
        stop = int(np.searchsorted(self.times, bound, side="right" if included else "left"))
        start, self._at = self._at, stop
        if stop == start:
            return None
        taken = self._table.slice(start, stop - start), self.times[start:stop]
        if stop == len(self.times):
            self._advance()
        return taken

    def _advance(self) -> None:
        self._table = next((table for table in self._tables if table.num_rows), None)
        self._at = 0
        self.times = (
            None
            if self._table is None
            else index_integers(self._table.column(self._index), self._index)
        )


def _limit(heads: Sequence[_Head]) -> tuple[int, int] | None:
    """Return the first input whose table ends first, and its last time; None at the end."""
    while True:
        ends = [(int(h.times[-1]), at) for at, h in enumerate(heads) if h.times is not None]
        bound, limit = min(ends, default=(0, -1))
        waiting = [h for h in heads if h.waits_until is not None]
        if limit < 0 and waiting:
            first = min(waiting, key=lambda head: head.waits_until or 0)
            due = [first]
        else:
            due = [h for h in waiting if h.waits_until is not None and h.waits_until <= bound]
        if not due:
            return None if limit < 0 else (limit, bound)
        for head in due:
            head.begin()


def _in_order(
    parts: Sequence[tuple[pa.Table, npt.NDArray[np.int64]]],
) -> pa.Table | None:
    if not parts:
        return None
    tables = [table for table, _ in parts]
    joined = tables[0] if len(tables) == 1 else concat_tables(tables)
    if all(one[-1] <= two[0] for (_, one), (_, two) in pairwise(parts)):
        return joined
    times = np.concatenate([own for _, own in parts])
    return joined.take(arrow_array(np.argsort(times, kind="stable")))


def _checked(run: Run, schema: pa.Schema, index: str) -> Iterator[pa.Table]:
    from tessel.store.frames import describe_differences

    def tables() -> Iterator[pa.Table]:
        for table in run.tables:
            differences = describe_differences(schema, table.schema)
            if differences:
                raise SchemaMismatchError(
                    "an input of a merge has other columns than the merge",
                    detail="\n".join(differences),
                    hint="bring all inputs to one schema first",
                )
            yield table.select(schema.names)

    try:
        yield from checked_order(tables(), index, hint=OUT_OF_ORDER)
    except TesselError as error:
        error.with_context(input=run.name)
        raise
