"""Measure a filter in a store that is far: ``python -m benchmarks.round_trips``.

    python -m benchmarks.round_trips                   # 20 segments, 20 ms a request
    python -m benchmarks.round_trips --seed 7 --workers 4
    python -m benchmarks.round_trips --smoke           # few rows, answers only

A store in memory answers each request after a delay. A filter leaves 0.1 % of the rows of 20
segments, as an expression, in a clause of one's own that asks for a column that the plan did not
foresee, and with rows left in one segment alone. Answers are compared with pyarrow's first. The
figures are the time from the first request for a segment to the answer, in round trips, and the
requests: at most 4 round trips, and one request more for each segment with rows left than reading
all columns at once takes. Prints a table and one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tessel as ts
from tessel.compare import first_difference
from tessel.store.history.documents import open_store
from tessel.store.objects.memory import MemoryObjects

SEGMENTS = 20
SHARE = 0.001
DELAY_SECONDS = 0.020
MOST_ROUND_TRIPS = 4.0

Q = ts.QueryBuilder()


@ts.register
@dataclass(frozen=True)
class Unforeseen(ts.Clause):
    """Keep rows by the values of a column that the plan was not told of."""

    name: ClassVar[str] = "unforeseen"
    least: float

    @property
    def structure(self) -> ts.ClauseInfo:
        """Row slices, of which rows are dropped."""
        return ts.ClauseInfo(ts.Structure.ROW_SLICE, ts.Structure.ROW_SLICE)

    def output_schema(self, input_schema: ts.TableSchema) -> ts.TableSchema:
        """Return the input's schema."""
        return input_schema

    def process(self, unit: ts.ProcessingUnit) -> ts.ProcessingUnit:
        """Ask for the column, and filter by its values."""
        return unit.filter(pc.greater_equal(unit.column("score"), self.least))


