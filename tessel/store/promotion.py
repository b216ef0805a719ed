"""One type for columns of one name: the narrowest that holds all of theirs without loss."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa

from tessel.errors import SchemaMismatchError

_SIGNED = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_TIME_UNITS = ("s", "ms", "us", "ns")
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


def promote(name: str, types: Sequence[pa.DataType], *, clause: str = "concat") -> pa.DataType:
    """Return the common type of columns of one name; ``clause`` is what errors call the clause.

    Equal types stay. null takes the other type. Integers widen; signed with unsigned is the signed
    type that holds both. Integers of at most 16 (32) bits with float32 (float64) are floats; wider
    ones are refused, since a float does not hold them all. Decimals take the wider scale and
    precision, integers beside them as many digits as they may have. Timestamps, times and durations
    take the finer unit; two zones give UTC, naive with aware is refused. Dates of both widths are
    date32. Dictionaries take the common type of their values, and stay dictionaries where all are.
    Lists take the common type of their items, and stay of a fixed size where all are of one.
    Structs have the fields of all, in order of first appearance, each of its common type.

    The order of the types does not matter but for the order of fields.

    Raises SchemaMismatchError when no type holds all, naming the column and the types.
    """
    kinds = list(dict.fromkeys(kind for kind in types if not pa.types.is_null(kind)))
    if len(kinds) <= 1:
        return kinds[0] if kinds else pa.null()
    if any(pa.types.is_dictionary(kind) for kind in kinds):
        return _dictionaries(name, kinds, clause)
    if all(is_list(kind) for kind in kinds):
        return _lists(name, kinds, clause)
    if all(pa.types.is_struct(kind) for kind in kinds):
        return _structs(name, kinds, clause)
    # What narrow integers become together may be too wide for a float that holds each of them.
    kinds.sort(key=lambda kind: not (pa.types.is_floating(kind) or pa.types.is_decimal(kind)))
    return reduce(lambda left, right: _pair(clause, name, left, right), kinds)


def _pair(clause: str, name: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if left == right:
        return left
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


def _dictionaries(name: str, kinds: Sequence[pa.DataType], clause: str) -> pa.DataType:
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    values = promote(name, plain, clause=clause)
    if not all(pa.types.is_dictionary(kind) for kind in kinds):
        return values
    # Those of several symbols have more entries together than each has.
    widest = max((kind.index_type for kind in kinds), key=lambda kind: kind.bit_width)
    index = widest if widest.bit_width >= 32 else pa.int32()
    return pa.dictionary(index, values, all(kind.ordered for kind in kinds))


def is_list(kind: pa.DataType) -> bool:
    """Return whether a type is a list, a large list or a list of a fixed size."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _lists(name: str, kinds: Sequence[pa.DataType], clause: str) -> pa.DataType:
    items = promote(f"{name}[]", [kind.value_type for kind in kinds], clause=clause)
    sizes = {kind.list_size if pa.types.is_fixed_size_list(kind) else None for kind in kinds}
    if len(sizes) == 1 and None not in sizes:
        return pa.list_(items, sizes.pop())
    large = any(pa.types.is_large_list(kind) for kind in kinds)
    return pa.large_list(items) if large else pa.list_(items)


def _structs(name: str, kinds: Sequence[pa.DataType], clause: str) -> pa.DataType:
    fields: dict[str, list[pa.DataType]] = {}
    for kind in kinds:
        for field in kind:
            fields.setdefault(field.name, []).append(field.type)
    return pa.struct(
        [
            pa.field(own, promote(f"{name}.{own}", held, clause=clause))
            for own, held in fields.items()
        ]
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
    if not any(map(pa.types.is_decimal128, (left, right))):
        return None
    digits = [found for found in map(_digits, (left, right)) if found is not None]
    if len(digits) < 2:
        return None
    whole, scale = (max(counts) for counts in zip(*digits, strict=True))
    return pa.decimal128(whole + scale, scale) if whole + scale <= 38 else None


def _digits(kind: pa.DataType) -> tuple[int, int] | None:
    """Return how many digits stand before and after the point; None for what has none."""
    if pa.types.is_decimal128(kind):
        return kind.precision - kind.scale, kind.scale
    return (_INTEGER_DIGITS[kind.bit_width], 0) if pa.types.is_integer(kind) else None


def _texts(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if {left, right} <= {pa.string(), pa.large_string()}:
        return pa.large_string()
    if all(pa.types.is_fixed_size_binary(kind) for kind in (left, right)):
        return pa.binary()
    kinds = {pa.binary() if pa.types.is_fixed_size_binary(k) else k for k in (left, right)}
    if kinds <= {pa.binary(), pa.large_binary()}:
        return pa.binary() if kinds == {pa.binary()} else pa.large_binary()
    return None
