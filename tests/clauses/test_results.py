"""Outputs that compute with the results of aggregates: as if applied after, on any split."""

from __future__ import annotations

import copy
import datetime as dt
import json
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import Aggregation, NamedAggregate, QueryBuilder
from tessel.clauses.aggregates import find_aggregate
from tessel.errors import (
    AggregateError,
    ColumnNotFoundError,
    DuplicateColumnError,
    ExpressionTypeError,
    PlanError,
    PlanFormatError,
    TesselError,
)
from tessel.expression import col, lit, parse, when
from tessel.expression.named import ComputedColumn
from tests.clauses.helpers import answer, fresh_store, stored
from tests.oracles import as_declared, duckdb_answer, same_rows
from tests.strategies.tables import bits

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
OUTPUTS: dict[str, Any] = {
    "rows": "size",
    "spread": P.max() - P.min(),
    "vwap": "sum(p * n) / sum(n)",
    "high": ("p", "max"),
    "scaled": when(N.sum() > 5).then(P.mean() * 2).otherwise(lit(-1.0)),
    "days": "last(t) - first(t)",
}
APART: dict[str, Any] = {
    "rows": "size", "high": ("p", "max"), "low": ("p", "min"), "pn": "sum(p * n)",
    "total": ("n", "sum"), "mean": ("p", "mean"), "latest": ("t", "last"), "start": ("t", "first"),
}  # fmt: skip


def computed_after(query: QueryBuilder, keys: list[str]) -> QueryBuilder:
    """What OUTPUTS are, written as aggregates and what computes with them after."""
    query = query.apply("spread", "high - low").apply("vwap", "pn / total")
    query = query.apply("scaled", "case when total > 5 then mean * 2 else -1.0 end")
    return query.apply("days", "latest - start").select([*keys, *OUTPUTS])


def median_too(outputs: dict[str, Any], *, computed: bool) -> dict[str, Any]:
    """Add an aggregate that does not merge, so that whole groups are brought together."""
    return outputs | ({"middle": P.median() - P.median()} if computed else {"m": ("p", "median")})


@pytest.mark.parametrize("bucketed", [False, True])
@pytest.mark.parametrize("grouped", ["groupby", "agg", "resample", "by", "rolling", "hours"])
def test_it_is_as_if_applied_after(grouped: str, bucketed: bool) -> None:
    start, keys = {
        "groupby": (Q.groupby("k", odd=N % 2), ["k", "odd"]),
        "agg": (Q, []),
        "resample": (Q.resample("1D"), ["t"]),
        "by": (Q.resample("12h", by="k", empty="zero"), ["t", "k"]),
        "rolling": (Q.rolling(2, by="k", min_periods=1), TABLE.column_names),
        "hours": (Q.rolling("2h"), TABLE.column_names),
    }[grouped]
    store = stored(TABLE, index="t")
    outputs = median_too(OUTPUTS, computed=True) if bucketed else OUTPUTS
    inline = start.agg(**outputs)  # type: ignore[attr-defined]
    apart = start.agg(**median_too(APART, computed=False) if bucketed else APART)  # type: ignore[attr-defined]
    if bucketed:
        wanted = answer(store, computed_after(apart.apply("middle", "m - m"), keys))
        middle = answer(store, apart.apply("middle", "m - m")).column("middle")
        wanted = wanted.append_column("middle", middle)
    else:
        wanted = answer(store, computed_after(apart, keys))
    found = answer(store, inline)
    assert found.schema.equals(wanted.schema)
    for name in found.column_names:  # bits, for 0 / 0 is NaN
        assert bits(found.column(name)) == bits(wanted.column(name)), name
    assert store.schema("x", inline).arrow.equals(found.schema)


rows = st.lists(
    st.tuples(st.none() | st.sampled_from("ab"), *(st.none() | st.integers(-9, 9),) * 2),
    max_size=20,
)


