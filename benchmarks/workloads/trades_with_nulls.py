"""Trades of which five in a hundred lack a price, and five a volume: aggregates that skip them.

DuckDB's sum of nothing is null, where those of the others are 0: its questions say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.workloads import trades
from benchmarks.workloads.base import Query, Workload

_NAME = "trades_with_nulls"
_MISSING = 0.05

Answers = Mapping[str, Callable[[Any], Any]]


def make(rows: int) -> pa.Table:
    """Return the trades of the seed's world, some prices and volumes null."""
    table = trades.make(rows).select(["ts", "symbol", "price", "volume", "venue"])
    random = np.random.Generator(np.random.PCG64(trades.SEED + 1))
    for name in ("price", "volume"):
        values = table.column(name).combine_chunks().to_numpy()
        held = pa.array(values, mask=random.random(rows) < _MISSING)
        table = table.set_column(table.schema.get_field_index(name), name, held)
    return table


def _answers(tessel: Callable[[Any], Any], sql: str, polars: Callable[[Any, Any], Any]) -> Answers:
    def read(store: Any) -> Any:
        import tessel as ts

        return store.read(_NAME, query=tessel(ts.QueryBuilder()))

    def frame(found: Any) -> Any:
        import polars as pl

        return polars(found, pl)

    return {
        "tessel": read,
        "duckdb": lambda connection: connection.sql(sql.replace("FROM t", f"FROM {_NAME}")),
        "polars": frame,
    }


WORKLOAD = Workload(
    name=_NAME,
    index="ts",
    make=make,
    rows=10_000_000,
    smoke_rows=50_000,
    queries=(
        Query(
            "by-symbol",
            "by symbol: mean price, sum volume",
            _answers(
                lambda q: q.groupby("symbol").agg(
                    price=("price", "mean"), volume=("volume", "sum")
                ),
                "SELECT symbol, avg(price) AS price, coalesce(sum(volume), 0)::BIGINT AS volume "
                "FROM t GROUP BY symbol",
                lambda f, pl: f.group_by("symbol").agg(
                    pl.col("price").mean(), pl.col("volume").sum()
                ),
            ),
            key=("symbol",),
        ),
        Query(
            "counts",
            "by venue: how many prices, and the least and the greatest",
            _answers(
                lambda q: q.groupby("venue").agg(
                    n=("price", "count"), low=("price", "min"), high=("price", "max")
                ),
                "SELECT venue, count(price) AS n, min(price) AS low, max(price) AS high FROM t "
                "GROUP BY venue",
                lambda f, pl: f.group_by("venue").agg(
                    n=pl.col("price").count().cast(pl.Int64),
                    low=pl.col("price").min(),
                    high=pl.col("price").max(),
                ),
            ),
            key=("venue",),
        ),
        Query(
            "ends",
            "by symbol: the first and the last price there is",
            _answers(
                lambda q: q.groupby("symbol").agg(open=("price", "first"), close=("price", "last")),
                "SELECT symbol, arg_min(price, ts) AS open, arg_max(price, ts) AS close FROM t "
                "GROUP BY symbol",
                lambda f, pl: f.group_by("symbol").agg(
                    open=pl.col("price").drop_nulls().first(),
                    close=pl.col("price").drop_nulls().last(),
                ),
            ),
            key=("symbol",),
        ),
        Query(
            "std",
            "by symbol: standard deviation of price",
            _answers(
                lambda q: q.groupby("symbol").agg(std=("price", "std")),
                "SELECT symbol, stddev_samp(price) AS std FROM t GROUP BY symbol",
                lambda f, pl: f.group_by("symbol").agg(std=pl.col("price").std()),
            ),
            key=("symbol",),
        ),
        Query(
            "notional",
            "volume < 2500, price * volume, sum by symbol",
            _answers(
                lambda q: (
                    q.filter("volume < 2500")
                    .apply("notional", "price * volume")
                    .groupby("symbol")
                    .agg(notional=("notional", "sum"))
                ),
                "SELECT symbol, coalesce(sum(price * volume), 0) AS notional FROM t "
                "WHERE volume < 2500 GROUP BY symbol",
                lambda f, pl: (
                    f.filter(pl.col("volume") < 2500)
                    .group_by("symbol")
                    .agg(notional=(pl.col("price") * pl.col("volume")).sum())
                ),
            ),
            key=("symbol",),
        ),
        Query(
            "resample",
            "1 minute: least and greatest price, sum volume",
            _answers(
                lambda q: q.resample("1min").agg(
                    low=("price", "min"), high=("price", "max"), volume=("volume", "sum")
                ),
                "SELECT to_timestamp(epoch_ns(ts) // 60000000000 * 60) AS ts, min(price) AS low, "
                "max(price) AS high, coalesce(sum(volume), 0)::BIGINT AS volume "
                "FROM t GROUP BY ALL",
                lambda f, pl: f.group_by(pl.col("ts").dt.truncate("1m")).agg(
                    low=pl.col("price").min(),
                    high=pl.col("price").max(),
                    volume=pl.col("volume").sum(),
                ),
            ),
            key=("ts",),
        ),
        Query(
            "either",
            "price > 100 or volume < 50, and not a volume of 7: how many, and mean price",
            _answers(
                lambda q: q.filter("(price > 100 or volume < 50) and not (volume == 7)").agg(
                    n="size", price=("price", "mean")
                ),
                "SELECT count(*) AS n, avg(price) AS price FROM t "
                "WHERE (price > 100 OR volume < 50) AND NOT (volume = 7)",
                lambda f, pl: f.filter(
                    ((pl.col("price") > 100) | (pl.col("volume") < 50)) & ~(pl.col("volume") == 7)
                ).select(n=pl.len().cast(pl.Int64), price=pl.col("price").mean()),
            ),
        ),
        Query(
            "missing",
            "price is missing: by venue, sum of volume, 0 where that is missing too",
            _answers(
                lambda q: (
                    q.filter("price is missing")
                    .apply("held", "coalesce(volume, 0)")
                    .groupby("venue")
                    .agg(held=("held", "sum"))
                ),
                "SELECT venue, sum(coalesce(volume, 0))::BIGINT AS held FROM t "
                "WHERE price IS NULL GROUP BY venue",
                lambda f, pl: (
                    f.filter(pl.col("price").is_null())
                    .group_by("venue")
                    .agg(held=pl.col("volume").fill_null(0).sum())
                ),
            ),
            key=("venue",),
        ),
    ),
)