class FarObjects:
    """Objects in memory, each request for bytes of which takes its time and is counted."""

    def __init__(self, uri: str, delay: float) -> None:
        self.held = MemoryObjects(uri)
        self.delay = delay
        self.began: list[float] = []
        self._lock = threading.Lock()

    @property
    def uri(self) -> str:
        """That of the store in memory."""
        return self.held.uri

    def _wait(self, name: str) -> None:
        if name.startswith("seg/"):
            with self._lock:
                self.began.append(time.perf_counter())
        time.sleep(self.delay)

    def put_if_absent(self, name: str, data: bytes | pa.Buffer) -> bool:
        """Write an object, at once."""
        return self.held.put_if_absent(name, data)

    def get(self, name: str) -> pa.Buffer:
        """Return an object, after a while."""
        self._wait(name)
        return self.held.get(name)

    def get_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        """Return part of an object, after a while."""
        self._wait(name)
        return self.held.get_range(name, offset, length)

    def list(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> Iterator[str]:
        """Yield names, after a while."""
        self._wait(prefix)
        return self.held.list(prefix, after=after, limit=limit)

    def delete(self, name: str) -> None:
        """Remove an object, at once."""
        self.held.delete(name)

    def size(self, name: str) -> int:
        """Return the length of an object, after a while."""
        self._wait(name)
        return self.held.size(name)

    def exists(self, name: str) -> bool:
        """Return whether there is an object, after a while."""
        self._wait(name)
        return self.held.exists(name)


def table_of(rows: int, seed: int) -> pa.Table:
    """Return rows whose column ``score`` is uniform in [0, 1), with five other columns."""
    random = np.random.default_rng(seed)
    texts = pa.array([f"item {number:05}" for number in range(5_000)])
    return pa.table(
        {
            "t": pa.array(np.cumsum(random.integers(1, 1_000, rows))).cast(pa.timestamp("us")),
            "score": random.random(rows),
            "price": np.round(random.lognormal(3, 1, rows), 2),
            "amount": random.integers(0, 1 << 40, rows),
            "weight": random.normal(size=rows),
            "item": texts.take(pa.array(random.integers(0, len(texts), rows))),
        }
    )


@dataclass(frozen=True)
class Asked:
    """What a query took: seconds behind the plan, and requests for segments."""

    seconds: float
    requests: int


def ask(objects: FarObjects, query: ts.QueryBuilder, wanted: pa.Table, workers: int) -> Asked:
    """Run a query in a store that is opened anew, and compare its answer."""
    store = ts.Store(objects, "id", read_only=True)
    store.view("x").index()  # what the plan takes is not counted
    objects.began.clear()
    with ts.options(workers=workers):
        found = store.read("x", query=query).to_arrow()
    ended = time.perf_counter()
    difference = first_difference(found, wanted)
    if difference is not None:
        raise SystemExit(f"{query!r}: another answer: {difference}")
    began = min(objects.began, default=ended)  # zone maps may leave nothing to read
    return Asked(ended - began, len(objects.began))


def far_store(rows: int, seed: int) -> tuple[FarObjects, pa.Table]:
    """Return a store of 20 segments, which answers at once as yet, and its rows."""
    objects = FarObjects("memory://round-trips", 0.0)
    open_store(objects, create=True, read_only=False)
    table = table_of(rows, seed)
    with ts.options(segment_rows=-(-rows // SEGMENTS)):
        ts.Store(objects, "id", read_only=False).write("x", table, index="t")
    return objects, table


def measured(
    rows: int, seed: int, repeats: int, workers: int, delay: float
) -> list[dict[str, object]]:
    """Return a line for each query: round trips, requests, and the limits."""
    objects, table = far_store(rows, seed)
    objects.delay = delay
    few = ts.col("score") >= 1 - SHARE
    kept = table.filter(pc.greater_equal(table.column("score"), 1 - SHARE))
    begins = table.column("t")[rows // 2]
    ends = table.column("t")[rows // 2 + rows // SEGMENTS // 2]
    one = few & ts.col("t").between(
        np.datetime64(begins.value, "us"), np.datetime64(ends.value, "us")
    )
    inside = pc.and_(
        pc.greater_equal(kept.column("t"), begins), pc.less_equal(kept.column("t"), ends)
    )
    cases = {
        "all rows": (Q, table, 0),
        "filter": (Q.filter(few), kept, SEGMENTS),
        "filter in one segment": (Q.filter(one), kept.filter(inside), 1),
        "unforeseen column": (Q.unforeseen(1 - SHARE), kept, SEGMENTS),
    }
    whole = 0
    lines: list[dict[str, object]] = []
    for name, (query, wanted, units) in cases.items():
        found = [ask(objects, query, wanted, workers) for _ in range(repeats)]
        trips = statistics.median(each.seconds for each in found) / DELAY_SECONDS
        requests = max(each.requests for each in found)
        # Rows of one segment are compared with a read of that segment.
        whole = whole or requests
        most = whole * max(units, 1) // SEGMENTS + units if units else whole
        lines.append(
            {
                "query": name,
                "round_trips": round(trips, 1),
                "most_round_trips": MOST_ROUND_TRIPS if units else None,
                "requests": requests,
                "most_requests": most if units else None,
                "reached": not units or (trips <= MOST_ROUND_TRIPS and requests <= most),
            }
        )
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    seed = time.time_ns() % 1_000_000 if given.seed is None else given.seed
    rows, repeats = (20_000, 1) if given.smoke else (given.rows, given.repeats)
    delay = 0.0 if given.smoke else DELAY_SECONDS
    lines = measured(rows, seed, repeats, given.workers, delay)
    print(f"{rows:,} rows in {SEGMENTS} segments, seed {seed}, {1e3 * delay:.0f} ms a request")
    print(f"{'query':24}{'round trips':>12}{'limit':>7}{'requests':>10}{'limit':>7}")
    for line in lines:
        shown = {name: "" if value is None else value for name, value in line.items()}
        missed = "" if line["reached"] or given.smoke else " missed"
        print(
            "{query:24}{round_trips:12}{most_round_trips:>7}{requests:10}{most_requests:>7}".format(
                **shown
            ),
            missed,
        )
    print(json.dumps({"rows": rows, "seed": seed, "lines": lines}))


if __name__ == "__main__":
    main()
