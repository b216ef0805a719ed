"""Kernels of is_in and is_missing."""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, arrow_scalar
from tessel.expression import literal_codec
from tessel.expression.comparable import fitted_literal
from tessel.expression.kernels.values import Kernel, Value, nan_to_null
from tessel.expression.leaves import Literal, ValueSet
from tessel.expression.node import Expression
from tessel.expression.operators.membership import IsIn, Lookup
from tessel.expression.types import UNIT_NANOSECONDS, Family, Operand, family

_DAY_MS = 86_400_000


def is_missing(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
    """Say where a value is null or NaN."""
    (value,) = values
    return pc.is_null(value, nan_is_null=pa.types.is_floating(value.type))


def is_in(node: IsIn, values: Sequence[Value], result: pa.DataType) -> Value:
    """Look values up in the set; missing ones give missing, unless the set is empty."""
    (value,) = values
    null = arrow_scalar(None, pa.bool_())
    if not len(node.values):
        return pc.and_(pc.is_null(value), arrow_scalar(False))
    if pa.types.is_null(value.type):
        return pc.cast(value, pa.bool_())
    value = nan_to_null(value)
    found, has_missing = members(node.values, value.type)
    inside = pc.is_in(value, value_set=found)
    if has_missing:
        inside = pc.if_else(inside, inside, null)
    return pc.if_else(pc.is_valid(value), inside, null)


def lookup(node: Lookup, values: Sequence[Value], result: pa.DataType) -> Value:
    """Return what the table has beside each key."""
    (value,) = values
    keys, beside = node.columns_of_table
    if isinstance(value, pa.Scalar):
        place = pc.index_in(value, value_set=keys)
        return beside[place.as_py()] if place.is_valid else arrow_scalar(None, result)
    return beside.take(pc.index_in(value, value_set=keys))


def members(values: ValueSet, type_: pa.DataType) -> tuple[pa.Array, bool]:
    """Return the values of a set that a column of a type can equal, and whether one is missing."""
    kept: dict[pa.DataType, tuple[pa.Array, bool]] = values.__dict__.setdefault("_members", {})
    if type_ not in kept:  # asked for by the planner, by statistics and for each unit
        kept[type_] = _members(values, type_)
    return kept[type_]


def _members(values: ValueSet, type_: pa.DataType) -> tuple[pa.Array, bool]:
    beside = Operand(type_, "")
    found: list[Any] = []
    has_missing = False
    for kind, contents in values.by_kind.items():
        first = Literal(kind, contents[0])
        if fitted_literal(first, beside) is first:  # and so are all of its kind
            several = [(kind, literal_codec.decode_all(kind, contents))]
        else:
            fitted = (fitted_literal(Literal(kind, each), beside) for each in contents)
            several = [(each.kind, [each.value]) for each in fitted]
        for kind_beside, plain in several:
            present = [value for value in plain if value is not None and value == value]
            has_missing |= len(present) < len(plain)
            if present:  # of missing values alone there is no unit to come from
                found += _exact(kind_beside, present, type_)
    if pa.types.is_floating(type_) and 0.0 in found:
        # the hash of Arrow's lookup tells the two zeros apart
        found += [0.0, -0.0]
    if pa.types.is_floating(type_):
        return arrow_array(np.array(found, dtype=np.float64)).cast(type_), has_missing
    if pa.types.is_temporal(type_):
        stored = pa.int64() if type_.bit_width == 64 else pa.int32()
        return arrow_array(found, stored).view(type_), has_missing
    return arrow_array(found, type_), has_missing


def _exact(kind: str, values: list[Any], type_: pa.DataType) -> list[Any]:
    """Return the values of a type that equal literals of a kind, for those that any equals."""
    own = literal_codec.literal_type(kind)
    match family(type_):
        case Family.INTEGER:
            low = 0 if pa.types.is_unsigned_integer(type_) else -(1 << (type_.bit_width - 1))
            high = low + (1 << type_.bit_width)  # comparing is exact, with infinities too
            return [int(value) for value in values if low <= value < high and value == int(value)]
        case Family.FLOAT:
            if pa.types.is_float64(type_) and pa.types.is_floating(own):
                return values
            real = (_real(kind, value, type_) for value in values)
            return [value for value in real if value is not None]
        case Family.DECIMAL:
            decimals = (_decimal(value, type_) for value in values)
            return [value for value in decimals if value is not None]
        case Family.TIMESTAMP | Family.DURATION | Family.TIME:
            return _scaled(values, UNIT_NANOSECONDS[own.unit], UNIT_NANOSECONDS[type_.unit], type_)
        case Family.DATE:
            times, by = (_DAY_MS if pa.types.is_date32(each) else 1 for each in (own, type_))
            return _scaled(values, times, by, type_)
        case _:
            return values


def _scaled(values: list[int], times: int, by: int, type_: pa.DataType) -> list[int]:
    most = 1 << (type_.bit_width - 1)
    counts = (divmod(value * times, by) for value in values)
    return [count for count, rest in counts if not rest and -most <= count < most]


def _real(kind: str, value: Any, type_: pa.DataType) -> float | None:
    if not isinstance(value, float):
        real = float(value)
        if real != value:
            return None
        value = real
    if not pa.types.is_float32(type_):
        return float(value)
    with np.errstate(over="ignore"):
        single = float(np.float32(value))
    adapts = kind == "float" and (math.isfinite(single) or not math.isfinite(value))
    return single if adapts or single == value else None


def _decimal(value: Any, type_: pa.DataType) -> decimal.Decimal | None:
    context = decimal.Context(prec=80, traps=[decimal.Inexact, decimal.InvalidOperation])
    try:
        fitted = decimal.Decimal(value).quantize(
            decimal.Decimal(1).scaleb(-type_.scale), context=context
        )
    except (decimal.Inexact, decimal.InvalidOperation):
        return None
    return fitted if len(fitted.as_tuple().digits) <= type_.precision else None


KERNELS: dict[str, Kernel] = {
    "is_in": is_in,
    "is_missing": is_missing,
    "lookup": lookup,
}
