"""The data source ``tessel`` as Spark calls it.

Spark makes the source in processes of its own, which import this module by its name: workers have
the package. Importing it imports pyspark.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from tessel.spark_exec.source.options import ReadOptions, StreamOptions, WriteOptions
from tessel.spark_exec.source.reader import Pin, made_reader, pinned
from tessel.spark_exec.source.writer import SymbolWriter, made_writer
from tessel.spark_exec.versions import pyspark_version


class TesselSource(DataSource):
    """Symbols as DataFrames, and DataFrames as symbols: ``format("tessel")`` of Spark.

    The version is chosen when the DataFrame is made. A table of Spark's catalog, for which Spark
    keeps the schema, reads the version that is the newest when a query begins.
    """

    slots = 16
    """Tasks that run at a time; that of its session in a class that ``register_source`` makes."""
    _pin: Pin | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "tessel"

    def schema(self) -> StructType:
        """Return the columns of what is read, at the version that is read from now on."""
        self._pin, schema = pinned(ReadOptions.of(self.options, stream=None))
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the version of the DataFrame."""
        asked = ReadOptions.of(self.options)
        return made_reader(asked, self._pin or pinned(asked)[0], schema, self.slots)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return what writes a DataFrame."""
        return made_writer(WriteOptions.of(self.options, overwrite=overwrite), schema, SymbolWriter)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return what reads the rows that come."""
        pyspark_version((4, 2), "a stream of a symbol")
        from tessel.spark_exec.source.streams import made_stream_reader

        return made_stream_reader(StreamOptions.of(self.options), schema, self.slots)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """Return what writes the batches of a stream; Spark overwrites in output mode complete."""
        pyspark_version((4, 2), "a stream into a symbol")
        from tessel.spark_exec.source.streams import StreamWriter

        asked = WriteOptions.of(self.options, overwrite=overwrite, stream=True)
        return made_writer(asked, schema, StreamWriter)
