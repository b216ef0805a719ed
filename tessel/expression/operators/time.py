"""Parts of instants and dates, on the clock of the column's zone, and time buckets."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, arrow_scalar
from tessel.errors import ExpressionError, shown
from tessel.expression.node import Expression, require_text
from tessel.expression.operators.shapes import Unary, of_one, require
from tessel.expression.types import UNIT_NANOSECONDS, Family, Operand, Signature, refuse
from tessel.expression.values import Compute, Value, as_numpy, from_numpy
from tessel.lazy import dataclass

Integers = npt.NDArray[np.int64]

_EPOCH = datetime.datetime(1970, 1, 1)
_DAY_SECONDS = 86_400
_QUARTER = 900
_YEAR_2038 = 2_145_916_800
_YEAR_9999 = 253_370_764_800


def part(function: Callable[[Value], Value]) -> Compute:
    """Compute a field of calendar or clock."""

    def compute(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
        return pc.cast(function(local_time(values[0])), result)

    return compute


def local_time(value: Value) -> Value:
    """Return instants of a zone as their readings on its clock; values without a zone as they are.

    Arrow's ``second`` looks at no zone, though offsets had seconds, in Monrovia until 1972.
    """
    if getattr(value.type, "tz", None) is None:
        return value
    local, late = pc.local_timestamp(value), _Late.of(value)
    if late is None:
        return local
    offsets = _offsets(late.seconds, _zone_of(value.type.tz))
    readings = as_numpy(local)[0].copy()
    readings[late.rows] = late.counts + offsets[late.places] * late.per_second
    return from_numpy(readings, as_numpy(value)[1], local.type, [value])


def instants(wall: Value, zone: str) -> Value:
    """Return the first instants at which the clock of a zone has these readings.

    Where a change of clocks skips a reading, the instant of the change.
    """
    aware = pc.assume_timezone(wall, zone, ambiguous="earliest", nonexistent="latest")
    late = _Late.of(wall)
    if late is None:
        return aware
    clock = _zone_of(zone)
    readings = np.array(late.seconds, np.int64)
    starts = np.array([_first_instant(each, clock) for each in late.seconds], np.int64)
    # A change skips whole quarters: no reading of a skipped one has an instant of its own.
    is_skipped = starts + _offsets(starts.tolist(), clock) != readings
    inside = late.counts - readings[late.places] * late.per_second
    counts = as_numpy(aware)[0].copy()
    counts[late.rows] = starts[late.places] * late.per_second
    counts[late.rows] += np.where(is_skipped[late.places], 0, inside)
    return from_numpy(counts, as_numpy(wall)[1], aware.type, [wall])


def zoned_text(value: Value) -> Value:
    """Return instants of a zone as text: the readings of its clock, and their offsets from UTC."""
    text, late = pc.cast(value, pa.string()), _Late.of(value)
    if late is None:
        return text
    local = local_time(value)
    readings = as_numpy(local)[0]
    other = readings != as_numpy(pc.local_timestamp(value))[0]  # Arrow tells another offset
    ahead = np.where(other, readings - as_numpy(value)[0], 0) // (60 * late.per_second)
    found, places = np.unique(ahead, return_inverse=True)
    offsets = [f"{'-' if m < 0 else '+'}{abs(m) // 60:02}{abs(m) % 60:02}" for m in found.tolist()]
    endings = arrow_array(offsets).take(arrow_array(places))
    told = pc.binary_join_element_wise(pc.cast(local, pa.string()), endings, arrow_scalar(""))
    texts = pc.if_else(arrow_array(other & late.rows), told, text)
    return texts[0] if isinstance(value, pa.Scalar) else texts


@dataclass(frozen=True)
class _Late:
    """Instants, or readings of clocks, after 2037: Arrow knows no change of clocks there.

    zoneinfo does, to the year 9999, and is asked once for each quarter of an hour.

    Attributes
    ----------
    rows, counts
        Bool, which rows are late, and what these count, int64.
    seconds, places
        The quarters that there are, in seconds of their beginning, and that of each late row.
    per_second
        How many units a second has.
    """

    rows: npt.NDArray[np.bool_]
    counts: Integers
    seconds: list[int]
    places: Integers
    per_second: int

    @classmethod
    def of(cls, value: Value) -> _Late | None:
        """Return the values after 2037 among some; None where there are none."""
        counts, valid = as_numpy(value)
        per_second = UNIT_NANOSECONDS["s"] // UNIT_NANOSECONDS[value.type.unit]
        last = min(_YEAR_9999 * per_second, np.iinfo(np.int64).max)
        late = valid & (counts >= _YEAR_2038 * per_second) & (counts < last)
        if not late.any():
            return None
        quarters, places = np.unique(counts[late] // (_QUARTER * per_second), return_inverse=True)
        return cls(late, counts[late], (quarters * _QUARTER).tolist(), places, per_second)


def _zone_of(name: str) -> datetime.tzinfo:
    from tessel.expression.temporal import zone_of

    return zone_of(name)


def _instants(days: Integers, valid: npt.NDArray[np.bool_], result: pa.DataType) -> Integers:
    """Return the first instants of local days; each distinct day is looked up once."""
    distinct, places = np.unique(np.where(valid, days, 0), return_inverse=True)
    per_second = UNIT_NANOSECONDS["s"] // UNIT_NANOSECONDS[result.unit]
    zone = _zone_of(result.tz)
    found = [_first_instant(int(day) * _DAY_SECONDS, zone) * per_second for day in distinct]
    return np.array(found, dtype=np.int64)[places]


def _first_instant(reading: int, zone: datetime.tzinfo) -> int:
    """Return the first instant at which a clock has a reading, or a change of clocks skips it.

    Both in seconds, of the clock and of UTC, since 1970-01-01.
    """
    from tessel.expression.periods import first_instant_ns

    try:
        wall = _EPOCH + datetime.timedelta(seconds=reading)
        return first_instant_ns(wall, zone) // UNIT_NANOSECONDS["s"]
    except OverflowError as error:
        raise ExpressionError(
            "floor by days takes instants of the years 1 to 9999",
            hint="floor by hours counts elapsed time and takes any instant",
        ) from error


def _offsets(instants: Sequence[int], zone: datetime.tzinfo) -> Integers:
    """Return by how many seconds the clock of a zone is ahead of UTC at some instants."""
    moments = [datetime.datetime.fromtimestamp(each, zone) for each in instants]
    return np.array([_offset_seconds(each) for each in moments], np.int64)


def _offset_seconds(moment: datetime.datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None
    return offset.days * _DAY_SECONDS + offset.seconds


_TO_NUMBER: dict[str, Any] = {"result": pa.int32(), "null": pa.timestamp("us")}


class TimePart(Unary, signature=of_one(Family.TIMESTAMP, Family.DATE, **_TO_NUMBER)):
    """A number read from the calendar."""


class ClockPart(Unary, signature=of_one(Family.TIMESTAMP, Family.TIME, **_TO_NUMBER)):
    """A number read from the clock: dates have none."""


class Year(TimePart, name="year", compute=part(pc.year)):
    """The year."""


class Month(TimePart, name="month", compute=part(pc.month)):
    """The month, 1 to 12."""


class Day(TimePart, name="day", compute=part(pc.day)):
    """The day of the month."""


class Weekday(TimePart, name="weekday", compute=part(pc.day_of_week)):
    """The day of the week, Monday 0 to Sunday 6."""


class Hour(ClockPart, name="hour", compute=part(pc.hour)):
    """The hour, 0 to 23."""


class Minute(ClockPart, name="minute", compute=part(pc.minute)):
    """The minute."""


class Second(ClockPart, name="second", compute=part(pc.second)):
    """The whole second."""


class DateOf(
    Unary,
    name="date",
    signature=of_one(Family.TIMESTAMP, Family.DATE, result=pa.date32(), null=pa.date32()),
    compute=part(lambda date: date),
):
    """The date on the clock of the column's zone."""


