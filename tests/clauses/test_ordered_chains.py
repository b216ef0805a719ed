"""Random chains with clauses that carry: the plan of all at once against one clause at a time.

Each clause has tests of its own; here they meet filters, projections, limits, groups and each
other, planned together. The oracle runs one clause, writes its answer as a table, and goes on.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.errors import TesselError
from tests.clauses.helpers import SETTINGS, answer, stored
from tests.clauses.ordered_steps import ordered_chains, ordered_tables
from tests.oracles import same_rows


@settings(max_examples=30)
@given(data=st.data())
def test_planned_together_or_one_by_one(data: st.DataObject) -> None:
    _check_chain(data)


@pytest.mark.slow
@settings(max_examples=3_000)
@given(data=st.data())
def test_many_chains_planned_together_or_one_by_one(data: st.DataObject) -> None:
    _check_chain(data)


def _check_chain(data: st.DataObject) -> None:
    table = data.draw(ordered_tables())
    query = data.draw(ordered_chains())
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
