"""Aggregates of expressions, keys that are expressions, and bundles: as if applied before."""

from __future__ import annotations

import copy
import datetime as dt
import json
import pickle
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import Aggregation, NamedAggregate, Partition, QueryBuilder
from tessel.clauses.aggregates import Quantile, aggregate_names, find_aggregate
from tessel.clauses.aggregates.registry import _registry
from tessel.errors import (
    AggregateError,
    ColumnNotFoundError,
    DuplicateColumnError,
    ExpressionTypeError,
    NameNotFoundError,
    PlanError,
    PlanFormatError,
    UnsupportedTypeError,
)
from tessel.expression import Expression, col, lit, parse
from tessel.expression.named import ComputedColumn
from tessel.expression.operators.aggregate import aggregate_call_names
from tests.clauses.helpers import answer, fresh_store, stored
from tests.oracles import as_declared, duckdb_answer, same_rows

Q = QueryBuilder()
P, N = col("p"), col("n")
TABLE = pa.table(
    {
        "k": ["a", "b", None, "a", "b", "a"],
        "p": [1.5, 2.0, 3.0, None, -4.0, 0.25],
        "n": pa.array([1, 2, 3, 4, None, 6], pa.int64()),
        "t": pa.array([0, 5, 3600, 86_400, 86_401, 90_000], pa.timestamp("s")),
    }
)


def both(table: pa.Table, one: QueryBuilder, other: QueryBuilder, **how: Any) -> pa.Table:
    """The answer of two queries, which must be one."""
    store = stored(table, **how)
    found = answer(store, one)
    assert found.equals(answer(store, other))
    assert store.schema("x", one).arrow.equals(found.schema)
    return found


# --- aggregates of expressions --------------------------------------------------------------------


@pytest.mark.parametrize("hows", [("sum", "std"), ("sum", "median")], ids=["merged", "bucketed"])
@pytest.mark.parametrize("grouped", ["groupby", "agg", "resample"])
def test_an_expression_is_as_good_as_a_column(grouped: str, hows: tuple[str, str]) -> None:
    made = Q.apply("pn", P * N).apply("over", P > 1)
    start = {
        "groupby": lambda q: q.groupby("k"),
        "agg": lambda q: q,
        "resample": lambda q: q.resample("1D"),
    }[grouped]
    one, two = hows
    outputs = {"a": ("pn", one), "b": ("pn", two), "c": ("over", "any"), "d": ("p", "vwap", "n")}
    inline = {
        "a": (P * N).aggregate(one),
        "b": f"{two}(p * n)",
        "c": (P > 1).any(),
        "d": P.weighted_mean(N),
    }
    both(TABLE, start(made).agg(**outputs), start(Q).agg(**inline), index="t")


rows = st.lists(
    st.tuples(st.none() | st.sampled_from("ab"), *(st.none() | st.integers(-9, 9),) * 2),
    max_size=20,
)


@given(drawn=rows, cut=st.integers(1, 6))
@settings(max_examples=15)
def test_expressions_and_keys_are_those_of_duckdb(drawn: list[tuple[Any, ...]], cut: int) -> None:
    kinds = {"k": pa.string(), "v": pa.int64(), "w": pa.int64()}
    table = pa.table(
        {n: pa.array([r[i] for r in drawn], kind) for i, (n, kind) in enumerate(kinds.items())}
    )
    query = Q.groupby("k", sign="v > 0").agg(
        total=(col("v") * col("w")).sum(), most="max(v - w)", n="count(w)", rows="size"
    )
    wanted = duckdb_answer(
        """select k, v > 0 as sign, coalesce(sum(v * w), 0) as total, max(v - w) as most,
           count(w) as n, count(*) as rows from x
           where k is not null and v is not null group by 1, 2 order by 1, 2""",
        x=table,
    )
    found = answer(stored(table, rows=cut), query)
    assert same_rows(found, as_declared(wanted, found.schema))


