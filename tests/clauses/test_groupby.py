"""groupby and agg against DuckDB: merged from partials, through hash buckets, and of nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import Aggregation, Partition, QueryBuilder
from tessel.errors import (
    AggregateError,
    ColumnNotFoundError,
    DuplicateColumnError,
    IntegerOverflowError,
    NameNotFoundError,
    PlanError,
    UnsupportedTypeError,
)
from tests.clauses.helpers import answer, fresh_store, stored
from tests.oracles import (
    as_declared,
    duckdb_answer,
    nan_as_null,
    one_zero,
    rows_numbered,
    same_rows,
)

MERGED = "sum(v) as s, count(v) as n, min(v) as low, max(v) as high, count(*) as rows"
BUCKETED = "median(v) as m, count(distinct v) as d, sum(v) as s"
OURS = {
    MERGED: {"s": "sum", "n": "count", "low": "min", "high": "max", "rows": "size"},
    BUCKETED: {"m": "median", "d": "nunique", "s": "sum"},
}
rows = st.lists(
    st.tuples(
        st.none() | st.sampled_from(["a", "b", "Bé", ""]),
        st.none() | st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")]),
        st.none() | st.integers(-9, 9),
    ),
    max_size=30,
)


def _table(drawn: list[tuple[object, ...]]) -> pa.Table:
    kinds = {"k": pa.string(), "f": pa.float64(), "v": pa.int64()}
    return pa.table(
        {n: pa.array([r[i] for r in drawn], k) for i, (n, k) in enumerate(kinds.items())}
    )


@pytest.mark.parametrize("sql", OURS, ids=["merged", "bucketed"])
@pytest.mark.parametrize("drop_missing", [True, False])
@pytest.mark.parametrize("sort", [True, False])
@settings(max_examples=12)
@given(drawn=rows, cut=st.integers(1, 9))
def test_groups_are_those_of_duckdb(
    sql: str, drop_missing: bool, sort: bool, drawn: list[tuple[object, ...]], cut: int
) -> None:
    table = _table(drawn)
    outputs = {n: how if how == "size" else ("v", how) for n, how in OURS[sql].items()}
    query = QueryBuilder().groupby("k", "f", sort=sort, drop_missing=drop_missing).agg(**outputs)  # type: ignore[arg-type]
    found = answer(stored(table, rows=cut), query)
    where = "where k is not null and f is not null" if drop_missing else ""
    order = 'k collate "C" nulls last, f nulls last' if sort else "min(row)"
    order = order.replace(' collate "C"', "")
    expected = duckdb_answer(
        f"select k, f, {sql} from x {where} group by k, f order by {order}",
        x=rows_numbered(one_zero(nan_as_null(table))),
    )
    # The sum of no values is 0 here, and null in SQL.
    expected = expected.set_column(
        expected.column_names.index("s"), "s", expected.column("s").fill_null(0)
    )
    assert same_rows(found, as_declared(expected, found.schema))


@pytest.mark.parametrize("sql", OURS, ids=["merged", "bucketed"])
@pytest.mark.parametrize("kept", ["v > 100", "v > -100"])
def test_one_group_of_everything_also_of_nothing(sql: str, kept: str) -> None:
    table = _table([("a", 1.0, 3), ("b", 2.0, 4), ("a", None, None)])
    outputs = {n: how if how == "size" else ("v", how) for n, how in OURS[sql].items()}
    found = answer(stored(table), QueryBuilder().filter(kept).agg(**outputs))
    expected = duckdb_answer(f"select {sql} from x where {kept}", x=table)
    expected = expected.set_column(
        expected.column_names.index("s"), "s", expected.column("s").fill_null(0)
    )
    assert same_rows(found, as_declared(expected, found.schema))


@pytest.mark.parametrize("how", ["sum", "nunique"])
def test_of_an_empty_symbol(how: str) -> None:
    empty = _table([])
    assert answer(stored(empty), QueryBuilder().agg(o=("v", how))).to_pylist() == [{"o": 0}]
    grouped = answer(stored(empty), QueryBuilder().groupby("k").agg(o=("v", how)))
    assert grouped.schema == pa.schema([("k", pa.string()), ("o", pa.int64())])
    assert grouped.num_rows == 0


def test_the_forms_in_which_aggregates_are_written() -> None:
    store = stored({"k": ["a", "b", "a"], "v": [1, 2, 3]})
    q = QueryBuilder().groupby("k")
    assert answer(store, q.agg({"v": "sum"})).column_names == ["k", "v"]
    assert answer(store, q.agg({"v": ["sum", "max"]})).column_names == ["k", "v_sum", "v_max"]
    assert answer(store, q.agg({"total": ("v", "sum")})) == answer(store, q.agg(total=("v", "sum")))
    assert answer(store, q.agg(n="size")).to_pylist() == [{"k": "a", "n": 2}, {"k": "b", "n": 1}]


@pytest.mark.parametrize("merged", [True, False])
def test_an_integer_sum_past_64_bits_raises(merged: bool) -> None:
    store = stored({"k": ["a"] * 4, "v": [2**62] * 4})
    outputs = {"total": ("v", "sum")} | ({} if merged else {"d": ("v", "nunique")})
    with pytest.raises(IntegerOverflowError) as caught:
        store.read("x", query=QueryBuilder().groupby("k").agg(**outputs))
    assert "'x'" in caught.value.context["symbol"]
    assert "aggregation" in caught.value.context["clause"]


def test_more_buckets_than_keys_and_fewer() -> None:
    table = pa.table({"k": [n % 7 for n in range(100)], "v": list(range(100))})
    store = stored(table, rows=9)
    query = QueryBuilder().groupby("k").agg(m=("v", "median"))
    expected = duckdb_answer("select k, median(v) as m from x group by k order by k", x=table)
    assert same_rows(answer(store, query), expected)


def test_misuse_is_refused() -> None:
    store = stored({"key": ["a"], "v": [1], "parts": [[1]]})
    q = QueryBuilder()
    cases = [
        (lambda: q.groupby("keey").agg(n="size"), ColumnNotFoundError, "did you mean 'key'"),
        (lambda: q.groupby("key").agg(n=("w", "sum")), ColumnNotFoundError, "'w'"),
        (lambda: q.groupby("key").agg(n=("v", "summ")), NameNotFoundError, "did you mean 'sum'"),
        (lambda: q.groupby("v").agg(n=("key", "sum")), AggregateError, "no sum of column 'key'"),
        (lambda: q.groupby("key").agg(key=("v", "sum")), DuplicateColumnError, "'key'"),
        (lambda: q.groupby("key", "key").agg(n="size"), DuplicateColumnError, "'key' twice"),
        (lambda: q.groupby("parts").agg(n="size"), UnsupportedTypeError, "cannot be a key"),
        (lambda: q.groupby("key").agg(), AggregateError, "at least one aggregate"),
        (lambda: q.groupby("key").agg(n="sum"), AggregateError, "needs a column"),
        (lambda: q.groupby("key").agg(n=5), AggregateError, "not a column and an aggregate"),
        (lambda: q.groupby().agg(n="size"), PlanError, "needs a key"),
    ]
    for make, error, text in cases:
        with pytest.raises(error, match=text):  # type: ignore[arg-type]
            store.schema("x", make())


def test_an_aggregation_must_follow_the_partition_of_its_keys() -> None:
    aggregates = QueryBuilder().groupby("k").agg(n="size").clauses[1].aggregates  # type: ignore[attr-defined]
    store = stored({"k": ["a", "b"], "j": [1, 2]})
    for clauses in (
        (Aggregation(("k",), aggregates),),
        (Partition(("j",)), Aggregation(("k",), aggregates)),
        (Partition(("k",)), Aggregation((), aggregates)),
    ):
        with pytest.raises(PlanError, match="follows no partition by the same keys"):
            store.read("x", query=QueryBuilder(clauses))


def test_partials_where_all_merge_and_buckets_elsewhere() -> None:
    store = fresh_store()
    store.write("x", pa.table({"k": ["a"], "v": [1]}))

    def names(*hows: str) -> list[str]:
        query = QueryBuilder().groupby("k").agg({"v": list(hows)})
        plan = store.scan("x").then(*query.clauses).plan()
        return [clause.name for stage in plan.stages for clause in stage.clauses]

    assert names("sum", "mean") == ["partial_aggregation", "merge_aggregation"]
    assert names("sum", "median") == ["partition", "aggregation", "merge_sorted"]


def test_without_a_byte_to_hold_nothing_is_left_of_keys_that_are_all_missing() -> None:
    store = stored({"k": pa.nulls(8, pa.float64()), "v": list(range(8))}, rows=3)
    query = QueryBuilder().distinct("v").groupby("k").agg(low=("v", "min"))
    found = answer(store, query, [{"workers": 2, "inline_bytes": 0, "live_bytes": 1}])
    assert found.num_rows == 0
    assert found.column_names == ["k", "low"]
