"""Windows: 2 million trades, and of each row what follows from those before it.

Cumulative, shifted, filled, fading and ranked columns, and windows of rows and of time; each of all
rows, and a few of those of the same symbol. The table is that of ``ordered``, shorter: whoever asks
often for a column of this kind asks it of so many rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.workloads import ordered
from benchmarks.workloads.base import Query, Workload

Tessel = Callable[[Any], Any]


def _query(
    name: str,
    question: str,
    reads: tuple[str, ...],
    tessel: Tessel,
    polars: Callable[[Any], Any],
    sql: str | None,
) -> Query:
    """Return a question whose answer is one column.

    Parameters
    ----------
    name, question
        As of the query.
    reads
        The columns that Tessel's query is told to read.
    tessel
        Adds the column ``found`` to a query.
    polars
        Gives the column, from the module of Polars.
    sql
        Gives it, with windows named ``so_far``, ``twenty`` and ``hundred`` of rows up to each, and
        ``of_symbol`` and ``twenty_of_symbol``; None where the database has no such window, or only
        one of microseconds.
    """

    def in_tessel(store: Any) -> Any:
        import tessel as ts

        query = tessel(ts.QueryBuilder().select(*reads)).select("found")
        return store.read("windows", query=query)

    def in_polars(frame: Any) -> Any:
        import polars as pl

        return frame.select(found=polars(pl))

    answers: dict[str, Callable[[Any], Any]] = {
        "tessel": in_tessel,
        "polars": in_polars,
    }
    if sql is not None:
        statement = (
            f"SELECT {sql} AS found FROM windows WINDOW so_far AS (ORDER BY ts ROWS UNBOUNDED "
            "PRECEDING), of_symbol AS (PARTITION BY symbol ORDER BY ts ROWS UNBOUNDED PRECEDING), "
            "twenty AS (ORDER BY ts ROWS 19 PRECEDING), twenty_of_symbol AS "
            "(PARTITION BY symbol ORDER BY ts ROWS 19 PRECEDING), "
            "hundred AS (ORDER BY ts ROWS 99 PRECEDING) ORDER BY ts"
        )
        answers["duckdb"] = lambda connection: connection.sql(statement)
    return Query(name, question, answers)


def _of_twenty(window: str) -> str:
    """Return the mean price of a window once it has twenty rows."""
    return f"CASE WHEN count(*) OVER {window} = 20 THEN avg(price) OVER {window} END"


WORKLOAD = Workload(
    name="windows",
    index="ts",
    make=ordered.make,
    rows=2_000_000,
    smoke_rows=20_000,
    queries=(
        _query(
            "cum-sum-integers",
            "sum of volume as far as each row",
            ("volume",),
            lambda q: q.cum_sum({"found": "volume"}),
            lambda pl: pl.col("volume").cum_sum(),
            "sum(volume) OVER so_far",
        ),
        _query(
            "cum-sum-floats",
            "sum of price as far as each row",
            ("price",),
            lambda q: q.cum_sum({"found": "price"}),
            lambda pl: pl.col("price").cum_sum(),
            "sum(price) OVER so_far",
        ),
        _query(
            "cum-max",
            "greatest price as far as each row",
            ("price",),
            lambda q: q.cum_max({"found": "price"}),
            lambda pl: pl.col("price").cum_max(),
            "max(price) OVER so_far",
        ),
        _query(
            "cum-count",
            "how many quotes there were as far as each row",
            ("quote",),
            lambda q: q.cum_count({"found": "quote"}),
            lambda pl: pl.col("quote").cum_count(),
            "count(quote) OVER so_far",
        ),
        _query(
            "shift",
            "the price of the row before",
            ("price",),
            lambda q: q.shift({"found": "price"}),
            lambda pl: pl.col("price").shift(1),
            "lag(price) OVER (ORDER BY ts)",
        ),
        _query(
            "diff",
            "by how much the price changed",
            ("price",),
            lambda q: q.diff({"found": "price"}),
            lambda pl: pl.col("price").diff(),
            "price - lag(price) OVER (ORDER BY ts)",
        ),
        _query(
            "pct-change",
            "by which part the price changed",
            ("price",),
            lambda q: q.pct_change({"found": "price"}),
            lambda pl: pl.col("price").pct_change(),
            "price / lag(price) OVER (ORDER BY ts) - 1",
        ),
        _query(
            "rolling-mean",
            "mean price of twenty rows",
            ("price",),
            lambda q: q.rolling(20).agg(found=("price", "mean")),
            lambda pl: pl.col("price").rolling_mean(20),
            _of_twenty("twenty"),
        ),
        _query(
            "rolling-max",
            "greatest price of a hundred rows",
            ("price",),
            lambda q: q.rolling(100).agg(found=("price", "max")),
            lambda pl: pl.col("price").rolling_max(100),
            "CASE WHEN count(*) OVER hundred = 100 THEN max(price) OVER hundred END",
        ),
        _query(
            "rolling-std-minute",
            "how far the prices of a minute spread",
            ("ts", "price"),
            lambda q: q.rolling("1min").agg(found=("price", "std")),
            lambda pl: pl.col("price").rolling_std_by("ts", "1m", min_samples=2),
            None,
        ),
        _query(
            "fill",
            "the last quote there was",
            ("quote",),
            lambda q: q.fill({"found": "quote"}),
            lambda pl: pl.col("quote").forward_fill(),
            "last_value(quote IGNORE NULLS) OVER so_far",
        ),
        _query(
            "ewm",
            "fading mean of price",
            ("price",),
            lambda q: q.ewm(alpha=0.1).agg(found=("price", "mean")),
            lambda pl: pl.col("price").ewm_mean(alpha=0.1),
            None,
        ),
        _query(
            "rank",
            "the rank of each price",
            ("price",),
            lambda q: q.rank({"found": "price"}, "min"),
            lambda pl: pl.col("price").rank("min"),
            "rank() OVER (ORDER BY price)",
        ),
        _query(
            "cum-sum-by-symbol",
            "sum of volume as far as each row, by symbol",
            ("symbol", "volume"),
            lambda q: q.cum_sum({"found": "volume"}, by="symbol"),
            lambda pl: pl.col("volume").cum_sum().over("symbol"),
            "sum(volume) OVER of_symbol",
        ),
        _query(
            "rolling-mean-by-symbol",
            "mean price of twenty rows of the same symbol",
            ("symbol", "price"),
            lambda q: q.rolling(20, by="symbol").agg(found=("price", "mean")),
            lambda pl: pl.col("price").rolling_mean(20).over("symbol"),
            _of_twenty("twenty_of_symbol"),
        ),
        _query(
            "shift-by-symbol",
            "the price of the row before of the same symbol",
            ("symbol", "price"),
            lambda q: q.shift({"found": "price"}, by="symbol"),
            lambda pl: pl.col("price").shift(1).over("symbol"),
            "lag(price) OVER (PARTITION BY symbol ORDER BY ts)",
        ),
    ),
)
