"""What every clause promises, checked: the suite that an author runs against a clause of their own.

::

    def test_z_score():
        check_clause(lambda: ZScore("price"), table, index="t")

A failed check raises ``AssertionError`` with the name of the check, the clause and what differed.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tessel.api import Store, open_store
from tessel.arrays import concat_tables
from tessel.clauses.base import Clause, Structure
from tessel.clauses.builder import QueryBuilder
from tessel.clauses.capabilities import Carries, Consumes
from tessel.clauses.index_values import index_integers
from tessel.compare import bits
from tessel.ecs import Piece, ProcessingUnit
from tessel.ecs.piece import ColRange, RowRange, TimeRange
from tessel.errors import TesselError
from tessel.expression.build import col
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.options import Options, options
from tessel.pipeline.carrying import carries_between
from tessel.pipeline.executor import Executor, LocalExecutor
from tessel.pipeline.plan import Stage
from tessel.pipeline.stage import run_between, summarise
from tessel.spark_exec.plugins import kinds_of, received_components, sent_components

__all__ = ["CHECKS", "ClauseCase", "check_clause", "nan_as_null", "on_executor"]

MakeClause = Callable[[], Clause | Sequence[Clause]]
RunQuery = Callable[[Store, str, QueryBuilder], pa.Table]
_numbers = itertools.count()


@dataclass(frozen=True)
class ClauseCase:
    """A clause and the data it is tried on.

    Attributes
    ----------
    make_clause
        Makes the clause, or several that go together (a ``partition`` and its ``aggregation``);
        called anew for each check.
    table, index
        Rows that it means something for, ordered by the index if there is one.
    executors
        Others than the local pool, which must give the same: see :func:`check_clause`.
    """

    make_clause: MakeClause
    table: pa.Table
    index: str | None = None
    executors: tuple[RunQuery, ...] = ()

    def query(self) -> QueryBuilder:
        """Return the query that is the clause."""
        made = self.make_clause()
        return QueryBuilder().then(*([made] if isinstance(made, Clause) else made))

    def answer(self, table: pa.Table, *, rows: int, columns: int = 256) -> pa.Table:
        """Return the clause's answer on a table that is stored in segments of this size."""
        store = self.stored(table, rows=rows, columns=columns)
        return store.read("symbol", query=self.query()).to_arrow().replace_schema_metadata()

    def promised(self, table: pa.Table) -> pa.Schema:
        """Return the columns that are promised for a table; those of several symbols by a store."""
        if _of_several_symbols(self):
            store = self.stored(table, rows=max(1, table.num_rows))
            return store.schema("symbol", self.query()).arrow
        return self.query().schema(TableSchema(_plain_schema(table), self.index)).arrow

    @property
    def schema(self) -> TableSchema:
        """The columns of the table."""
        return TableSchema(_plain_schema(self.table), self.index)

    def stored(self, table: pa.Table, *, rows: int, columns: int = 256) -> Store:
        """Return a store whose symbol ``"symbol"`` holds a table in segments of this size."""
        store = open_store(f"memory://conformance-{next(_numbers)}")
        with options(segment_rows=rows, segment_columns=columns):
            store.write("symbol", table, index=self.index)
        return store


def check_clause(
    make_clause: MakeClause,
    table: pa.Table,
    *,
    index: str | None = None,
    executors: Sequence[RunQuery] = (),
) -> None:
    """Check that a clause keeps what every clause promises.

    Parameters
    ----------
    make_clause
        Makes the clause; called anew for each check. It may return several that go together.
    table
        Rows that the clause means something for: a few dozen, with missing values among them.
    index
        Name of the time index; ``table`` is ordered by it.
    executors
        Callables ``(store, symbol, query) -> table`` that must give the answer of the local pool.
        With Spark: ``[on_executor(SparkExecutor(session), folder)]``, see :func:`on_executor`.

    Raises
    ------
    AssertionError
        For the first check that fails, with its name.
    """
    case = ClauseCase(make_clause, table, index, tuple(executors))
    for name, check in CHECKS.items():
        try:
            check(case)
        except (AssertionError, TesselError) as error:
            shown = ", ".join(clause.describe() for clause in case.query().clauses)
            raise AssertionError(f"{name}: {shown}: {error}") from error


