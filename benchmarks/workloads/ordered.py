"""Rows in an order, on the trades: sorts, ranks, and what looks at the rows around each row.

Of ``quote``, the price, every tenth value or so is missing, so that there is something to fill.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.workloads import trades
from benchmarks.workloads.base import Query, Workload

_MISSING_SHARE = 0.1
_SEED = 7
_COLUMNS = ["ts", "symbol", "price", "volume", "venue"]

Question = Callable[[Any], Any]


def make(rows: int) -> pa.Table:
    """Return the first trades of the seed's world, and their prices with gaps."""
    table = trades.make(rows).select(_COLUMNS)
    gaps = np.random.Generator(np.random.PCG64(_SEED)).random(rows) < _MISSING_SHARE
    return table.append_column("quote", pa.array(table["price"].to_numpy(), mask=gaps))


def _query(
    name: str,
    question: str,
    tessel: Question,
    *,
    polars: Callable[[Any, Any], Any] | None = None,
    sql: str | None = None,
    pandas: Question | None = None,
    reads: tuple[str, ...] = (),
    key: tuple[str, ...] = (),
) -> Query:
    """Return a question; ``pandas`` gets a frame of the columns that are named by ``reads``."""

    def read(store: Any) -> Any:
        import tessel as ts

        return store.read("ordered", query=tessel(ts.QueryBuilder()))

    answers: dict[str, Callable[[Any], Any]] = {"tessel": read}
    if sql is not None:
        answers["duckdb"] = lambda connection: connection.sql(sql)
    if polars is not None:

        def frame(found: Any) -> Any:
            import polars as pl

            return polars(found, pl)

        answers["polars"] = frame
    if pandas is not None:

        def in_pandas(file: Any) -> Any:
            import pandas as pd

            return pandas(pd.read_parquet(file, columns=list(reads)))

        answers["pandas"] = in_pandas
    return Query(name, question, answers, key=key)