def test_hidden_columns_have_names_that_no_column_has() -> None:
    table = TABLE.append_column("(p * n)", TABLE.column("n")).append_column("(p * n) 2", [[0] * 6])
    query = Q.groupby("k").agg({"(p * n) 3": (P * N).sum(), "m": ("(p * n)", "max")})
    found = both(table, query, Q.apply("z", P * N).groupby("k").agg({
        "(p * n) 3": ("z", "sum"), "m": ("(p * n)", "max"),
    }))  # fmt: skip
    assert found.column_names == ["k", "(p * n) 3", "m"]
    weighted = Q.agg(w=((P * N), "weighted_mean", "(p * n)"))
    both(table, weighted, Q.apply("z", P * N).agg(w=("z", "weighted_mean", "(p * n)")))


def test_equal_expressions_are_computed_once() -> None:
    store = stored(TABLE, index="t")
    query = Q.groupby("k").agg(a=(P * N).sum(), b="mean(p * n)", c=(P * N).weighted_mean(P * N))
    plan = store.scan("x").then(*query.clauses).plan()
    shown = [clause.describe() for stage in plan.stages for clause in stage.clauses]
    assert shown == [
        "apply(column='(p * n)', p * n)",
        "partial_aggregation(keys=['k'], aggregates=[a=sum((p * n)), b=mean((p * n)), "
        "c=weighted_mean((p * n), (p * n))])",
        shown[-1],
    ]
    assert shown[-1].startswith("merge_aggregation(keys=['k']")
    text = str(store.scan("x").then(*query.clauses).explain())
    assert "a=sum(p * n)" in text
    assert "columns: 3 of 4: k, p, n" in text


def test_after_concat_and_before_more() -> None:
    store = fresh_store()
    store.write("x", TABLE)
    store.write("y", TABLE)
    query = Q.concat("y").groupby(d=col("t").date()).agg(s=(P * 2).sum()).filter("s > 0")
    made = Q.concat("y").apply("d", col("t").date()).apply("p2", P * 2)
    wanted = made.groupby("d").agg(s=("p2", "sum")).filter("s > 0")
    assert answer(store, query).equals(answer(store, wanted))


# --- keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["sum", "median"])
@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("drop_missing", [True, False])
def test_a_key_is_as_good_as_a_column(how: str, sort: bool, drop_missing: bool) -> None:
    made = Q.apply("day", col("t").floor("1d")).apply("odd", N % 2)
    options = {"sort": sort, "drop_missing": drop_missing}
    found = both(
        TABLE,
        made.groupby("day", "odd", "k", **options).agg(x=("n", how), last=("t", "max")),
        Q.groupby({"day": "floor(t, '1d')"}, "k", odd=N % 2, **options)
        .agg(x=("n", how), last=("t", "max"))
        .select("day", "odd", "k", "x", "last")
        if sort is False
        else Q.groupby({"day": "floor(t, '1d')", "odd": N % 2}, "k", **options).agg(
            x=("n", how), last=("t", "max")
        ),
        index="t",
    )
    assert found.schema.field("day").type == pa.timestamp("s")


def test_an_unnamed_key_has_the_name_of_its_column() -> None:
    query = Q.groupby(col("t").floor("1d")).agg(t_last=("t", "max"), n="size")
    found = answer(stored(TABLE, index="t"), query)
    assert found.to_pylist() == [
        {"t": dt.datetime(1970, 1, 1), "t_last": dt.datetime(1970, 1, 1, 1), "n": 3},
        {"t": dt.datetime(1970, 1, 2), "t_last": dt.datetime(1970, 1, 2, 1), "n": 3},
    ]
    assert Q.groupby(col("k")).agg(n="size") == Q.groupby("k").agg(n="size")
    assert Q.groupby(k="k").agg(n="size") == Q.groupby("k").agg(n="size")
    with pytest.raises(PlanError, match="reads n, p, so it needs a name"):
        Q.groupby(P + N)
    with pytest.raises(PlanError, match="reads no column, so it needs a name"):
        Q.groupby(lit(1))


def test_names_that_look_like_hidden_ones_stay() -> None:
    table = pa.table({"x": [1, 2, 1], "x 2": [5, 6, 7], "v": [1, 1, 1]})
    query = Q.groupby({"x": col("x") + 1, "x 2": col("x 2") % 2}).agg(
        n="size", was=("x", "max"), too=("x 2", "max")
    )
    assert answer(stored(table), query).to_pylist() == [
        {"x": 2, "x 2": 1, "n": 2, "was": 1, "too": 7},
        {"x": 3, "x 2": 0, "n": 1, "was": 2, "too": 6},
    ]