def on_executor(executor: Executor, folder: str | Path) -> RunQuery:
    """Return what runs a query on another executor, for ``check_clause(executors=[...])``.

    Parameters
    ----------
    executor
        For instance a ``SparkExecutor(session)``, whose workers must be able to import the module
        of the clause.
    folder
        A directory that its workers see; the rows, which a check keeps in memory, are written
        there.
    """

    def run(store: Store, symbol: str, query: QueryBuilder) -> pa.Table:
        index = store.view(symbol).schema.index
        copy = open_store(f"{folder}/{next(_numbers)}")
        with options(segment_rows=3, segment_columns=2):
            copy.write(symbol, store.read(symbol).to_arrow(), index=index)
        return copy.read(symbol, query=query, executor=executor).to_arrow()

    return run


# --- the checks -----------------------------------------------------------------------------------


def _schema_promise(case: ClauseCase) -> None:
    """Check that what comes out has the columns that ``output_schema`` said."""
    promised = case.promised(case.table)
    found = case.answer(case.table, rows=max(1, case.table.num_rows))
    _equal(found.schema, promised, "the schema")


def _empty_input(case: ClauseCase) -> None:
    """Check that no rows are an input like others: no error, and the promised columns."""
    promised = case.promised(case.table.slice(0, 0))
    found = case.answer(case.table.slice(0, 0), rows=1)
    _equal(found.schema, promised, "the schema of nothing")


def _any_split(case: ClauseCase) -> None:
    """Check that the answer does not depend on how rows and columns are cut into segments."""
    whole = case.answer(case.table, rows=max(1, case.table.num_rows))
    for rows, columns in ((1, 256), (2, 1), (3, 2), (7, 256)):
        found = case.answer(case.table, rows=rows, columns=columns)
        _same(found, whole, f"the answer on segments of {rows} rows and {columns} columns")


def _any_place(case: ClauseCase) -> None:
    """Check that the answer does not depend on the place of the clause in a query.

    It is put behind others that let all rows pass, whose units it has to group, on every executor.
    """
    first = case.table.column_names[0]
    every_row = QueryBuilder().filter(col(first).is_missing() | ~col(first).is_missing())
    places = {"a filter": every_row, "a limit": every_row.head(case.table.num_rows)}
    if case.index is not None:
        places["a merge"] = every_row.merge(on=case.index)
    whole = case.answer(case.table, rows=max(1, case.table.num_rows))
    store = case.stored(case.table, rows=3, columns=2)
    for executor in (_read, *case.executors):
        for name, before in places.items():
            found = executor(store, "symbol", before.then(*case.query().clauses))
            _same(found, whole, f"the answer behind {name} that lets all rows pass")


def _read(store: Store, symbol: str, query: QueryBuilder) -> pa.Table:
    return store.read(symbol, query=query).to_arrow()


def _any_workers(case: ClauseCase) -> None:
    """Check that it does not depend on the number of threads or of bytes alive either."""
    store = case.stored(case.table, rows=2)
    answers = []
    for workers, live_bytes in ((1, 1 << 28), (2, 1 << 28), (4, 1)):
        with options(workers=workers, live_bytes=live_bytes, inline_bytes=0, hash_bucket_bytes=64):
            answers.append(store.read("symbol", query=case.query()).to_arrow())
    for found in answers[1:]:
        _same(found, answers[0], "the answer of several threads")


def _missing_values(case: ClauseCase) -> None:
    """Check that missing values are no error, and that null and NaN are one."""
    nulls, nans = case.table, case.table
    for at, column in enumerate(case.table.schema):
        if column.name == case.index:
            continue
        nulls = nulls.set_column(at, column, pa.nulls(nulls.num_rows, column.type))
        is_float = pa.types.is_floating(column.type)
        value = pa.scalar(float("nan") if is_float else None, column.type)
        nans = nans.set_column(at, column, pa.array([value] * nans.num_rows, column.type))
    of_nulls, of_nans = (nan_as_null(case.answer(each, rows=3)) for each in (nulls, nans))
    _same(of_nans, of_nulls, "the answer for NaN instead of null")


