"""The plan cache answers only the same query with the same options on the same state."""

from __future__ import annotations

import datetime as dt
import gc
import weakref
from unittest import mock

import pyarrow as pa
import pytest

from tessel.api import Result, Store
from tessel.clauses import QueryBuilder, SubQuery
from tessel.options import options
from tessel.pipeline.executor import LocalExecutor
from tessel.pipeline.plan import Plan, SourcePlan, answered
from tessel.pipeline.planner import plan_cache
from tessel.pipeline.planner.planner import plan_query
from tests.clauses.custom import UpToNow
from tests.clauses.helpers import Latest, fresh_store, stored
from tests.clauses.joins.tables import narrowed

Q = QueryBuilder()


def _index(plan: Plan) -> object:
    (source,) = plan.inputs
    assert isinstance(source, SourcePlan)
    return source.index


def test_a_query_is_planned_once_for_each_state_and_all_that_a_plan_depends_on() -> None:
    store = stored({"v": list(range(100))}, rows=10)

    def plan(query: QueryBuilder) -> Plan:
        return plan_query(Latest(store), SubQuery("x", None, query.clauses))

    queries = [Q.filter("v == 1"), Q.filter("v == 1.0"), Q.filter("v < 20"), Q.head(1), Q]
    first = [_index(plan(query)) for query in queries]
    again = [_index(plan(QueryBuilder.from_json(query.to_json()))) for query in queries]
    assert all(one is other for one, other in zip(first, again, strict=True))
    filters = {str(change.before) for query in queries[:2] for change in plan(query).changes[:1]}
    assert len(filters) == 2  # equal numbers of two types are two queries
    with options(live_bytes=1_000_000):
        assert (
            plan(queries[2]).changes
            is not plan_query(
                Latest(store), SubQuery("x", None, queries[2].clauses), slots=77
            ).changes
        )
    before = plan(Q.filter("v < 20"))
    store.append("x", pa.table({"v": [0, 1, 2]}))
    after = plan(Q.filter("v < 20"))
    assert _index(after) is not _index(before)
    assert store.read("x", query=Q.filter("v < 20")).to_arrow().num_rows == 23
    assert (
        store.read("x", query=Q.filter("v < 20"), as_of=store.version - 1).to_arrow().num_rows == 20
    )


def test_inputs_of_a_join_are_planned_once() -> None:
    store = fresh_store()
    store.write("x", pa.table({"v": list(range(100))}))
    store.write("y", pa.table({"v": [3, 5], "w": [1, 2]}))
    other = SubQuery("y", None, Q.filter("w < 2").clauses)
    query = Q.filter("v > 1").join(other, "v")
    plans = [
        plan_query(Latest(store), SubQuery("x", None, each.clauses))
        for each in (query, QueryBuilder.from_json(query.to_json()))
    ]
    first, again = ([_index(part) for part in plan.inputs] for plan in plans)
    assert all(one is two for one, two in zip(first, again, strict=True))
    assert store.read("x", query=query).to_arrow().to_pydict() == {"v": [3], "w": [1]}


_RESAMPLED = Q.resample("7s", origin="start").agg(s=("v", "sum"))


def _shop() -> Store:
    store = fresh_store()
    times = pa.array(range(100), pa.timestamp("s"))
    store.write("x", pa.table({"t": times, "v": list(range(100))}), index="t")
    store.write("y", pa.table({"v": [3, 5], "w": [1, 2]}))
    return store


