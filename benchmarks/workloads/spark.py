"""Spark: trades asked through the Spark executor, beside Spark SQL on Parquet.

Times are whole microseconds, no two alike: Spark knows no finer ones. Starting a session takes many
times what a question does, so an engine answers all of them in one. Beside the columns of trades
there are an account (one of 100,000), an order (as many as two fifths of the rows) and a client,
where one has a tenth of all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.workloads import trades
from benchmarks.workloads.base import Query, Workload

_SECTORS = 11
_ACCOUNTS = 100_000
_NS = 1_000


def make(rows: int) -> pa.Table:
    """Return trades at times that Spark can tell apart."""
    table = trades.make(rows)
    steps = np.arange(rows)
    times = table.column("ts").cast(pa.int64()).to_numpy() // _NS
    times = np.maximum.accumulate(times - steps) + steps
    table = table.set_column(0, "ts", pa.array(times).cast(pa.timestamp("us", "UTC")))
    random = np.random.Generator(np.random.PCG64(trades.SEED + 1))
    clients = random.integers(1, _ACCOUNTS, rows)
    clients[random.random(rows) < 0.1] = 0
    table = table.append_column("account", pa.array(random.integers(0, _ACCOUNTS, rows)))
    table = table.append_column("order", pa.array(random.integers(0, max(1, rows * 2 // 5), rows)))
    return table.append_column("client", pa.array(clients))


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
            "spark-accounts",
            "by account, of 100,000: mean price, sum volume",
            lambda q: q.groupby("account").agg(price=("price", "mean"), volume=("volume", "sum")),
            "SELECT account, avg(price) AS price, sum(volume) AS volume FROM spark "
            "GROUP BY account",
            ("account",),
        ),
        _query(
            "spark-orders",
            "by order, 4 million of 10 million rows: sum volume",
            lambda q: q.groupby("order").agg(volume=("volume", "sum")),
            "SELECT order, sum(volume) AS volume FROM spark GROUP BY order",
            ("order",),
        ),
        _query(
            "spark-largest-orders",
            "the three largest orders",
            lambda q: (
                q.groupby("order")
                .agg(volume=("volume", "sum"))
                .sort("volume", "order", descending=[True, False])
                .head(3)
            ),
            "SELECT order, sum(volume) AS volume FROM spark GROUP BY order "
            "ORDER BY volume DESC, order LIMIT 3",
        ),
        _query(
            "spark-clients",
            "by client, one of whom has a tenth of the rows: median price",
            lambda q: q.groupby("client").agg(price=("price", "median")),
            "SELECT client, median(price) AS price FROM spark GROUP BY client",
            ("client",),
        ),
        _query(
            "spark-rolling",
            "by venue: the largest mean price of twenty rows of one symbol",
            lambda q: (
                q.rolling(20, by="symbol")
                .agg(mean=("price", "mean"))
                .groupby("venue")
                .agg(mean=("mean", "max"))
            ),
            "SELECT venue, max(mean) AS mean FROM (SELECT venue, CASE WHEN count(price) OVER w "
            "= 20 THEN avg(price) OVER w END AS mean FROM spark WINDOW w AS "
            "(PARTITION BY symbol ORDER BY ts ROWS 19 PRECEDING)) GROUP BY venue",
            ("venue",),
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
            "by symbol: median price",
            lambda q: q.groupby("symbol").agg(price=("price", "median")),
            "SELECT symbol, median(price) AS price FROM spark GROUP BY symbol",
            ("symbol",),
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
