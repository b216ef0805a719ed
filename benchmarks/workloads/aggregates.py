"""Aggregates that people ask for beside sums, on the trades: by groups, of all rows, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.workloads.base import Query, Workload
from benchmarks.workloads.trades import make

Answers = Mapping[str, Callable[[Any], Any]]


def _answers(
    tessel: Callable[[Any], Any], sql: str, polars: Callable[[Any, Any], Any] | None = None
) -> Answers:
    def read(store: Any) -> Any:
        import tessel as ts

        return store.read("aggregates", query=tessel(ts.QueryBuilder()))

    answers: dict[str, Callable[[Any], Any]] = {
        "tessel": read,
        "duckdb": lambda connection: connection.sql(sql.replace("FROM t", "FROM aggregates")),
    }
    if polars is not None:
        made = polars

        def frame(found: Any) -> Any:
            import polars as pl

            return made(found, pl)

        answers["polars"] = frame
    return answers


WORKLOAD = Workload(
    name="aggregates",
    index="ts",
    make=make,
    rows=10_000_000,
    smoke_rows=50_000,
    queries=(
        Query(
            "extremes",
            "by symbol: least and greatest price",
            _answers(
                lambda q: q.groupby("symbol").agg(low=("price", "min"), high=("price", "max")),
                "SELECT symbol, min(price) AS low, max(price) AS high FROM t GROUP BY symbol",
                lambda f, pl: f.group_by("symbol").agg(
                    low=pl.col("price").min(), high=pl.col("price").max()
                ),
            ),
            key=("symbol",),
        ),
        Query(
            "ends",
            "by symbol: first and last price",
            _answers(
                lambda q: q.groupby("symbol").agg(open=("price", "first"), close=("price", "last")),
                "SELECT symbol, arg_min(price, ts) AS open, arg_max(price, ts) AS close FROM t "
                "GROUP BY symbol",
                lambda f, pl: f.group_by("symbol").agg(
                    open=pl.col("price").first(), close=pl.col("price").last()
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
            "two-keys",
            "by symbol and venue: mean price",
            _answers(
                lambda q: q.groupby("symbol", "venue").agg(price=("price", "mean")),
                "SELECT symbol, venue, avg(price) AS price FROM t GROUP BY symbol, venue",
                lambda f, pl: f.group_by("symbol", "venue").agg(pl.col("price").mean()),
            ),
            key=("symbol", "venue"),
        ),
        Query(
            "median",
            "by venue: median price",
            _answers(
                lambda q: q.groupby("venue").agg(price=("price", "median")),
                "SELECT venue, median(price) AS price FROM t GROUP BY venue",
                lambda f, pl: f.group_by("venue").agg(pl.col("price").median()),
            ),
            key=("venue",),
        ),
        Query(
            "nunique",
            "by venue: how many symbols",
            _answers(
                lambda q: q.groupby("venue").agg(symbols=("symbol", "nunique")),
                "SELECT venue, count(DISTINCT symbol) AS symbols FROM t GROUP BY venue",
                lambda f, pl: f.group_by("venue").agg(
                    symbols=pl.col("symbol").n_unique().cast(pl.Int64)
                ),
            ),
            key=("venue",),
        ),
        Query(
            "spread",
            "by symbol: mean of ask - bid",
            _answers(
                lambda q: q.groupby("symbol").agg(spread="mean(ask - bid)"),
                "SELECT symbol, avg(ask - bid) AS spread FROM t GROUP BY symbol",
                lambda f, pl: f.group_by("symbol").agg(
                    spread=(pl.col("ask") - pl.col("bid")).mean()
                ),
            ),
            key=("symbol",),
        ),
        Query(
            "overall",
            "of all rows: mean and standard deviation of price, sum of volume",
            _answers(
                lambda q: q.agg(
                    mean=("price", "mean"), std=("price", "std"), volume=("volume", "sum")
                ),
                "SELECT avg(price) AS mean, stddev_samp(price) AS std, "
                "sum(volume)::BIGINT AS volume FROM t",
                lambda f, pl: f.select(
                    mean=pl.col("price").mean(),
                    std=pl.col("price").std(),
                    volume=pl.col("volume").sum(),
                ),
            ),
        ),
        Query(
            "distinct",
            "the symbols there are",
            _answers(
                lambda q: q.select("symbol").distinct(),
                "SELECT DISTINCT symbol FROM t",
                lambda f, pl: f.select("symbol").unique(),
            ),
            key=("symbol",),
        ),
        Query(
            "top",
            "the ten greatest volumes times price, and when",
            _answers(
                lambda q: q.apply("notional", "price * volume").top_k(10, "notional").select("ts"),
                "SELECT ts FROM t ORDER BY price * volume DESC LIMIT 10",
                lambda f, pl: (
                    f.with_columns(notional=pl.col("price") * pl.col("volume"))
                    .top_k(10, by="notional")
                    .select("ts")
                ),
            ),
            key=("ts",),
        ),
        Query(
            "dearest",
            "the ten dearest trades: time and symbol",
            _answers(
                lambda q: q.top_k(10, "price").select("ts", "symbol"),
                "SELECT ts, symbol FROM t ORDER BY price DESC, ts LIMIT 10",
                lambda f, pl: (
                    f.sort(["price", "ts"], descending=[True, False])
                    .head(10)
                    .select("ts", "symbol")
                ),
            ),
            key=("ts",),
        ),
        Query(
            "by-hour",
            "by hour and symbol: mean price",
            _answers(
                lambda q: q.resample("1h", by=["symbol"]).agg(price=("price", "mean")),
                "SELECT date_trunc('hour', ts::TIMESTAMPTZ) AS ts, symbol, avg(price) AS price "
                "FROM t GROUP BY ALL",
                lambda f, pl: f.group_by(pl.col("ts").dt.truncate("1h"), "symbol").agg(
                    pl.col("price").mean()
                ),
            ),
            key=("ts", "symbol"),
        ),
    ),
)
