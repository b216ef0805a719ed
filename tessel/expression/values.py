"""Values of operators: arrays and scalars as one, casts between types, the missing rule."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tessel.arrays import arrow_array, arrow_scalar, fill_null, numpy_array
from tessel.expression.leaves import Literal
from tessel.expression.node import Expression
from tessel.expression.types import plain_type

Value = Any
"""A ``pa.Array``, or a ``pa.Scalar`` that stands in every row."""

Compute = Callable[[Any, Sequence[Value], pa.DataType], Value]
"""What is given as :meth:`~tessel.expression.node.Expression.compute` of an operator."""


def elementwise(function: Callable[..., Value]) -> Compute:
    """Compute by an Arrow function that takes the operands as they are."""

    def compute(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
        return function(*values)

    return compute


def plain(value: Value) -> Value:
    """Return a value with dictionaries decoded and views and half floats widened."""
    target = plain_type(value.type)
    if value.type == target:
        return value
    if isinstance(value, pa.DictionaryArray):
        return plain(value.dictionary_decode())
    return pc.cast(value, target)


def coerce(value: Value, target: pa.DataType) -> Value:
    """Cast to a type that holds all values, integers to floats by rounding to the nearest."""
    value = plain(value)
    if value.type == target:
        return value
    rounding = pa.types.is_floating(target) and not pa.types.is_floating(value.type)
    if rounding and pa.types.is_decimal(value.type):
        rounding = False
    return pc.cast(value, target, safe=not rounding)


def literal_value(literal: Literal, target: pa.DataType) -> pa.Scalar:
    """Return a literal as a scalar of the type that the operator takes it in."""
    if literal.value is None:
        return arrow_scalar(None, target)
    if pa.types.is_decimal(target):
        return arrow_scalar(decimal.Decimal(literal.value), target)
    if literal.kind == "int" and (pa.types.is_integer(target) or pa.types.is_floating(target)):
        whole = pa.types.is_integer(target)
        return arrow_scalar(literal.value if whole else float(literal.value), target)
    return coerce(literal.scalar, target)


def nan_to_null(value: Value) -> Value:
    """Return floats with NaN turned into null; everything else as it is."""
    if not pa.types.is_floating(value.type):
        return value
    if isinstance(value, pa.Scalar):
        nan = value.is_valid and value.as_py() != value.as_py()
        return arrow_scalar(None, value.type) if nan else value
    # Of whole arrays numpy says in a fifth of Arrow's time that there is none.
    if (
        isinstance(value, pa.Array)
        and not value.null_count
        and not np.isnan(numpy_array(value)).any()
    ):
        return value
    mask = pc.is_nan(value)
    if not pc.any(mask).as_py():
        return value
    return pc.if_else(mask, arrow_scalar(None, value.type), value)


def as_numpy(value: Value) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return values and validity as numpy arrays; scalars have length 1; nulls hold zero bits.

    Temporal values come as int64 counts of their unit.
    """
    array = arrow_array([value.as_py()], value.type) if _plain_scalar(value) else value
    if isinstance(array, pa.Scalar):
        array = arrow_array([array.value], pa.int64())
    elif pa.types.is_temporal(array.type):
        array = array.view(pa.int64() if array.type.bit_width == 64 else pa.int32())
    valid = np.ones(len(array), dtype=bool)
    if array.null_count:
        valid = numpy_array(array.is_valid())
        array = fill_null(array, False if pa.types.is_boolean(array.type) else 0)
    return numpy_array(array), valid


def _plain_scalar(value: Value) -> bool:
    return isinstance(value, pa.Scalar) and not (
        pa.types.is_temporal(value.type) and value.is_valid
    )


def from_numpy(
    values: np.ndarray[Any, Any],
    valid: np.ndarray[Any, Any],
    type_: pa.DataType,
    operands: Sequence[Value],
) -> Value:
    """Return numpy results as an array of a type, or as a scalar where all operands are."""
    mask = None if valid.all() else ~valid
    if pa.types.is_temporal(type_):
        stored = pa.int64() if type_.bit_width == 64 else pa.int32()
        array = arrow_array(values, stored, mask=mask).view(type_)
    else:
        array = arrow_array(values, type_, mask=mask)
    return array[0] if all(isinstance(operand, pa.Scalar) for operand in operands) else array