_SORTS = (
    _query(
        "sort-number",
        "symbol and price by price",
        lambda q: q.select("symbol", "price").sort("price"),
        polars=lambda f, pl: f.select("symbol", "price").sort("price"),
        sql="SELECT symbol, price FROM ordered ORDER BY price",
        pandas=lambda f: f.sort_values("price"),
        reads=("symbol", "price"),
        key=("price", "symbol"),
    ),
    _query(
        "sort-two",
        "symbol, volume and price by symbol, then by volume downwards",
        lambda q: q.select("symbol", "volume", "price").sort(
            "symbol", "volume", descending=[False, True]
        ),
        polars=lambda f, pl: f.select("symbol", "volume", "price").sort(
            "symbol", "volume", descending=[False, True]
        ),
        sql="SELECT symbol, volume, price FROM ordered ORDER BY symbol, volume DESC",
        pandas=lambda f: f.sort_values(["symbol", "volume"], ascending=[True, False]),
        reads=("symbol", "volume", "price"),
        key=("symbol", "volume", "price"),
    ),
    _query(
        "sort-text",
        "symbol and price by symbol",
        lambda q: q.select("symbol", "price").sort("symbol"),
        polars=lambda f, pl: f.select("symbol", "price").sort("symbol"),
        sql="SELECT symbol, price FROM ordered ORDER BY symbol",
        pandas=lambda f: f.sort_values("symbol"),
        reads=("symbol", "price"),
        key=("symbol", "price"),
    ),
    _query(
        "sort-head",
        "the thousand greatest volumes, then prices: both",
        lambda q: q.select("volume", "price").sort("volume", "price", descending=True).head(1000),
        polars=lambda f, pl: (
            f.select("volume", "price").sort("volume", "price", descending=True).head(1000)
        ),
        sql="SELECT volume, price FROM ordered ORDER BY volume DESC, price DESC LIMIT 1000",
        pandas=lambda f: f.sort_values(["volume", "price"], ascending=False).head(1000),
        reads=("volume", "price"),
    ),
    _query(
        "sort-tail",
        "the thousand greatest volumes, then prices, the greatest last",
        lambda q: q.select("volume", "price").sort("volume", "price").tail(1000),
        polars=lambda f, pl: f.select("volume", "price").sort("volume", "price").tail(1000),
        sql="SELECT * FROM (SELECT volume, price FROM ordered ORDER BY volume DESC, price DESC "
        "LIMIT 1000) ORDER BY volume, price",
        pandas=lambda f: f.sort_values(["volume", "price"]).tail(1000),
        reads=("volume", "price"),
    ),
    _query(
        "rank",
        "the rank of each price",
        lambda q: q.select("price").rank({"place": "price"}, "min").select("place"),
        polars=lambda f, pl: f.select(place=pl.col("price").rank("min")),
        sql="SELECT place FROM (SELECT ts, rank() OVER (ORDER BY price) AS place FROM ordered) "
        "ORDER BY ts",
        pandas=lambda f: f.rank(method="min").rename(columns={"price": "place"}),
        reads=("price",),
    ),
    _query(
        "rank-by",
        "the rank of each price among those of its symbol",
        lambda q: (
            q.select("symbol", "price").rank({"place": "price"}, "min", by="symbol").select("place")
        ),
        polars=lambda f, pl: f.select(place=pl.col("price").rank("min").over("symbol")),
        reads=("symbol", "price"),
        pandas=lambda f: (
            f.groupby("symbol")[["price"]].rank(method="min").rename(columns={"price": "place"})
        ),
    ),
    _query(
        "value-counts",
        "how often each symbol occurs",
        lambda q: q.value_counts("symbol", output="rows"),
        polars=lambda f, pl: f.group_by("symbol").agg(rows=pl.len().cast(pl.Int64)),
        sql="SELECT symbol, count(*) AS rows FROM ordered GROUP BY symbol",
        pandas=lambda f: f["symbol"].value_counts().rename("rows").reset_index(),
        reads=("symbol",),
        key=("symbol",),
    ),
    _query(
        "quantiles",
        "by symbol: three quantiles of price",
        lambda q: q.groupby("symbol").agg(
            low="quantile(price, 0.05)", middle=("price", "median"), high="quantile(price, 0.95)"
        ),
        polars=lambda f, pl: f.group_by("symbol").agg(
            low=pl.col("price").quantile(0.05, "linear"),
            middle=pl.col("price").median(),
            high=pl.col("price").quantile(0.95, "linear"),
        ),
        sql="SELECT symbol, quantile_cont(price, 0.05) AS low, median(price) AS middle, "
        "quantile_cont(price, 0.95) AS high FROM ordered GROUP BY symbol",
        key=("symbol",),
    ),
)

_WINDOWS = (
    _query(
        "rolling",
        "mean price of twenty rows",
        lambda q: q.select("price").rolling(20).agg(mean=("price", "mean")).select("mean"),
        polars=lambda f, pl: f.select(mean=pl.col("price").rolling_mean(20)),
        sql="SELECT CASE WHEN count(*) OVER w = 20 THEN avg(price) OVER w END AS mean "
        "FROM ordered WINDOW w AS (ORDER BY ts ROWS 19 PRECEDING) ORDER BY ts",
        pandas=lambda f: f.rolling(20).mean().rename(columns={"price": "mean"}),
        reads=("price",),
    ),
    _query(
        "rolling-by",
        "mean price of twenty rows of the same symbol",
        lambda q: (
            q.select("symbol", "price")
            .rolling(20, by="symbol")
            .agg(mean=("price", "mean"))
            .select("mean")
        ),
        polars=lambda f, pl: f.select(mean=pl.col("price").rolling_mean(20).over("symbol")),
    ),
    _query(
        "rolling-extreme",
        "greatest volume of a hundred rows",
        lambda q: q.select("volume").rolling(100).agg(most=("volume", "max")).select("most"),
        polars=lambda f, pl: f.select(most=pl.col("volume").rolling_max(100)),
        pandas=lambda f: f.rolling(100).max().rename(columns={"volume": "most"}),
        reads=("volume",),
    ),
    _query(
        "rolling-time",
        "sum of volume of ten seconds",
        lambda q: (
            q.select("ts", "volume").rolling("10s").agg(traded=("volume", "sum")).select("traded")
        ),
        polars=lambda f, pl: f.select(traded=pl.col("volume").rolling_sum_by("ts", "10s")),
        pandas=lambda f: (
            f.set_index("ts").rolling("10s").sum().rename(columns={"volume": "traded"})
        ),
        reads=("ts", "volume"),
    ),
    _query(
        "ewm",
        "fading mean of price",
        lambda q: q.select("price").ewm(alpha=0.1).agg(mean=("price", "mean")).select("mean"),
        polars=lambda f, pl: f.select(mean=pl.col("price").ewm_mean(alpha=0.1)),
        pandas=lambda f: f.ewm(alpha=0.1).mean().rename(columns={"price": "mean"}),
        reads=("price",),
    ),
    _query(
        "ewm-by",
        "fading mean of price by symbol",
        lambda q: (
            q.select("symbol", "price")
            .ewm(alpha=0.1, by="symbol")
            .agg(mean=("price", "mean"))
            .select("mean")
        ),
        polars=lambda f, pl: f.select(mean=pl.col("price").ewm_mean(alpha=0.1).over("symbol")),
    ),
)


def _along(
    name: str,
    question: str,
    tessel: Callable[[Any, str], Any],
    polars: Callable[[Any], Any],
    column: str,
    pandas: Callable[[Any], Any] | None = None,
) -> tuple[Query, Query]:
    """Return a question asked of all rows, and of those of each symbol."""

    def of_all(query: Any) -> Any:
        return tessel(query.select(column), "").select("found")

    def of_symbols(query: Any) -> Any:
        return tessel(query.select("symbol", column), "symbol").select("found")

    return (
        _query(
            name,
            question,
            of_all,
            polars=lambda f, pl: f.select(found=polars(pl.col(column))),
            pandas=pandas and (lambda f: pandas(f[column]).to_frame("found")),
            reads=(column,),
        ),
        _query(
            f"{name}-by",
            f"{question}, by symbol",
            of_symbols,
            polars=lambda f, pl: f.select(found=polars(pl.col(column)).over("symbol")),
        ),
    )


def _keys(by: str) -> tuple[str, ...]:
    return (by,) if by else ()


_ALONG = (
    *_along(
        "total",
        "sum of volume as far as each row",
        lambda q, by: q.cum_sum({"found": "volume"}, by=_keys(by)),
        lambda column: column.cum_sum(),
        "volume",
        lambda column: column.cumsum(),
    ),
    *_along(
        "exact-total",
        "sum of price as far as each row",
        lambda q, by: q.cum_sum({"found": "price"}, by=_keys(by)),
        lambda column: column.cum_sum(),
        "price",
        lambda column: column.cumsum(),
    ),
    *_along(
        "highest",
        "greatest price as far as each row",
        lambda q, by: q.cum_max({"found": "price"}, by=_keys(by)),
        lambda column: column.cum_max(),
        "price",
        lambda column: column.cummax(),
    ),
    *_along(
        "fill",
        "the last quote there was",
        lambda q, by: q.fill({"found": "quote"}, by=_keys(by)),
        lambda column: column.forward_fill(),
        "quote",
        lambda column: column.ffill(),
    ),
    *_along(
        "shift",
        "the price of the row before",
        lambda q, by: q.shift({"found": "price"}, by=_keys(by)),
        lambda column: column.shift(1),
        "price",
        lambda column: column.shift(1),
    ),
    *_along(
        "diff",
        "by how much the price changed",
        lambda q, by: q.diff({"found": "price"}, by=_keys(by)),
        lambda column: column.diff(),
        "price",
        lambda column: column.diff(),
    ),
)

WORKLOAD = Workload(
    name="ordered",
    index="ts",
    make=make,
    rows=10_000_000,
    smoke_rows=50_000,
    queries=(*_SORTS, *_WINDOWS, *_ALONG),
)
