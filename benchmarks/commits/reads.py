"""Reading the rows of many appends of one row: seconds of processor time, with one worker."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import tessel as ts
from tessel.display import Table

AIM_SECONDS = 0.15
"""For 2,500 appends read whole, warm."""

_START = dt.datetime(2024, 1, 1)


def measure(folder: Path, appends: int, repeat: int) -> Table:
    """Return how long it takes to read rows that were appended one by one, and not compacted."""
    with ts.options(fsync=False, workers=1):
        store = ts.open(folder / f"appended{appends}")
        store.write("x", _row(0), index="t")
        for number in range(1, appends):
            store.append("x", _row(number))
        queries = {
            "whole": ts.QueryBuilder(),
            "filtered": ts.QueryBuilder().filter("n % 2 == 0"),
            "summed by a key": ts.QueryBuilder().group_by("sym").agg(price=("price", "sum")),
        }
        lines = []
        for name, query in queries.items():
            times = [
                _seconds(lambda query=query: store.read("x", query=query)) for _ in range(repeat)
            ]
            lines.append((name, round(times[0], 3), round(min(times[1:]), 3)))
    return Table(
        f"{appends:,} appends of one row, read: tessel",
        ("read", "first s", "warm s"),
        tuple(lines),
        notes=(f"aim: {AIM_SECONDS} s for 2,500 read whole, warm; processor time",),
    )


def _row(number: int) -> pa.Table:
    return pa.table(
        {
            "t": pa.array([_START + dt.timedelta(seconds=number)], pa.timestamp("us")),
            "price": [100 + number / 4],
            "n": [number],
            "sym": [f"S{number % 7}"],
        }
    )


def _seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun
