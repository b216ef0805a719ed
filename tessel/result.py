"""What a query gives: a table with its lineage, handed on in whatever form is asked for."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from tessel.cached import cached
from tessel.display.shown import InNotebooks
from tessel.errors import InvalidInputError, MissingDependencyError, UnknownVerbError
from tessel.errors.arguments import checks_arguments, names_ours
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass

if TYPE_CHECKING:
    import duckdb
    import polars

    from tessel.display.documents import Part
    from tessel.pipeline.plan import Plan
    from tessel.pipeline.profile import Profile
    from tessel.plotting import Plot
    from tessel.spark_exec.source.rows import DataFrame, SparkSession
    from tessel.telemetry import Recording

__all__ = ["Lineage", "Result"]

_ROWS_AT_ONCE = 1 << 12
"""Rows that iteration turns into dictionaries at a time."""


@checks_arguments
@dataclass(frozen=True)
class Lineage:
    """Where a result came from.

    Attributes
    ----------
    store, symbols, version
        What was read, at which version of the store.
    as_of
        How that version was found: by its number, as a tag, a branch, or the newest up to a moment.
    query
        The plain form of the query.
    segments_read, segments
        Segments that were read, of how many.
    executor
        What ran it.
    elapsed_ns
        Planning and running, nanoseconds.
    metadata
        What was written beside the rows of the symbol: ``write(..., metadata=)``.
    """

    _made_by: ClassVar[str] = 'store.read("trades").lineage is one'

    store: str
    symbols: tuple[str, ...]
    version: int
    as_of: str
    query: dict[str, Any]
    segments_read: int
    segments: int
    executor: str
    elapsed_ns: int
    metadata: dict[str, Any] = dataclasses.field(default_factory=dict)


@checks_arguments
class Result(InNotebooks):
    """The answer of a query: an Arrow table with its lineage."""

    _made_by = 'store.read("trades") gives one; store.write("trades", table) takes tables'

    def __init__(
        self,
        table: pa.Table,
        index: str | None,
        lineage: Callable[[], Lineage],
        run: tuple[Plan, Recording] | None = None,
    ) -> None:
        self._table = table
        self.index = index
        self._lineage = lineage
        self._run = run

    @cached
    def lineage(self) -> Lineage:
        """Where it came from; put together when it is first asked for."""
        return self._lineage()

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Give the rows, each a dictionary by column."""
        for batch in self._table.to_batches(max_chunksize=_ROWS_AT_ONCE):
            try:
                rows = batch.to_pylist()
            except (OverflowError, ValueError) as error:
                raise InvalidInputError(
                    f"Python cannot hold a value of these rows: {error}",
                    hint="to_arrow() and to_polars() hold all of them",
                ) from error
            yield from rows

    def __contains__(self, column: object) -> bool:
        """Return whether the result has a column of this name."""
        return column in self.column_names

    def __getitem__(self, column: str) -> pa.ChunkedArray:
        """Return the values of a column."""
        if not isinstance(column, str):
            raise InvalidInputError(
                f"a result gives columns by name, not {column!r:.80}",
                hint="rows: to_arrow().slice(0, 5); several columns: to_arrow().select([...])",
            )
        self.schema.require([column])
        return self._table.column(column)

    def __repr__(self) -> str:
        from tessel.display.text import render_text

        return render_text(self._document())

    def _document(self) -> Part:
        from tessel.display.preview import preview

        return preview(self._table, index=self.index)

    if not TYPE_CHECKING:  # else no misspelt name would be found before it runs

        def __getattr__(self, name: str) -> Any:
            from tessel.clauses.builder import QueryBuilder

            if not name.startswith("_") and name in dir(QueryBuilder):
                raise UnknownVerbError.before_collect(name, f"{name}(...)")
            return names_ours("result")(self, name)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __narwhals_dataframe__(self) -> Any:
        """Return the table for narwhals' ``from_native``, which calls this."""
        return _required("narwhals").from_native(self.to_arrow())._compliant_frame

    @property
    def schema(self) -> TableSchema:
        """The columns, and which of them is the time index."""
        index = self.index if self.index in self._table.column_names else None
        return TableSchema(self._table.schema.remove_metadata(), index)

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns there are."""
        return self._table.num_rows, self._table.num_columns

    @property
    def version(self) -> int:
        """The version of the store that was read."""
        return self.lineage.version

    @property
    def metadata(self) -> dict[str, Any]:
        """What was written beside the rows of the symbol: ``write(..., metadata=)``."""
        return dict(self.lineage.metadata)

    @property
    def column_names(self) -> list[str]:
        """The column names, in order."""
        return list(self._table.column_names)

    @property
    def plot(self) -> Plot:
        """Charts of the table (extra ``plot``): call it, or ``.line``, ``.bar``, ``.hist`` ….

        An index that is not among the columns is none.
        """
        from tessel.plotting import Plot

        return Plot(self._table, self.index)

    def profile(self) -> Profile:
        """Return what the run did: time, rows, bytes and form by clause, how columns were read.

        It was recorded while the query ran; nothing is run again.

        Raises
        ------
        InvalidInputError
            For a result that was not run in this process.

        Examples
        --------
        >>> import pyarrow as pa, tessel as ts
        >>> store = ts.open("memory://")
        >>> version = store.write("x", pa.table({"n": [1, 2, 3]}))
        >>> profile = store.scan("x").filter("n > 1").collect().profile()
        >>> profile.rows, profile.executor
        (2, 'local')
        >>> profile.write_html("run.html")
        """
        from tessel.pipeline.profile import Profile

        if self._run is None:
            raise InvalidInputError("the run of this result is not known in this process")
        plan, recording = self._run
        return Profile(plan, recording, len(self), self.lineage.executor)

    def __getstate__(self) -> dict[str, Any]:
        # What ran refers to the store.
        return {**vars(self), "lineage": self.lineage, "_lineage": None, "_run": None}

    def to_arrow(self) -> pa.Table:
        """Return the table; its schema metadata holds the lineage as JSON under ``tessel``.

        Examples
        --------
        >>> store.read("names").to_arrow().to_pydict()
        {'symbol': ['AAPL', 'MSFT'], 'name': ['Apple', 'Microsoft']}
        """
        lineage = json.dumps(vars(self.lineage))
        metadata = self._table.schema.metadata or {}
        return self._table.replace_schema_metadata({**metadata, "tessel": lineage})

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table as a Parquet file, its lineage in the metadata.

        Raises
        ------
        InvalidInputError
            Where no file can be written.

        Examples
        --------
        >>> store.read("names").write_parquet("names.parquet")
        >>> store.write("copy", "names.parquet")
        3
        """
        import pyarrow.parquet

        try:
            pyarrow.parquet.write_table(self.to_arrow(), path)
        except OSError as error:
            raise InvalidInputError.not_writable(path, error) from error

    def to_pandas(self, *, index: bool | None = None) -> Any:
        """Return a pandas frame: what was written, where the symbol was written from pandas.

        Parameters
        ----------
        index
            By default the index that was written, where all of its levels are among the columns
            of the result, or a ``RangeIndex``. ``False`` leaves all of them columns; ``True`` makes
            the time index the frame's, of a resample the buckets.

        Returns
        -------
        pandas.DataFrame or pandas.Series
            A Series where one was written, and the result has its column alone.

        Raises
        ------
        InvalidInputError
            For ``index=True`` where the result has no time index.

        Examples
        --------
        >>> store.read("names").to_pandas()
          symbol       name
        0   AAPL      Apple
        1   MSFT  Microsoft
        """
        _required("pandas")
        from tessel.pandas_results import frame_of

        return frame_of(self._table, self.index, index)

    def to_polars(self) -> polars.DataFrame:
        """Return a Polars frame.

        Examples
        --------
        >>> store.read("names").to_polars().shape
        (2, 2)
        """
        frame: polars.DataFrame = _required("polars").from_arrow(self._table)
        return frame

    def to_duckdb(self) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation over the table.

        Examples
        --------
        >>> store.read("names").to_duckdb().filter("symbol = 'AAPL'").fetchall()
        [('AAPL', 'Apple')]
        """
        return _required("duckdb").from_arrow(self._table)  # type: ignore[no-any-return]

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """Return a DataFrame of Spark; the rows go there from this process.

        Parameters
        ----------
        session
            A session of yours; by default the one that exists, else one of our own.

        Raises
        ------
        UnsupportedTypeError, InvalidInputError
            For a column type that Spark does not have, or a value that its type does not hold.

        Examples
        --------
        >>> store.read("names").to_spark().count()
        2
        """
        from tessel.spark_exec import spark_session
        from tessel.spark_exec.source.rows import frame_of

        return frame_of(spark_session() if session is None else session, self._table)


def _required(package: str) -> Any:
    """Return a package that people have installed, or not, for work of their own."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingDependencyError.for_package(package, f"to_{package}()") from error
