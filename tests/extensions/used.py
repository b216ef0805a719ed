"""What runs in a clone that has the extensions: their answers, then their times."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tessel as ts
from benchmarks.measure import processor_seconds
from tessel.compare import first_difference
from tests.extensions import drop_nulls  # registers its clauses

assert drop_nulls
Q = ts.QueryBuilder()
PAIRS = {
    "sign": (Q.filter("sign(price) > 0"), Q.filter("abs(price) > 0")),
    "sign, computed": (Q.apply("z", "sign(price)"), Q.apply("z", "abs(price)")),
    "range": (Q.groupby("key").agg(z=("amount", "range")), Q.groupby("key").agg(z="max(amount)")),
    "drop_nulls": (Q.drop_nulls("price"), Q.filter("price is not missing")),
    "drop_nulls, arrays": (Q.drop_nulls_of_arrays("price"), Q.filter("price is not missing")),
}


def table_of(rows: int) -> pa.Table:
    random = np.random.default_rng(rows)
    missing = random.random(rows) < 0.1
    return pa.table(
        {
            "key": random.integers(0, 500, rows).astype(np.int32),
            "price": pa.array(np.round(random.normal(0, 50, rows), 2), mask=missing),
            "amount": pa.array(random.integers(-1_000, 1_000, rows), mask=missing),
        }
    )


def wanted(table: pa.Table) -> dict[str, pa.Table]:
    """Return the answers by pyarrow."""
    signs = pc.sign(table.column("price"))
    grouped = table.group_by("key").aggregate([("amount", "min"), ("amount", "max")])
    grouped = grouped.sort_by("key")
    width = pc.subtract(grouped.column("amount_max"), grouped.column("amount_min"))
    held = table.filter(pc.is_valid(table.column("price")))
    return {
        "sign": table.filter(pc.fill_null(pc.greater(signs, 0), False)),
        "sign, computed": table.append_column("z", signs),
        "range": pa.table({"key": grouped.column("key"), "z": width}),
        "drop_nulls": held,
        "drop_nulls, arrays": held,
    }


def main(rows: int, repeats: int) -> None:
    assert Path(ts.__file__).parents[1] == Path.cwd()
    store, table = ts.open("memory://clone"), table_of(rows)
    with ts.options(segment_rows=max(rows // 3, 1)):
        store.write("x", table)
    lines = []
    for name, expected in wanted(table).items():
        query, nearest = PAIRS[name]
        for settings in ({"workers": 1}, {"workers": 2, "inline_bytes": 0, "live_bytes": 300}):
            with ts.options(**settings):
                found = store.read("x", query=query).to_arrow()
            if name == "range":
                found = found.sort_by("key")
            assert first_difference(found, expected) is None, name
        assert ts.QueryBuilder.from_json(query.to_json()) == query
        if repeats:
            ours, theirs = (
                processor_seconds(lambda asked=asked: store.read("x", query=asked), repeats)
                for asked in (query, nearest)
            )
            allowed = 1.5 * theirs + (2e-9 * rows if "arrays" in name else 0)
            figures = {"ms": 1e3 * ours, "nearest_ms": 1e3 * theirs, "ratio": ours / theirs}
            rounded = {key: round(value, 2) for key, value in figures.items()}
            lines.append({"extension": name, **rounded, "reached": ours <= allowed})
    print(json.dumps(lines))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