class Floor(Expression, name="floor"):
    """The start of the time bucket that an instant lies in.

    A rule of ``h min s ms us ns`` is elapsed time counted from the epoch; a rule of days is a
    calendar: whole local days counted from 1970-01-01, beginning at their first instant.
    """

    operand: Expression
    rule: str

    @property
    def nanoseconds(self) -> int:
        """The length of the bucket; of a calendar rule, as if no clock ever changed."""
        from tessel.expression.temporal import parse_duration

        found = parse_duration(self.rule)
        return 0 if found is None else found

    @property
    def calendar_days(self) -> int:
        """The number of days of a calendar rule; 0 for elapsed time."""
        stripped = self.rule.strip().lower()
        digits = stripped[:-1].strip()
        return int(digits) if stripped.endswith("d") and digits.isdecimal() else 0

    def check(self) -> None:
        """Raise where the rule is not a duration above zero."""
        require_text(self.rule, "the rule of floor")
        if self.nanoseconds <= 0:
            raise ExpressionError(
                f"{shown(self.rule)} is not a bucket length",
                hint="write a duration like '15min', '1h30min' or '1d' (units d h min s ms us ns)",
                rule=shown(self.rule),
            )

    def signature(self, operands: tuple[Operand, ...]) -> Signature:
        """Return the operand's type."""
        (operand,) = operands
        require(self.name, operand, Family.TIMESTAMP)
        if operand.family is Family.NULL:
            return Signature((pa.timestamp("us"),), pa.timestamp("us"))
        unit = UNIT_NANOSECONDS[operand.type.unit]
        if unit % self.nanoseconds and self.nanoseconds % unit:
            refuse(
                f"floor to {self.rule}",
                (operand,),
                "bucket starts are not whole units of the column; cast it to a finer unit",
            )
        return Signature((operand.type,), operand.type)

    def compute(self, values: Sequence[Value], result: pa.DataType) -> Value:
        """Return bucket starts: elapsed time by integer arithmetic, days by the calendar."""
        (value,) = values
        counts, valid = as_numpy(value)
        unit = UNIT_NANOSECONDS[result.unit]
        if self.calendar_days and result.tz is not None:
            days, _ = as_numpy(pc.cast(local_time(value), pa.date32()))
            starts = days.astype(np.int64) // self.calendar_days * self.calendar_days
            return from_numpy(_instants(starts, valid, result), valid, result, values)
        if unit % self.nanoseconds == 0:
            return value
        length = self.nanoseconds // unit
        floored = counts - np.remainder(counts, length)
        if ((floored > counts) & valid).any():
            raise pa.ArrowInvalid("overflow")
        return from_numpy(floored, valid, result, values)
