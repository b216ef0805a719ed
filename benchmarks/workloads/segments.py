"""Formats side by side on the table of ``trades``: all of it, columns, rows, a range, the end.

The harness writes first and reports time and size, so the write and both profiles of Tessel are in
the same table. Nothing is computed here: that is what ``trades`` is for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Query, Workload
from benchmarks.workloads.trades import make
from benchmarks.workloads.trades_answers import RANGE_START, RANGE_STOP

Answers = Mapping[str, Callable[[Any], Any]]

_TAKEN = 100
_TAKEN_COLUMNS = ["ts", "price", "volume"]


def _rows(count: int) -> np.ndarray:
    """Return the same positions for the same number of rows, unsorted and with repeats."""
    found = np.random.default_rng(100).integers(0, count, _TAKEN)
    found[-1] = found[0]
    return found


def _both(answer: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    return {"tessel": answer, "tessel_compact": answer}


def _mapped(work: Callable[[pa.Table], pa.Table]) -> Callable[[Any], Any]:
    def answer(path: Any) -> Any:
        with pa.memory_map(str(path)) as file:
            return work(pa.ipc.open_file(file).read_all())

    return answer


def _polars(work: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def answer(frame: Any) -> Any:
        import polars as pl

        return work(frame, pl)

    return answer


def _range(table: pa.Table) -> pa.Table:
    times = table.column("ts").cast(pa.int64()).to_numpy()
    bounds = [
        pa.scalar(at, table.schema.field("ts").type).value for at in (RANGE_START, RANGE_STOP)
    ]
    low = int(np.searchsorted(times, bounds[0]))
    return table.slice(low, int(np.searchsorted(times, bounds[1])) - low)


def _arctic_range(library: Any) -> Any:
    import pandas as pd

    last = pd.Timestamp(RANGE_STOP) - pd.Timedelta(1, "ns")
    return library.read("segments", date_range=(pd.Timestamp(RANGE_START), last))


def _last(rows: int, count: int = 10) -> range:
    return range(rows - count, rows)


ALL: Answers = {
    **_both(lambda store: store.read("segments")),
    "polars": lambda frame: frame,
    "pyarrow": lambda data: data.to_table(),
    "arrow_ipc": _mapped(lambda table: table),
    "lance": lambda data: data.to_table(),
    "vortex": lambda file: file.to_arrow().read_all(),
    "arcticdb": lambda library: library.read("segments"),
}

TWO_COLUMNS: Answers = {
    **_both(lambda store: store.read("segments", columns=["price", "volume"])),
    "polars": lambda frame: frame.select("price", "volume"),
    "pyarrow": lambda data: data.to_table(columns=["price", "volume"]),
    "arrow_ipc": _mapped(lambda table: table.select(["price", "volume"])),
    "lance": lambda data: data.to_table(columns=["price", "volume"]),
    "vortex": lambda file: file.to_arrow(["price", "volume"]).read_all(),
}

TAKE: Answers = {
    **_both(
        lambda store: store.view("segments").take(
            _rows(store.view("segments").row_count), _TAKEN_COLUMNS
        )
    ),
    "pyarrow": lambda data: data.take(_rows(data.count_rows()), columns=_TAKEN_COLUMNS),
    "arrow_ipc": _mapped(
        lambda table: table.select(_TAKEN_COLUMNS).take(pa.array(_rows(table.num_rows)))
    ),
    "lance": lambda data: data.take(_rows(data.count_rows()), columns=_TAKEN_COLUMNS),
}

DATE_RANGE: Answers = {
    **_both(
        lambda store: (
            store.scan("segments")
            .date_range(RANGE_START.isoformat(), RANGE_STOP.isoformat(), closed="left")
            .collect()
        )
    ),
    "polars": _polars(
        lambda frame, pl: frame.filter(pl.col("ts").is_between(RANGE_START, RANGE_STOP, "left"))
    ),
    "arrow_ipc": _mapped(_range),
    "arcticdb": _arctic_range,
}

LAST_ROWS: Answers = {
    **_both(lambda store: store.scan("segments").tail(10).collect()),
    "polars": lambda frame: frame.tail(10),
    "arrow_ipc": _mapped(lambda table: table.slice(table.num_rows - 10)),
    "lance": lambda data: data.take(list(_last(data.count_rows()))),
    "arcticdb": lambda library: library.tail("segments", 10),
}

WORKLOAD = Workload(
    name="segments",
    index="ts",
    make=make,
    rows=10_000_000,
    smoke_rows=50_000,
    queries=(
        Query("all", "all columns", ALL),
        Query("two-columns", "price, volume", TWO_COLUMNS),
        Query("take", "100 random rows of ts, price, volume", TAKE),
        Query("date-range", "two hours, all columns", DATE_RANGE),
        Query("last-rows", "the last 10 rows", LAST_ROWS),
    ),
)