@given(drawn=rows, cut=st.integers(1, 6))
@settings(max_examples=20)
def test_results_are_those_of_duckdb(drawn: list[tuple[Any, ...]], cut: int) -> None:
    kinds = {"k": pa.string(), "v": pa.int64(), "w": pa.int64()}
    table = pa.table(
        {n: pa.array([r[i] for r in drawn], kind) for i, (n, kind) in enumerate(kinds.items())}
    )
    query = Q.groupby("k").agg(
        span="max(v) - min(v)",
        mean="sum(v * w) / count(w)",
        odd=(col("v").sum() + col("w").sum()) % 7,
        most=col("v").max().fill_missing(-1),
        n="count(w)",
    )
    wanted = duckdb_answer(
        """select k, max(v) - min(v) as span,
           case when count(w) = 0 then null else coalesce(sum(v * w), 0) / count(w) end as mean,
           (((coalesce(sum(v), 0) + coalesce(sum(w), 0)) % 7) + 7) % 7 as odd,
           coalesce(max(v), -1) as most, count(w) as n
           from x where k is not null group by k order by k""",
        x=table,
    )
    found = answer(stored(table, rows=cut), query)
    assert same_rows(found, as_declared(wanted, found.schema))


@given(
    ticks=st.lists(
        st.tuples(st.integers(0, 200), st.sampled_from("abc"), st.integers(-9, 9)),
        min_size=1,
        max_size=30,
    ),
    cut=st.integers(1, 9),
)
@settings(max_examples=15)
def test_buckets_and_computed_keys_are_those_of_polars(
    ticks: list[tuple[int, str, int]], cut: int
) -> None:
    ticks.sort(key=lambda tick: tick[0])
    table = pa.table(
        {
            "t": pa.array([time for time, _, _ in ticks], pa.timestamp("us")),
            "k": [key for _, key, _ in ticks],
            "v": pa.array([value for *_, value in ticks], pa.int64()),
        }
    )
    query = Q.resample("40us", by={"first": col("k") == "a", "odd": "v % 2"}).agg(
        spread="max(v) - min(v)", n="size"
    )
    found = answer(stored(table, index="t", rows=cut), query)
    wanted = (
        pl.from_arrow(table)
        .group_by(pl.col("t").dt.truncate("40us"), first=pl.col("k") == "a", odd=pl.col("v") % 2)
        .agg(spread=pl.col("v").max() - pl.col("v").min(), n=pl.len().cast(pl.Int64))
        .sort("t", "first", "odd")
    )
    assert found.to_pylist() == wanted.to_dicts()


def test_windows_are_those_of_pandas() -> None:
    rng = np.random.default_rng(5)
    table = pa.table({"v": rng.integers(-99, 99, 500).astype(float)})
    query = Q.rolling(7).agg(v="max(v) - min(v)", z="(last(v) - mean(v)) / std(v)")
    found = answer(stored(table, rows=60), query).to_pandas()
    windows = pd.Series(table.column("v").to_numpy()).rolling(7)
    values = pd.Series(table.column("v").to_numpy())
    pd.testing.assert_series_equal(found["v"], windows.max() - windows.min(), check_names=False)
    z = (values - windows.mean()) / windows.std()
    pd.testing.assert_series_equal(found["z"], z, check_names=False)


def test_fading_results() -> None:
    store = stored(TABLE)
    found = answer(store, Q.ewm(span=3, by="k").agg(gap=P.mean() - N.mean(), n=("n", "mean")))
    apart = Q.ewm(span=3, by="k").agg(pm=("p", "mean"), nm=("n", "mean"))
    wanted = apart.apply("gap", "pm - nm").apply("n", "nm").drop("pm", "nm")
    assert found.equals(answer(store, wanted))


# --- names and sharing ----------------------------------------------------------------------------


def steps(query: QueryBuilder, table: pa.Table = TABLE) -> list[str]:
    """The clauses that run, as explain shows them."""
    plan = stored(table, index="t").scan("x").then(*query.clauses).plan()
    return [clause.describe() for stage in plan.stages for clause in stage.clauses]


