"""Random chains on random tables, cut at random: the pipeline against a plain interpreter."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tessel.expression.schema import TableSchema
from tessel.testing.queries import build, chains, query_tables
from tessel.testing.tables import cut_into_segments
from tests.clauses.helpers import SETTINGS, answer, fresh_store
from tests.clauses.reference import comparable, comparable_table, frame_of, run


def _index(table: pa.Table) -> str | None:
    return "t" if "t" in table.column_names else None


def _check_chain(data: st.DataObject) -> None:
    tables = {"x": data.draw(query_tables()), "y": data.draw(query_tables(max_rows=8))}
    schemas = {n: TableSchema(t.schema, _index(t)) for n, t in tables.items()}
    steps = data.draw(chains(schemas["x"], others={"y": schemas["y"]}))
    query = build(steps)
    note(repr(query))
    store = fresh_store()
    for name, table in tables.items():
        cut = data.draw(cut_into_segments(table, index=_index(table)))
        cut.write(store, name)
    frames = {name: frame_of(table, _index(table)) for name, table in tables.items()}
    expected = run(steps, frames, "x")
    found = answer(store, query, [SETTINGS[0], data.draw(st.sampled_from(SETTINGS[1:]))])
    assert found.column_names == list(expected.columns)
    for ours, wanted in zip(comparable_table(found, expected), comparable(expected), strict=True):
        assert ours == wanted
    promised = store.schema("x", query)
    assert promised.arrow.equals(found.schema, check_metadata=False)
    assert promised.index == expected.index
    assert type(query).from_json(query.to_json()) == query


@settings(max_examples=300)
@given(data=st.data())
def test_chains(data: st.DataObject) -> None:
    _check_chain(data)


@pytest.mark.slow
@settings(max_examples=10_000)
@given(data=st.data())
def test_many_chains(data: st.DataObject) -> None:
    _check_chain(data)
