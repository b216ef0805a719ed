"""Kernels of calendar and clock."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.errors import ExpressionError
from tessel.expression.kernels.values import Kernel, Value, as_numpy, from_numpy
from tessel.expression.node import Expression
from tessel.expression.operators.time import Floor
from tessel.expression.types import UNIT_NANOSECONDS

__all__ = ["KERNELS", "first_instant", "local_time"]

_EPOCH = datetime.datetime(1970, 1, 1)
_DAY_SECONDS = 86_400
_QUARTER = 900
_YEAR_2038 = 2_145_916_800
_YEAR_9999 = 253_370_764_800


def part(function: Callable[[Value], Value]) -> Kernel:
    """Return the kernel of a calendar or clock field."""

    def kernel(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
        return pc.cast(function(local_time(values[0])), result)

    return kernel


def local_time(value: Value) -> Value:
    """Return instants of a zone as their readings on its clock; values without a zone as they are.

    Arrow's ``second`` looks at no zone, though offsets had seconds, in Monrovia until 1972. Nor
    does Arrow know a change of clocks after 2037: which offsets later quarters of an hour have is
    asked of zoneinfo, to the year 9999.
    """
    if getattr(value.type, "tz", None) is None:
        return value
    local = pc.local_timestamp(value)
    counts, valid = as_numpy(value)
    per_second = UNIT_NANOSECONDS["s"] // UNIT_NANOSECONDS[value.type.unit]
    last = min(_YEAR_9999 * per_second, np.iinfo(np.int64).max)
    late = valid & (counts >= _YEAR_2038 * per_second) & (counts < last)
    if not late.any():
        return local
    from tessel.expression.temporal import zone_of

    zone = zone_of(value.type.tz)
    quarters, places = np.unique(counts[late] // (_QUARTER * per_second), return_inverse=True)
    starts = [datetime.datetime.fromtimestamp(_QUARTER * each, zone) for each in quarters.tolist()]
    offsets = np.array([_offset_seconds(each) for each in starts], np.int64)
    readings = as_numpy(local)[0].copy()
    readings[late] = counts[late] + offsets[places] * per_second
    return from_numpy(readings, valid, local.type, [value])


def weekday(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
    """Return the day of the week, Monday 0."""
    days = pc.day_of_week(local_time(values[0]), count_from_zero=True, week_start=1)
    return pc.cast(days, result)


def date_of(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
    """Return the local date."""
    (value,) = values
    if pa.types.is_date(value.type):
        return pc.cast(value, result)
    return _local_date(value)


def _local_date(value: Value) -> Value:
    return pc.cast(local_time(value), pa.date32())


def floor(node: Floor, values: Sequence[Value], result: pa.DataType) -> Value:
    """Return bucket starts: elapsed time by integer arithmetic, days by the calendar."""
    (value,) = values
    counts, valid = as_numpy(value)
    unit = UNIT_NANOSECONDS[result.unit]
    if node.calendar_days and result.tz is not None:
        days, _ = as_numpy(_local_date(value))
        starts = days.astype(np.int64) // node.calendar_days * node.calendar_days
        return from_numpy(_instants(starts, valid, result), valid, result, values)
    if unit % node.nanoseconds == 0:
        return value
    length = node.nanoseconds // unit
    floored = counts - np.remainder(counts, length)
    if ((floored > counts) & valid).any():
        raise pa.ArrowInvalid("overflow")
    return from_numpy(floored, valid, result, values)


def _instants(
    days: np.ndarray[tuple[int], np.dtype[np.int64]],
    valid: np.ndarray[tuple[int], np.dtype[np.bool_]],
    result: pa.DataType,
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the first instants of local days; each distinct day is looked up once."""
    from tessel.expression.temporal import zone_of

    distinct, places = np.unique(np.where(valid, days, 0), return_inverse=True)
    per_second = UNIT_NANOSECONDS["s"] // UNIT_NANOSECONDS[result.unit]
    zone = zone_of(result.tz)
    instants = [first_instant(int(day), zone) * per_second for day in distinct]
    return np.array(instants, dtype=np.int64)[places]


def first_instant(day: int, zone: datetime.tzinfo) -> int:
    """Return the first instant of a local date.

    Parameters
    ----------
    day
        Days since 1970-01-01 on the zone's clock.
    zone
        The zone.

    Returns
    -------
    int
        Seconds since the epoch. Where midnight is skipped by a change of clocks, the instant of
        the change; where it happens twice, the first.
    """
    try:
        midnight = _EPOCH + datetime.timedelta(days=day)
        before = _offset_seconds(midnight.replace(tzinfo=zone, fold=0))
        after = _offset_seconds(midnight.replace(tzinfo=zone, fold=1))
    except OverflowError as error:
        raise ExpressionError(
            "floor by days takes instants of the years 1 to 9999",
            hint="floor by hours counts elapsed time and takes any instant",
        ) from error
    wall = day * _DAY_SECONDS
    if after <= before:
        return wall - before
    # midnight is skipped: the change lies between the two readings of it
    low, high = wall - after, wall - before
    while high - low > 1:
        middle = (low + high) // 2
        instant = datetime.datetime.fromtimestamp(middle, datetime.UTC)
        if _offset_seconds(instant.astimezone(zone)) == before:
            low = middle
        else:
            high = middle
    return high


def _offset_seconds(moment: datetime.datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None
    return offset.days * _DAY_SECONDS + offset.seconds


KERNELS: dict[str, Kernel] = {
    "year": part(pc.year),
    "month": part(pc.month),
    "day": part(pc.day),
    "weekday": weekday,
    "hour": part(pc.hour),
    "minute": part(pc.minute),
    "second": part(pc.second),
    "date": date_of,
    "floor": floor,
}
