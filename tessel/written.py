"""Writes results of queries: what is computed is staged, and becomes a symbol's in one commit.

The local pool stages the parts of a result as they come; tasks of Spark stage what they computed,
so a result of any size needs no more memory than the query. Nothing is seen before the commit, and
what was staged for one that did not come is collected by ``gc``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from tessel.clauses.verbs import Verbs
from tessel.errors import InvalidInputError, NameNotFoundError
from tessel.errors.arguments import checks_arguments, refuses
from tessel.expression.schema import TableSchema
from tessel.pipeline.executor import Executor, LocalExecutor
from tessel.progress import operation
from tessel.store.repository import Repository

if TYPE_CHECKING:
    from tessel.store.operations.finalize import Mode
    from tessel.store.operations.incoming import Evolve

__all__ = ["ExecutorLike", "WritesResults", "named_executor"]

ExecutorLike = str | Executor

_EXECUTORS = ("local", "spark")


def named_executor(executor: ExecutorLike) -> Executor:
    """Return an executor that was asked for by name, or given.

    Raises
    ------
    NameNotFoundError
        For a name that no executor has.
    InvalidInputError
        For what is no executor.
    """
    if not isinstance(executor, str):
        if not callable(getattr(executor, "run", None)):
            raise InvalidInputError(
                f"{executor!r} is no executor", hint='give "local", "spark", or a SparkExecutor'
            )
        return executor
    if executor == "local":
        return LocalExecutor()
    if executor == "spark":
        from tessel.spark_exec import SparkExecutor

        return SparkExecutor()
    raise NameNotFoundError.for_name("executor", executor, _EXECUTORS)


@checks_arguments
class WritesResults(Repository):
    """The verbs that write rows, of tables and of queries alike."""

    if not TYPE_CHECKING:  # for those who try, as with other stores
        __enter__ = __exit__ = refuses(
            "a store holds nothing open, and is not closed",
            'store = ts.open(path); with store.transaction("...") as several: makes one commit',
        )
        __setitem__ = refuses("a store takes tables by verbs", '.write("trades", table)')
        __delitem__ = refuses("a store loses symbols by verbs", '.delete("trades")')

    def __deepcopy__(self, *_: object) -> Self:
        return self  # a handle: a copy would be one on the same rows

    __copy__ = __deepcopy__

    def write(
        self,
        symbol: str,
        data: Any,
        *,
        index: str | None = None,
        sort: bool = False,
        metadata: Mapping[str, Any] | None = None,
        encodings: Mapping[str, str] | None = None,
        executor: ExecutorLike = "local",
    ) -> int:
        """Write a table, or the result of a query, as a symbol; return the new version.

        A query may read the symbol that it replaces: it sees the version before.

        Parameters
        ----------
        symbol
            Its name, new or not.
        data
            A table of any kind that :mod:`tessel.store.frames` takes, or a lazy table.
        index
            The column that is the time index: a timestamp, date or integer that never goes back
            and has no missing values. By default that of the result of a query.
        sort
            Sort the rows by the index first; rows of equal times keep their order.
        metadata
            Plain JSON to keep with the symbol.
        encodings
            By column, the name of an encoding to use wherever it can hold a page, also of rows
            that come later; chosen page by page otherwise. For tables only.
        executor
            Who runs a query: ``"local"``, ``"spark"`` (tasks write what they computed), or one
            such as ``SparkExecutor(...)``.

        Raises
        ------
        InvalidInputError
            In one of its kinds, when the data cannot be taken; nothing was changed.
        CommitConflictError
            When another writer changed the symbol meanwhile; nothing was changed.
        TesselError
            Of the query.

        Examples
        --------
        >>> store.write("fees", {"symbol": ["AAPL", "MSFT"], "fee": [0.1, 0.2]})
        3
        >>> store.write("big", trades.filter("qty > 2"))
        4
        >>> store.read("big")["qty"].to_pylist()
        [3, 4]
        """
        if _is_query("write", symbol, data, executor, encodings=encodings):
            return self._write_result(
                "write", symbol, data, executor, index=index, sort=sort, metadata=metadata
            )
        return super().write(
            symbol, data, index=index, sort=sort, metadata=metadata, encodings=encodings
        )

    def append(
        self,
        symbol: str,
        data: Any,
        *,
        evolve: Evolve = None,
        executor: ExecutorLike = "local",
    ) -> int:
        """Add rows, of a table or of the result of a query, at the end of a symbol.

        The columns are those of the symbol, in any order, with the same types (a column of nulls
        without a type goes with any, and one that the symbol has without a type takes the one it is
        given). With an index, no row is before the last one of the symbol.

        A result has the columns of the symbol, or narrower types.

        Parameters
        ----------
        symbol
            Its name.
        data
            The rows, of a table or a lazy table.
        evolve
            ``"add"``: columns that the symbol lacks are added, missing in older rows. ``"widen"``:
            types are widened where that is lossless, of the symbol or of the rows. Or both.
            ``"flexible"``: both, columns that the rows lack are missing in them, and other types go
            to the common one, by storing the column anew where that does not hold every value.
        executor
            As for :meth:`write`.

        Raises
        ------
        SymbolNotFoundError
            When there is no such symbol.
        SchemaMismatchError
            When columns or types differ; lists all differences.
        UnsortedIndexError
            When the index goes back, in the data or below the last time of the symbol.

        Examples
        --------
        >>> store.append("names", {"symbol": ["NVDA"], "name": ["Nvidia"]})
        3
        """
        if _is_query("append", symbol, data, executor, evolve=evolve):
            return self._write_result("append", symbol, data, executor)
        return super().append(symbol, data, evolve=evolve)

    def update(
        self,
        symbol: str,
        data: Any,
        *,
        date_range: tuple[Any, Any] | None = None,
        evolve: Evolve = None,
        executor: ExecutorLike = "local",
    ) -> int:
        """Replace the rows in a range of times by those of a table, or of a query's result.

        Rows that stay are not rewritten, whatever segments they are in.

        The range of a result is that of its times.

        Parameters
        ----------
        symbol
            Its name; it has an index.
        data
            The rows, ordered by the index, of a table or a lazy table.
        date_range
            The range, both ends included: ISO text (a partial one means its whole period), dates,
            date-times, numbers for an index of integers, None for no bound. By default from the
            first to the last time of the rows.
        evolve
            As for :meth:`append`.
        executor
            As for :meth:`write`.

        Raises
        ------
        IndexColumnError
            When the symbol has no index.
        InvalidInputError
            When a row lies outside the range; without rows, when no range is given.

        Examples
        --------
        >>> late = trades.filter("qty == 3").apply("price", 10.5).collect()
        >>> store.update("trades", late)
        3
        >>> store.read("trades")["price"].to_pylist()
        [10.0, 20.0, 10.5, 21.0]
        """
        if _is_query("update", symbol, data, executor, date_range=date_range, evolve=evolve):
            return self._write_result("update", symbol, data, executor)
        return super().update(symbol, data, date_range=date_range, evolve=evolve)

    def upsert(
        self,
        symbol: str,
        data: Any,
        *,
        keys: Sequence[str],
        evolve: Evolve = None,
        executor: ExecutorLike = "local",
    ) -> int:
        """Replace rows by key and add those of new keys, of a table or of a query's result.

        A row takes the place of the one with its key; if its time is another one, it goes where
        its time is. Rows of new keys are merged by the index, after those of equal times, or go to
        the end where there is no index.

        The rows of a result are read into the memory of this process once it is computed:
        each may have a key of the symbol.

        Parameters
        ----------
        symbol
            Its name.
        data
            The rows, in any order, of a table or a lazy table.
        keys
            The columns that tell one row from another: equal in all of them, 0.0 and -0.0 too.
        evolve
            As for :meth:`append`.
        executor
            As for :meth:`write`.

        Raises
        ------
        InvalidInputError
            When a key is missing (null or NaN), or several rows have it, here or in the symbol.

        Examples
        --------
        >>> store.upsert("names", {"symbol": ["AAPL"], "name": ["Apple Inc."]}, keys=["symbol"])
        3
        >>> store.read("names")["name"].to_pylist()
        ['Apple Inc.', 'Microsoft']
        """
        if _is_query("upsert", symbol, data, executor, evolve=evolve):
            return self._write_result("upsert", symbol, data, executor, keys=keys)
        return super().upsert(symbol, data, keys=keys, evolve=evolve)

    def _write_result(
        self,
        verb: Mode,
        symbol: str,
        query: Any,
        executor: ExecutorLike,
        *,
        index: str | None = None,
        sort: bool = False,
        metadata: Mapping[str, Any] | None = None,
        keys: Sequence[str] | None = None,
    ) -> int:
        if not hasattr(query, "_planned_at"):
            raise InvalidInputError(
                "a QueryBuilder does not say which symbol it reads",
                hint=f"store.{verb}({symbol!r}, store.scan(source).then(*query.clauses))",
            )
        from tessel.pipeline.staging import Staging
        from tessel.store.names import check_symbol_name
        from tessel.store.operations.taking import take_staged

        check_symbol_name(symbol)
        chosen = named_executor(executor)
        with operation(verb, symbol), self.transaction(f"{verb} {symbol}") as transaction:
            with query._planned_at(self, transaction.base_version, chosen) as plan:
                if verb != "write":
                    index = self.view(symbol).schema.index
                elif index is None:
                    index = plan.schema.index
                schema = TableSchema(plan.schema.arrow, index)
                ordered = verb == "upsert" and schema.index is not None  # wherever the keys are
                staging = Staging(self, symbol, schema, sort or ordered)
                by_tasks = getattr(chosen, "staged", None)
                if by_tasks is None:
                    found = [staging.staged(chosen.run(plan), 0)]
                else:
                    found = by_tasks(plan, staging)
            staged = take_staged(self.id, symbol, found)
            transaction.finalize(symbol, staged, mode=verb, sort=sort, keys=keys, metadata=metadata)
        return transaction.landed


def _is_query(verb: str, symbol: str, data: Any, executor: ExecutorLike, **of_tables: Any) -> bool:
    """Return whether a query is written, or a table; refuse arguments that are of the other."""
    if not isinstance(data, Verbs):
        if not isinstance(executor, str) or executor != "local":
            raise InvalidInputError(
                f"executor={executor!r} is for results of queries; this is a table",
                hint="leave the executor out, or give a lazy table: store.scan(symbol)",
            )
        return False
    for name, value in of_tables.items():
        if value is not None:
            raise InvalidInputError(
                f"{name}= does not go with the result of a query, whose tasks stage it",
                hint=f"collect it first: store.{verb}({symbol!r}, lazy.collect(), {name}=…)",
            )
    return True
