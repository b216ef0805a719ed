"""Random chains with clauses that carry: the plan of all at once against one clause at a time.

Each clause has tests of its own; here they meet filters, projections, limits, groups and each
other, planned together. The oracle runs one clause, writes its answer as a table, and goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import TesselError
from tessel.testing.oracles import same_rows
from tests.clauses.helpers import SETTINGS, answer, stored

Step = Callable[[QueryBuilder], QueryBuilder]

_BY = st.sampled_from([(), ("k",)])
_N = st.integers(-3, 3)
STEPS: dict[str, st.SearchStrategy[Step]] = {
    "shift": st.builds(lambda n, by: lambda q: q.shift({"a": "v"}, n, by=by), _N, _BY),
    "shift in place": st.builds(lambda n: lambda q: q.shift(["v", "f"], n), _N),
    "diff": st.builds(lambda n, by: lambda q: q.diff({"a": "v"}, n, by=by), _N, _BY),
    "cum": st.builds(lambda by: lambda q: q.cum_sum({"a": "f"}, by=by).cum_count("v"), _BY),
    "fill": st.builds(
        lambda how, by: lambda q: q.fill("f", how, by=by),
        st.sampled_from(["forward", "backward", "linear"]),
        _BY,
    ),
    "rolling": st.builds(
        lambda by, size: lambda q: q.rolling(size, by=by, min_periods=1).agg(b=("f", "mean")),
        _BY,
        st.integers(1, 4),
    ),
    "rolling time": st.just(lambda q: q.rolling("3s").agg(b=("v", "max"), n="size")),
    "ewm": st.just(lambda q: q.ewm(span=3).agg(b=("f", "mean"))),
    "rank": st.just(lambda q: q.rank({"r": "f"}, by="k")),
    "latest_at": st.just(
        lambda q: q.latest_at(["1970-01-01T00:00:04", "1970-01-01T00:00:09"], by="k")
    ),
    "filter": st.builds(lambda n: lambda q: q.filter(f"v > {n}"), st.integers(-3, 1)),
    "filter a": st.just(lambda q: q.apply("a", "v").filter("a is not missing")),
    "date_range": st.just(lambda q: q.date_range("1970-01-01T00:00:03", "1970-01-01T00:00:12")),
    "apply": st.just(lambda q: q.apply("v", "v * 2")),
    "drop": st.just(lambda q: q.apply("n", "v").drop("n")),
    "select": st.just(lambda q: q.select("v", "t", "k", "f")),
    "head": st.builds(lambda n: lambda q: q.head(n), st.integers(-5, 9)),
    "tail": st.builds(lambda n: lambda q: q.tail(n), st.integers(-5, 9)),
    "row_range": st.builds(lambda a: lambda q: q.row_range(a, -1), st.integers(0, 4)),
}


@settings(max_examples=60)
@given(data=st.data())
def test_planned_together_or_one_by_one(data: st.DataObject) -> None:
    _check_chain(data)


@pytest.mark.slow
@settings(max_examples=3_000)
@given(data=st.data())
def test_many_chains_planned_together_or_one_by_one(data: st.DataObject) -> None:
    _check_chain(data)


def _check_chain(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 16))
    numbers = st.none() | st.integers(-4, 4)
    times = sorted(data.draw(st.lists(st.integers(0, 15), min_size=rows, max_size=rows)))

    def drawn(values: st.SearchStrategy[Any]) -> list[Any]:
        return data.draw(st.lists(values, min_size=rows, max_size=rows))

    table = pa.table(
        {
            "t": pa.array(times, pa.timestamp("s")),
            "k": pa.array(drawn(st.sampled_from(["a", "b", None])), pa.string()),
            "v": pa.array(drawn(numbers), pa.int32()),
            "f": pa.array(drawn(numbers), pa.float64()),
        }
    )
    names = data.draw(st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=5))
    steps = [data.draw(STEPS[name]) for name in names]
    ending = data.draw(st.sampled_from(["all", "few columns", "agg"]))
    if ending == "few columns":
        steps.append(lambda q: q.select("t", "v"))
    elif ending == "agg":
        steps.append(lambda q: q.groupby("k").agg(s=("v", "sum"), c=("f", "count")))
    query = QueryBuilder()
    for step in steps:
        query = step(query)
    note(repr(query))
    under = [SETTINGS[0], data.draw(st.sampled_from(SETTINGS[1:]))]
    try:
        expected: pa.Table | TesselError = _one_by_one(table, query)
    except TesselError as error:
        expected = error
    store = stored(table, index="t", rows=data.draw(st.integers(1, 6)))
    try:
        found: pa.Table | TesselError = answer(store, query, under)
    except TesselError as error:
        found = error
    if isinstance(expected, TesselError) or isinstance(found, TesselError):
        assert type(found) is type(expected), (found, expected)
        return
    assert same_rows(found, expected)


def _one_by_one(table: pa.Table, query: QueryBuilder) -> pa.Table:
    index: str | None = "t"
    for clauses in _groups(query):
        store = stored(table, index=index, rows=100, columns=100)
        single = QueryBuilder().then(*clauses)
        index = store.schema("x", single).index
        table = answer(store, single, SETTINGS[:1])
    return table


def _groups(query: QueryBuilder) -> list[list[Any]]:
    """Return the clauses one by one; a partition stays with the aggregation after it."""
    groups: list[list[Any]] = []
    for clause in query.clauses:
        if groups and groups[-1][-1].name == "partition":
            groups[-1].append(clause)
        else:
            groups.append([clause])
    return groups
