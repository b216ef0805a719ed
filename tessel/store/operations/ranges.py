"""Ranges that users name: rows by position, times by text, date or number."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tessel.errors import IndexColumnError, InvalidInputError
from tessel.expression.periods import instant_text, parse_period, units_from_ns, zone_of
from tessel.expression.schema import TableSchema
from tessel.store.history import Claim

__all__ = ["row_range", "time_range"]


def row_range(rows: Any, count: int) -> tuple[int, int]:
    """Return rows ``[start, stop)`` of a symbol of ``count`` rows.

    Raises
    ------
    InvalidInputError
        For anything but two positions of the symbol, the second not before the first.
    """
    pair = tuple(rows) if isinstance(rows, tuple | list | range) and len(rows) == 2 else None
    if pair is None or not all(isinstance(n, int) and not isinstance(n, bool) for n in pair):
        raise InvalidInputError(
            f"rows={rows!r} is no range of rows",
            hint="give rows=(start, stop): positions from 0, the second is not included",
        )
    start, stop = pair
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
    read = _integer if pa.types.is_integer(kind) else _instant
    low = None if bounds[0] is None else read(bounds[0], kind)[0]
    high = None if bounds[1] is None else read(bounds[1], kind)[1]
    if low is not None and high is not None and high < low:
        raise InvalidInputError(
            f"date_range={tuple(bounds)!r} ends before it begins", hint="swap the two"
        )
    return low, high


def _integer(bound: Any, kind: pa.DataType) -> tuple[int, int]:
    if not isinstance(bound, int) or isinstance(bound, bool):
        raise InvalidInputError(
            f"{bound!r} is no bound for an index of type {kind}",
            hint="give whole numbers",
        )
    return bound, bound


def _instant(bound: Any, kind: pa.DataType) -> tuple[int, int]:
    text = instant_text(bound)
    assert text is not None
    period = parse_period(text, zone_of(kind))
    return units_from_ns(period.start_ns, kind), units_from_ns(period.end_ns, kind) - 1