def test_two_keys_of_one_expression() -> None:
    found = answer(stored(TABLE), Q.groupby(a=N + 1, b=N + 1).agg(n="size"))
    assert found.column("a").equals(found.column("b"))


# --- forms ----------------------------------------------------------------------------------------


QUERY = Q.groupby("k", day=col("t").floor("1d")).agg(
    a=(P * N).sum(), b="quantile(p, 0.9, 'lower')", c=("p", "vwap", "n"), d=("p", Quantile(0.1)),
    e=("p", {"name": "std", "ddof": 0}), f=(P + 1, "weighted_mean", N * 2), g="size()", h="size",
)  # fmt: skip


def test_the_plain_form_is_the_same_query() -> None:
    text = json.dumps(QUERY.to_json())
    assert QueryBuilder.from_json(text) == QUERY
    assert pickle.loads(pickle.dumps(QUERY)) == QUERY
    assert copy.deepcopy(QUERY) == QUERY
    assert hash(QueryBuilder.from_json(text)) == hash(QUERY)
    assert Q.groupby("k", day=col("t").floor("2d")).agg(a=(P * N).sum()) != QUERY
    for each in QUERY.clauses[1].aggregates:  # type: ignore[attr-defined]
        assert NamedAggregate.from_json(json.loads(json.dumps(each.to_json()))) == each
        assert hash(each) == hash(NamedAggregate.from_json(each.to_json()))
    assert "day=floor(t, '1d')" in repr(QUERY)
    assert "a=sum(p * n), b=quantile(p, q=0.9, interpolation='lower')" in repr(QUERY)
    store = stored(TABLE)
    assert answer(store, QueryBuilder.from_json(text)).equals(answer(store, QUERY))


@pytest.mark.parametrize(
    "form",
    [
        {"output": 1, "column": "p", "aggregate": "sum"},
        {"output": "o", "column": 1, "aggregate": "sum"},
        {"output": "o", "column": {"expression": 3}, "aggregate": "sum"},
        {"output": "o", "column": {"text": "p"}, "aggregate": "sum"},
        {"output": "o", "column": "p", "aggregate": "sum", "further": "n"},
        {"output": "o", "column": "p", "aggregate": "sum", "more": []},
        {"output": "o", "column": "p"},
    ],
    ids=str,
)
def test_other_forms_are_refused(form: dict[str, Any]) -> None:
    with pytest.raises(PlanFormatError):
        NamedAggregate.from_json(form)


@pytest.mark.parametrize(
    "key",
    [1, {"name": "a"}, {"name": 1, "expression": "p"}, {"name": "a", "expression": 1}],
    ids=str,
)
def test_other_keys_are_refused(key: Any) -> None:
    form = Partition(("k",)).to_json() | {"keys": [key]}
    with pytest.raises(PlanFormatError):
        Partition.from_json(form)


def test_calls_of_aggregates_are_expressions() -> None:
    for text, made in (
        ("sum(p * n)", (P * N).sum()),
        ("quantile(p, 0.9, 'linear')", P.quantile(0.9)),
        ("weighted_mean(p, n)", P.weighted_mean(N)),
        ("std(p, 0)", P.std(0)),
        ("size()", parse("SIZE()")),
    ):
        assert parse(text).equals(made)
        assert str(made) == text
        assert Expression.from_json(made.to_json()).equals(made)
    methods = ["all", "any", "count", "first", "last", "max", "mean", "median", "min", "nunique"]
    for name in methods:
        assert str(getattr(P, name)()) == f"{name}(p)"
    assert aggregate_call_names() == set(_registry)
    assert set(aggregate_names()) | {"ohlc", "vwap"} == set(_registry)


# --- ohlc -----------------------------------------------------------------------------------------


