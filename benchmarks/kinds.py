"""Ask each kind of column each question, beside DuckDB: ``python -m benchmarks.kinds``.

    python -m benchmarks.kinds                     # a million rows from a fresh seed
    python -m benchmarks.kinds nunique sort        # questions whose names have one of these
    python -m benchmarks.kinds --smoke             # few rows, answers only

Other benchmarks ask what somebody thought of. This one asks everything of everything: aggregates of
all rows and by 500 keys, sorts, the greatest ten, different values, groups, rows that miss a value,
of numbers stored as they are, scaled, by codes and whole, with nulls and without, of texts that
repeat and that differ, of days, instants and decimals. Answers are compared first. The figure is
processor time against DuckDB's, one thread each, warm, the least of some runs: it finds a kind that
goes a slower way. Prints the worst of them, the geometric mean, and one line of JSON.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import time
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

import tessel as ts
from benchmarks.answers import canonical, difference
from benchmarks.measure import processor_seconds
from benchmarks.workloads import Query

KEYS = 500
SHOWN = 30

Q = ts.QueryBuilder()

_AGGREGATES = {
    "count": "count({0})",
    "min": "min({0})",
    "max": "max({0})",
    "nunique": "count(DISTINCT {0})",
    "first": "arg_min({0}, n) FILTER ({0} IS NOT NULL)",
}
_OF_NUMBERS = {
    "sum": "coalesce(sum({0}), 0)",
    "mean": "avg({0})",
    "std": "stddev_samp({0})",
    "median": "median({0}::DOUBLE)",
}
_LIMITS = {"big"}
"""Columns whose sums leave 64 bits, of which other engines make doubles or wide integers."""


def table_of(rows: int, seed: int) -> pa.Table:
    """Return a column of each kind, ``n`` that counts the rows, and a key ``k``."""
    random = np.random.default_rng(seed)
    prices = np.round(random.lognormal(3, 1, rows), 2)
    numbers, missing = random.integers(0, 1_000, rows), random.random(rows) < 0.1
    raw = random.normal(1, size=rows)
    texts = pa.array([f"word {number:05} of some text" for number in range(20_000)])
    texts = texts.take(random.integers(0, len(texts), rows))
    days = pa.array((numbers * 7 % 9_000).astype(np.int32)).cast(pa.date32())
    return pa.table(
        {
            "n": np.arange(rows),
            "k": pa.array([f"k{number}" for number in random.integers(0, KEYS, rows)]),
            "price": prices,
            "signed": np.round(random.normal(1, size=rows), 3),
            "few_prices": pa.array(prices, mask=missing),
            "raw": raw,
            "few_raw": pa.array(raw, mask=missing),
            "single": prices.astype(np.float32),
            "number": numbers,
            "small": numbers.astype(np.int32),
            "few_numbers": pa.array(numbers, mask=missing),
            "id": random.integers(0, max(1, rows // 5), rows),
            "big": random.integers(-(2**62), 2**62, rows),
            "flag": numbers > 500,
            "few_flags": pa.array(numbers > 500, mask=missing),
            "text": texts,
            "few_texts": pa.array(texts.to_pylist(), pa.string(), mask=missing),
            "name": pa.array([f"u{number}" for number in random.permutation(rows)]),
            "day": days,
            "time": pa.array(random.integers(0, 10**15, rows)).cast(pa.timestamp("us")),
            "exact": pa.array(numbers).cast(pa.decimal128(20, 0)).cast(pa.decimal128(22, 2)),
        }
    )


def questions(schema: pa.Schema) -> Iterator[tuple[str, ts.QueryBuilder, str, tuple[str, ...]]]:
    """Give names, our queries, those of DuckDB, and by what rows of an answer are compared."""
    for field in schema:
        if field.name in ("n", "k"):
            continue
        name, kind = field.name, field.type
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        numeric = is_number or pa.types.is_decimal(kind)
        aggregates = _AGGREGATES | (_OF_NUMBERS if numeric else {})
        for each, sql in aggregates.items():
            if name in _LIMITS and each == "sum":
                continue
            asked = f"{sql.format(name)} AS a FROM x"
            yield f"{each} of {name}", Q.agg(a=(name, each)), f"SELECT {asked}", ()
            by = f"SELECT k, {asked} GROUP BY k"
            yield f"{each} of {name} by k", Q.groupby("k").agg(a=(name, each)), by, ("k",)
        order = f"SELECT {name}, n FROM x ORDER BY {name} NULLS LAST, n"
        yield f"sort by {name}", Q.select(name, "n").sort(name), order, ("n",)
        best = f"SELECT {name}, n FROM x ORDER BY {name} DESC NULLS LAST, n LIMIT 10"
        yield f"greatest {name}", Q.select(name, "n").top_k(10, name), best, ("n",)
        different = f"SELECT DISTINCT {name} FROM x"
        yield f"distinct {name}", Q.select(name).distinct(), different, (name,)
        groups = f"SELECT {name}, sum(number) AS a FROM x WHERE {name} IS NOT NULL GROUP BY {name}"
        yield f"groups by {name}", Q.groupby(name).agg(a=("number", "sum")), groups, (name,)
        none = f"SELECT count(*) AS a FROM x WHERE {name} IS NULL"
        yield f"missing {name}", Q.filter(f"{name} is null").agg(a="size"), none, ()


def measured(rows: int, seed: int, repeats: int, wanted: list[str]) -> list[dict[str, object]]:
    """Return a line for each question, the slowest beside DuckDB first."""
    table = table_of(rows, seed)
    store, duck = ts.open("memory://kinds"), duckdb.connect()
    store.write("x", table)
    duck.execute("SET threads = 1")
    duck.register("source", table)
    duck.execute("CREATE TABLE x AS SELECT * FROM source")
    lines: list[dict[str, object]] = []
    for name, query, sql, key in questions(table.schema):
        if wanted and not any(each in name for each in wanted):
            continue
        ours = functools.partial(lambda asked: store.read("x", query=asked).to_arrow(), query)
        theirs = functools.partial(lambda asked: duck.sql(asked).to_arrow_table(), sql)
        asked, found = Query(name, "", {}, key), ours()
        differs = difference(
            canonical(found, asked), canonical(theirs().select(found.column_names), asked)
        )
        if differs is not None:
            raise AssertionError(f"{name}: {differs}")
        took, beside = (processor_seconds(each, repeats) for each in (ours, theirs))
        figures = {"ours_ms": round(1e3 * took, 1), "duckdb_ms": round(1e3 * beside, 1)}
        lines.append({"query": name, **figures, "ratio": round(took / max(beside, 1e-9), 2)})
    return sorted(lines, key=lambda line: -float(str(line["ratio"])))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("queries", nargs="*", help="parts of names; all by default")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    seed = time.time_ns() % 1_000_000 if given.seed is None else given.seed
    rows, repeats = (3_000, 1) if given.smoke else (given.rows, given.repeats)
    with ts.options(workers=1):
        lines = measured(rows, seed, repeats, given.queries)
    if not lines:
        parser.error(f"no question has a name with {', '.join(given.queries)}")
    print(f"{rows:,} rows, seed {seed}, one thread, processor time in ms; the worst {SHOWN}")
    print(f"{'question':26}{'tessel':>10}{'DuckDB':>10}{'ratio':>8}")
    for line in lines[:SHOWN]:
        print("{query:26}{ours_ms:10}{duckdb_ms:10}{ratio:8}".format(**line))
    mean = statistics.geometric_mean(max(float(str(line["ratio"])), 0.001) for line in lines)
    print(f"geometric mean of {len(lines)} questions: {mean:.2f}")
    print(json.dumps({"rows": rows, "seed": seed, "mean": round(mean, 3), "lines": lines}))


if __name__ == "__main__":
    main()
