"""Measure what eight times the rows cost: ``python -m benchmarks.slopes``.

    python -m benchmarks.slopes                        # 1 and 8 million rows from a fresh seed
    python -m benchmarks.slopes --rows 3_000_000 --seed 7
    python -m benchmarks.slopes --smoke                # few rows, answers only

Aggregates, sort, distinct, windows and joins run on a table and on one of eight times its rows,
within the default byte budget. Answers are compared with DuckDB's first. The figure is the
processor time of the large run against that of the small one, warm, the median of some runs: at
most 9.6 in memory and 16 where the large run wrote to a file; and where it did, at most twice
DuckDB's. Prints a table and one line of JSON.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

import tessel as ts
from benchmarks.answers import canonical, difference
from benchmarks.measure import processor_seconds
from benchmarks.workloads import Query
from tessel import telemetry

TIMES = 8
IN_MEMORY, SPILLED, DUCKDB = 9.6, 16.0, 2.0

Q = ts.QueryBuilder()


@dataclass(frozen=True)
class Case:
    """One query.

    Attributes
    ----------
    query
        For us.
    sql
        For DuckDB, on a table ``x`` and, in joins, ``y``.
    key
        What orders the rows of the answer; empty where their order is part of it.
    """

    query: ts.QueryBuilder
    sql: str
    key: tuple[str, ...] = ()


def _aggregate(name: str, sql: str, *keys: str) -> Case:
    by = ", ".join(keys)
    query = (Q.groupby(*keys) if keys else Q).agg(a=("v", name))
    tail = f"GROUP BY {by}" if keys else ""
    return Case(query, f"SELECT {by + ', ' if keys else ''}{sql} AS a FROM x {tail}", keys)


_EVERY = "t, g, v"
CASES: dict[str, Case] = {
    "filter": Case(Q.filter("v > 2.5"), "SELECT * FROM x WHERE v > 2.5"),
    "sum by 3,000": _aggregate("sum", "sum(v)", "g"),
    "mean by 3,000": _aggregate("mean", "avg(v)", "g"),
    "min by 3,000": _aggregate("min", "min(v)", "g"),
    "max by 3,000": _aggregate("max", "max(v)", "g"),
    "std by 3,000": _aggregate("std", "stddev_samp(v)", "g"),
    "first by 3,000": _aggregate("first", "arg_min(v, t)", "g"),
    "count by 3,000": _aggregate("count", "count(v)", "g"),
    "median": _aggregate("median", "median(v)"),
    "median by 3,000": _aggregate("median", "median(v)", "g"),
    "quantile by 3,000": Case(
        Q.groupby("g").agg(a="quantile(v, 0.9)"),
        "SELECT g, quantile_cont(v, 0.9) AS a FROM x GROUP BY g",
        ("g",),
    ),
    "nunique": _aggregate("nunique", "count(DISTINCT v)"),
    "nunique by 3,000": _aggregate("nunique", "count(DISTINCT v)", "g"),
    "sum by id": _aggregate("sum", "sum(v)", "id"),
    "distinct": Case(Q.select("id").distinct("id"), "SELECT DISTINCT id FROM x", ("id",)),
    "sort": Case(Q.select("t", "g", "v").sort("v"), f"SELECT {_EVERY} FROM x ORDER BY v"),
    "top 10": Case(
        Q.select("t", "g", "v").top_k(10, "v"), f"SELECT {_EVERY} FROM x ORDER BY v DESC LIMIT 10"
    ),
    "resample": Case(
        Q.resample("1s").agg(a="sum(v)", h="max(v)"),
        "SELECT time_bucket(INTERVAL '1 second', t, TIMESTAMP '1970-01-01') AS t, sum(v) AS a, "
        "max(v) AS h FROM x GROUP BY 1 ORDER BY 1",
    ),
    "shift by key": Case(
        Q.select("t", "g", "v").shift({"p": "v"}, by="g"),
        f"SELECT {_EVERY}, lag(v) OVER (PARTITION BY g ORDER BY t) AS p FROM x",
        ("t",),
    ),
    "rank by key": Case(
        Q.select("t", "g", "v").rank({"r": "v"}, by="g", method="min"),
        f"SELECT {_EVERY}, rank() OVER (PARTITION BY g ORDER BY v) AS r FROM x",
        ("t",),
    ),
    "rolling by key": Case(
        Q.select("t", "g", "v").rolling(20, by="g", min_periods=1).agg(m=("v", "max")),
        f"SELECT {_EVERY}, max(v) OVER (PARTITION BY g ORDER BY t ROWS 19 PRECEDING) AS m FROM x",
        ("t",),
    ),
    "join": Case(
        Q.select("t", "g", "v").join(ts.SubQuery("y", None, ()), on="g"),
        f"SELECT {_EVERY}, w FROM x JOIN y USING (g)",
        ("t",),
    ),
}


def table_of(rows: int, seed: int) -> pa.Table:
    """Return rows with a key of 3,000, an id that is nearly unique, and a raw double."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "t": pa.array(np.cumsum(random.integers(1, 9, rows)) * 100, pa.timestamp("us")),
            "g": random.integers(0, 3_000, rows),
            "id": random.integers(0, rows, rows),
            "v": random.normal(0, 1, rows),
        }
    )


