"""What users hold: a store, a lazy table, a result. Joins the parts and has no logic of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from tessel.clauses.base import Clause
from tessel.clauses.builder import QueryBuilder
from tessel.clauses.combining import SubQuery
from tessel.clauses.verbs import Verbs
from tessel.display.shown import InNotebooks
from tessel.errors import InvalidInputError, PlanError, TesselError
from tessel.errors.arguments import checks_arguments, names_ours
from tessel.expression.schema import TableSchema
from tessel.job import Job, JobState
from tessel.lazy import dataclass
from tessel.options import options
from tessel.pipeline.executor import Executor, result_table
from tessel.pipeline.plan import Plan
from tessel.pipeline.planner.planner import plan_query, query_schema
from tessel.progress import operation
from tessel.result import Lineage, Result
from tessel.store.history.refs import MAIN
from tessel.store.timeline import AsOf
from tessel.store.view import PinnedViews
from tessel.telemetry import Recording
from tessel.written import ExecutorLike, WritesResults, named_executor

if TYPE_CHECKING:
    from tessel.display.documents import Document, Part
    from tessel.pipeline.explain import Explanation
    from tessel.pipeline.profile import Profile
    from tessel.spark_exec.source.rows import DataFrame, SparkSession
    from tessel.store.maintenance.fsck import CheckReport

__all__ = [
    "Job",
    "JobState",
    "LazyTable",
    "Lineage",
    "Result",
    "Store",
    "from_spark",
    "open_store",
]


T = TypeVar("T")


_SHOWN_SYMBOLS = 20
"""So many symbols of a store are listed in a notebook."""


@checks_arguments
def from_spark(frame: DataFrame) -> pa.Table:
    """Return the rows of a Spark DataFrame as an Arrow table in the types that are stored.

    The rows come to this process: ``store.write(symbol, from_spark(frame), index="time")``.

    Raises
    ------
    UnsupportedTypeError
        For a column type that is not stored; names the column.
    DuplicateColumnError
        For two columns of one name.

    Examples
    --------
    >>> ts.from_spark(trades.to_spark()).num_rows
    4
    """
    from tessel.spark_exec.source.rows import table_of

    return table_of(frame)


@checks_arguments
class Store(WritesResults, InNotebooks):
    """A versioned collection of symbols that can be queried; made by :func:`tessel.open`.

    Every write is one commit and gives a new version of the whole store. Reading takes no locks
    and sees one version from beginning to end.
    """

    def __repr__(self) -> str:
        count = len(self.symbols())
        plural = "symbol" if count == 1 else "symbols"
        at = "" if self.branch == MAIN else f", branch {self.branch!r}"
        return f"<Store {self.uri!r}{at}: version {self.version}, {count} {plural}>"

    def _document(self) -> Part:
        from tessel.display.documents import Table

        names = self.symbols()
        views = [self.view(name) for name in names[:_SHOWN_SYMBOLS]]
        rows = tuple((v.name, v.row_count, len(v.schema.names), v.schema.index) for v in views)
        more = len(names) - len(rows)
        notes = (f"{more:,} more: symbols()",) if more else ()
        return Table(repr(self), ("symbol", "rows", "columns", "index"), rows, notes)

    if not TYPE_CHECKING:  # else no misspelt name would be found before it runs
        __getattr__ = names_ours("store")

    @property
    def version(self) -> int:
        """The newest version: the number of commits."""
        return self.newest

    def __getitem__(self, symbol: str) -> LazyTable:
        """``store["trades"]`` is ``store.scan("trades")``."""
        return self.scan(symbol)

    def __contains__(self, symbol: object) -> bool:
        return symbol in self.symbols()

    def __iter__(self) -> Iterator[str]:
        return iter(self.symbols())

    def __len__(self) -> int:
        return len(self.symbols())

    def __bool__(self) -> bool:
        return True  # as any handle, also that of a store without symbols

    # --- looking ----------------------------------------------------------------------------------

    def physical(self, symbol: str, *, as_of: AsOf = None) -> pa.Table:
        """Return how a symbol is stored: pages, encodings, bytes and ratio of each column.

        Examples
        --------
        >>> store.physical("names").select(["column", "rows"]).to_pylist()
        [{'column': 'symbol', 'rows': 2}, {'column': 'name', 'rows': 2}]
        """
        from tessel.store.physical import physical_columns

        return physical_columns(self.view(symbol, as_of=as_of), self.objects)

    def check(self) -> CheckReport:
        """Read and verify everything that any version refers to; nothing is changed.

        Examples
        --------
        >>> store.check().damages
        []
        """
        from tessel.store.maintenance.fsck import check_store

        with operation("check"):
            return check_store(self)

    def schema(
        self, symbol: str, query: QueryBuilder | None = None, *, as_of: AsOf = None
    ) -> TableSchema:
        """Return the schema of a symbol, or of a query's result; nothing is run.

        Examples
        --------
        >>> store.schema("names").names
        ['symbol', 'name']
        """
        return LazyTable(self, symbol, as_of, _query(query)).schema()

    # --- Spark ------------------------------------------------------------------------------------

    def register_views(
        self, session: SparkSession, pattern: str | None = None, *, as_of: AsOf = None
    ) -> list[str]:
        """Make a temporary view of each symbol in a Spark session, for ``session.sql``.

        All views show one version, whatever is written later; register them again to see more.

        Parameters
        ----------
        session
            A session of yours, or ``tessel.spark_exec.spark_session()``.
        pattern
            As for :meth:`symbols`: which symbols; all by default.
        as_of
            A version, a tag or branch, or a time; the newest version by default.

        Returns
        -------
        list of str
            The names of the views, which are those of the symbols: in SQL, a name that is more
            than letters, digits and underscores stands in backticks.

        Raises
        ------
        StoreNotVisibleError, StoreAccessError
            For a store that other processes cannot open.
        UnsupportedTypeError
            For a symbol with a column that Spark has no type for.
        InvalidInputError
            For two names that differ in case alone. No view is made in any of these cases.

        Examples
        --------
        >>> store.register_views(spark, "names")
        ['names']
        >>> spark.sql("SELECT count(*) AS n FROM names").first().n
        2
        """
        from tessel.spark_exec.source.views import register_views

        version = self.at(as_of).number
        return register_views(session, self, self.symbols(pattern, as_of=version), version)

    # --- reading ----------------------------------------------------------------------------------

    def scan(self, symbol: str, *, as_of: AsOf = None) -> LazyTable:
        """Return a lazy table: the verbs of a query, run by ``collect``.

        Examples
        --------
        >>> store.scan("trades").filter("qty > 2").collect()["qty"].to_pylist()
        [3, 4]
        """
        return LazyTable(self, symbol, as_of)

    def read(
        self,
        symbol: str,
        *,
        date_range: tuple[Any, Any] | None = None,
        row_range: tuple[int | None, int | None] | None = None,
        query: QueryBuilder | None = None,
        columns: Sequence[str] | None = None,
        as_of: AsOf = None,
        executor: ExecutorLike = "local",
    ) -> Result:
        """Read a symbol, or the answer of a query on it.

        Parameters
        ----------
        symbol
            Its name.
        date_range
            The span of the time index that the query sees; short for a ``date_range`` before it.
        row_range
            The positions among these rows that the query sees; short for a ``row_range`` before
            it, and behind the ``date_range``.
        query
            What to run; by default the whole table.
        columns
            Columns of the query's result, in their order; short for a ``select`` after it.
        as_of
            A version, a tag or branch, or a time: the newest version not after it.
        executor
            ``"local"``, ``"spark"``, or an executor such as ``SparkExecutor(...)``.

        Examples
        --------
        >>> store.read("trades", columns=["symbol", "qty"], row_range=(0, 2)).shape
        (2, 2)
        >>> q = ts.QueryBuilder().groupby("symbol").agg(total=("qty", "sum"))
        >>> list(store.read("trades", query=q))
        [{'symbol': 'AAPL', 'total': 4}, {'symbol': 'MSFT', 'total': 6}]
        """
        asked = _query(query)
        if row_range is not None:
            _check_pair("row_range", row_range, "(100, 200)")
            asked = QueryBuilder().row_range(*row_range).then(*asked.clauses)
        if date_range is not None:
            _check_pair("date_range", date_range, '("2013-01-01", "2013-03-31")')
            asked = QueryBuilder().date_range(*date_range).then(*asked.clauses)
        if columns is not None:
            asked = asked.select(columns)
        return LazyTable(self, symbol, as_of, asked).collect(executor=executor)

    def read_many(
        self,
        symbols: Iterable[str],
        *,
        date_range: tuple[Any, Any] | None = None,
        query: QueryBuilder | None = None,
        columns: Sequence[str] | None = None,
        executor: ExecutorLike = "local",
    ) -> dict[str, Result]:
        """Read several symbols at one version, each as by :meth:`read`.

        Examples
        --------
        >>> {name: len(result) for name, result in store.read_many(["names", "trades"]).items()}
        {'names': 2, 'trades': 4}
        """
        version = self.version
        return {
            symbol: self.read(
                symbol,
                date_range=date_range,
                query=query,
                columns=columns,
                as_of=version,
                executor=executor,
            )
            for symbol in symbols
        }

    def explain(
        self,
        symbol: str,
        query: QueryBuilder | None = None,
        *,
        as_of: AsOf = None,
        pages: bool | None = None,
        analyze: bool = False,
        executor: ExecutorLike = "local",
    ) -> Explanation:
        """Say how a query would be run: stages, barriers, segments kept and dropped, and why.

        Page tables are read of at most 64 segments, of more with ``pages=True``. The plan is that
        of the ``executor``; Spark's tells where each stage runs, in tasks or in the driver.

        Examples
        --------
        >>> told = store.explain("trades", ts.QueryBuilder().filter("qty > 9"))
        >>> "nothing was read" in str(told)
        True
        """
        table = LazyTable(self, symbol, as_of, _query(query))
        return table.explain(pages=pages, analyze=analyze, executor=executor)


open_store = Store.open


@checks_arguments
@dataclass(frozen=True, repr=False)
class LazyTable(Verbs):
    """A query on one symbol of one store, not run yet. Immutable: every verb returns a new one."""

    _kind = "lazy"
    _made_by = 'store.scan("trades") makes one'

    store: Store
    symbol: str
    as_of: AsOf = None
    query: QueryBuilder = dataclasses.field(default_factory=QueryBuilder)

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """What runs, in order."""
        return self.query.clauses

    @property
    def _title(self) -> str:
        at = "" if self.as_of is None else f", as_of={self.as_of!r}"
        return f"<LazyTable {self.symbol!r}{at}>"

    def _document(self) -> Document:
        """Return what a notebook shows: the clauses, and the columns of the result."""
        from tessel.display.documents import Document, Table

        try:
            schema = self.schema()
        except TesselError as error:  # a notebook shows what there is
            return Document("", (*super()._document().parts, str(error)))
        columns = tuple(
            (f.name, str(f.type), "index" * (f.name == schema.index)) for f in schema.arrow
        )
        table = Table("", ("column", "type", ""), columns, ("not run yet: collect() runs it",))
        return Document("", (*super()._document().parts, table))

    def __len__(self) -> int:
        raise self._not_run("count() counts its rows, and collect() gives them")

    def __iter__(self) -> Iterator[Any]:
        raise self._not_run("collect() gives all rows, iter_batches() some after some")

    def __getitem__(self, item: object) -> Any:
        if isinstance(item, slice):
            raise self._not_run(f"row_range({item.start}, {item.stop}) keeps rows by position")
        if isinstance(item, list | tuple):
            raise self._not_run(f"select({', '.join(map(repr, item))}) keeps columns")
        raise self._not_run(f"write ts.col({item!r}) for a column, or collect()[{item!r}]")

    def _not_run(self, hint: str) -> PlanError:
        return PlanError("a lazy table has no rows before it is run", hint=hint)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self._not_run('collect() gives all rows, collect()["price"].to_numpy() a column')

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Run the query, and give its answer as it comes."""
        reader = pa.RecordBatchReader.from_batches(self.schema().arrow, self.iter_batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __narwhals_dataframe__(self) -> Any:
        """Run the query for narwhals' ``from_native``, which calls this."""
        return self.collect().__narwhals_dataframe__()

    def then(self, *clauses: Clause) -> LazyTable:
        """Return the query with clauses added at the end.

        Examples
        --------
        >>> q = ts.QueryBuilder().filter("qty > 2")
        >>> trades.then(*q.clauses).collect()["qty"].to_pylist()
        [3, 4]
        """
        return dataclasses.replace(self, query=self.query.then(*clauses))

    def _queries(self, verb: str, others: Sequence[Any]) -> tuple[SubQuery, ...]:
        """Return symbols, by name or as lazy tables of this store too, as queries."""
        asked = [self._query_of(verb, o) if isinstance(o, LazyTable) else o for o in others]
        return super()._queries(verb, asked)

    def _query_of(self, verb: str, other: LazyTable) -> SubQuery:
        if other.store.uri != self.store.uri:
            raise InvalidInputError(
                f"{verb} takes tables of one store, not of {self.store.uri!r} and "
                f"{other.store.uri!r}",
                hint="collect the other table and write it here first",
            )
        version = None
        if other.as_of is not None:
            version = other.store.view(other.symbol, as_of=other.as_of).version
        return SubQuery(other.symbol, version, other.clauses)

    def schema(self) -> TableSchema:
        """Return the schema of the result; nothing is run.

        Examples
        --------
        >>> trades.select("symbol", "qty").schema().names
        ['symbol', 'qty']
        """
        return query_schema(*self._bound())

    def plan(self, *, slots: int | None = None) -> Plan:
        """Return the plan that an executor would run.

        Examples
        --------
        >>> trades.head(2).plan().schema.names
        ['time', 'symbol', 'price', 'qty']
        """
        return plan_query(*self._bound(), slots=slots)

    def explain(
        self, *, pages: bool | None = None, analyze: bool = False, executor: ExecutorLike = "local"
    ) -> Explanation:
        """Say how the query would be run, as :meth:`Store.explain` does; no rows are read.

        With ``analyze`` the query is run, its answer dropped, and the run says in which form each
        clause ran and each column was read.

        Examples
        --------
        >>> "statistics: never qty > 9" in str(trades.filter("qty > 9").explain())
        True
        """
        from tessel.pipeline.explain import explain_plan

        chosen = named_executor(executor)
        explained = getattr(chosen, "explained", None)
        profile: Profile | None = None
        if analyze:
            from tessel.pipeline.profile import Profile

            asked, rows, recording = self._ran(chosen, lambda parts, _: sum(map(len, parts)))
            profile = Profile(asked, recording, rows, chosen.name)
            plan = profile.plan
        else:
            plan = _plan(*self._bound(), chosen)
        more = () if explained is None else (explained(plan),)
        return explain_plan(plan, self.clauses, pages=pages, profile=profile, more=more)

    def collect(self, *, limit: int | None = None, executor: ExecutorLike = "local") -> Result:
        """Run the query and return all of its answer, or its first ``limit`` rows.

        Examples
        --------
        >>> trades.collect(limit=2).shape
        (2, 4)
        """
        if limit is not None:
            return self._limited(limit).collect(executor=executor)
        chosen = named_executor(executor)
        started = time.perf_counter_ns()
        plan, table, recording = self._ran(chosen, result_table)
        if (shown := self._shown_in_pandas(plan, table)) is not None:
            table = table.replace_schema_metadata({b"pandas": shown})
        made = chosen.name, time.perf_counter_ns() - started, self.store._told(self.as_of)
        lineage = partial(self._lineage, plan, *made)
        return Result(table, plan.schema.index, lineage, (plan, recording))

    def _ran(
        self, executor: Executor, take: Callable[[Iterator[pa.Table], TableSchema], T]
    ) -> tuple[Plan, T, Recording]:
        """Run the query; return its plan, what was taken of its result, and the run's events."""
        recording = Recording()
        # The environment is asked for options once, and not by each step of a query.
        with (
            options(),
            self._planned(executor) as plan,
            recording,
            operation("query", self.symbol, recording),
        ):
            plan = dataclasses.replace(plan, is_collected=True)
            return plan, take(executor.run(plan), plan.schema), recording

    def _shown_in_pandas(self, plan: Plan, table: pa.Table) -> bytes | None:
        for view in [source.view for source in plan.sources]:
            if view.name == self.symbol and view.pandas is not None:
                from tessel.pandas_results import pandas_metadata

                return pandas_metadata(
                    view.pandas, view.schema, view.row_count, self.clauses, table
                )
        return None

    def count(self, *, executor: ExecutorLike = "local") -> int:
        """Run the query and return how many rows its answer has.

        Examples
        --------
        >>> trades.filter("qty > 1").count()
        3
        """
        counted = self.agg(rows="size").collect(executor=executor)
        return int(counted.to_arrow().column("rows")[0].as_py())

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """Return the query's result as a DataFrame of Spark, which stays where it is computed.

        It shows the version that is the newest now, whatever is written later. Rows behind a
        clause that groups all of them anew are in no order; a result that such a clause has made
        small, as of ``head`` or of sums, is computed here and now.

        Parameters
        ----------
        session
            A session of yours, used as it is; by default the one that exists, else one of our own.

        Raises
        ------
        StoreNotVisibleError, StoreAccessError
            For a store that workers cannot open.
        UnsupportedTypeError
            For a column that Spark has no type for.

        Examples
        --------
        >>> trades.filter("qty > 2").to_spark().count()
        2
        """
        from tessel.spark_exec import SparkExecutor

        executor = SparkExecutor(session)
        with self._planned(executor) as plan:
            return executor.frame(plan)

    def submit(self, *, limit: int | None = None, executor: ExecutorLike = "local") -> Job[Result]:
        """Run the query in the background, and return the job at once.

        Parameters
        ----------
        limit, executor
            As for :meth:`collect`. A job on Spark is cancelled there, and its session goes on.

        Returns
        -------
        Job
            Its ``result()`` is that of :meth:`collect`; ``cancel()`` ends it.

        Examples
        --------
        >>> job = trades.select("qty").submit()
        >>> job.result()["qty"].to_pylist()
        [1, 2, 3, 4]
        """
        chosen = named_executor(executor)
        name = f"{self.symbol!r} on {chosen.name}"
        return Job(lambda: self.collect(limit=limit, executor=chosen), name)

    def iter_batches(
        self, *, limit: int | None = None, executor: ExecutorLike = "local"
    ) -> Iterator[pa.RecordBatch]:
        """Run the query and give its answer in batches, in order, in bounded memory.

        Units that are ready before they are asked for count into the byte budget, so a slow
        consumer holds the query up. Closing the iterator stops the query. On Spark the executors
        hold what a shuffle has computed, and this process some 64 MiB of it, or one unit.

        Parameters
        ----------
        limit
            The most rows that are given; reading stops with the last of them.
        executor
            As for :meth:`Store.read`.

        Examples
        --------
        >>> [batch.num_rows for batch in trades.iter_batches(limit=3)]
        [3]
        """
        if limit is not None:
            yield from self._limited(limit).iter_batches(executor=executor)
            return
        chosen = named_executor(executor)
        with self._planned(chosen) as plan:
            parts = getattr(chosen, "stream", chosen.run)(plan)
            try:
                for part in parts:
                    yield from part.to_batches()
            finally:
                getattr(parts, "close", lambda: None)()

    def _limited(self, limit: int) -> LazyTable:
        if isinstance(limit, bool) or not hasattr(limit, "__index__") or limit < 0:
            raise InvalidInputError(
                f"a limit is a number of rows from 0 on, not {limit!r}",
                hint="head(-n) leaves out the last n rows",
            )
        return self.head(limit)

    def _planned_at(
        self, store: WritesResults, version: int, executor: Executor
    ) -> AbstractContextManager[Plan]:
        """Give a plan of a store at a version, where the query is on it and names no other.

        For what writes the result: the version that the write begins from.
        """
        own = (self.store.id, self.store.branch) == (store.id, store.branch)
        pinned = dataclasses.replace(self, as_of=version) if own and self.as_of is None else self
        return pinned._planned(executor)

    @contextlib.contextmanager
    def _planned(self, executor: Executor) -> Iterator[Plan]:
        """Give a plan to run; a version that expires on the way is told from a damaged one."""
        catalog, query = self._bound()
        with self.store.reading(catalog.version) as versions:
            plan = _plan(catalog, query, executor)
            versions.update(source.view.version for source in plan.sources)
            yield plan

    def _bound(self) -> tuple[PinnedViews, SubQuery]:
        first = self.store.view(self.symbol, as_of=self.as_of)
        return PinnedViews(self.store, first), SubQuery(self.symbol, None, self.clauses)

    def _lineage(self, plan: Plan, executor: str, elapsed_ns: int, as_of: str) -> Lineage:
        views = [source.view for source in plan.sources]
        return Lineage(
            store=self.store.uri,
            symbols=tuple(dict.fromkeys(view.name for view in views)),
            version=max(view.version for view in views),
            as_of=as_of,
            query=QueryBuilder(self.clauses).to_json(),
            segments_read=sum(len(source.index) for source in plan.sources),
            segments=sum(view.segment_count for view in views),
            executor=executor,
            elapsed_ns=elapsed_ns,
            metadata=next((v.metadata for v in views if v.name == self.symbol), {}),
        )


def _check_pair(name: str, value: Any, example: str) -> None:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InvalidInputError(
            f"{name} is a start and an end, not {value!r}",
            hint=f"write {name}={example}; None is no bound",
        )


def _query(query: QueryBuilder | None) -> QueryBuilder:
    if query is not None and not isinstance(query, QueryBuilder):
        raise InvalidInputError(
            f"a query is a QueryBuilder, not {query!r}",
            hint="text is a condition: QueryBuilder().filter(text); a plan as JSON is read by "
            "QueryBuilder.from_json",
        )
    return query or QueryBuilder()


def _plan(catalog: PinnedViews, query: SubQuery, executor: Executor) -> Plan:
    """Return the plan that an executor gets."""
    most = getattr(executor, "gathered_bytes", None)
    return plan_query(catalog, query, slots=executor.slots, gathered_bytes=most)
