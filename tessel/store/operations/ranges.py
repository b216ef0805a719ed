"""Ranges that users name: rows by position, times by text, date or number."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tessel.errors import IndexColumnError, InvalidInputError
from tessel.expression.periods import instant_text, period_bounds, units_from_ns, zone_of
from tessel.expression.scalars import whole_number
from tessel.expression.schema import TableSchema
from tessel.store.history.changes import Claim

__all__ = ["row_range", "time_range"]


def row_range(rows: Any, count: int) -> tuple[int, int]:
    """Return rows ``[start, stop)`` of a symbol of ``count`` rows.

    Raises
    ------
    InvalidInputError
        For anything but two positions of the symbol, the second not before the first.
    """
    given = rows if isinstance(rows, tuple | list | range) and len(rows) == 2 else (None, None)
    start, stop = (whole_number(end) for end in given)
    if start is None or stop is None:
        raise InvalidInputError(
            f"rows={rows!r} is no range of rows",
            hint="give rows=(start, stop): positions from 0, the second is not included",
        )
    if start > stop:
        raise InvalidInputError.exchanged("rows", start, stop)
    if not 0 <= start <= stop <= count:
        raise InvalidInputError(
            f"rows={rows!r} do not lie in a symbol of {count} rows",
            hint=f"0 <= start <= stop <= {count}",
            rows=count,
        )
    return start, stop


def time_range(bounds: Any, schema: TableSchema, what: str) -> Claim:
    """Return index values ``[from, to]`` in the index's own unit; None is no bound.

    Parameters
    ----------
    bounds
        Two of ISO text (a partial one means its whole period at either end), dates, date-times,
        whole numbers for an index of integers, or None.
    schema
        The symbol's.
    what
        The verb, for errors.

    Raises
    ------
    IndexColumnError
        For a symbol without an index.
    InvalidInputError
        For bounds that are none, or that end before they begin.
    """
    if schema.index is None:
        raise IndexColumnError.required(what)
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise InvalidInputError(
            f"date_range is a start and an end, not {bounds!r}",
            hint='write date_range=("2013-01-01", "2013-03-31"); None is no bound',
        )
    kind = schema.type_of(schema.index)
    if pa.types.is_integer(kind):
        low, high = (None if bound is None else _integer(bound, kind) for bound in bounds)
        if low is not None and high is not None and high < low:
            raise InvalidInputError.exchanged("date_range", low, high)
        return low, high
    start, end = (instant_text(bound) for bound in bounds)
    first, last = period_bounds(start, end, zone_of(kind))
    return (
        None if first is None else units_from_ns(first.start_ns, kind),
        None if last is None else units_from_ns(last.end_ns, kind) - 1,
    )


def _integer(bound: Any, kind: pa.DataType) -> int:
    found = whole_number(bound)
    if found is None:
        raise InvalidInputError(
            f"{bound!r} is no bound for an index of type {kind}",
            hint="give whole numbers",
        )
    return found
