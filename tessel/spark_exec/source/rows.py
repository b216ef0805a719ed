"""Rows as Spark declares them: out of tables, units and wire rows, and back from DataFrames.

What the readers of the data source give and what the frames of the executor give goes through
here, and each batch has exactly the declared types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame as DataFrame
from pyspark.sql import SparkSession as SparkSession
from pyspark.sql.types import StructType

from tessel.errors import InvalidInputError
from tessel.spark_exec.chains import Given
from tessel.spark_exec.errors_wire import raise_error_rows
from tessel.spark_exec.source.types import as_declared, spark_schema, stored_schema, wire_schema
from tessel.spark_exec.tasks import TaskFunction
from tessel.spark_exec.units import told_units
from tessel.spark_exec.versions import collected, pyspark_version
from tessel.spark_exec.wire import read_parts, received
from tessel.store.frames import check_column_names

BATCH_ROWS = 1 << 16
"""Rows that go to the JVM at once, or are taken from it."""


def row_batches(table: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Give rows as batches of exactly the types of a schema.

    Raises
    ------
    InvalidInputError
        For a value that its declared type does not hold.
    """
    yield from as_declared(table, schema).to_batches(max_chunksize=BATCH_ROWS)


def units_task(head: str, plugins: bytes, given: Given, declared: StructType) -> TaskFunction:
    """Return the task that reads units, runs their chains and gives their rows.

    Parameters
    ----------
    head, plugins, given
        As for :func:`tessel.spark_exec.tasks.source_task`.
    declared
        The columns in Spark.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = wire_schema(declared)
        for _, unit in told_units(head, batches, plugins, given):
            yield from row_batches(unit().table, schema)

    return run


def parts_task(declared: StructType) -> TaskFunction:
    """Return the task that gives the rows in wire rows; an error among these is raised."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = wire_schema(declared)
        for part in read_parts(raise_error_rows(received(batches))):
            yield from row_batches(part.table, schema)

    return run


def frame_of(session: SparkSession, table: pa.Table) -> DataFrame:
    """Return a table of this process as a DataFrame.

    Raises
    ------
    UnsupportedTypeError, InvalidInputError
        For a column type that Spark does not have, or a value that its type does not hold.
    MissingDependencyError
        Where pyspark is older than 4.0, which makes no DataFrames of Arrow tables.
    """
    pyspark_version((4, 0), "to_spark")
    declared = spark_schema(table.schema)
    if not table.num_rows:
        return session.createDataFrame([], declared)
    rows = as_declared(table, wire_schema(declared))
    return session.createDataFrame(rows, schema=declared)


def table_of(frame: Any) -> pa.Table:
    """Return the rows of a DataFrame, brought to this process, in the types that are stored.

    Raises
    ------
    InvalidInputError
        For what is no DataFrame of Spark.
    UnsupportedTypeError
        For a column type that is not stored.
    DuplicateColumnError
        For two columns of one name.
    """
    declared = getattr(frame, "schema", None)
    if not isinstance(declared, StructType):
        raise InvalidInputError(
            f"from_spark takes a DataFrame of Spark, not {type(frame).__name__}",
            hint="other tables are written as they are: store.write(symbol, table)",
        )
    check_column_names(declared.names)
    stored = stored_schema(declared)
    return as_declared(collected(frame), stored, "the stored type")
