"""Functions of a dictionary are computed of its entries: the same answers as of all rows."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import tessel as ts
from tessel.store.manifest.batch import Batch
from tests.clauses.helpers import fresh_store

Q = ts.QueryBuilder()

_FUNCTIONS: dict[str, str] = {
    "upper(k)": "upper(k)",
    "length(k)": "length(k)",
    "slice(k, 0, 1)": "substr(k, 1, 1)",
    "replace(k, 'a', 'b')": "replace(k, 'a', 'b')",
    "concat(k, '!')": "k || '!'",
    "coalesce(k, 'none')": "coalesce(k, 'none')",
    "length(upper(k)) * 2 - 1": "length(upper(k)) * 2 - 1",
    "length(k) / 4": "length(k) / 4",
    "n % 4": "n % 4",
    "-n": "-n",
    "f * 2": "f * 2",
    "year(d)": "year(d)",
    "length(k) + v": "length(k) + v",
    "length(k) * n": "length(k) * n",
}
"""In our words, and in those of DuckDB."""


def _table(random: np.random.Generator, rows: int) -> pa.Table:
    words = np.array(["a", "A", "bb", "aB", "ab", "ccc", "", "äö"])
    gaps = random.random(rows) < random.choice([0, 0.1, 0.9])
    floats = random.choice([0.0, -0.0, 1.5, 2.25], rows)
    days = random.integers(0, 3, rows) * 200 * 86_400_000_000
    return pa.table(
        {
            "k": pa.array(random.choice(words, rows), mask=gaps),
            "n": pa.array(random.choice([3, 7, 1 << 40, -(1 << 41)], rows), mask=gaps),
            "f": pa.array(floats, mask=random.random(rows) < 0.1),
            "d": pa.array(days, pa.timestamp("us")),
            "v": random.integers(0, 50, rows),
        }
    )


def _stored(table: pa.Table, random: np.random.Generator) -> ts.Store:
    store = fresh_store()
    cuts = np.sort(random.integers(0, len(table) + 1, 2)).tolist()
    with ts.options(segment_rows=int(random.integers(500, 4_000))):
        store.write("x", table.slice(0, cuts[0]))
        for start, stop in zip(cuts, [*cuts[1:], len(table)], strict=True):
            if stop > start:
                store.append("x", table.slice(start, stop - start))
    return store


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = (table.column(name).to_pylist() for name in table.column_names)
    rows = [
        tuple(v + 0.0 if isinstance(v, float) else v for v in row)
        for row in zip(*columns, strict=True)
    ]
    return sorted(rows, key=lambda row: [(value is None, str(value)) for value in row])


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 1 << 32), rows=st.sampled_from([40, 3_000, 9_000]),
    ours=st.sampled_from(sorted(_FUNCTIONS)), workers=st.sampled_from([1, 2]),
)  # fmt: skip
def test_answers_are_those_of_duckdb(seed: int, rows: int, ours: str, workers: int) -> None:
    random = np.random.default_rng(seed)
    table = _table(random, rows)
    store, theirs = _stored(table, random), _FUNCTIONS[ours]
    database = duckdb.connect()
    database.register("x", table)
    where = "length(k) > 1 or v < 20"
    asked = [
        (
            Q.apply("g", ours).groupby("g").agg(n=("v", "count"), s=("v", "sum")),
            f"SELECT {theirs} AS g, count(v) AS n, sum(v)::BIGINT AS s FROM x "
            f"WHERE {theirs} IS NOT NULL GROUP BY 1",
        ),
        (
            Q.apply("g", ours).groupby("v").agg(low=("g", "min"), high=("g", "max")),
            f"SELECT v, min({theirs}) AS low, max({theirs}) AS high FROM x GROUP BY v",
        ),
        (
            Q.filter(where).apply("g", ours).groupby("v").agg(n=("g", "count")),
            f"SELECT v, count({theirs}) AS n FROM x WHERE {where} GROUP BY v",
        ),
        (
            Q.apply("g", ours).select("g").distinct(),
            f"SELECT DISTINCT {theirs} AS g FROM x",
        ),
        (
            Q.apply("g", ours).filter("g == g and v > 3").agg(n=("v", "count")),
            f"SELECT count(v) AS n FROM x WHERE {theirs} IS NOT NULL AND v > 3",
        ),
    ]  # fmt: skip
    with ts.options(workers=workers):
        for query, sql in asked:
            note(str(query))
            wanted = database.sql(sql).to_arrow_table()
            assert _rows(store.read("x", query=query).to_arrow()) == _rows(wanted)


@pytest.mark.parametrize("ours", ["upper(k)", "length(k)", "year(d)", "f * 2", "n % 4"])
def test_a_group_by_runs_on_codes(ours: str) -> None:
    store = _stored(_table(np.random.default_rng(1), 20_000), np.random.default_rng(2))
    query = Q.apply("g", ours).groupby("g").agg(s=("v", "sum"))
    shown = str(store.explain("x", query, analyze=True))
    assert "partial_aggregation │ kernel on stored columns" in shown


def test_an_entry_that_fails_is_told_only_for_a_row_that_has_it() -> None:
    store = fresh_store()
    store.write("x", pa.table({"k": ["1", "2", "x", "2"] * 500, "v": list(range(2_000))}))
    number = ts.col("k").cast("int64")
    passed = Q.filter("k != 'x'").apply("g", number).groupby("g").agg(n=("v", "count"))
    assert store.read("x", query=passed).to_arrow().to_pydict() == {"g": [1, 2], "n": [500, 1000]}
    with pytest.raises(ts.TesselError, match="'x'"):
        store.read("x", query=Q.apply("g", number).groupby("g").agg(n=("v", "count")))


@pytest.mark.parametrize("names", [100, 9_000], ids=["shared", "of one segment"])
def test_a_query_that_runs_again_compiles_nothing(
    names: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large the dictionaries of the keys are, which two queries have in common."""
    random = np.random.default_rng(4)
    words = np.array([f"the name of the customer {each}" for each in range(names)])
    table = pa.table({"k": random.choice(words, 40_000), "v": random.integers(0, 9, 40_000)})
    store = fresh_store()
    with ts.options(segment_rows=20_000):
        store.write("x", table)
    compiled: list[object] = []
    compile_bound = Batch._compiled

    def counted(batch: Batch, *rest: Any) -> Any:
        compiled.append(batch)
        return compile_bound(batch, *rest)

    monkeypatch.setattr(Batch, "_compiled", counted)
    queries = [Q.filter(f"v > {least}").groupby("k").agg(s="sum(v)") for least in (2, 5)]
    first = [store.read("x", query=query).to_arrow() for query in queries]
    assert compiled
    compiled.clear()
    again = [store.read("x", query=query).to_arrow() for query in queries]
    assert not compiled
    assert again == first
    for least, found in zip((2, 5), first, strict=True):
        asked = f'SELECT k, sum(v)::BIGINT FROM "table" WHERE v > {least} GROUP BY k'
        assert sorted(_rows(found)) == sorted(duckdb.query(asked).fetchall())
