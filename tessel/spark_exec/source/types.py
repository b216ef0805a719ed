"""Column types of Tessel and of Spark, each mapped to the other or refused by name.

=============================================  =======================  ============================
stored                                         Spark                    written by Spark, stored as
=============================================  =======================  ============================
null, bool, int8 to int64, float32, float64    the same                 the same
uint8, uint16, uint32                          the next wider integer   that integer
uint64                                         decimal(20, 0)           decimal128(20, 0)
decimal128 of a scale from 0 on                the same                 the same
string; binary, fixed_size_binary              string; binary           string; binary
timestamp with a zone                          timestamp                timestamp[us, UTC]
timestamp without one                          timestamp_ntz            timestamp[us]
date32, date64                                 date                     date32
time32, time64 of s, ms, us, ns                time(0), (3), (6), (9)   the same
duration                                       interval day to second   duration[us]
dictionary                                     that of its values       that of its values
list, fixed_size_list; struct                  array; struct            list; struct
decimal128 of a negative scale; null within a  refused                  --
list or struct (Spark's Arrow miscounts it)
--                                             map, variant, interval   refused
                                               year to month, UDT,
                                               void within an array …
=============================================  =======================  ============================

Spark's instants and durations have microseconds. Finer ones are cast where that loses nothing, and
a value that would lose something is an error: no value is ever rounded. Rows that are added to a
symbol take the types of the symbol, so a table that Spark has read can be written back to it.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import types as spark

from tessel.clauses.concat import converted
from tessel.errors import InvalidInputError, UnsupportedTypeError
from tessel.spark_exec.versions import arrow_schema

_TIME_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], type[spark.DataType]], ...] = (
    (pat.is_null, spark.NullType),
    (pat.is_boolean, spark.BooleanType),
    (pat.is_int8, spark.ByteType),
    (pat.is_int16, spark.ShortType),
    (pat.is_int32, spark.IntegerType),
    (pat.is_int64, spark.LongType),
    (pat.is_uint8, spark.ShortType),
    (pat.is_uint16, spark.IntegerType),
    (pat.is_uint32, spark.LongType),
    (pat.is_float32, spark.FloatType),
    (pat.is_float64, spark.DoubleType),
    (lambda t: pat.is_string(t) or pat.is_large_string(t), spark.StringType),
    (lambda t: pat.is_binary(t) or pat.is_large_binary(t), spark.BinaryType),
    (pat.is_fixed_size_binary, spark.BinaryType),
    (pat.is_date, spark.DateType),
    (pat.is_duration, spark.DayTimeIntervalType),
)
_STORED: dict[type[spark.DataType], pa.DataType] = {
    spark.NullType: pa.null(),
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.CharType: pa.string(),
    spark.VarcharType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", "UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.DayTimeIntervalType: pa.duration("us"),
}


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """Return the Spark types of stored columns, all of them nullable.

    Raises
    ------
    UnsupportedTypeError
        For a type that Spark has no counterpart of; names the column.
    """
    return spark.StructType(
        [spark.StructField(f.name, _spark_type(f.type, f.name), True) for f in schema]
    )


def stored_schema(schema: spark.StructType) -> pa.Schema:
    """Return the types that columns of Spark are stored as.

    Raises
    ------
    UnsupportedTypeError
        For a type that is not stored; names the column.
    """
    return pa.schema([pa.field(f.name, _stored_type(f.dataType, f.name)) for f in schema.fields])


def wire_schema(schema: spark.StructType) -> pa.Schema:
    """Return the Arrow types that Spark itself uses for a schema: what it takes from a task."""
    return arrow_schema(schema)


def as_declared(table: pa.Table, schema: pa.Schema, holder: str = "Spark's type") -> pa.Table:
    """Return a table with exactly the types of a schema with the same columns.

    Parameters
    ----------
    table, schema
        The rows, and the types that they get.
    holder
        What the types are, for the error.

    Raises
    ------
    InvalidInputError
        For a value that its new type does not hold exactly; names the column and both types.
    """
    columns = []
    for column, field in zip(table.columns, schema, strict=True):
        if column.type == field.type:
            columns.append(column)
            continue
        try:
            columns.append(_cast(column, field.type))
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"column {field.name!r} of type {column.type} has a value that {holder} "
                f"{field.type} does not hold: {error}",
                hint=f"round it first (a time with floor({field.name}, '1us')), cast it, or leave "
                "it out",
                column=field.name,
                type=str(column.type),
            ) from error
    return pa.table(columns, schema=schema)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pat.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if "fixed_size_list" in str(kind):
        return pa.chunked_array([converted(chunk, kind) for chunk in column.chunks], kind)
    if pat.is_dictionary(kind):
        column = column.cast(kind.value_type).dictionary_encode()
    return column.cast(kind)


def _spark_type(kind: pa.DataType, column: str, *, is_child: bool = False) -> spark.DataType:
    for applies, made in _PLAIN:
        if applies(kind) and not (is_child and pat.is_null(kind)):
            return made()
    if pat.is_uint64(kind):
        return spark.DecimalType(20, 0)
    if pat.is_decimal128(kind) and kind.scale >= 0:
        return spark.DecimalType(kind.precision, kind.scale)
    if pat.is_timestamp(kind):
        return spark.TimestampNTZType() if kind.tz is None else spark.TimestampType()
    if pat.is_time(kind):
        return spark.TimeType(_TIME_DIGITS[kind.unit])
    if pat.is_dictionary(kind):
        return _spark_type(kind.value_type, column)
    if pat.is_list(kind) or pat.is_large_list(kind) or pat.is_fixed_size_list(kind):
        return spark.ArrayType(_spark_type(kind.value_type, column, is_child=True), True)
    if pat.is_struct(kind):
        kinds = [_spark_type(f.type, column, is_child=True) for f in kind]
        return spark.StructType(list(map(spark.StructField, kind.names, kinds)))
    raise UnsupportedTypeError(
        f"column {column!r} has type {kind}, which Spark does not hold there",
        hint='cast it in the query, or leave it out with the option "columns"',
        column=column,
        type=str(kind),
    )


def _stored_type(kind: spark.DataType, column: str, *, is_child: bool = False) -> pa.DataType:
    found = _STORED.get(type(kind))
    if found is not None and not (is_child and pat.is_null(found)):
        return found
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, spark.TimeType):
        unit = next(unit for unit, digits in _TIME_DIGITS.items() if kind.precision <= digits)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    if isinstance(kind, spark.ArrayType):
        return pa.list_(_stored_type(kind.elementType, column, is_child=True))
    if isinstance(kind, spark.StructType):
        kinds = [_stored_type(f.dataType, column, is_child=True) for f in kind.fields]
        return pa.struct(list(zip(kind.names, kinds, strict=True)))
    raise UnsupportedTypeError(
        f"column {column!r} has Spark's type {kind.simpleString()}: it is not stored",
        hint="map_entries(column) makes an array of structs of it"
        if isinstance(kind, spark.MapType)
        else "cast the column to a type that is stored, or drop it",
        column=column,
        type=kind.simpleString(),
    )