def nan_as_null(table: pa.Table) -> pa.Table:
    """Make every NaN a null: DuckDB, Polars and Arrow count NaN as a value, we as missing."""
    for at, column in enumerate(table.columns):
        if pa.types.is_floating(column.type):
            is_nan = pc.fill_null(pc.is_nan(column), False)
            changed = pc.if_else(is_nan, pa.scalar(None, column.type), column)
            table = table.set_column(at, table.schema.field(at), changed)
    return table


def _round_trip(case: ClauseCase) -> None:
    """Check that the plain form is JSON, and says all there is to say."""
    query = case.query()
    text = json.dumps(query.to_json())
    again = QueryBuilder.from_json(text)
    _equal(again, query, "the query from its JSON form")
    _equal(json.dumps(again.to_json()), text, "the JSON form of the query from its JSON form")
    _equal(hash(again), hash(query), "the hash")
    _equal(case.query(), query, "the query made again")
    store = case.stored(case.table, rows=3)
    written, read = (store.read("symbol", query=each).to_arrow() for each in (query, again))
    _same(read, written, "the answer from the JSON form")


def _purity(case: ClauseCase) -> None:
    """Check that ``process`` gives one unit one answer, and leaves the unit as it was."""
    clause = case.query().clauses[0]
    unit = _unit(case)
    before = [bits(column) for column in unit.table.columns]
    if clause.structure.input is Structure.MULTI_SYMBOL:
        return
    first, second = clause.process(unit), clause.process(unit)
    _same(second.table, first.table, "the second answer for one unit")
    _equal([bits(column) for column in unit.table.columns], before, "the unit after process")


def _declared(case: ClauseCase) -> None:
    """Check what the clause declares of itself: the columns it reads, the rows it keeps."""
    schema = case.schema
    for clause in case.query().clauses:
        info = clause.structure
        if info.input is Structure.MULTI_SYMBOL:
            break  # what comes out depends on the other symbols
        if info.columns is not None:
            schema.require(info.columns, where=f"what {clause.name} declares to read")
            narrow = [n for n in schema.names if n in info.columns or n == schema.index]
            if narrow:  # it can do without all other columns
                clause.output_schema(schema.select(narrow))
        after = clause.output_schema(schema)
        if info.keeps_count:
            _equal(clause.process(_unit(case)).num_rows, case.table.num_rows, "the number of rows")
            break
        schema = after


def _facts(case: ClauseCase) -> None:
    """Check that the times of the rows that come out lie where their pieces say.

    Clauses over time buckets go by what pieces say; rows elsewhere would be lost to them.
    """
    (clause, *others) = case.query().clauses
    if others or case.index is None or clause.structure.input is Structure.MULTI_SYMBOL:
        return
    units = _units(case, 3)
    if isinstance(clause, Consumes):
        found = list(clause.consume(units, case.schema))
    elif clause.structure.input is Structure.ROW_SLICE:
        found = [clause.process(unit) for unit in units]
    else:
        found = [clause.process(_unit(case))]
    for unit in found:
        if unit.schema.index is None:
            continue
        for piece in unit.pieces:
            if piece.time_range is None or unit.schema.index not in piece.table.column_names:
                continue
            own = ProcessingUnit(0, TableSchema(piece.table.schema, unit.schema.index), [piece])
            times = index_integers(own)
            bounds = piece.time_range
            if len(times) and not bounds.first <= times[0] <= times[-1] <= bounds.last:
                raise AssertionError(
                    f"rows from {times[0]} to {times[-1]} in a piece that says {bounds}; "
                    "with_times_of_index(unit) says it anew"
                )


