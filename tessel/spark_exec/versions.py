"""What differs between versions of pyspark, under one name each.

pyspark 3.5 runs queries; what needs a newer one asks for its version here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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
def _values(partitions: int) -> list[int]:
    """Return for each partition the least number that Spark's hash of an int takes to it.

    It is Murmur3 of 32 bits, as a signed number. Of so many numbers each partition has some.
    """
    mixed = np.arange(64 * partitions, dtype=np.uint32) * np.uint32(0xCC9E2D51)
    mixed = np.uint32(_SEED) ^ _turned(mixed, 15) * np.uint32(0x1B873593)
    mixed = _turned(mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64) ^ np.uint32(4)
    for bits, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = (mixed ^ mixed >> np.uint32(bits)) * np.uint32(factor)
    hashed = (mixed ^ mixed >> np.uint32(16)).view(np.int32)
    found: list[int] = np.unique(hashed % partitions, return_index=True)[1].tolist()
    return found


def _turned(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)