def test_equal_aggregates_are_computed_once() -> None:
    query = Q.groupby("k").agg(
        top=("p", "max"), spread="max(p) - min(p)", twice=(P.max() - P.min()) * 2, low=P.min()
    )
    assert steps(query) == [
        "partial_aggregation(keys=['k'], aggregates=[top=max(p), low=min(p)])",
        steps(query)[1],
        "apply(column='spread', top - low)",
        "apply(column='twice', (top - low) * 2)",
        "select(columns=['k', 'top', 'spread', 'twice', 'low'])",
    ]
    hidden = Q.groupby("k").agg(spread="max(p * 2) - min(p)")
    assert steps(hidden)[1].startswith(
        "partial_aggregation(keys=['k'], aggregates=[max(p * 2)=max((p * 2)), min(p)])"
    )
    text = str(stored(TABLE).scan("x").then(*hidden.clauses).explain())
    assert "apply(column='spread', `max(p * 2)` - `min(p)`)" in text


def test_hidden_aggregates_have_names_that_no_column_has() -> None:
    table = TABLE.append_column("max(p)", TABLE.column("n"))
    store = stored(table, index="t")
    window = Q.rolling(2, min_periods=1).agg(x="max(p) - 1", y=(col("max(p)"), "sum"))
    spelled = Q.rolling(2, min_periods=1).agg(m="max(p)", y=("max(p)", "sum"))
    spelled = spelled.apply("x", "m - 1").select([*table.column_names, "x", "y"])
    assert answer(store, window).equals(answer(store, spelled))
    keyed = Q.groupby({"max(p)": "k"}).agg(x="max(p) - 1")
    assert answer(store, keyed).equals(
        answer(store, Q.groupby({"max(p)": "k"}).agg(m="max(p)").apply("x", "m - 1").drop("m"))
    )
    named = Q.groupby("k").agg({"min(p)": ("p", "max"), "x": "min(p) - max(p)"})
    assert answer(store, named).equals(
        answer(
            store,
            Q.groupby("k").agg({"min(p)": ("p", "max"), "m": "min(p)"})
            .apply("x", "m - `min(p)`").drop("m"),
        )
    )  # fmt: skip


def test_a_window_may_replace_what_it_reads() -> None:
    store = stored(TABLE)
    found = answer(store, Q.rolling(2, min_periods=1).agg(p="max(p) - min(p)", n="max(p) + 1"))
    apart = Q.rolling(2, min_periods=1).agg(a="max(p)", b="min(p)")
    wanted = answer(store, apart.apply("p", "a - b").apply("n", "a + 1").drop("a", "b"))
    assert found.equals(wanted)
    assert found.column_names == TABLE.column_names


def test_a_range_of_labels_still_reads_few_rows() -> None:
    store = stored(TABLE, index="t", rows=1)
    query = Q.resample("1h", by={"up": col("k").upper()}).agg(spread="max(p) - min(p)")
    cut = query.date_range("1970-01-02", "1970-01-02T23:00")
    shown = str(store.scan("x").then(*cut.clauses).explain())
    assert "range_before_resample" in shown
    whole = answer(store, query).filter(pa.compute.field("t") >= dt.datetime(1970, 1, 2))
    assert answer(store, cut).equals(whole)


def test_after_concat_and_before_more() -> None:
    store = fresh_store()
    store.write("x", TABLE)
    store.write("y", TABLE)
    query = Q.concat("y").groupby("k").agg(s="max(p) - min(p)", n="size").filter("s > 2")
    wanted = Q.concat("y").groupby("k").agg(a="max(p)", b="min(p)", n="size")
    wanted = wanted.apply("s", "a - b").select("k", "s", "n").filter("s > 2")
    assert answer(store, query).equals(answer(store, wanted))


# --- the plain form -------------------------------------------------------------------------------


QUERY = Q.resample("1h", by={"odd": N % 2}).agg(
    spread=P.max() - P.min(), z="quantile(p, 0.9) / size()", n="size"
)


def test_the_plain_form_is_the_same_query() -> None:
    text = json.dumps(QUERY.to_json())
    assert QueryBuilder.from_json(text) == QUERY
    assert pickle.loads(pickle.dumps(QUERY)) == QUERY
    assert copy.deepcopy(QUERY) == QUERY
    for query in (Q.groupby("k").agg(**OUTPUTS), Q.rolling(3).agg(**OUTPUTS), Q.agg(**OUTPUTS)):
        assert QueryBuilder.from_json(json.dumps(query.to_json())) == query
        assert "results=[rows=rows, spread=high - `min(p)`, " in repr(query)
    faded = Q.ewm(span=3).agg(x="mean(p) - 1")
    assert QueryBuilder.from_json(json.dumps(faded.to_json())) == faded
    assert "results" not in json.dumps(Q.groupby("k").agg(n="size").to_json())
    store = stored(TABLE, index="t")
    assert answer(store, QueryBuilder.from_json(text)).equals(answer(store, QUERY))


