"""The converter for every scalar that enters: of Python, numpy, pandas or Arrow, as Arrow.

Everything that takes one value from outside takes it here: expressions, fill values, bounds of
ranges, times of live data, lengths of time. A value keeps its unit, or is refused; nothing is cut.

=============================  ==================================================================
value                          Arrow type
=============================  ==================================================================
None, NaT, ``pandas.NA``,      null
``Decimal("NaN")``
``datetime``                   timestamp[us], with the zone
``pandas.Timestamp``           timestamp of its own unit, with the zone
``numpy.datetime64``           timestamp of its own unit; s for minutes and coarser, which have no
                               Arrow type; ns for finer ones that are whole nanoseconds
``timedelta``                  duration[us]
``pandas.Timedelta``           duration of its own unit
``numpy.timedelta64``          duration as above; months, years and no unit are refused
``date``                       date32
``time``                       time64[us]; with a zone it is refused
an Arrow scalar                its own; the value of a dictionary
everything else                as Arrow infers it
=============================  ==================================================================

A zone is that of the value: its name in the zone database, or its offset then. pandas is never
imported here: its instants and durations are told by their ``asm8``, which numpy has no other name
for. Arrow alone reads them by their attributes of ``datetime``, which stop at microseconds.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, arrow_scalar
from tessel.errors import InvalidInputError
from tessel.expression.types import (
    NUMBERS,
    SPAN_NANOSECONDS,
    TEMPORAL,
    UNIT_NANOSECONDS,
    UNITS,
    Family,
    check_zone,
    family,
)

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_OF_NUMPY = {
    **{unit: (1, 1, unit) for unit in UNITS},
    "W": (7 * 86_400, 1, "s"),
    "D": (86_400, 1, "s"),
    "h": (3_600, 1, "s"),
    "m": (60, 1, "s"),
    "ps": (1, 10**3, "ns"),
    "fs": (1, 10**6, "ns"),
    "as": (1, 10**9, "ns"),
}
"""By unit of numpy: what a count is multiplied with and divided by, and Arrow's unit."""

_PLAIN = (int, float, str, bytes, decimal.Decimal, np.generic)
_COUNTED = (dt.datetime, dt.time, dt.timedelta, np.datetime64, np.timedelta64)
_FRACTIONS = (float, decimal.Decimal, np.floating)
_WHOLE = frozenset({bool, int, str, bytes, type(None)})
_NO_COUNTED = frozenset({bool, int, float, str, bytes, type(None), dt.date})


def is_missing(value: object) -> bool:
    """Return whether a value is one of the things that stand for no value; NaN is a number."""
    if value is None or value is getattr(sys.modules.get("pandas"), "NA", None):
        return True
    if isinstance(value, pa.Scalar):
        return not value.is_valid
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    counted = getattr(value, "asm8", value)
    return isinstance(counted, np.datetime64 | np.timedelta64) and bool(np.isnat(counted))


