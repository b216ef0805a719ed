"""What differs between versions of pyspark, under one name each.

pyspark 3.5 runs queries; what needs a newer one asks for its version here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tessel.errors import MissingDependencyError

if TYPE_CHECKING:
    from threading import Thread

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LEAST = (3, 5)
_SEED = 42
"""What Spark's hash of the keys of an exchange begins with."""


def pyspark_version(least: tuple[int, int] = _LEAST, what: str = "running on Spark") -> str:
    """Return the version of pyspark.

    Parameters
    ----------
    least
        The oldest that will do.
    what
        What needs it, for the error.

    Raises
    ------
    MissingDependencyError
        If it is not installed, or older.
    """
    try:
        import pyspark
    except ImportError as error:
        raise MissingDependencyError.for_extra("pyspark", "spark", what) from error
    version = str(pyspark.__version__)
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < least:
        raise MissingDependencyError(
            f"{what} needs pyspark {least[0]}.{least[1]} or newer; {version} is installed",
            hint='pip install --upgrade "tessel[spark]"',
            package="pyspark",
            version=version,
        )
    return version


def collected(frame: DataFrame) -> pa.Table:
    """Run a frame and return its rows; before pyspark 4.0 there is no public call for it."""
    of: Any = frame
    if hasattr(of, "toArrow"):
        return of.toArrow()
    batches: list[pa.RecordBatch] = of._collect_as_arrow()
    return pa.Table.from_batches(batches, arrow_schema(frame.schema))


def sent(session: SparkSession, table: pa.Table) -> DataFrame:
    """Return a frame of a few rows of this process; before pyspark 4.0 as rows of Python."""
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.types import from_arrow_schema

    rows: Any = table
    if not hasattr(DataFrame, "toArrow"):
        rows = [tuple(row.values()) for row in table.to_pylist()]
    return session.createDataFrame(rows, from_arrow_schema(table.schema))


def partitioned(frame: DataFrame, number: Column, partitions: int) -> DataFrame:
    """Return a frame of so many partitions, each row in the one of its number.

    Before pyspark 4.1 Spark hashes what it partitions by: it is given a value that its hash takes
    to the partition.
    """
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(partitions, number)
    from pyspark.sql import functions

    of: Any = functions
    values = of.array(*(of.lit(value) for value in _values(partitions)))
    return frame.repartition(partitions, of.get(values, number))


def read_again(frame: DataFrame) -> DataFrame:
    """Return a frame of the rows behind an exchange that all jobs read from the files of the first.

    A plan of Spark SQL makes its exchanges anew in each job; as an RDD they are the same in all.
    The files are deleted when no frame needs them, as those of any exchange. Not on Spark Connect,
    which has no RDDs.
    """
    of: Any = frame
    # Where a session adapts plans while they run, the exchange is made here.
    rows = of._jdf.queryExecution().toRdd()
    made = of.sparkSession._jsparkSession.internalCreateDataFrame(rows, of._jdf.schema(), False)
    again: DataFrame = type(of)(made, of.sparkSession)
    return again


def inheriting_thread(session: SparkSession, work: Callable[[], None]) -> Thread:
    """Return a thread, to be started, whose jobs have the tags and properties of this one's."""
    from pyspark import InheritableThread

    of: Any = InheritableThread  # that of pyspark 3.5 hands its other arguments on to a thread
    more = {"session": session} if "session" in inspect.signature(of.__init__).parameters else {}
    thread: Thread = of(target=work, daemon=True, **more)
    return thread


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow types that Spark itself uses for a schema, times in UTC."""
    from pyspark.sql.pandas import types

    of: Any = types.to_arrow_schema
    if "timezone" in inspect.signature(of).parameters:
        return of(schema, timezone="UTC")
    return of(schema)


@functools.lru_cache(maxsize=64)
def _values(partitions: int) -> tuple[int, ...]:
    """Return for each partition the least number that Spark's hash takes to it."""
    found: dict[int, int] = {}
    value = 0
    while len(found) < partitions:
        found.setdefault(_hashed(value) % partitions, value)
        value += 1
    return tuple(found[each] for each in range(partitions))


def _hashed(value: int) -> int:
    """Return Spark's hash of one int: Murmur3 of 32 bits, as a signed number."""
    mixed = _turned(_times(value, 0xCC9E2D51), 15)
    mixed = _turned(_SEED ^ _times(mixed, 0x1B873593), 13)
    mixed = (_times(mixed, 5) + 0xE6546B64) & 0xFFFFFFFF ^ 4
    mixed = _times(mixed ^ mixed >> 16, 0x85EBCA6B)
    mixed = _times(mixed ^ mixed >> 13, 0xC2B2AE35)
    mixed ^= mixed >> 16
    return mixed - (mixed >> 31 << 32)


def _times(left: int, right: int) -> int:
    return left * right & 0xFFFFFFFF


def _turned(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & 0xFFFFFFFF
