"""The demo's queries on a year of real flights (336,776 rows × 19 columns)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.workloads.base import Query, Workload

# Tessel is imported where it is used: the processes of the other engines do without it.
_INDEX = "time_hour"
_ROWS = 336_776
_CARRIERS = ("UA", "AA", "DL", "B6")


def make(rows: int) -> pa.Table:
    """Return ``rows`` flights spread over the whole year, by time (stable)."""
    from tessel.cli.flights import read_flights

    table = read_flights()
    order = pc.sort_indices(table[_INDEX])
    step = max(1, _ROWS // rows)
    return table.take(order).take(pa.array(range(0, _ROWS, step)))


def _delays_tessel(store: Any) -> Any:
    from tessel.cli.commands.demo import delays_query

    return store.read("flights", query=delays_query())


def _daily_tessel(store: Any) -> Any:
    from tessel.cli.commands.demo import daily_query

    return store.read("flights", query=daily_query())


def _delays_duckdb(connection: Any) -> Any:
    return connection.sql(
        """
        SELECT carrier, origin, count(dep_delay) AS flights, avg(dep_delay) AS mean_delay,
               max(dep_delay) AS worst_delay, median(dep_delay - arr_delay) AS median_gained,
               coalesce(sum(dep_delay - arr_delay), 0) AS total_gained
        FROM flights
        WHERE time_hour >= '2013-01-01' AND time_hour < '2013-04-01'
          AND dep_delay > 15 AND carrier IN ('UA', 'AA', 'DL', 'B6')
        GROUP BY ALL ORDER BY carrier, origin
        """
    )


def _delays_polars(frame: Any) -> Any:
    import datetime as dt

    import polars as pl

    start = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
    stop = dt.datetime(2013, 4, 1, tzinfo=dt.UTC)
    delay, gained = pl.col("dep_delay"), pl.col("gained")
    return (
        frame.filter(pl.col("time_hour").is_between(start, stop, closed="left"))
        .filter((delay > 15) & pl.col("carrier").is_in(_CARRIERS))
        .with_columns(gained=delay - pl.col("arr_delay"))
        .group_by("carrier", "origin")
        .agg(
            flights=delay.count(),
            mean_delay=delay.mean(),
            worst_delay=delay.max(),
            median_gained=gained.median(),
            total_gained=gained.sum(),
        )
        .sort("carrier", "origin")
    )


def _delays_pandas(path: Any) -> Any:
    import pandas as pd

    columns = ["time_hour", "carrier", "origin", "dep_delay", "arr_delay"]
    frame = pd.read_parquet(path, columns=columns)
    late = frame[
        (frame["time_hour"] < pd.Timestamp("2013-04-01", tz="UTC"))
        & (frame["dep_delay"] > 15)
        & frame["carrier"].isin(_CARRIERS)
    ]
    groups = late.assign(gained=late["dep_delay"] - late["arr_delay"]).groupby(
        ["carrier", "origin"]
    )
    return groups.agg(
        flights=("dep_delay", "count"),
        mean_delay=("dep_delay", "mean"),
        worst_delay=("dep_delay", "max"),
        median_gained=("gained", "median"),
        total_gained=("gained", "sum"),
    ).reset_index()


def _daily_duckdb(connection: Any) -> Any:
    return connection.sql(
        """
        SELECT date_trunc('day', time_hour) AS time_hour, count(flight) AS flights,
               count(dep_delay) AS departed, avg(dep_delay) AS mean_delay,
               max(dep_delay) AS worst_delay, sum(distance) AS miles
        FROM flights GROUP BY 1 ORDER BY 1
        """
    )


def _daily_polars(frame: Any) -> Any:
    import polars as pl

    delay = pl.col("dep_delay")
    return frame.group_by_dynamic("time_hour", every="1d").agg(
        flights=pl.col("flight").count(),
        departed=delay.count(),
        mean_delay=delay.mean(),
        worst_delay=delay.max(),
        miles=pl.col("distance").sum(),
    )


def _daily_pandas(path: Any) -> Any:
    import pandas as pd

    frame = pd.read_parquet(path, columns=["time_hour", "flight", "dep_delay", "distance"])
    buckets = frame.resample("1D", on="time_hour").agg(
        flights=("flight", "count"),
        departed=("dep_delay", "count"),
        mean_delay=("dep_delay", "mean"),
        worst_delay=("dep_delay", "max"),
        miles=("distance", "sum"),
    )
    # pandas makes a row for a day without flights; the others, and the question, do not.
    return buckets[buckets["flights"] > 0].reset_index()


def _daily_pyarrow(dataset: Any) -> Any:
    table = dataset.to_table(columns=["time_hour", "flight", "dep_delay", "distance"])
    day = pc.floor_temporal(table["time_hour"], unit="day")
    grouped = table.set_column(0, "time_hour", day).group_by("time_hour", use_threads=False)
    found = grouped.aggregate(
        [
            ("flight", "count"),
            ("dep_delay", "count"),
            ("dep_delay", "mean"),
            ("dep_delay", "max"),
            ("distance", "sum"),
        ]
    )
    names = ["time_hour", "flights", "departed", "mean_delay", "worst_delay", "miles"]
    return found.rename_columns(names)


WORKLOAD = Workload(
    name="flights",
    index=_INDEX,
    make=make,
    rows=_ROWS,
    smoke_rows=40_000,
    queries=(
        Query(
            "delays",
            "late departures of four carriers in a quarter, by carrier and origin",
            {
                "tessel": _delays_tessel,
                "duckdb": _delays_duckdb,
                "polars": _delays_polars,
                "pandas": _delays_pandas,
            },
        ),
        Query(
            "daily",
            "departures, delays and miles of every day",
            {
                "tessel": _daily_tessel,
                "duckdb": _daily_duckdb,
                "polars": _daily_polars,
                "pandas": _daily_pandas,
                "pyarrow": _daily_pyarrow,
            },
        ),
    ),
)