def _carries(case: ClauseCase) -> None:
    """Check that what a clause carries makes up for any cut, however it was combined."""
    (clause, *others) = case.query().clauses
    info = clause.structure
    if info.carries is None:
        return
    _equal((info.input, info.output), (Structure.ROW_SLICE,) * 2, "the structure of what carries")
    _equal(isinstance(clause, Carries), True, "whether it has the methods of Carries")
    if others:
        return
    schema = case.schema
    stage = Stage((clause,), (schema, clause.output_schema(schema)))
    whole = clause.process(_unit(case)).table
    for step in (1, 3, max(1, case.table.num_rows - 1)):
        units = _units(case, step)
        units.insert(len(units) // 2, ProcessingUnit(0, schema))  # as a filter may leave one
        summaries = ((unit, summarise(stage, unit)) for unit in units)
        parts = [
            run_between(stage, unit, between.before, between.after).table
            for unit, between in carries_between(stage, summaries)
        ]
        found = concat_tables(parts) if parts else whole
        _same(found, whole, f"the answer of units of {step} rows and what they carry")


@dataclass(frozen=True)
class _Mark:
    """A component that a unit has before a clause sees it."""


def _components(case: ClauseCase) -> None:
    """Check that rows keep the components that they have, and that others get the clause's own.

    What a clause attaches comes back from its plain form as it was.
    """
    (clause, *others) = case.query().clauses
    if others or clause.structure.input is Structure.MULTI_SYMBOL:
        return
    found = clause.process(_unit(case).with_component(_Mark()))
    if clause.structure.keeps_slices:
        _equal(found.component(_Mark), _Mark(), "the component of the unit, after process")
    own = tuple(each for each in found.attached if not isinstance(each, _Mark))
    again = received_components(sent_components(own), kinds_of([type(clause)]))
    _equal(again, own, "the components from their JSON form")


def _executors(case: ClauseCase) -> None:
    """Check that other executors give the answer of the local pool."""
    store = case.stored(case.table, rows=3, columns=2)
    local = store.read("symbol", query=case.query(), executor=_LOCAL).to_arrow()
    for run in case.executors:
        _same(run(store, "symbol", case.query()), local, "the answer of another executor")


_LOCAL: Executor = LocalExecutor(Options(workers=1))

CHECKS: dict[str, Callable[[ClauseCase], None]] = {
    "schema promise": _schema_promise,
    "empty input": _empty_input,
    "any split": _any_split,
    "any workers": _any_workers,
    "missing values": _missing_values,
    "carries": _carries,
    "JSON round trip": _round_trip,
    "purity": _purity,
    "what is declared": _declared,
    "times of pieces": _facts,
    "components": _components,
    "other executors": _executors,
    "any place": _any_place,
}
"""The checks by name, in the order in which they run; each raises ``AssertionError``."""


# --- inside ---------------------------------------------------------------------------------------


def _of_several_symbols(case: ClauseCase) -> bool:
    clauses = case.query().clauses
    return any(clause.structure.input is Structure.MULTI_SYMBOL for clause in clauses)


def _unit(case: ClauseCase) -> ProcessingUnit:
    """Return the whole table as one unit of two pieces, one below the other."""
    half = case.table.num_rows // 2
    pieces = [*_pieces(case, 0, half), *_pieces(case, half, case.table.num_rows)]
    return ProcessingUnit(0, case.schema, pieces)


def _units(case: ClauseCase, step: int) -> list[ProcessingUnit]:
    """Return the table as units of one piece, of so many rows each."""
    rows = case.table.num_rows
    return [
        ProcessingUnit(at, case.schema, _pieces(case, start, min(start + step, rows)))
        for at, start in enumerate(range(0, rows, step))
    ]


def _pieces(case: ClauseCase, start: int, stop: int) -> Iterator[Piece]:
    """Give some rows of the table as a piece, where there are any."""
    if start < stop:
        table = case.table.slice(start, stop - start).cast(case.schema.arrow)
        times = None
        if case.index is not None:
            ends = table.column(case.index)
            times = TimeRange(ends[0].value, ends[-1].value)
        yield Piece(table, RowRange(start, stop), ColRange(0, table.num_columns), times)


def _plain_schema(table: pa.Table) -> pa.Schema:
    return pa.schema([(column.name, column.type) for column in table.schema])


def _equal(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise AssertionError(f"{what} is\n{found}\nand not\n{expected}")


def _same(found: pa.Table, expected: pa.Table, what: str) -> None:
    _equal(_plain_schema(found), _plain_schema(expected), f"the schema of {what}")
    for name in expected.column_names:
        _equal(bits(found.column(name)), bits(expected.column(name)), f"column {name!r} of {what}")
