"""Instants and periods as people write them, turned into bounds in an index's own integers.

Text may be partial: ``"2013"``, ``"2013-03"``, ``"2013-03-31"``, ``"2013-03-31T10"`` and
``"2013-03-31T10:15"`` mean their whole period; with seconds it is one instant. Text without a zone
takes the zone of the index. A naive date-time against an aware index, or the other way round, is an
error, because no rule could guess right.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_scalar
from tessel.errors import IndexColumnError, InvalidInputError, PlanError, shown
from tessel.expression.scalars import moment_at, scalar_of
from tessel.expression.types import DAY_NANOSECONDS, UNIT_NANOSECONDS, counted_nanoseconds
from tessel.lazy import dataclass

_SECOND_NS = UNIT_NANOSECONDS["s"]
_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()

_ISO = re.compile(
    r"(?P<year>\d{4})(?:-?(?P<month>\d{2})(?:-?(?P<day>\d{2})"
    r"(?:[T ](?P<hour>\d{2})(?::?(?P<minute>\d{2})(?::?(?P<second>\d{2})"
    r"(?:[.,](?P<fraction>\d{1,9}))?)?)?"
    r"(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?)?)?)?"
)


@dataclass(frozen=True, slots=True)
class Period:
    """Nanoseconds ``[start_ns, end_ns)`` since 1970-01-01 UTC (or naive); an instant spans one."""

    start_ns: int
    end_ns: int


def zone_of(kind: pa.DataType) -> dt.tzinfo | None:
    """Return the time zone of a timestamp type, None for a naive one or a date.

    Raises IndexColumnError for a zone that the zone database does not know.
    """
    name = getattr(kind, "tz", None)
    if name is None:
        return None
    from tessel.expression import temporal

    try:
        return temporal.zone_of(name)
    except (KeyError, ValueError):  # of the database, or of Python
        raise IndexColumnError(
            f"the zone database does not know the zone {name!r} of the index", zone=name
        ) from None


def parse_period(text: str, zone: dt.tzinfo | None) -> Period:
    """Return the period that ISO text names.

    Raises PlanError for text that is no date, a date that does not exist, or text with a zone
    against an index without one.

    Parameters
    ----------
    text
        ISO 8601 date or date-time, possibly partial, possibly with a zone of its own.
    zone
        The zone of the index: what text without a zone is in; None for a naive index.
    """
    match = _ISO.fullmatch(text.strip())
    if match is None:
        raise PlanError(
            f"{text!r} is not a date or time",
            hint="write ISO 8601: 2013-03-31, 2013-03, 2013-03-31T10:15 or 2013-03-31T10:15:00Z",
            text=text,
        )
    parts = match.groupdict()
    own_zone = _stated(parts["zone"])
    if own_zone is not None and zone is None:
        raise PlanError(
            f"{text!r} has a time zone and the index has none",
            hint="leave the zone out of the text",
            text=text,
        )
    fields = [int(parts[name]) if parts[name] else None for name in _FIELDS]
    try:
        start = _wall(fields)
    except ValueError:
        raise PlanError(
            f"{text!r} names a date or time that does not exist",
            hint="years, months and days as in 2024-01-31, hours up to 23",
            text=text,
        ) from None
    fraction = int((parts["fraction"] or "").ljust(9, "0"))
    at = own_zone or zone
    start_ns = first_instant_ns(start, at) + fraction
    try:
        end = _next_wall(start, fields)
    except (ValueError, OverflowError):  # behind the last second of the year 9999
        end_ns = first_instant_ns(dt.datetime.max, at) + _SECOND_NS
    else:
        end_ns = start_ns + 1 if end is None else first_instant_ns(end, at)
    return Period(start_ns, end_ns)


_FIELDS = ("year", "month", "day", "hour", "minute", "second")


def _wall(fields: list[int | None]) -> dt.datetime:
    year, month, day, hour, minute, second = fields
    return dt.datetime(year or 0, month or 1, day or 1, hour or 0, minute or 0, second or 0)


def _next_wall(start: dt.datetime, fields: list[int | None]) -> dt.datetime | None:
    """Return where the period that the given fields name ends; None for an instant."""
    _, month, day, hour, minute, second = fields
    if second is not None:
        return None
    if minute is not None:
        return start + dt.timedelta(minutes=1)
    if hour is not None:
        return start + dt.timedelta(hours=1)
    if day is not None:
        return start + dt.timedelta(days=1)
    if month is not None and start.month < 12:
        return start.replace(month=start.month + 1)
    return start.replace(year=start.year + 1, month=1)


def _stated(text: str | None) -> dt.tzinfo | None:
    if text is None or text == "Z":
        return None if text is None else dt.UTC
    from tessel.expression import temporal

    return temporal.zone_of(text)


def last_moment(text: str) -> dt.datetime | None:
    """Return the last microsecond, in UTC, of the period that ISO text names; None for other text.

    Text without a zone is UTC. With seconds it is that instant, rounded down to a microsecond.
    """
    try:
        period = parse_period(text, dt.UTC)
    except PlanError:
        return None
    return moment_at(period.end_ns - 1)


def first_instant_ns(wall: dt.datetime, zone: dt.tzinfo | None) -> int:
    """Return the first instant at which clocks in ``zone`` show ``wall`` or later.

    Nanoseconds since 1970-01-01 UTC; for ``zone`` None, of a clock that knows no zone. Fractions of
    a second in ``wall`` are left out.
    """
    naive_ns = (wall.toordinal() - _EPOCH_ORDINAL) * DAY_NANOSECONDS + (
        (wall.hour * 60 + wall.minute) * 60 + wall.second
    ) * _SECOND_NS
    if zone is None:
        return naive_ns
    aware = wall.replace(tzinfo=zone, fold=0)
    before = aware.utcoffset() or dt.timedelta()
    after = wall.replace(tzinfo=zone, fold=1).utcoffset() or dt.timedelta()
    if after > before:
        # The clocks skip this time: the first instant after the gap shows a later one. PEP 495:
        # fold=0 uses the offset before the gap, fold=1 the one after it.
        return _first_instant_after_gap(naive_ns, zone, before, after)
    return naive_ns - _span_ns(before)


def _first_instant_after_gap(
    naive_ns: int, zone: dt.tzinfo, before: dt.timedelta, after: dt.timedelta
) -> int:
    low = (naive_ns - _span_ns(after)) // _SECOND_NS
    high = (naive_ns - _span_ns(before)) // _SECOND_NS
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    while high - low > 1:
        middle = (low + high) // 2
        shown = (epoch + dt.timedelta(seconds=middle)).astimezone(zone)
        low, high = (middle, high) if shown.utcoffset() == before else (low, middle)
    return high * _SECOND_NS


def _span_ns(span: dt.timedelta) -> int:
    return (span.days * 86_400 + span.seconds) * _SECOND_NS + span.microseconds * 1_000


def instant_text(value: Any) -> str | None:
    """Return a bound that a user gave as ISO text: text as it is, dates as their day.

    Date-times of Python, numpy, pandas and Arrow become full instants, to the nanosecond; those
    that numpy counts in minutes or coarser units are the period of their unit.

    Raises PlanError for a value that is neither text nor a date nor a date-time, one that is
    missing, and one outside the years 1 to 9999.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, np.datetime64) and np.datetime_data(value.dtype) in _PERIODS:
        text = str(value)
    else:
        try:
            found = scalar_of(value)
        except InvalidInputError:
            found = arrow_scalar(None)
        if isinstance(found, pa.Date32Scalar | pa.Date64Scalar) and found.is_valid:
            text = str(found.cast(pa.date32()))
        elif isinstance(found, pa.TimestampScalar) and found.is_valid:
            from tessel.expression.temporal import format_instant

            aware = found.type.tz is not None
            text = format_instant(found.value, found.type.unit, aware=aware)
        else:
            raise PlanError(
                f"{shown(value)} is not a date or time", hint="give ISO text, a datetime or a date"
            )
    if _ISO.fullmatch(text) is None:
        raise PlanError(
            f"{value!r} lies outside the years 1 to 9999, which bounds are told in",
            hint="leave the bound out, or compare the index in a filter",
        )
    return text


