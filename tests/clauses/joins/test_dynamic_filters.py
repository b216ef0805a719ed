"""Keys of a small side prune the scan of a large one, and change neither answers nor errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tessel.api import Store
from tessel.clauses import QueryBuilder, SubQuery
from tessel.errors import IntegerOverflowError, UnsortedIndexError
from tessel.expression import col
from tessel.options import options
from tessel.pipeline.executor import LocalExecutor
from tessel.pipeline.plan import Plan, SourcePlan, answered
from tessel.store.manifest.selected_rows import SelectedRows
from tests.clauses.custom import Passes
from tests.clauses.helpers import events, fresh_store
from tests.clauses.joins.tables import narrowed

Q = QueryBuilder()


_OVERFLOW = Q.apply("v", "number * 4611686018427387904")


def _facts(rows: int = 20_000) -> Store:
    """Facts ordered by number, in segments of 1,000 rows, and two tables beside them."""
    random = np.random.default_rng(3)
    store = fresh_store()
    facts = {
        "number": np.arange(rows),
        "who": pa.array([f"w{at}" for at in random.integers(0, 400, rows)]),
        "what": random.integers(0, 50, rows),
        "price": np.round(random.random(rows), 2),
    }
    with options(segment_rows=1_000):
        store.write("facts", pa.table(facts))
    store.write("some", {"number": [4_100, 4_200, 15_000, 99_999], "w": [1, 2, 3, 4]})
    who = [f"w{at}" for at in range(400)]
    store.write("people", {"who": who, "city": [f"c{at % 40}" for at in range(400)]})
    store.write("things", {"what": list(range(50)), "kind": [at % 7 for at in range(50)]})
    return store


def _planned(store: Store, symbol: str, query: QueryBuilder) -> dict[str, int]:
    """Return how many rows of each symbol lie in the segments that are read."""
    plan = answered(store.explain(symbol, query).plan, LocalExecutor().run)
    return {source.view.name: source.index.row_count for source in _sources(plan)}


def _sources(plan: Plan) -> Iterator[SourcePlan]:
    for part in plan.inputs:
        if isinstance(part, Plan):
            yield from _sources(part)
        else:
            yield part


@pytest.mark.parametrize("most_keys", [0, 10_000])
@pytest.mark.parametrize(
    ("symbol", "query"),
    [
        ("facts", Q.join("some", "number")),
        ("facts", Q.join("some", "number", "semi")),
        ("facts", Q.rename({"number": "n"}).join("some", [("n", "number")], "right")),
        ("some", Q.join("facts", "number")),
        ("some", Q.join("facts", "number", "left")),
        ("some", Q.join("facts", "number", "anti")),
        ("some", Q.join(SubQuery("facts", None, Q.apply("v", "price + 1").clauses), "number")),
    ],
)
def test_segments_without_a_key_are_not_read(
    symbol: str, query: QueryBuilder, most_keys: int
) -> None:
    store = _facts()
    assert _planned(store, symbol, query)["facts"] == 20_000
    wanted = store.read(symbol, query=query).to_arrow()
    with narrowed(most_keys):
        found = store.read(symbol, query=query).to_arrow()
        read = _planned(store, symbol, query)["facts"]
    assert found.equals(wanted)
    # Of the facts the segments 4 and 15 have a key; those from 4 to the last lie in their range.
    assert read == (2_000 if most_keys else 16_000)


@pytest.mark.parametrize(
    ("how", "arrow"), [("inner", "inner"), ("semi", "left semi"), ("left", "left outer")]
)
def test_of_rows_without_a_match_the_keys_alone_are_read(
    how: Any, arrow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fresh_store()
    rows = 50_000
    store.write("facts", {"key": np.arange(rows) * 7919 % rows, "v": np.random.random(rows)})
    store.write("some", {"key": np.arange(100, 10_000, 3), "w": np.arange(3_300)})
    read: list[int] = []
    whole = SelectedRows.read

    def noting(self: SelectedRows, *given: Any, **named: Any) -> pa.Table:
        read.append(len(self))
        return whole(self, *given, **named)

    monkeypatch.setattr(SelectedRows, "read", noting)
    query = Q.join(SubQuery("some", None, Q.filter("w >= 0").clauses), "key", how)
    with narrowed(0):
        found = store.read("facts", query=query).to_arrow()
    assert max(read) == (rows if how == "left" else 3_300)
    facts, some = (store.read(name).to_arrow() for name in ("facts", "some"))
    wanted = facts.join(some, "key", join_type=arrow).sort_by("key")
    assert found.select(wanted.column_names).sort_by("key").equals(wanted)


@pytest.mark.parametrize("how", ["right", "outer", "anti"])
def test_a_side_whose_rows_come_out_alone_is_read_whole(how: Any) -> None:
    store = _facts()
    symbol, other = ("some", "facts") if how == "right" else ("facts", "some")
    with narrowed(10_000):
        found = store.read(symbol, query=Q.join(other, "number", how)).to_arrow()
        read = _planned(store, symbol, Q.join(other, "number", how))
    assert read["facts"] == 20_000
    assert found.num_rows == {"right": 20_000, "outer": 20_001, "anti": 19_997}[how]


def test_a_star_of_two_tables_is_that_of_duckdb() -> None:
    store = _facts()
    city = SubQuery("people", None, Q.filter("city in ('c3', 'c4')").clauses)
    kind = SubQuery("things", None, Q.filter("kind == 2").clauses)
    query = Q.join(city, "who").join(kind, "what").groupby("city").agg(p=("price", "sum"))
    with narrowed(10_000), events("clause.process") as seen:
        found = store.read("facts", query=query)
    connection = duckdb.connect()
    for name in ("facts", "people", "things"):
        connection.register(name, store.read(name).to_arrow())
    wanted = connection.sql(
        "SELECT city, sum(price) p FROM facts JOIN people USING (who) JOIN things USING (what)"
        " WHERE city IN ('c3', 'c4') AND kind = 2 GROUP BY city ORDER BY city"
    ).to_arrow_table()
    assert found.to_arrow().column("city").to_pylist() == wanted["city"].to_pylist()
    assert found.to_arrow().column("p").to_pylist() == pytest.approx(wanted["p"].to_pylist())
    assert "broadcast_join" not in {e.attributes["clause"] for e in seen}  # all are look-ups


@pytest.mark.parametrize(
    "raising",
    [
        Q.apply("v", "number * 4611686018427387904"),
        Q.filter("number * 4611686018427387904 > 5"),
        Q.apply("v", col("number").cast("int8")),
    ],
)
def test_no_row_that_raises_is_hidden(raising: QueryBuilder) -> None:
    store = _facts(2_000)
    for symbol, query in (
        ("facts", raising.join("some", "number")),
        ("some", Q.join(SubQuery("facts", None, raising.clauses), "number")),
        ("facts", Q.join(SubQuery("some", None, _OVERFLOW.clauses), "number")),
        ("facts", Q.join(SubQuery("some", None, _OVERFLOW.clauses), [("number", "v")])),
    ):
        errors = []
        for most_keys in (None, 10_000):
            with narrowed(most_keys), pytest.raises(Exception) as caught:
                store.read(symbol, query=query)
            errors.append((type(caught.value), str(caught.value)))
        assert errors[0] == errors[1]


def test_explain_says_what_is_asked_first() -> None:
    store = _facts()
    assert "asked first" not in str(store.explain("facts", Q.join("some", "number")))
    with narrowed(10_000):
        looked_up = str(store.explain("facts", Q.join("some", "number")))
        pruned = str(store.explain("some", Q.join("facts", "number")))
    assert "rows of input 2, which are looked up for those of input 1" in looked_up
    assert "keys of input 1, which prune input 2" in pruned


def test_merges_before_a_join_raise_as_they_are_written() -> None:
    store = fresh_store()
    store.write("a", {"t": [5, 1], "k": [2, 1]})
    store.write("b", {"t": [7, 1], "k": [2, 1]})
    store.write("s", {"k": [1]})
    for most_keys in (None, 10_000):
        with narrowed(most_keys), pytest.raises(UnsortedIndexError):
            store.read("a", query=Q.merge("b", on="t").join("s", "k"))


def test_times_that_the_finer_unit_cannot_count_are_refused() -> None:
    store = fresh_store()
    late = pa.array([0, 1 << 60], pa.timestamp("s"))
    store.write("a", {"t": pa.array([1, 2], pa.timestamp("ns")), "k": [1, 1]}, index="t")
    store.write("b", {"t": late, "k": [1, 2], "w": [1, 2]}, index="t")
    for most_keys in (None, 10_000):
        with narrowed(most_keys), pytest.raises(IntegerOverflowError):
            store.read("a", query=Q.join_asof("b", by="k"))


def test_long_chains_ask_at_two_joins() -> None:
    """Each question makes a plan of all joins before it."""
    store = _facts(1_000)
    names = [f"j{at}" for at in range(6)]
    query = Q
    for name in names:
        store.write(name, {"number": [1, 5], name: [0, 1]})
        query = query.join(name, "number")
    with narrowed(10_000):
        plan = store.explain("facts", query).plan
        found = store.read("facts", query=query).to_arrow()
    asked = 0
    while isinstance(plan.inputs[0], Plan):
        asked += plan.question is not None
        plan = plan.inputs[0]
    assert asked == 2
    assert found.equals(store.read("facts", query=query).to_arrow())


def test_clauses_of_others_run_once() -> None:
    """What they give may differ from run to run."""
    store = _facts(1_000)
    query = Q.join(SubQuery("some", None, Q.then(Passes()).clauses), "number")
    with narrowed(10_000):
        assert store.explain("facts", query).plan.question is None


def test_a_run_shows_the_plan_that_ran() -> None:
    store = _facts()
    with narrowed(10_000):
        text = str(store.explain("facts", Q.join("some", "number"), analyze=True))
    assert "rows of input 2, which are looked up for those of input 1" in text
    assert "20,000 → 2,000 │ statistics: never number in (" in text
    assert "2,000 rows" in text
