"""Results of queries that are written to a store, by the pool of this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tessel import QueryBuilder, options
from tessel.api import Store, open_store
from tessel.errors import (
    CommitConflictError,
    InvalidInputError,
    SchemaMismatchError,
    SymbolNotFoundError,
    TesselError,
    UnsortedIndexError,
)
from tessel.expression.schema import TableSchema
from tests.clauses.helpers import events
from tests.collecting import collect_all
from tests.profiles import cases
from tests.strategies.queries import build, chains, query_tables
from tests.strategies.tables import cut_into_segments
from tests.written_results import assert_written


@cases(20, 60)
@given(data=st.data())
def test_a_symbol_gets_what_the_query_gives(data: st.DataObject) -> None:
    table, other = data.draw(query_tables(index=True)), data.draw(query_tables(max_rows=8))
    index = "t" if "t" in other.column_names else None
    schemas = {"y": TableSchema(other.schema, index)}
    store = open_store("memory://")
    data.draw(cut_into_segments(table, index="t")).write(store, "x")
    data.draw(cut_into_segments(other, index=index)).write(store, "y")
    query = build(data.draw(chains(TableSchema(table.schema, "t"), others=schemas)))
    note(repr(query))
    for each in (QueryBuilder(), query):  # what was there before leaves nothing behind
        assert_written(store, "x", each, "local")


@pytest.fixture
def store() -> Store:
    found = open_store("memory://")
    with options(segment_rows=100):
        found.write("x", {"t": range(1_000), "k": ["a", "b"] * 500, "v": range(1_000)}, index="t")
    return found


def _rows(store: Store, symbol: str = "x") -> dict[str, list[Any]]:
    return store.read(symbol).to_arrow().to_pydict()


def test_a_query_reads_the_version_before_it_replaces_it(store: Store) -> None:
    before = store.version
    store.write("x", store.scan("x").filter("v % 2 == 0").apply("v", "v + 1"))
    assert _rows(store)["v"] == [each + 1 for each in range(0, 1_000, 2)]
    store.write("x", store.scan("x", as_of=before).tail(3))
    assert _rows(store)["v"] == [997, 998, 999]


def test_the_other_verbs_take_results(store: Store) -> None:
    store.update("x", store.scan("x").filter("t >= 10 and t <= 12").apply("v", "v * 100"))
    store.upsert("x", store.scan("x").filter("t == 20").apply("v", "-v"), keys=["t"])
    store.append("x", store.scan("x").tail(2).apply("t", "t + 2"))
    wanted = list(range(1_000))
    wanted[10:13] = [1_000, 1_100, 1_200]
    wanted[20] = -20
    assert _rows(store)["v"] == [*wanted, 998, 999]
    assert _rows(store)["t"] == list(range(1_002))


def test_an_index_is_that_of_the_result_or_the_one_named(store: Store) -> None:
    store.write("y", store.scan("x").groupby("k").agg(t=("t", "max")))
    assert store.schema("y").index is None
    store.write("y", store.scan("x").groupby("k").agg(t=("t", "max")), index="t")
    assert store.schema("y").index == "t"
    falling = store.scan("x").sort("t", descending=True)
    with pytest.raises(UnsortedIndexError):
        store.write("y", falling, index="t")
    store.write("y", falling, index="t", sort=True)
    assert _rows(store, "y") == _rows(store)


def test_metadata_are_kept(store: Store) -> None:
    store.write("y", store.scan("x").head(3), metadata={"of": "x"})
    assert store.view("y").metadata == {"of": "x"}


def test_another_store_is_written_from_this_one(store: Store) -> None:
    other = open_store("memory://")
    other.write("mine", store.scan("x").head(3))
    assert _rows(other, "mine")["v"] == [0, 1, 2]
    assert store.version == 1


def test_a_write_that_lands_meanwhile_is_not_lost(store: Store) -> None:
    class Meanwhile:
        name = "meanwhile"
        slots = 1

        def run(self, plan: Any) -> Any:
            yield plan.schema.empty()
            store.append("x", {"t": [1_000], "k": ["c"], "v": [0]})

    with pytest.raises(CommitConflictError):
        store.write("x", store.scan("x").filter("v > 3"), executor=Meanwhile())
    assert len(_rows(store)["t"]) == 1_001


@pytest.mark.parametrize(
    ("write", "error", "said"),
    [
        (lambda s: s.write("y", s.scan("x"), encodings={"v": "plain"}), InvalidInputError, "encod"),
        (lambda s: s.append("x", s.scan("x"), evolve="add"), InvalidInputError, "evolve="),
        (lambda s: s.update("x", s.scan("x"), date_range=(1, 2)), InvalidInputError, "date_range="),
        (lambda s: s.upsert("x", s.scan("x"), keys=["t"], evolve="add"), InvalidInputError, "evol"),
        (lambda s: s.write("y", {"v": [1]}, executor="spark"), InvalidInputError, "is a table"),
        (lambda s: s.write("y", QueryBuilder().head(1)), InvalidInputError, "which symbol"),
        (lambda s: s.write("y", s.scan("x"), executor="sparc"), TesselError, "spark"),
        (lambda s: s.append("y", s.scan("x")), SymbolNotFoundError, "'y'"),
        (lambda s: s.append("x", s.scan("x").select("t")), SchemaMismatchError, "column"),
        (lambda s: s.append("x", s.scan("x").head(3)), UnsortedIndexError, "last time"),
        (lambda s: s.update("x", s.scan("x").head(0)), InvalidInputError, "without rows"),
        (lambda s: s.upsert("x", s.scan("x").head(1), keys=["nope"]), TesselError, "nope"),
        (lambda s: s.write("y", s.scan("x").cast({"v": "int8"})), TesselError, "128"),
    ],
)
def test_what_cannot_be_changes_nothing(
    store: Store, write: Any, error: type[TesselError], said: str
) -> None:
    before = store.version, _rows(store)
    with pytest.raises(error, match=said):
        write(store)
    assert (store.version, _rows(store)) == before
    assert store.symbols() == ["x"]


def _segments(store: Store) -> set[str]:
    return {*store.objects.list("seg/"), *store.objects.list("man/")}


def test_rows_of_a_write_that_failed_are_collected(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    with options(segment_rows=100, fsync=False):
        store.write("x", {"t": range(1_000), "v": range(1_000)}, index="t")
        before = _segments(store)
        with options(workers=1, inline_bytes=0), pytest.raises(TesselError, match="128"):
            store.write("y", store.scan("x").cast({"v": "int8"}))
    collect_all(store)
    assert _segments(store) == before


def test_a_result_passes_in_parts(tmp_path: Path) -> None:
    """A result many times the budget is written without being there at once."""
    store = open_store(str(tmp_path))
    rows, budget = 400_000, 1_000_000
    with options(segment_rows=10_000, fsync=False):
        store.write("x", {"t": np.arange(rows), "v": np.random.default_rng(1).random(rows)})
        with (
            options(workers=2, live_bytes=budget, inline_bytes=0),
            events("memory.alive") as alive,
        ):
            store.write("y", store.scan("x").apply("w", "v * 2"))
    assert store.read("y").to_arrow().nbytes > 5 * budget
    assert max(event.attributes["bytes"] for event in alive) <= budget
    assert alive[-1].attributes["bytes"] == 0
