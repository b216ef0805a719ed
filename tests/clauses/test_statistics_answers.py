"""Counts and extremes that statistics tell: which are told unread, and that they are right.

The oracle is the same query run as written, which reads every row.
"""

from __future__ import annotations

import datetime as dt
import decimal
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tessel.api import Store
from tessel.clauses import QueryBuilder, SubQuery
from tessel.clauses.known_rows import KnownRows
from tessel.errors import PlanFormatError
from tessel.expression.schema import TableSchema
from tessel.pipeline.plan import SourcePlan
from tessel.pipeline.planner.planner import plan_query
from tests.clauses.helpers import (
    Latest,
    answer,
    bare_answer,
    events,
    fresh_store,
    same_table,
    stored,
)
from tests.strategies.queries import query_tables
from tests.strategies.tables import cut_into_segments

Q = QueryBuilder()
START = dt.datetime(2021, 1, 1)
LONG = "x" * 100


@pytest.fixture(scope="module")
def store() -> Store:
    """Twelve rows in six slices of one column each."""
    return stored(
        {
            "t": pa.array([START + dt.timedelta(days=n) for n in range(12)], pa.timestamp("us")),
            "a": list(range(12)),
            "f": pa.array([None, float("nan"), -0.0, 0.0, 1.5, None, *[2.0] * 6]),
            "s": [*"abcdefghijk", LONG],
            "n": pa.nulls(12, pa.int32()),
            "d": pa.array([decimal.Decimal(n) for n in range(12)], pa.decimal128(38, 2)),
            "big": pa.array([decimal.Decimal(10) ** 30 + n for n in range(12)], pa.decimal128(38)),
            "e": pa.array([*"aab" * 4]).dictionary_encode(),
            "b": [True, False] * 6,
            "l": pa.array([[1]] * 12),
        },
        index="t",
        columns=1,
    )


@dataclass(frozen=True)
class Case:
    """A query, and the segments that are to be read: none where statistics tell it all."""

    query: QueryBuilder
    reads: int


CASES = [
    Case(Q.agg(n="size"), 0),
    Case(Q.agg(n=("f", "count"), low=("f", "min"), high=("f", "max")), 0),
    Case(Q.agg(low=("a", "min"), high=("t", "max"), b=("b", "min"), e=("e", "max")), 0),
    Case(Q.agg(low=("n", "min"), n=("n", "count"), lists=("l", "count")), 0),
    Case(Q.agg(low=("d", "min"), high=("d", "max")), 0),
    # A bound of text that was cut is no value: the slice that holds it is read.
    Case(Q.agg(low=("s", "min")), 0),
    Case(Q.agg(high=("s", "max")), 1),
    Case(
        Q.rename({"a": "z", "f": "a"}).select("z", "a").agg(low=("z", "min"), n=("a", "count")), 0
    ),
    Case(Q.head(6).agg(n="size", low=("a", "min"), f=("f", "count")), 0),
    # Of a slice that is cut they tell how many rows are left, and that nothing is missing.
    Case(Q.head(5).agg(n="size", a=("a", "count")), 0),
    Case(Q.head(5).agg(high=("a", "max")), 1),
    Case(Q.head(5).agg(n=("f", "count")), 1),
    Case(Q.filter("a >= 4").agg(n="size"), 0),
    Case(Q.filter("a >= 5").agg(n="size", low=("a", "min")), 1),
    Case(Q.date_range("2021-01-03", "2021-01-07").agg(n="size"), 1),
    Case(Q.filter("t > '2021-01-04'").agg(n="size", f=("f", "min")), 0),
    Case(Q.filter("a < 0").agg(n="size", low=("a", "min")), 0),
    Case(Q.filter("f > 100").agg(n="size"), 0),
    Case(Q.head(0).agg(n="size", low=("s", "min")), 0),
    Case(Q.filter("a < 0"), 0),
    Case(Q.filter("1 > 2"), 0),
    Case(Q.head(0), 0),
    Case(Q.tail(0), 0),
    # These are read.
    Case(Q.agg(n="size", s=("a", "sum")), 6),
    Case(Q.groupby("b").agg(n="size"), 6),
    Case(Q.apply("a", "a + 1").agg(low=("a", "min")), 6),
    Case(Q.filter("a >= 5").head(3).agg(n="size"), 4),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: repr(case.query)[15:])
def test_what_is_told_and_what_is_read(store: Store, case: Case) -> None:
    plan = store.scan("x").then(*case.query.clauses).plan()
    assert len(plan.inputs[0].index) == case.reads  # type: ignore[union-attr]
    with events("segment.read") as found:
        first = answer(store, case.query, [{"workers": 1}])
    assert len(found) <= case.reads
    assert same_table(first, bare_answer(store, case.query))
    assert same_table(answer(store, case.query), first)


@pytest.mark.parametrize(
    ("query", "read"),
    [
        (Q.groupby("e").agg(n=("a", "count"), m=("f", "count")), ["f", "e"]),
        (Q.filter("b").groupby("e").agg(n=("a", "count"), a=("l", "count")), ["e", "b"]),
        (Q.resample("5D", empty="null").agg(n=("a", "count"), m=("d", "count")), ["t"]),
        (Q.filter("a != 4").resample("1D", empty="null").agg(n=("big", "count")), ["t", "a"]),
        (Q.apply("a", "a + 1").groupby("e").agg(n=("a", "count")), ["a", "e"]),
    ],
    ids=str,
)
def test_a_count_of_what_is_never_missing_counts_rows(
    store: Store, query: QueryBuilder, read: list[str]
) -> None:
    plan = plan_query(Latest(store), SubQuery("x", None, query.clauses))
    assert isinstance(plan.inputs[0], SourcePlan)
    assert plan.inputs[0].schema.names == read
    assert same_table(answer(store, query), bare_answer(store, query))


def test_rows_that_an_update_took_away_are_not_told() -> None:
    store = fresh_store()
    days = [START + dt.timedelta(days=n) for n in range(12)]
    table = pa.table({"t": pa.array(days, pa.timestamp("us")), "a": pa.array(range(12))})
    store.write("x", table, index="t")
    store.update("x", table.slice(11, 1).set_column(1, "a", pa.array([5])))
    store.update("x", table.slice(0, 1).set_column(1, "a", pa.array([None], pa.int64())))
    found = answer(store, Q.agg(n="size", c=("a", "count"), low=("a", "min"), high=("a", "max")))
    assert found.to_pylist() == [{"n": 12, "c": 11, "low": 1, "high": 10}]


def test_columns_that_were_added_or_widened_are_told_rightly() -> None:
    store = fresh_store()
    store.write("x", pa.table({"a": pa.array([1, 2], pa.int8())}))
    store.append(
        "x", pa.table({"a": pa.array([3, None], pa.int8()), "b": [1.0, 2.0]}), evolve="add"
    )
    query = Q.agg(n="size", b=("b", "count"), low=("b", "min"), a=("a", "max"))
    with events("segment.read") as found:
        assert answer(store, query).to_pylist() == [{"n": 4, "b": 2, "low": 1.0, "a": 3}]
    assert not found


def _check(data: st.DataObject) -> None:
    table = data.draw(query_tables())
    index = "t" if "t" in table.column_names else None
    store = fresh_store()
    data.draw(cut_into_segments(table, index=index)).write(store, "x")
    outputs: dict[str, object] = {"size": "size"}
    for at, name in enumerate(table.column_names):
        hows = data.draw(st.lists(st.sampled_from(["count", "min", "max"]), unique=True))
        outputs |= {f"{how}{at}": (name, how) for how in hows}
    query = Q
    if data.draw(st.booleans()) and index:
        query = query.date_range(data.draw(st.sampled_from(["2021-03-13", "2021-03-13T02"])))
    if data.draw(st.booleans()):
        query = query.head(data.draw(st.integers(-5, 20)))
    if data.draw(st.booleans()) and "i" in table.column_names:
        query = query.filter(data.draw(st.sampled_from(["i > 0", "i is not missing", "i < 99"])))
    query = query.agg(**outputs)  # type: ignore[arg-type]
    note(repr(query))
    assert same_table(answer(store, query), bare_answer(store, query))


@settings(max_examples=60)
@given(data=st.data())
def test_statistics_tell_what_the_rows_do(data: st.DataObject) -> None:
    _check(data)


@pytest.mark.slow
@settings(max_examples=10_000)
@given(data=st.data())
def test_statistics_tell_what_the_rows_do_many(data: st.DataObject) -> None:
    _check(data)


def test_known_rows_hold_what_is_claimed() -> None:
    clause = KnownRows.of(pa.table({"a": [1, 2]}))
    assert KnownRows.from_json(clause.to_json()) == clause
    assert clause.describe() == "known_rows(2)"
    with pytest.raises(PlanFormatError, match="other columns"):
        clause.output_schema(TableSchema(pa.schema([("b", pa.int64())])))
    for rows in ("!", "AAAA"):
        with pytest.raises(PlanFormatError, match="holds no rows"):
            KnownRows(rows).output_schema(TableSchema(pa.schema([("b", pa.int64())])))