SIZE = NamedAggregate("n", None, find_aggregate("size"))


@pytest.mark.parametrize(
    ("results", "error", "text"),
    [
        ([{"name": "x", "expression": "m + 1"}], AggregateError, "reads 'm', which is none"),
        ([{"name": "x", "expression": "max(p)"}], AggregateError, "reads 'p', which is none"),
        ([{"name": "n", "expression": "n + 1"}], AggregateError, "has the name of an aggregate"),
        ([{"name": "k", "expression": "n"}], DuplicateColumnError, "two columns named 'k'"),
        ([{"name": "x", "expression": "n"}] * 2, DuplicateColumnError, "two columns named 'x'"),
        ([{"name": "x"}], PlanFormatError, "computed column"),
        ({"x": "n"}, PlanFormatError, "takes a list"),
        ([3], PlanFormatError, "takes an object"),
    ],
    ids=str,
)
def test_rubbish_is_refused(results: Any, error: type[TesselError], text: str) -> None:
    form = Aggregation(("k",), (SIZE,)).to_json() | {"results": results}
    with pytest.raises(error, match=text):
        Aggregation.from_json(form)


def test_only_the_planner_computes_results() -> None:
    clause = Aggregation((), (SIZE,), results=(ComputedColumn("x", parse("n + 1")),))
    store = stored(TABLE)
    with pytest.raises(PlanError, match="is not computed yet"):
        clause.check_planned()
    assert answer(store, Q.then(*Q.agg(n="size").clauses[:1], clause)).to_pylist() == [{"x": 7}]


MISUSE = [
    (lambda: Q.agg(x=P.max() - P), AggregateError, "reads column 'p' outside of an aggregate"),
    (lambda: Q.agg(x="n + sum(p) * n"), AggregateError, "reads column 'n' outside"),
    (lambda: Q.agg(x=P.max().sum() + 1), AggregateError, "max.p. is an aggregate inside"),
    (lambda: Q.agg(x="1 + 2 * round(3)"), AggregateError, "is not an aggregate"),
    (lambda: Q.agg(x="ohlc(p) + 1"), AggregateError, "is several aggregates"),
    (lambda: Q.agg(x="max(pp) - 1"), ColumnNotFoundError, "'pp'"),
    (lambda: Q.agg(x="max(k) - min(k)"), ExpressionTypeError, r"`max\(k\)`"),
    (lambda: Q.agg(x="sum(k) - 1"), AggregateError, "no sum of column 'k'"),
    (lambda: Q.groupby("k").agg(k="max(p) - 1"), DuplicateColumnError, "'k'"),
    (lambda: Q.agg(x="max(p) - 1").agg(y=("p", "sum")), ColumnNotFoundError, "'p'"),
    (lambda: Q.ewm(span=2).agg(x="median(p) - 1"), AggregateError, "ewm has no median"),
    (lambda: Q.rolling(2).agg(x="max(p) - p"), AggregateError, "reads column 'p' outside"),
    (lambda: Q.resample("1h", by=P + N), PlanError, r"by=\{.name.: p \+ n\}"),
    (lambda: Q.resample("1h", by={"t": "k"}).agg(n="size"), DuplicateColumnError, "'t'"),
    (lambda: Q.resample("1h", by={"z": "kk"}).agg(n="size"), ColumnNotFoundError, "'kk'"),
    (lambda: Q.resample("1h", by=["k", {"k": P}]).agg(n="size"), DuplicateColumnError, "'k'"),
]


@pytest.mark.parametrize(("make", "error", "text"), MISUSE)
def test_misuse_is_refused(make: Any, error: type[Exception], text: str) -> None:
    store = stored(TABLE, index="t")
    with pytest.raises(error) as caught:
        store.schema("x", make())
    assert pd.Series([f"{caught.value} {getattr(caught.value, 'hint', '')}"]).str.contains(text)[0]
