"""Groups: 5 million rows, grouped by keys of 10, 10⁴ and 10⁶ values, as numbers and as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Query, Workload

SEED = 11
_START_NS = 1_704_067_200_000_000_000
_GAP_NS = 1_000_000
_TEN, _MANY, _MOST = 10, 10_000, 1_000_000


def make(rows: int) -> pa.Table:
    """Return a time, keys of few, many and very many values, and two columns to add up."""
    random = np.random.Generator(np.random.PCG64(SEED))
    few, many = random.integers(0, _TEN, rows), random.integers(0, _MANY, rows)
    most = random.integers(0, _MOST, rows)
    return pa.table(
        {
            "ts": pa.array(
                _START_NS + np.arange(rows, dtype=np.int64) * _GAP_NS, pa.timestamp("ns", tz="UTC")
            ),
            "few": few,
            "many": many,
            "most": most,
            "few_text": _texts(few, _TEN),
            "many_text": _texts(many, _MANY),
            "price": random.integers(1, 1_000_000, rows) / 100,
            "volume": random.integers(1, 5_000, rows),
        }
    )


def _texts(codes: Any, count: int) -> pa.Array:
    texts = pa.array([f"key-{number:06}" for number in range(count)])
    return pa.DictionaryArray.from_arrays(pa.array(codes), texts).cast(pa.string())


def _by(*keys: str) -> Query:
    names = ", ".join(keys)

    def tessel(store: Any) -> Any:
        import tessel as ts

        query = ts.QueryBuilder().groupby(*keys)
        return store.read(
            "groups", query=query.agg(price=("price", "mean"), volume=("volume", "sum"))
        )

    def polars(frame: Any) -> Any:
        import polars as pl

        return frame.group_by(*keys).agg(pl.col("price").mean(), pl.col("volume").sum())

    def pyarrow(dataset: Any) -> Any:
        table = dataset.to_table(columns=[*keys, "price", "volume"])
        found = table.group_by(list(keys)).aggregate([("price", "mean"), ("volume", "sum")])
        return found.rename_columns([*keys, "price", "volume"])

    return Query(
        "by-" + "-".join(keys).replace("_", "-"),
        f"by {names}: mean price, sum volume",
        {
            "tessel": tessel,
            "duckdb": lambda connection: connection.sql(
                f"SELECT {names}, avg(price) AS price, sum(volume) AS volume FROM groups "
                f"GROUP BY {names}"
            ),
            "polars": polars,
            "pyarrow": pyarrow,
        },
        key=keys,
    )


WORKLOAD = Workload(
    name="groups",
    index="ts",
    make=make,
    rows=5_000_000,
    smoke_rows=20_000,
    queries=(
        _by("few"),
        _by("many"),
        _by("most"),
        _by("few_text"),
        _by("many_text"),
        _by("few", "few_text", "many"),
    ),
)
