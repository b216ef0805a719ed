"""Spark: trades asked through the Spark executor, beside Spark SQL on Parquet.

Times are whole microseconds, no two alike: Spark knows no finer ones. Starting a session takes many
times what a question does, so an engine answers all of them in one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.workloads import trades
from benchmarks.workloads.base import Query, Workload

_SECTORS = 11
_NS = 1_000


def make(rows: int) -> pa.Table:
    """Return trades at times that Spark can tell apart."""
    table = trades.make(rows)
    steps = np.arange(rows)
    times = table.column("ts").cast(pa.int64()).to_numpy() // _NS
    times = np.maximum.accumulate(times - steps) + steps
    return table.set_column(0, "ts", pa.array(times).cast(pa.timestamp("us", "UTC")))


def make_sectors(rows: int) -> pa.Table:
    """Return a sector for each symbol, whatever the rows."""
    numbers = range(trades.SYMBOLS)
    return pa.table(
        {
            "number": numbers,
            "symbol": [f"SYM{number:04d}" for number in numbers],
            "sector": [f"sector {number % _SECTORS}" for number in numbers],
        }
    )


def _query(
    name: str, question: str, build: Callable[[Any], Any], sql: str, key: tuple[str, ...] = ()
) -> Query:
    def tessel(tables: Any) -> Any:
        import tessel as ts

        return tables["spark"].read("spark", query=build(ts.QueryBuilder()))

    return Query(
        name,
        question,
        {
            "tessel": tessel,
            "tessel_spark": tessel,
            "spark_sql": lambda tables: tables["spark"].sql(sql),
        },
        key,
    )


WORKLOAD = Workload(
    name="spark",
    index="ts",
    make=make,
    rows=10_000_000,
    smoke_rows=20_000,
    others=(Workload("sectors", "number", make_sectors, 500, 500, ()),),
    together=True,
    queries=(
        _query(
            "spark-by-symbol",
            "by symbol: mean price, sum volume",
            lambda q: q.groupby("symbol").agg(price=("price", "mean"), volume=("volume", "sum")),
            "SELECT symbol, avg(price) AS price, sum(volume) AS volume FROM spark GROUP BY symbol",
            ("symbol",),
        ),
        _query(
            "spark-by-two",
            "by symbol and venue: largest price, rows",
            lambda q: q.groupby("symbol", "venue").agg(price=("price", "max"), rows="size"),
            "SELECT symbol, venue, max(price) AS price, count(*) AS rows FROM spark "
            "GROUP BY symbol, venue",
            ("symbol", "venue"),
        ),
        _query(
            "spark-filter",
            "price > 100 and volume < 50, all columns",
            lambda q: q.filter("price > 100 and volume < 50"),
            "SELECT * FROM spark WHERE price > 100 AND volume < 50",
            ("ts",),
        ),
        _query(
            "spark-notional",
            "volume < 2500, price * volume, sum by symbol",
            lambda q: (
                q.filter("volume < 2500")
                .apply("notional", "price * volume")
                .groupby("symbol")
                .agg(notional=("notional", "sum"))
            ),
            "SELECT symbol, sum(price * volume) AS notional FROM spark WHERE volume < 2500 "
            "GROUP BY symbol",
            ("symbol",),
        ),
        _query(
            "spark-resample",
            "1 minute: first, largest, least and last price",
            lambda q: q.resample("1min").agg(
                open=("price", "first"),
                high=("price", "max"),
                low=("price", "min"),
                close=("price", "last"),
            ),
            "SELECT date_trunc('minute', ts) AS ts, min_by(price, spark.ts) AS open, "
            "max(price) AS high, min(price) AS low, max_by(price, spark.ts) AS close "
            "FROM spark GROUP BY date_trunc('minute', ts)",
            ("ts",),
        ),
        _query(
            "spark-median",
            "by venue: median price",
            lambda q: q.groupby("venue").agg(price=("price", "median")),
            "SELECT venue, median(price) AS price FROM spark GROUP BY venue",
            ("venue",),
        ),
        _query(
            "spark-sectors",
            "sum of volume by sector, which stands in another table",
            lambda q: q.join("sectors", "symbol").groupby("sector").agg(volume=("volume", "sum")),
            "SELECT sector, sum(volume) AS volume FROM spark JOIN sectors USING (symbol) "
            "GROUP BY sector",
            ("sector",),
        ),
        _query(
            "spark-dearest",
            "the ten dearest trades",
            lambda q: q.sort("price", "ts", descending=[True, False]).head(10),
            "SELECT * FROM spark ORDER BY price DESC, ts LIMIT 10",
        ),
    ),
)