@dataclass(frozen=True)
class Sized:
    """One size of the table, for us and for DuckDB."""

    store: ts.Store
    duck: duckdb.DuckDBPyConnection

    @classmethod
    def of(cls, rows: int, seed: int) -> Sized:
        """Make the tables."""
        store, duck = ts.open(f"memory://slopes-{rows}"), duckdb.connect()
        other = pa.table({"g": np.arange(3_000), "w": np.arange(3_000) * 0.5})
        for name, table in (("x", table_of(rows, seed)), ("y", other)):
            store.write(name, table, index="t" if "t" in table.column_names else None)
            duck.register("source", table)
            duck.sql(f"CREATE TABLE {name} AS SELECT * FROM source")
        return cls(store, duck)

    def ours(self, case: Case) -> pa.Table:
        """Return our answer."""
        return self.store.read("x", query=case.query).to_arrow()

    def theirs(self, case: Case) -> pa.Table:
        """Return DuckDB's."""
        return self.duck.sql(case.sql).to_arrow_table()


def measured(rows: int, seed: int, repeats: int, names: list[str]) -> list[dict[str, object]]:
    """Return a line for each query."""
    small, large = Sized.of(rows, seed), Sized.of(TIMES * rows, seed)
    lines: list[dict[str, object]] = []
    for name in names:
        case = CASES[name]
        asked = Query(name, "", {}, case.key)
        ours, theirs = small.ours(case), small.theirs(case)
        differs = difference(
            canonical(ours, asked), canonical(theirs.select(ours.column_names), asked)
        )
        if differs is not None:
            raise AssertionError(f"{name}: {differs}")
        base = processor_seconds(functools.partial(small.ours, case), repeats)
        seen: set[str] = set()
        with telemetry.subscribe(lambda event: seen.add(event.name)):  # noqa: B023
            took = processor_seconds(functools.partial(large.ours, case), repeats)
        written = "spill.write" in seen
        duck = processor_seconds(functools.partial(large.theirs, case), repeats)
        slope, beside = took / base, took / duck
        reached = slope <= (SPILLED if written else IN_MEMORY)
        lines.append(
            {
                "query": name,
                "small_ms": round(1e3 * base, 1),
                "large_ms": round(1e3 * took, 1),
                "slope": round(slope, 1),
                "spilled": written,
                "duckdb": round(beside, 2),
                "reached": reached and (not written or beside <= DUCKDB),
            }
        )
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("queries", nargs="*", help=f"some of: {', '.join(CASES)}")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the small table")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    unknown = sorted(set(given.queries) - set(CASES))
    if unknown:
        parser.error(f"no query {unknown[0]!r}; there are: {', '.join(CASES)}")
    seed = time.time_ns() % 1_000_000 if given.seed is None else given.seed
    rows, repeats = (2_000, 1) if given.smoke else (given.rows, given.repeats)
    lines = measured(rows, seed, repeats, given.queries or list(CASES))
    print(f"{rows:,} and {TIMES * rows:,} rows, seed {seed}, processor time in ms")
    print(f"{'query':20}{'small':>10}{'large':>10}{'slope':>8}{'/ DuckDB':>10}")
    for line in lines:
        print("{query:20}{small_ms:10}{large_ms:10}{slope:8}{duckdb:10}".format(**line), end="  ")
        print("spilled " * bool(line["spilled"]) + "missed" * (not line["reached"]))
    print(json.dumps({"rows": rows, "seed": seed, "lines": lines}))


if __name__ == "__main__":
    main()
