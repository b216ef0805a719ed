"""Wide: 2,000 columns × 100,000 rows, of which a query wants three, or one to filter by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Query, Workload

SEED = 7
COLUMNS = 2_000
_START_NS = 1_704_067_200_000_000_000
_GAP_NS = 1_000_000_000
_WANTED = ("c0003", "c0777", "c1999")


def make(rows: int) -> pa.Table:
    """Return a time, then prices in cents and counts in turn."""
    random = np.random.Generator(np.random.PCG64(SEED))
    columns: dict[str, pa.Array] = {
        "ts": pa.array(
            _START_NS + np.arange(rows, dtype=np.int64) * _GAP_NS, pa.timestamp("ns", tz="UTC")
        )
    }
    for number in range(COLUMNS):
        if number % 2:
            columns[f"c{number:04}"] = pa.array(random.integers(0, 1_000_000, rows) / 100)
        else:
            columns[f"c{number:04}"] = pa.array(random.integers(0, 100_000, rows))
    return pa.table(columns)


def _tessel(text: str | None) -> Any:
    def answer(store: Any) -> Any:
        import tessel as ts

        query = ts.QueryBuilder()
        query = query if text is None else query.filter(text)
        return store.read("wide", query=query.select(*_WANTED))

    return {"tessel": answer}


def _sql(condition: str) -> Any:
    return lambda connection: connection.sql(f"SELECT {', '.join(_WANTED)} FROM wide {condition}")


def _polars(frame: Any) -> Any:
    import polars as pl

    return frame.filter(pl.col("c0777") < 100).select(_WANTED)


def _pyarrow(dataset: Any) -> Any:
    import pyarrow.dataset as ds

    return dataset.to_table(columns=list(_WANTED), filter=ds.field("c0777") < 100)


WORKLOAD = Workload(
    name="wide",
    index="ts",
    make=make,
    rows=100_000,
    smoke_rows=500,
    queries=(
        Query(
            "three-columns",
            "three of 2,000 columns",
            {
                **_tessel(None),
                "duckdb": _sql(""),
                "polars": lambda frame: frame.select(_WANTED),
                "pyarrow": lambda dataset: dataset.to_table(columns=list(_WANTED)),
                "arcticdb": lambda library: library.read("wide", columns=list(_WANTED)),
            },
        ),
        Query(
            "filter-on-one",
            "three columns where one of them is below 100",
            {
                **_tessel("c0777 < 100"),
                "duckdb": _sql("WHERE c0777 < 100"),
                "polars": _polars,
                "pyarrow": _pyarrow,
            },
        ),
    ),
)
