"""How each engine answers the questions on trades, as a user of that engine would write it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Answers = Mapping[str, Callable[[Any], Any]]

_TAKEN = 100
_OHLC = {
    "open": ("price", "first"),
    "high": ("price", "max"),
    "low": ("price", "min"),
    "close": ("price", "last"),
    "volume": ("volume", "sum"),
}

# Within the first minutes as well, so that a table of few rows has an answer too.
RANGE_START = dt.datetime(2024, 1, 1, 0, 5, tzinfo=dt.UTC)
RANGE_STOP = dt.datetime(2024, 1, 1, 2, 5, tzinfo=dt.UTC)


def _query() -> Any:
    import tessel as ts

    return ts.QueryBuilder()


def _tessel(build: Callable[[], Any]) -> Answers:
    """Return the answer of Tessel, with and without compiled kernels."""

    def answer(store: Any) -> Any:
        return store.read("trades", query=build())

    return {"tessel": answer}


def _arctic(
    build: Callable[[Any], Any], columns: Sequence[str] | None = None
) -> Callable[[Any], Any]:
    """Return the answer of ArcticDB; aggregates come out in an order of its own without one."""

    def answer(library: Any) -> Any:
        import arcticdb

        found = library.read("trades", query_builder=build(arcticdb.QueryBuilder()))
        return found if columns is None else SimpleNamespace(data=found.data[list(columns)])

    return answer


def _sql(text: str) -> Callable[[Any], Any]:
    return lambda connection: connection.sql(text)


def _dataset(**scan: Any) -> Callable[[Any], Any]:
    return lambda dataset: dataset.to_table(**scan)


def _pandas_all(path: Any) -> Any:
    import pandas as pd

    return pd.read_parquet(path)


def _pandas(work: Callable[[Any], Any], columns: list[str] | None = None) -> Callable[[Any], Any]:
    def answer(path: Any) -> Any:
        import pandas as pd

        return work(pd.read_parquet(path, columns=columns))

    return answer


def _polars(work: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def answer(frame: Any) -> Any:
        import polars as pl

        return work(frame, pl)

    return answer


def _grouped(key: str) -> Answers:
    def pyarrow(dataset: Any) -> Any:
        table = dataset.to_table(columns=[key, "price", "volume"])
        found = table.group_by(key).aggregate([("price", "mean"), ("volume", "sum")])
        return found.rename_columns([key, "price", "volume"])

    return {
        **_tessel(
            lambda: _query().groupby(key).agg(price=("price", "mean"), volume=("volume", "sum"))
        ),
        "arcticdb": _arctic(
            lambda q: q.groupby(key).agg({"price": "mean", "volume": "sum"}), ["price", "volume"]
        ),
        "duckdb": _sql(
            f"SELECT {key}, avg(price) AS price, sum(volume) AS volume FROM trades GROUP BY {key}"
        ),
        "polars": _polars(
            lambda frame, pl: frame.group_by(key).agg(
                pl.col("price").mean(), pl.col("volume").sum()
            )
        ),
        "pandas": _pandas(
            lambda frame: frame.groupby(key).agg({"price": "mean", "volume": "sum"}).reset_index(),
            [key, "price", "volume"],
        ),
        "pyarrow": pyarrow,
    }


ALL: Answers = {
    **_tessel(_query),
    "arcticdb": lambda library: library.read("trades"),
    "duckdb": _sql("SELECT * FROM trades"),
    "polars": lambda frame: frame,
    "pandas": _pandas_all,
    "pyarrow": _dataset(),
}

TWO_COLUMNS: Answers = {
    **_tessel(lambda: _query().select("price", "volume")),
    "duckdb": _sql("SELECT price, volume FROM trades"),
    "polars": lambda frame: frame.select("price", "volume"),
    "pandas": _pandas(lambda frame: frame, ["price", "volume"]),
    "pyarrow": _dataset(columns=["price", "volume"]),
}

FILTER: Answers = {
    **_tessel(lambda: _query().filter("price > 100 and volume < 50")),
    "arcticdb": _arctic(lambda q: q[(q["price"] > 100) & (q["volume"] < 50)]),
    "duckdb": _sql("SELECT * FROM trades WHERE price > 100 AND volume < 50"),
    "polars": _polars(
        lambda frame, pl: frame.filter((pl.col("price") > 100) & (pl.col("volume") < 50))
    ),
    "pandas": _pandas(lambda frame: frame[(frame["price"] > 100) & (frame["volume"] < 50)]),
    "pyarrow": _dataset(filter=(pc.field("price") > 100) & (pc.field("volume") < 50)),
}

BY_SYMBOL: Answers = _grouped("symbol")
BY_VENUE: Answers = _grouped("venue")

RESAMPLE: Answers = {
    **_tessel(lambda: _query().resample("1min").agg(**_OHLC)),
    "arcticdb": _arctic(lambda q: q.resample("1min").agg(_OHLC), list(_OHLC)),
    "duckdb": _sql(
        """
        SELECT to_timestamp(epoch_ns(ts) // 60000000000 * 60) AS ts, arg_min(price, ts) AS open,
               max(price) AS high, min(price) AS low, arg_max(price, ts) AS close,
               sum(volume) AS volume
        FROM trades GROUP BY 1
        """
    ),
    "polars": _polars(
        lambda frame, pl: frame.group_by_dynamic("ts", every="1m").agg(
            open=pl.col("price").first(),
            high=pl.col("price").max(),
            low=pl.col("price").min(),
            close=pl.col("price").last(),
            volume=pl.col("volume").sum(),
        )
    ),
    "pandas": _pandas(
        lambda frame: (
            frame.resample("1min", on="ts")
            .agg(
                open=("price", "first"),
                high=("price", "max"),
                low=("price", "min"),
                close=("price", "last"),
                volume=("volume", "sum"),
            )
            .dropna(subset="open")
            .reset_index()
        ),
        ["ts", "price", "volume"],
    ),
}

NOTIONAL: Answers = {
    **_tessel(
        lambda: (
            _query()
            .filter("volume < 2500")
            .apply("notional", "price * volume")
            .groupby("symbol")
            .agg(notional=("notional", "sum"))
        )
    ),
    "arcticdb": _arctic(
        lambda q: (
            q[q["volume"] < 2500]
            .apply("notional", q["price"] * q["volume"])
            .groupby("symbol")
            .agg({"notional": "sum"})
        )
    ),
    "duckdb": _sql(
        "SELECT symbol, sum(price * volume) AS notional FROM trades WHERE volume < 2500 GROUP BY 1"
    ),
    "polars": _polars(
        lambda frame, pl: (
            frame.filter(pl.col("volume") < 2500)
            .group_by("symbol")
            .agg(notional=(pl.col("price") * pl.col("volume")).sum())
        )
    ),
    "pandas": _pandas(
        lambda frame: (
            frame[frame["volume"] < 2500]
            .assign(notional=lambda part: part["price"] * part["volume"])
            .groupby("symbol")
            .agg({"notional": "sum"})
            .reset_index()
        ),
        ["symbol", "price", "volume"],
    ),
}

DATE_RANGE: Answers = {
    **_tessel(lambda: _query().date_range(RANGE_START, RANGE_STOP, closed="left")),
    "duckdb": _sql(
        f"SELECT * FROM trades WHERE ts >= TIMESTAMPTZ_NS '{RANGE_START.isoformat()}' "
        f"AND ts < TIMESTAMPTZ_NS '{RANGE_STOP.isoformat()}'"
    ),
    "polars": _polars(
        lambda frame, pl: frame.filter(
            pl.col("ts").is_between(RANGE_START, RANGE_STOP, closed="left")
        )
    ),
    "pandas": _pandas(
        lambda frame: frame[(frame["ts"] >= RANGE_START) & (frame["ts"] < RANGE_STOP)]
    ),
    "pyarrow": _dataset(
        filter=(pc.field("ts") >= pa.scalar(RANGE_START, pa.timestamp("ns", "UTC")))
        & (pc.field("ts") < pa.scalar(RANGE_STOP, pa.timestamp("ns", "UTC")))
    ),
}

ONE_SYMBOL: Answers = {
    **_tessel(lambda: _query().filter("symbol == 'SYM0123'")),
    "arcticdb": _arctic(lambda q: q[q["symbol"] == "SYM0123"]),
    "duckdb": _sql("SELECT * FROM trades WHERE symbol = 'SYM0123'"),
    "polars": _polars(lambda frame, pl: frame.filter(pl.col("symbol") == "SYM0123")),
    "pandas": _pandas(lambda frame: frame[frame["symbol"] == "SYM0123"]),
    "pyarrow": _dataset(filter=pc.field("symbol") == "SYM0123"),
}

LAST_ROWS: Answers = {
    **_tessel(lambda: _query().tail(10)),
    "arcticdb": lambda library: library.tail("trades", 10),
    "duckdb": _sql("SELECT * FROM (SELECT * FROM trades ORDER BY ts DESC LIMIT 10) ORDER BY ts"),
    "polars": lambda frame: frame.tail(10),
    "pandas": _pandas(lambda frame: frame.tail(10)),
}


def _positions(count: int) -> Any:
    """Return the same positions for the same number of rows, unsorted and with repeats."""
    found = np.random.default_rng(_TAKEN).integers(0, count, _TAKEN)
    found[-1] = found[0]
    return found


def _take(store: Any) -> Any:
    view = store.view("trades")
    return view.take(_positions(view.row_count))


RANDOM_ROWS: Answers = {
    "tessel": _take,
    "pyarrow": lambda dataset: dataset.take(_positions(dataset.count_rows())),
    "lance": lambda data: data.take(_positions(data.count_rows())),
}
