"""Kernels of cast and field. Nothing is cut or wrapped: a value that does not fit raises."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tessel.expression.kernels.time import instants, local_time, zoned_text
from tessel.expression.kernels.values import Kernel, Value, nan_to_null
from tessel.expression.node import Expression
from tessel.expression.operators.casting import Field


def cast(node: Expression, values: Sequence[Value], result: pa.DataType) -> Value:
    """Cast to the result type."""
    (value,) = values
    source = value.type
    if source == result:
        return value
    if pa.types.is_floating(source) and not pa.types.is_floating(result):
        value = nan_to_null(value)
    if pa.types.is_timestamp(source):
        return _from_timestamp(value, result)
    if pa.types.is_timestamp(result) and result.tz is not None and _reads_wall(source):
        return _to_zone(pc.cast(value, pa.timestamp(result.unit)), result)
    if pa.types.is_floating(result) and not pa.types.is_string(source):
        return pc.cast(value, result, safe=False)
    if pa.types.is_integer(source) and pa.types.is_decimal(result):
        return pc.cast(pc.cast(value, pa.decimal128(20, 0)), result)
    if pa.types.is_temporal(source) and pa.types.is_integer(result):
        width = pa.int64() if source.bit_width == 64 else pa.int32()
        return pc.cast(pc.cast(value, width), result)
    if pa.types.is_integer(source) and pa.types.is_temporal(result):
        width = pa.int64() if result.bit_width == 64 else pa.int32()
        return pc.cast(pc.cast(value, width), result)
    return pc.cast(value, result)


def _reads_wall(source: pa.DataType) -> bool:
    return bool(pa.types.is_date(source))


def _from_timestamp(value: Value, result: pa.DataType) -> Value:
    zone = value.type.tz
    if pa.types.is_integer(result):
        return pc.cast(pc.cast(value, pa.int64()), result)
    if pa.types.is_timestamp(result):
        if zone is not None and result.tz is None:
            value = local_time(value)
        elif zone is None and result.tz is not None:
            return _to_zone(value, result)
        return pc.cast(value, result)
    if zone is not None:
        value = zoned_text(value) if pa.types.is_string(result) else local_time(value)
    if pa.types.is_date(result):
        return pc.cast(pc.cast(value, pa.date32()), result)
    return pc.cast(value, result)


def _to_zone(wall: Value, result: pa.DataType) -> Value:
    return pc.cast(instants(wall, result.tz), result)


def field(node: Field, values: Sequence[Value], result: pa.DataType) -> Value:
    """Reach a field of a struct; missing where the struct is."""
    (value,) = values
    if pa.types.is_null(value.type):
        return value
    return pc.struct_field(value, node.field_name)


KERNELS: dict[str, Kernel] = {
    "cast": cast,
    "field": field,
}
