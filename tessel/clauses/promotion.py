"""One type for columns of one name: the narrowest that holds all of theirs without loss."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa

from tessel.errors import SchemaMismatchError

__all__ = ["promote"]

_SIGNED = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_UNSIGNED = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}
_TIME_UNITS = ("s", "ms", "us", "ns")


def promote(name: str, types: Sequence[pa.DataType], *, clause: str = "concat") -> pa.DataType:
    """Return the common type of columns of one name; ``clause`` is what errors call the clause.

    Equal types stay. null takes the other type. Integers widen; signed with unsigned is the signed
    type that holds both. Integers of at most 16 (32) bits with float32 (float64) are floats; wider
    ones are refused, since a float does not hold them all. Timestamps, times and durations take
    the finer unit; two zones give UTC, naive with aware is refused. Dates of both widths are
    date32. Decimals take the wider scale and precision. Dictionaries take their values' type.

    Raises
    ------
    SchemaMismatchError
        When no type holds all, naming the column and the types.
    """
    common = reduce(lambda left, right: _pair(clause, name, left, right), types)
    if any(kind != common for kind in types) and pa.types.is_dictionary(common):
        return common.value_type
    return common


def _pair(clause: str, name: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if pa.types.is_dictionary(left) or pa.types.is_dictionary(right):
        plain = [k.value_type if pa.types.is_dictionary(k) else k for k in (left, right)]
        return _pair(clause, name, *plain)
    for rule in (_numbers, _instants, _decimals, _texts):
        found = rule(left, right)
        if found is not None:
            return found
    raise SchemaMismatchError(
        f"{clause}: column {name!r} is {left} in one symbol and {right} in another",
        hint=f'cast it first, for instance apply("{name}", col("{name}").cast(...))',
        column=name,
        types=[str(left), str(right)],
    )


def _numbers(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    kinds = (left, right)
    if all(pa.types.is_integer(kind) for kind in kinds):
        signed = [pa.types.is_signed_integer(kind) for kind in kinds]
        if signed[0] == signed[1]:
            return max(kinds, key=lambda kind: kind.bit_width)
        unsigned, other = (right, left) if signed[0] else (left, right)
        return _SIGNED.get(max(unsigned.bit_width * 2, other.bit_width))
    if all(pa.types.is_floating(kind) for kind in kinds):
        return max(kinds, key=lambda kind: kind.bit_width)
    integers = [kind for kind in kinds if pa.types.is_integer(kind)]
    floats = [kind for kind in kinds if pa.types.is_floating(kind)]
    if len(integers) == len(floats) == 1 and integers[0].bit_width <= 32:
        narrow = integers[0].bit_width <= 16 and floats[0].bit_width <= 32
        return pa.float32() if narrow else pa.float64()
    return None


def _instants(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if pa.types.is_date(left) and pa.types.is_date(right):
        return pa.date32()
    for check in (pa.types.is_timestamp, pa.types.is_duration, pa.types.is_time):
        if check(left) and check(right):
            unit = max(left.unit, right.unit, key=_TIME_UNITS.index)
            if pa.types.is_duration(left):
                return pa.duration(unit)
            if pa.types.is_time(left):
                return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
            if (left.tz is None) != (right.tz is None):
                return None
            return pa.timestamp(unit, left.tz if left.tz == right.tz else "UTC")
    return None


def _decimals(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if not (pa.types.is_decimal128(left) and pa.types.is_decimal128(right)):
        return None
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return pa.decimal128(whole + scale, scale) if whole + scale <= 38 else None


def _texts(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if {left, right} <= {pa.string(), pa.large_string()}:
        return pa.large_string()
    if {left, right} <= {pa.binary(), pa.large_binary()}:
        return pa.large_binary()
    return None
