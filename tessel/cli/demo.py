"""The main job on real data: import a year of flights, query it on two engines, compare.

:func:`run_demo` computes and yields what happened step by step; :class:`DemoReport` tells it, on a
terminal or into a log.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from functools import singledispatchmethod
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from tessel.cli.arguments import EngineName
from tessel.cli.flights import FLIGHTS_INDEX, read_flights
from tessel.cli.output_table import TableOutput, make_console
from tessel.compare import Difference, first_difference
from tessel.lazy import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

SYMBOL = "flights"

_SEGMENT_ROWS = 32_768
"""Smaller than the default, so that a year makes several segments and a query can skip some."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Imported:
    """The flights were read, sorted and committed."""

    store: str
    rows: int
    columns: int
    version: int
    read_seconds: float
    write_seconds: float


@dataclass(frozen=True, slots=True)
class QueryStarted:
    """The next query."""

    title: str


@dataclass(frozen=True, slots=True)
class Explained:
    """What ``explain`` says of the query."""

    text: str


@dataclass(frozen=True, slots=True)
class SparkStarted:
    """A Spark session of our own was started."""

    seconds: float
    master: str


@dataclass(frozen=True, slots=True)
class Ran:
    """The query ran on one engine."""

    engine: EngineName
    table: pa.Table
    seconds: float
    show_rows: bool


@dataclass(frozen=True, slots=True)
class Compared:
    """The answers of both engines were compared; no difference means equal, row for row."""

    rows: int
    difference: Difference | None


DemoStep = Imported | QueryStarted | Explained | SparkStarted | Ran | Compared


def delays_query() -> Any:
    """Return the query of several clauses: late departures of four carriers in a quarter."""
    import tessel as ts

    return (
        ts.QueryBuilder()
        .date_range("2013-01-01", "2013-03-31")
        .filter("dep_delay > 15 and carrier in ('UA', 'AA', 'DL', 'B6')")
        .apply("gained", ts.col("dep_delay") - ts.col("arr_delay"))
        .select("carrier", "origin", "dep_delay", "gained")
        .groupby("carrier", "origin")
        .agg(
            flights=("dep_delay", "count"),
            mean_delay=("dep_delay", "mean"),
            worst_delay=("dep_delay", "max"),
            median_gained=("gained", "median"),
            total_gained=("gained", "sum"),
        )
    )


def daily_query() -> Any:
    """Return the daily resample: departures, delays and miles of every day."""
    import tessel as ts

    return (
        ts.QueryBuilder()
        .resample("1D")
        .agg(
            flights=("flight", "count"),
            departed=("dep_delay", "count"),
            mean_delay=("dep_delay", "mean"),
            worst_delay=("dep_delay", "max"),
            miles=("distance", "sum"),
        )
    )


_QUERIES: tuple[tuple[str, Callable[[], Any]], ...] = (
    ("Late departures of four carriers in the first quarter", delays_query),
    ("Every day of the year", daily_query),
)


def _timed(work: Callable[[], _Value]) -> tuple[_Value, float]:
    start = time.perf_counter()
    value = work()
    return value, time.perf_counter() - start


def _import_flights(store: Any, uri: str) -> Imported:
    from tessel.options import options

    table, read_seconds = _timed(read_flights)
    with options(segment_rows=_SEGMENT_ROWS):
        version, write_seconds = _timed(
            lambda: store.write(SYMBOL, table, index=FLIGHTS_INDEX, sort=True)
        )
    return Imported(uri, table.num_rows, table.num_columns, version, read_seconds, write_seconds)


def _start_spark() -> SparkStarted:
    # Started apart, so that its ten seconds are not taken for those of the first query.
    from tessel.options import current
    from tessel.spark_exec import spark_session

    _, seconds = _timed(spark_session)
    return SparkStarted(seconds, current().spark_master)


def _answer(store: Any, query: Any, engine: EngineName) -> pa.Table:
    return store.read(SYMBOL, query=query, executor=engine.value).to_arrow()


def run_demo(uri: str, engines: Sequence[EngineName]) -> Iterator[DemoStep]:
    """Run the main job.

    Parameters
    ----------
    uri
        Where the store is, or is made. A store that is there gets one more version.
    engines
        One engine, or both: then the answers are compared.

    Yields
    ------
    DemoStep
        What happened, as soon as it has.

    Raises
    ------
    MissingDependencyError
        Where the package of flights, or pyspark, is not installed.
    JavaNotFoundError
        Where Spark is asked for and there is no Java runtime.
    """
    import tessel as ts

    store = ts.open(uri)
    yield _import_flights(store, uri)
    if EngineName.SPARK in engines:
        yield _start_spark()
    for title, build in _QUERIES:
        query = build()
        yield QueryStarted(title)
        yield Explained(str(store.explain(SYMBOL, query)))
        answers: list[pa.Table] = []
        for engine in engines:
            answer, seconds = _timed(functools.partial(_answer, store, query, engine))
            answers.append(answer)
            yield Ran(engine, answer, seconds, show_rows=len(answers) == 1)
        if len(answers) == 2:
            yield Compared(answers[0].num_rows, first_difference(*answers))


_ENGINES = {EngineName.LOCAL: "on the local pool", EngineName.SPARK: "as a Spark job"}


class DemoReport:
    """Prints steps as they come, and remembers whether all answers were equal.

    Attributes
    ----------
    all_equal
        False as soon as one comparison found a difference.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or make_console()
        self._tables = TableOutput(self._console)
        self.all_equal = True

    @singledispatchmethod
    def show(self, step: DemoStep) -> None:
        """Print one step."""
        raise TypeError(f"no step of the demo: {step!r}")

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)

    @show.register
    def _(self, step: Imported) -> None:
        self._line("Tessel: departures from New York in 2013", "bold")
        self._line(
            f"read      {step.rows:,} rows × {step.columns} columns of CSV in "
            f"{step.read_seconds:.2f} s"
        )
        self._line(
            f"wrote     {SYMBOL!r}, sorted by time, to {step.store} as version {step.version} in "
            f"{step.write_seconds:.2f} s"
        )

    @show.register
    def _(self, step: SparkStarted) -> None:
        self._line(f"started   Spark on {step.master} in {step.seconds:.1f} s")

    @show.register
    def _(self, step: QueryStarted) -> None:
        self._line("")
        self._console.print(Rule(Text(step.title, style="bold"), align="left", characters="─"))

    @show.register
    def _(self, step: Explained) -> None:
        self._line("")
        self._line(step.text)

    @show.register
    def _(self, step: Ran) -> None:
        self._line("")
        if step.show_rows:
            self._tables.table(step.table)
        self._line(
            f"{_ENGINES[step.engine]}: {step.table.num_rows:,} rows in {step.seconds:.3f} s", "bold"
        )

    @show.register
    def _(self, step: Compared) -> None:
        if step.difference is None:
            self._line(f"equal: all {step.rows:,} rows, in the same order", "bold green")
            return
        self.all_equal = False
        self._line(f"DIFFERENT, first at {step.difference}", "bold red")