@given(
    ticks=st.lists(
        st.tuples(st.integers(0, 200), st.none() | st.integers(-9, 9)), min_size=1, max_size=30
    ),
    cut=st.integers(1, 9),
)
@settings(max_examples=15)
def test_bars_are_those_of_pandas(ticks: list[tuple[int, int | None]], cut: int) -> None:
    ticks.sort(key=lambda tick: tick[0])
    times = pa.array([time for time, _ in ticks], pa.timestamp("s"))
    table = pa.table({"t": times, "p": pa.array([p for _, p in ticks], pa.float64())})
    found = answer(stored(table, index="t", rows=cut), Q.resample("30s").agg(p=("p", "ohlc")))
    frame = pd.DataFrame({"p": table.column("p").to_pandas().to_numpy()}, index=times.to_pandas())
    bars = frame["p"].resample("30s").ohlc()
    counts = frame["p"].resample("30s").size()
    wanted = bars[counts > 0]  # pandas also has the buckets without rows
    for name in ("open", "high", "low", "close"):
        expected = [None if value != value else value for value in wanted[name]]
        assert found.column(f"p_{name}").to_pylist() == expected


def test_the_names_of_bars() -> None:
    store = stored(TABLE)
    for query in (
        Q.groupby("k").agg({"p": "ohlc"}),
        Q.groupby("k").agg({"p": ["ohlc"]}),
        Q.groupby("k").agg(p="ohlc(p)"),
        Q.groupby("k").agg(p=(P, "ohlc")),
        Q.groupby("k").agg(p_open=("p", "first"), p_high=("p", "max"), p_low=("p", "min"),
                           p_close=("p", "last")),
    ):  # fmt: skip
        found = answer(store, query)
        assert found.column_names == ["k", "p_open", "p_high", "p_low", "p_close"]
        assert found.to_pylist()[0] == {
            "k": "a", "p_open": 1.5, "p_high": 1.5, "p_low": 0.25, "p_close": 0.25,
        }  # fmt: skip
    named = Q.agg({"p": ["mean", Quantile(0.5), Quantile(0.9, "lower"), find_aggregate("std")]})
    assert answer(store, named).column_names == [
        "p_mean", "p_quantile_0.5", "p_quantile_0.9_lower", "p_std",
    ]  # fmt: skip


# --- misuse ---------------------------------------------------------------------------------------


MISUSE = [
    (lambda: Q.agg(x=P * N), AggregateError, r"x=p \* n is not an aggregate"),
    (lambda: Q.agg(x="round(p)"), AggregateError, "is not an aggregate"),
    (lambda: Q.agg(x=P.sum() / N), AggregateError, "reads column 'n' outside of an aggregate"),
    (lambda: Q.agg(x=(P - P.mean()).sum()), AggregateError, "mean.p. is an aggregate inside"),
    (lambda: Q.agg(x=(P.mean(), "sum")), AggregateError, "aggregate inside an aggregate"),
    (lambda: Q.agg(x=("p", "weighted_mean")), AggregateError, "cannot take 1 argument"),
    (lambda: Q.agg(x=("p", find_aggregate("vwap"))), AggregateError, "needs a column and weight"),
    (lambda: Q.agg(x=("p", find_aggregate("sum"), "n")), AggregateError, "column and no more"),
    (lambda: Q.agg(x=("p", "sum", "n")), AggregateError, "sum cannot take 2 arguments"),
    (lambda: Q.agg(x="sum()"), AggregateError, "sum cannot take 0 arguments"),
    (lambda: Q.agg(x="size(p, n)"), AggregateError, "size cannot take 2 arguments"),
    (lambda: Q.agg(x="quantile(p)"), AggregateError, "quantile cannot take 1 argument"),
    (lambda: Q.agg(x="quantile(p, 2)"), AggregateError, "q of a quantile is 2"),
    (lambda: Q.agg(x="quantile(p, n)"), AggregateError, "q of a quantile is"),
    (lambda: Q.agg(x=("p", "ohlc", 1)), AggregateError, "ohlc takes one column"),
    (lambda: Q.agg(x=(1, "sum")), AggregateError, "named by text or is an expression"),
    (lambda: Q.agg(x=P.aggregate("summ")), NameNotFoundError, "did you mean 'sum'"),
    (lambda: Q.agg(x="summ(p)"), Exception, "did you mean 'sum'"),
    (lambda: Q.agg(x="sum(pp)"), ColumnNotFoundError, "'pp'"),
    (lambda: Q.agg(x=("k", "mean")), AggregateError, "no mean of column 'k'"),
    (lambda: Q.agg(x="sum(k)"), AggregateError, "no sum of column 'k'"),
    (lambda: Q.agg(x="sum(upper(k))"), AggregateError, r"no sum of column '\(upper\(k\)\)'"),
    (lambda: Q.agg(x="sum(k + 1)"), ExpressionTypeError, "k"),
    (lambda: Q.agg(p=("p", "ohlc"), p_open="size"), DuplicateColumnError, "'p_open'"),
    (lambda: Q.groupby(k=N + 1).agg(k="size"), DuplicateColumnError, "'k'"),
    (lambda: Q.groupby("k", k=N + 1), DuplicateColumnError, "'k' twice"),
    (lambda: Q.groupby(k=P.sum()).agg(n="size"), AggregateError, "not a value of each row"),
    (lambda: Q.groupby(k="nn + 1").agg(n="size"), ColumnNotFoundError, "'nn'"),
    (lambda: Q.filter(P.sum() > 1), AggregateError, "not a value of each row"),
    (lambda: Q.apply("x", P.sum()), AggregateError, "not a value of each row"),
    (lambda: Q.groupby(1), PlanError, "named by text"),
]  # fmt: skip