_PERIODS = tuple((unit, 1) for unit in ("Y", "M", "D", "h", "m"))


def period_bounds(
    start: str | None, end: str | None, zone: dt.tzinfo | None
) -> tuple[Period | None, Period | None]:
    """Return the periods that the ends of a range name.

    Raises PlanError for text that is no instant, and where the last ends before the first begins.
    """
    first = None if start is None else parse_period(start, zone)
    last = None if end is None else parse_period(end, zone)
    if first is not None and last is not None and last.end_ns <= first.start_ns:
        raise PlanError.exchanged("date_range", start, end)
    return first, last


def instant_units(text: str, kind: pa.DataType) -> int | None:
    """Return the first instant of a period in the unit of a type; None where that is coarser."""
    ns = parse_period(text, zone_of(kind)).start_ns
    units = units_from_ns(ns, kind)
    return units if units == units_from_ns(ns + 1, kind) - 1 else None


def units_from_ns(ns: int, kind: pa.DataType) -> int:
    """Return the first value of an index type that is not before ``ns``: rounded up to its unit."""
    unit = counted_nanoseconds(kind)
    if unit is None:
        raise IndexColumnError(
            f"a date range needs an index of dates or timestamps, and this one is {kind}",
            hint="use filter with a comparison on the index column",
            type=str(kind),
        )
    return -(-ns // unit)