def scalar_of(value: object, kind: pa.DataType | None = None) -> pa.Scalar:
    """Return a value as an Arrow scalar, of its own type or of ``kind``, exactly.

    Raises InvalidInputError for what is no value, one that no Arrow type holds, or one that
    ``kind`` does not hold.
    """
    if isinstance(value, pa.DictionaryScalar):
        value = value.value
    if is_missing(value):
        return arrow_scalar(None, kind)
    try:
        if kind is not None and not isinstance(value, (*_COUNTED, dt.date, pa.Scalar)):
            _check_fits([value], kind)
            return arrow_scalar(value, kind)
        found = _own(value)
        return found if kind is None or found.type == kind else _fitted(found, kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError.unfit_value(value, kind, str(error)) from error


def _own(value: Any) -> pa.Scalar:
    if isinstance(value, pa.Scalar):
        return value
    counted = getattr(value, "asm8", value)
    if isinstance(counted, np.datetime64 | np.timedelta64):
        count, unit = _count_of_numpy(counted)
        if isinstance(counted, np.timedelta64):
            return arrow_scalar(count, pa.duration(unit))
        return arrow_scalar(count, pa.timestamp(unit, _zone_text(value)))
    if isinstance(value, dt.datetime):
        since = value.replace(tzinfo=None) - _EPOCH - (value.utcoffset() or dt.timedelta())
        return arrow_scalar(since // _MICROSECOND, pa.timestamp("us", _zone_text(value)))
    if isinstance(value, dt.timedelta):
        return arrow_scalar(value // _MICROSECOND, pa.duration("us"))
    if isinstance(value, dt.time) and value.tzinfo is not None:
        raise InvalidInputError.zoned_time(value)
    if isinstance(value, (*_PLAIN, dt.date, dt.time)):
        return pa.scalar(value)
    raise InvalidInputError.no_value(value)


def _count_of_numpy(value: np.datetime64 | np.timedelta64) -> tuple[int, str]:
    """Return a count, as Python has it, and the unit of Arrow that it counts."""
    name, step = np.datetime_data(value.dtype)
    if name in ("Y", "M") and isinstance(value, np.datetime64):
        months = int(value.astype(np.int64)) * step * (12 if name == "Y" else 1)
        year, month = divmod(months, 12)
        # By the calendar's period of 400 years, so that no year is too far for a date.
        rounds, year = divmod(year + 1970, 400)
        days = dt.date(year + 400, month + 1, 1).toordinal() - _EPOCH.toordinal()
        return (days + (rounds - 1) * 146_097) * 86_400, "s"
    if name not in _OF_NUMPY:
        raise InvalidInputError.no_fixed_length(value)
    times, by, unit = _OF_NUMPY[name]
    count, rest = divmod(int(value.astype(np.int64)) * step * times, by)
    if rest:
        raise InvalidInputError.unfit_value(value, None, "it is finer than a nanosecond")
    return count, unit


def _zone_text(value: Any) -> str | None:
    """Return the zone of an instant as Arrow names it, or its offset where that has no name."""
    zone = getattr(value, "tzinfo", None)
    if zone is None:
        return None
    try:
        name = str(pa.lib.tzinfo_to_string(zone))  # pa.scalar would import pandas
        check_zone(name)
    except (pa.ArrowException, ValueError):
        minutes, rest = divmod(value.utcoffset(), dt.timedelta(minutes=1))
        sign, minutes = ("-", -minutes) if minutes < 0 else ("+", minutes)
        return "UTC" if rest else f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    return name


def _fitted(found: pa.Scalar, kind: pa.DataType) -> pa.Scalar:
    """Return a scalar of another type of its family, exactly."""
    if family(found.type) in TEMPORAL:
        _check_family(found.type, kind)
    made = found.cast(kind)
    if family(found.type) in TEMPORAL and made.cast(found.type) != found:
        raise ValueError("the type has no time of day")
    return made


def _check_family(own: pa.DataType, kind: pa.DataType) -> None:
    instants = {family(own), family(kind)} <= {Family.TIMESTAMP, Family.DATE}
    if family(own) is not family(kind) and not instants:
        raise TypeError(f"a {own} is no {kind}")
    zones = [getattr(each, "tz", None) is not None for each in (own, kind)]
    if zones[0] != zones[1]:
        has, wants = ("no zone", "one") if zones[1] else ("a zone", "none")
        raise TypeError(f"it has {has} and the type has {wants}")


# --- many -----------------------------------------------------------------------------------------


def array_of(values: Any, kind: pa.DataType | None = None) -> pa.Array | pa.ChunkedArray:
    """Return values as an Arrow array; instants and durations in lists keep their nanoseconds.

    Raises InvalidInputError as :func:`scalar_of`; what else Arrow cannot hold raises as
    ``pyarrow.array`` does.
    """
    if isinstance(values, np.ndarray) and values.dtype == object:
        values = values.tolist()
    if kind is not None and isinstance(values, list | tuple):
        _check_fits(values, kind)
    if isinstance(values, np.ndarray):
        return _of_numpy(values, kind)
    if not isinstance(values, list | tuple) or _NO_COUNTED.issuperset(map(type, values)):
        return arrow_array(values, kind)
    units = {_unit(scalar_of(leaf)) for leaf in _counted(values)}
    if not units:
        return arrow_array(values, kind)
    if kind is not None and pa.types.is_dictionary(kind):
        return array_of(values, kind.value_type).dictionary_encode().cast(kind)
    unit = max(units, key=UNITS.index)
    plain = [_in_unit(value, unit) for value in values]
    if kind is None or not (family(kind) in TEMPORAL or pa.types.is_nested(kind)):
        return arrow_array(plain, kind)
    found = arrow_array(plain)
    if pa.types.is_null(found.type):
        return arrow_array(plain, kind)
    if family(found.type) in TEMPORAL:
        _check_family(found.type, kind)
    made = found.cast(kind)
    if not made.cast(found.type).equals(found):
        raise ValueError(f"a time of day would be lost in {kind}")
    return made


def _of_numpy(values: np.ndarray, kind: pa.DataType | None) -> pa.Array:
    """Return values of one dtype in a type of their kind; instants of numpy tell no zone."""
    found = arrow_array(values)
    if kind is None or found.type == kind:
        return found
    held = kind.value_type if pa.types.is_dictionary(kind) else kind
    own, wanted = family(found.type), family(held)
    numbers = own in NUMBERS and wanted in (*NUMBERS, *TEMPORAL)
    kinds = ({own}, {Family.TEXT, Family.BINARY}, {Family.TIMESTAMP, Family.DATE})
    if not numbers and not any({own, wanted} <= each for each in kinds):
        raise TypeError(f"{found.type} is no {kind}")
    return found.cast(kind)


def _check_fits(values: Collection[Any], kind: pa.DataType) -> None:
    """Raise ValueError for what Arrow cuts without a word: fractions, and fields of structs."""
    if _WHOLE.issuperset(map(type, values)):
        return
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_struct(kind):
        held = [value for value in values if isinstance(value, Mapping)]
        names = {field.name for field in kind}
        for unknown in (name for value in held for name in value if name not in names):
            raise ValueError(f"{kind} has no field {unknown!r}")
        for field in kind:
            _check_fits([value.get(field.name) for value in held], field.type)
    elif types.is_map(kind):
        entries = (value.items() if isinstance(value, Mapping) else value for value in values)
        pairs = [pair for each in entries if each is not None for pair in each]
        _check_fits([key for key, _ in pairs], kind.key_type)
        _check_fits([item for _, item in pairs], kind.item_type)
    elif types.is_nested(kind):
        lists = (value for value in values if isinstance(value, list | tuple | np.ndarray))
        _check_fits([item for each in lists for item in each], kind.value_type)
    elif types.is_integer(kind) or types.is_temporal(kind):
        for value in values:
            if isinstance(value, _FRACTIONS) and math.isfinite(value) and value % 1:
                raise ValueError(f"{value} is no whole number, and {kind} holds no others")


def _unit(scalar: pa.Scalar) -> str:
    return getattr(scalar.type, "unit", UNITS[0])


def _counted(value: Any) -> Iterator[Any]:
    """Yield the instants, times, durations and things missing that lie in lists and mappings."""
    if isinstance(value, list | tuple | Mapping):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _counted(each)
    elif isinstance(value, _COUNTED) or (value is not None and is_missing(value)):
        yield value


def _in_unit(value: Any, unit: str) -> Any:
    """Return a value with the instants and durations in it as Arrow scalars of one unit."""
    if isinstance(value, Mapping):
        return {key: _in_unit(each, unit) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_in_unit(each, unit) for each in value]
    if is_missing(value):
        return None
    if not isinstance(value, _COUNTED):
        return value
    found = scalar_of(value)
    if pa.types.is_timestamp(found.type):
        return scalar_of(found, pa.timestamp(unit, found.type.tz))
    if pa.types.is_duration(found.type):
        return scalar_of(found, pa.duration(unit))
    return scalar_of(found, pa.time64("ns" if unit == "ns" else "us"))


# --- what is no column's --------------------------------------------------------------------------


def whole_number(value: object) -> int | None:
    """Return a whole number of Python, numpy or Arrow as Python's; None for anything else."""
    if isinstance(value, pa.Scalar) and pa.types.is_integer(value.type) and value.is_valid:
        return int(value.as_py())
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        return None
    try:
        return int(value.__index__())
    except TypeError:  # an array of several
        return None


def elapsed_ns(value: object) -> int | None:
    """Return a duration in nanoseconds; None for text, NaT and any other type of value."""
    if isinstance(value, dt.timedelta | np.timedelta64 | pa.DurationScalar):
        found = scalar_of(value)
        if found.is_valid:
            return int(found.value) * UNIT_NANOSECONDS[found.type.unit]
    return None


def elapsed_text(value: Any) -> Any:
    """Return a length of time as rules spell it, ``"1h30min"``; text and others as they are.

    A day is 24 hours: ``"1D"`` would be of the calendar.
    """
    rest = elapsed_ns(value)
    if rest is None:
        return value
    sign, rest = ("-", -rest) if rest < 0 else ("", rest)
    parts = []
    for unit, length in SPAN_NANOSECONDS.items():
        count, rest = divmod(rest, length)
        parts += [f"{count}{unit}"] if count else []
    return sign + ("".join(parts) or "0s")


def moment_of(value: object) -> dt.datetime | None:
    """Return an instant, rounded down to a microsecond of UTC; None for any other type of value.

    Versions have microseconds, so that one is not after the instant exactly where it is not after
    this. An instant without a zone comes back without one.
    """
    if not isinstance(value, dt.datetime | np.datetime64 | pa.TimestampScalar):
        return None
    found = scalar_of(value)
    if not found.is_valid:
        return None
    moment = moment_at(int(found.value) * UNIT_NANOSECONDS[found.type.unit])
    return moment if found.type.tz is not None else moment.replace(tzinfo=None)


def moment_at(epoch_ns: int) -> dt.datetime:
    """Return an instant of UTC, rounded down to a microsecond, within the years 1 to 9999."""
    try:
        moment = _EPOCH + epoch_ns // 1_000 * _MICROSECOND
    except OverflowError:
        moment = dt.datetime.min if epoch_ns < 0 else dt.datetime.max
    return moment.replace(tzinfo=dt.UTC)


def time_span_of(value: object) -> dt.timedelta | None:
    """Return a duration, rounded up to a microsecond; None for any other type of value."""
    length = elapsed_ns(value)
    return None if length is None else -(-length // 1_000) * _MICROSECOND