def schema_of(make: Any) -> None:
    made = make()
    stored(TABLE).schema("x", made if isinstance(made, QueryBuilder) else made.agg(n="size"))


@pytest.mark.parametrize(("make", "error", "text"), MISUSE)
def test_misuse_is_refused(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        schema_of(make)
    assert getattr(caught.value, "hint", None) or "did you mean" in str(caught.value)


def test_keys_without_equality_are_refused() -> None:
    table = pa.table({"s": pa.array([{"a": 1, "b": [1]}]), "v": [1]})
    store = stored(table)
    with pytest.raises(UnsupportedTypeError, match="column 's' of type struct"):
        store.schema("x", Q.groupby("s").agg(n="size"))
    with pytest.raises(UnsupportedTypeError, match="column 'b' of type list"):
        store.schema("x", Q.groupby(b=col("s").field("b")).agg(n="size"))
    found = answer(store, Q.groupby(a=col("s").field("a")).agg(n="size"))
    assert found.to_pylist() == [{"a": 1, "n": 1}]


def test_computed_keys_need_their_aggregation() -> None:
    key = ComputedColumn("m", N + 1)
    size = (NamedAggregate("n", None, find_aggregate("size")),)
    store = stored(TABLE)
    with pytest.raises(PlanError, match="is not computed yet"):
        store.read("x", query=Q.then(Partition((key,))))
    with pytest.raises(PlanError, match="follows no partition by the same keys"):
        store.read("x", query=Q.then(Partition((key,)), Aggregation(("k",), size)))


# --- windows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [2, "1h"], ids=str)
def test_windows_of_what_is_computed(window: int | str) -> None:
    made = Q.apply("pn", P * N).rolling(window, by="k", min_periods=1)
    inline = Q.rolling(window, by="k", min_periods=1)
    store = stored(TABLE, index="t")
    wanted = answer(store, made.agg(s=("pn", "sum"), m=("p", "max")).drop("pn"))
    found = answer(store, inline.agg(s=(P * N).sum(), m=("p", "max")))
    assert found.column_names == [*TABLE.column_names, "s", "m"]
    assert found.equals(wanted)
    smooth = Q.ewm(span=3).agg(m=(P * N).mean())
    spelled = Q.apply("pn", P * N).ewm(span=3).agg(m=("pn", "mean")).drop("pn")
    assert answer(store, smooth).equals(answer(store, spelled))


def test_weighted_windows() -> None:
    found = answer(stored(TABLE), Q.rolling(3, min_periods=2).agg(m=("p", "vwap", "n")))
    # A row counts where neither value nor weight is missing.
    pairs = list(zip(TABLE.column("p").to_pylist(), TABLE.column("n").to_pylist(), strict=True))
    wanted = []
    for row in range(TABLE.num_rows):
        window = [(p, n) for p, n in pairs[max(0, row - 2) : row + 1] if None not in (p, n)]
        weight = sum(n for _, n in window)
        wanted.append(sum(p * n for p, n in window) / weight if len(window) >= 2 else None)
    assert found.column("m").to_pylist() == wanted
