"""What is said to have a result for every row has one, also at the edges of its types."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.errors import TesselError
from tessel.expression import Expression, cannot_raise, col
from tessel.expression.evaluate import evaluate
from tessel.expression.schema import TableSchema
from tests.strategies import expressions as drawn
from tests.strategies.tables import PLAIN_TYPES, columns

_INTEGERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
]
_FLOATS = [pa.float32(), pa.float64()]
_DECIMALS = [pa.decimal128(5, 2), pa.decimal128(38, 0), pa.decimal128(20, 20)]
_TIMES = [pa.timestamp("s"), pa.timestamp("ns"), pa.duration("s"), pa.duration("ns")]
_NUMBERS = [*_INTEGERS, *_FLOATS, *_DECIMALS]

_UNARY: list[Callable[[Expression], Expression]] = [
    abs,
    lambda one: -one,
    *(lambda one, kind=kind: one.cast(str(kind)) for kind in [*_INTEGERS, *_FLOATS]),  # type: ignore[misc]
]
_BINARY: list[Callable[[Any, Any], Expression]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a < b,
    lambda a, b: a == b,
]


def _edges(kind: pa.DataType) -> list[Any]:
    """Return values at the edges of a type, as what ``pa.array`` takes."""
    if pa.types.is_integer(kind):
        info = np.iinfo(kind.to_pandas_dtype())
        return [int(info.min), int(info.max), 0, 1, (1 << kind.bit_width - 1) - 1, None]
    if pa.types.is_floating(kind):
        most = float(np.finfo(kind.to_pandas_dtype()).max)
        return [0.0, -0.0, math.nan, math.inf, -math.inf, most, -most, 0.1, None]
    if pa.types.is_decimal(kind):
        most = Decimal(10**kind.precision - 1).scaleb(-kind.scale, Context(prec=40))
        return [most, most.copy_negate(), Decimal(0), None]
    return [0, -(1 << 63) + 1, (1 << 63) - 1, 1, None]


def _crossed(one: pa.DataType, other: pa.DataType) -> pa.Table:
    rows = list(itertools.product(_edges(one), _edges(other)))
    return pa.table(
        {"a": pa.array([a for a, _ in rows], one), "b": pa.array([b for _, b in rows], other)}
    )


def _holds(expression: Expression, table: pa.Table) -> bool:
    """Evaluate where it is said that nothing raises; return whether that was said."""
    schema = TableSchema(table.schema)
    try:
        expression.result_type(schema)
    except TesselError:
        return False  # it does not fit
    said = cannot_raise(expression, schema)
    if said:
        evaluate(expression, table)
    return said


def test_numbers_at_the_edges() -> None:
    said = 0
    for one, other in itertools.product(_NUMBERS, _NUMBERS):
        table = _crossed(one, other)
        said += sum(_holds(make(col("a"), col("b")), table) for make in _BINARY)
        said += sum(_holds(make(col("a")), table) for make in _UNARY)
        said += sum(_holds(make(col("a"), 3), table) for make in _BINARY)
        said += sum(_holds(make(col("a"), 0.5), table) for make in _BINARY)
    assert said > 100


def test_times_at_the_edges() -> None:
    for one, other in itertools.product(_TIMES, _TIMES):
        table = _crossed(one, other)
        for make in _BINARY:
            _holds(make(col("a"), col("b")), table)


@settings(max_examples=300)
@given(table=drawn.tables(), expression=drawn.expressions() | drawn.predicates())
def test_random_expressions(table: pa.Table, expression: Expression) -> None:
    _holds(expression, table)


@given(data=st.data())
def test_random_values(data: st.DataObject) -> None:
    kinds = [kind for kind in PLAIN_TYPES if pa.types.is_integer(kind) or pa.types.is_float64(kind)]
    one, other = data.draw(st.sampled_from(kinds)), data.draw(st.sampled_from(kinds))
    table = pa.table({"a": data.draw(columns(one, 8)), "b": data.draw(columns(other, 8))})
    for make in _BINARY:
        _holds(make(col("a"), col("b")), table)
        _holds(abs(make(col("a"), col("b"))) if make in _BINARY[:3] else col("a"), table)


@pytest.mark.parametrize("kind", _INTEGERS, ids=str)
def test_sums_of_integers_may_raise(kind: pa.DataType) -> None:
    schema = TableSchema(pa.schema([("a", kind)]))
    assert not cannot_raise(col("a") + 1, schema)
    assert cannot_raise(col("a") > 1, schema)
    assert cannot_raise(col("a").cast("int64"), schema) == (kind != pa.uint64())
