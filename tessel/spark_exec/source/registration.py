"""The data source ``tessel`` as Spark calls it.

Spark makes the source in processes of its own, which import this module by its name: workers have
the package. Importing it imports pyspark.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from tessel.spark_exec.source.options import ReadOptions
from tessel.spark_exec.source.reader import Pin, made_reader, pinned

__all__ = ["TesselSource"]


class TesselSource(DataSource):
    """Symbols of a store as DataFrames: ``spark.read.format("tessel")``.

    The version is chosen when the DataFrame is made. A table of Spark's catalog, for which Spark
    keeps the schema, reads the version that is the newest when a query begins.
    """

    _pin: Pin | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "tessel"

    def schema(self) -> StructType:
        """Return the columns of what is read, at the version that is read from now on."""
        self._pin, schema = pinned(ReadOptions.of(self.options))
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the version of the DataFrame."""
        asked = ReadOptions.of(self.options)
        return made_reader(asked, self._pin or pinned(asked)[0], schema)