@pytest.mark.parametrize("query", [Q.join("y", "v"), Q.join("y", "v", "right"), _RESAMPLED])
def test_a_question_is_asked_once_for_each_state_of_all_symbols(query: QueryBuilder) -> None:
    store = _shop()
    with narrowed(10_000):
        shown = str(store.explain("x", query))
        first, asked = _read(store, query)
        again, unasked = _read(store, QueryBuilder.from_json(query.to_json()))
        assert asked > unasked == 1
        assert again.to_arrow().equals(first.to_arrow())
        assert again.lineage.segments_read == first.lineage.segments_read
        assert str(store.explain("x", query)) == shown  # and "asked first" is in it
        for symbol, row in (("y", {"v": [7], "w": [4]}), ("x", {"t": [_LATE], "v": [3]})):
            store.append(symbol, pa.table(row, store.schema(symbol).arrow))
            found, asked = _read(store, query)
            assert asked > 1 or symbol not in str(found.lineage.symbols)
            with mock.patch.object(plan_cache, "_MEMO", f"never {symbol}"):
                anew, _ = _read(store, query)
            assert found.to_arrow().equals(anew.to_arrow())
        old = store.read("x", query=query, as_of=store.version - 2)
        assert old.to_arrow().equals(first.to_arrow())


def test_an_answer_without_which_a_plan_is_wrong_stays_one() -> None:
    store, query = _shop(), Q.join("y", "v").resample("7s", origin="start").agg(s=("v", "sum"))
    with narrowed(10_000):
        first, _ = _read(store, query)  # the plan that the first time leads to asks for keys
        plan = plan_query(Latest(store), SubQuery("x", None, query.clauses))
        run = LocalExecutor().run
        known = answered(plan, run, least=1 << 62)  # as on Spark, where keys are worth no job
        assert pa.concat_tables(run(known)).equals(first.to_arrow())


def test_what_a_plug_in_lowers_to_is_asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored({"v": list(range(100))}, rows=10)
    inner = SubQuery("x", None, Q.up_to_now("v").clauses)
    queries = Q.up_to_now("v"), Q.filter("v > 2").up_to_now("v"), Q.concat(inner)
    for most, rows in ((5, [6, 3, 106]), (7, [8, 5, 108])):
        monkeypatch.setattr(UpToNow, "now", most)
        assert [store.read("x", query=each).to_arrow().num_rows for each in queries] == rows


_LATE = dt.datetime(2000, 1, 1)


def _read(store: Store, query: QueryBuilder) -> tuple[Result, int]:
    """Return an answer, and how many plans were run for it."""
    with mock.patch.object(
        LocalExecutor, "run", autospec=True, side_effect=LocalExecutor.run
    ) as run:
        found = store.read("x", query=query)
    return found, run.call_count


def test_large_answers_are_asked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    store = _shop()
    monkeypatch.setattr(plan_cache, "_MOST_ANSWER_BYTES", 1)
    with narrowed(10_000):
        reads = [_read(store, Q.join("y", "v")) for _ in range(3)]
    assert [asked for _, asked in reads] == [2, 2, 2]
    assert {str(found.to_arrow()) for found, _ in reads} == {str(reads[0][0].to_arrow())}


def test_plans_made_of_answers_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    store, query = _shop(), Q.join("y", "v")
    monkeypatch.setattr(plan_cache, "_MOST_ANSWER_BYTES", 3 * plan_cache._PLAN_BYTES)
    with narrowed(10_000):
        assert [_read(store, query)[1] for _ in range(2)] == [2, 1]
        for number in range(3):
            _read(store, Q.filter(f"v < {number + 100}").join("y", "v"))
        assert [_read(store, query)[1] for _ in range(2)] == [2, 1]


def test_the_cache_is_bounded_and_keeps_no_store_alive() -> None:
    store = fresh_store()
    store.write("x", pa.table({"v": list(range(100))}))
    for number in range(plan_cache._MOST_PLANS + 5):
        store.read("x", query=Q.filter(f"v < {number}"))
    store.write("y", pa.table({"v": [3, 5]}))
    with narrowed(10_000):
        store.read("x", query=Q.join("y", "v"))
    memos = store.view("x").index().memos
    assert len(memos["plans"]) == plan_cache._MOST_PLANS
    alive = weakref.ref(store)
    del store
    gc.collect()
    assert alive() is None
    assert len(memos["plans"]) == plan_cache._MOST_PLANS
