"""Kernels of is_in and is_missing."""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.expression.comparable import fitted_literal
from tessel.expression.kernels.values import Value, nan_to_null
from tessel.expression.leaves import Literal, ValueSet
from tessel.expression.node import Expression
from tessel.expression.operators.membership import IsIn
from tessel.expression.types import UNIT_NANOSECONDS, Family, Operand, family

__all__ = ["is_in", "is_missing", "members"]

_DAY_MS = 86_400_000


def is_missing(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
    """Say where a value is null or NaN."""
    (value,) = values
    return pc.is_null(value, nan_is_null=pa.types.is_floating(value.type))


def is_in(node: IsIn, values: Sequence[Value], result: pa.DataType) -> Value:
    """Look values up in the set; missing ones give missing, unless the set is empty."""
    (value,) = values
    null = pa.scalar(None, pa.bool_())
    if not node.values.values:
        return pc.and_(pc.is_null(value), pa.scalar(False))
    if pa.types.is_null(value.type):
        return pc.cast(value, pa.bool_())
    value = nan_to_null(value)
    found, has_missing = members(node.values, value.type)
    inside = pc.is_in(value, value_set=found)
    if has_missing:
        inside = pc.if_else(inside, inside, null)
    return pc.if_else(pc.is_valid(value), inside, null)


def members(values: ValueSet, type_: pa.DataType) -> tuple[pa.Array, bool]:
    """Return the values of a set that a column of a type can equal, and whether one is missing."""
    beside = Operand(type_, "")
    found: list[Any] = []
    has_missing = False
    for literal in values.values:
        if literal.is_missing_value:
            has_missing = True
            continue
        value = _exact(fitted_literal(literal, beside), type_)
        if value is not None:
            found.append(value)
    if pa.types.is_floating(type_) and 0.0 in found:
        # the hash of Arrow's lookup tells the two zeros apart
        found += [0.0, -0.0]
    if pa.types.is_floating(type_):
        return pa.array(np.array(found, dtype=np.float64)).cast(type_), has_missing
    if pa.types.is_temporal(type_):
        stored = pa.int64() if type_.bit_width == 64 else pa.int32()
        return pa.array(found, stored).view(type_), has_missing
    return pa.array(found, type_), has_missing


def _exact(literal: Literal, type_: pa.DataType) -> Any:
    """Return the one value of a type that equals a literal; None where there is none."""
    value = literal.value
    match family(type_):
        case Family.INTEGER:
            return _whole(value, type_)
        case Family.FLOAT:
            return _real(literal, type_)
        case Family.DECIMAL:
            return _decimal(value, type_)
        case Family.TIMESTAMP | Family.DURATION | Family.TIME:
            scaled = value * UNIT_NANOSECONDS[literal.type.unit]
            count, rest = divmod(scaled, UNIT_NANOSECONDS[type_.unit])
            return count if not rest and -(1 << 63) <= count < 1 << 63 else None
        case Family.DATE:
            milliseconds = value * _DAY_MS if pa.types.is_date32(literal.type) else value
            count, rest = divmod(milliseconds, _DAY_MS if pa.types.is_date32(type_) else 1)
            return count if not rest else None
        case _:
            return value


def _whole(value: Any, type_: pa.DataType) -> int | None:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    whole = int(value)
    low = 0 if pa.types.is_unsigned_integer(type_) else -(1 << (type_.bit_width - 1))
    return whole if whole == value and low <= whole < low + (1 << type_.bit_width) else None


def _real(literal: Literal, type_: pa.DataType) -> float | None:
    value = literal.value
    if not isinstance(value, float):
        real = float(value)
        if real != value:
            return None
        value = real
    if not pa.types.is_float32(type_):
        return float(value)
    with np.errstate(over="ignore"):
        single = float(np.float32(value))
    adapts = literal.kind == "float" and (math.isfinite(single) or not math.isfinite(value))
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
