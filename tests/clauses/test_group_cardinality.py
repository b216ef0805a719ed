"""Group-bys with nearly as many groups as rows: rows go to buckets, and answers are the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tessel.api import Store
from tessel.clauses import QueryBuilder
from tessel.clauses.aggregation import MergeAggregation, PartialAggregation
from tessel.clauses.combining import SubQuery
from tessel.clauses.distinct import PartialDistinct
from tessel.clauses.partition import Partition
from tessel.kernels.word_numbers import expected_distinct
from tessel.options import options
from tessel.pipeline.executor import LocalExecutor
from tessel.pipeline.plan import Plan, answered
from tessel.pipeline.planner import group_cardinality
from tessel.pipeline.planner.planner import plan_query
from tests.clauses.helpers import events, stored
from tests.strategies.tables import bits

Q = QueryBuilder()
ROWS = 6_000


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small tables be asked, too."""
    monkeypatch.setattr(group_cardinality, "_LEAST_ROWS", 1000)
    monkeypatch.setattr(group_cardinality, "_SAMPLED_ROWS", 500)
    monkeypatch.setattr(group_cardinality, "_LOW_GROUPS", 64)


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    random = np.random.default_rng(4)
    most = random.integers(0, 1 << 40, ROWS)
    most[::7] = most[0]
    missing = random.random(ROWS) < 0.1
    return {
        "most": pa.array(most, mask=missing),
        "text": pa.array([f"key {number}" for number in most], mask=missing),
        "float": pa.array(np.where(missing, np.nan, most * 0.5)),
        "few": most % 40,
        "clustered": np.arange(ROWS) // 50 * 7919,
        "v": random.standard_normal(ROWS) * 10.0 ** random.integers(-200, 200, ROWS),
        "n": random.integers(-1000, 1000, ROWS),
    }


AGGREGATES: dict[str, Any] = {
    "s": ("v", "sum"),
    "m": ("n", "mean"),
    "low": ("text", "min"),
    "high": ("v", "max"),
    "first": ("n", "first"),
    "last": ("text", "last"),
    "spread": ("n", "std"),
    "rows": "size",
}


def planned(store: Store, query: QueryBuilder) -> Plan:
    return plan_query(store, SubQuery("x", None, query.clauses))


def kinds(plan: Plan) -> list[type]:
    return [type(clause) for stage in plan.stages for clause in stage.clauses]


@pytest.mark.parametrize(
    "keys", [("most",), ("text",), ("float",), ("text", "few"), ("few", "most")]
)
@pytest.mark.parametrize(("sort", "drop_missing"), [(True, False), (False, True)])
def test_rows_in_buckets_answer_what_partials_do(
    asked: None, table: dict[str, Any], keys: tuple[str, ...], sort: bool, drop_missing: bool
) -> None:
    grouped = Q.filter("n > -900").groupby(*keys, sort=sort, drop_missing=drop_missing)
    query = grouped.agg(**AGGREGATES)
    store = stored(table, rows=700, columns=9)
    asking = planned(store, query)
    assert asking.question is not None
    assert asking.question.saves == 0
    assert MergeAggregation in kinds(asking)
    plan = answered(asking, LocalExecutor().run)
    assert Partition in kinds(plan)
    assert PartialAggregation not in kinds(plan)
    alike = answered(asking, LocalExecutor().run, least=1)
    assert alike.question is None
    assert kinds(alike) == kinds(asking)
    expected = pa.concat_tables(list(LocalExecutor().run(alike)))
    for workers in (1, 3):
        with options(workers=workers, inline_bytes=0, hash_bucket_bytes=5_000):
            found = store.read("x", query=query).to_arrow()
        assert found.schema == expected.schema
        for name in expected.column_names:
            assert bits(found.column(name)) == bits(expected.column(name)), name


@pytest.mark.parametrize("keep", ["first", "last", "none"])
def test_a_distinct_drops_rows_in_buckets_alone(
    asked: None, table: dict[str, Any], keep: Any
) -> None:
    store = stored(table, rows=700, columns=9)
    query = Q.drop("float").with_columns(m="n * 2").distinct(["most", "few"], keep=keep)
    asking = planned(store, query)
    plan = answered(asking, LocalExecutor().run)
    assert PartialDistinct in kinds(asking)
    assert PartialDistinct not in kinds(plan)
    expected = pa.concat_tables(list(LocalExecutor().run(replace(asking, question=None))))
    assert pa.concat_tables(list(LocalExecutor().run(plan))).equals(expected)
    few = planned(store, Q.select("few").distinct())
    assert few.question is None
    assert PartialDistinct in kinds(few)


def test_a_distinct_of_many_keys_says_nothing_of_other_keys(
    asked: None, table: dict[str, Any]
) -> None:
    store = stored(table, rows=700, columns=9)
    query = Q.distinct("most").groupby("few").agg(n="size")
    plan = answered(planned(store, query), LocalExecutor().run)
    assert PartialDistinct not in kinds(plan)
    assert PartialAggregation in kinds(plan)


def test_missing_keys_do_not_hide_many_others(asked: None) -> None:
    random = np.random.default_rng(5)
    key = pa.array(random.integers(0, 1 << 40, ROWS), mask=random.random(ROWS) < 0.3)
    store = stored({"key": key, "n": np.arange(ROWS)}, rows=700, columns=2)
    plan = answered(planned(store, Q.groupby("key").agg(n="size")), LocalExecutor().run)
    assert PartialAggregation not in kinds(plan)


@pytest.mark.parametrize("keys", [("clustered",), ("clustered", "few")])
def test_units_that_reduce_their_rows_make_partials(
    asked: None, table: dict[str, Any], keys: tuple[str, ...]
) -> None:
    store = stored({**table, "few": table["clustered"] % 3}, rows=700, columns=9)
    plan = answered(planned(store, Q.groupby(*keys).agg(n="size")), LocalExecutor().run)
    assert PartialAggregation in kinds(plan)


def test_what_was_found_out_is_remembered(asked: None, table: dict[str, Any]) -> None:
    store = stored(table, rows=700, columns=9)
    query = Q.groupby("most").agg(s=("v", "sum"))
    with events("stage.start") as first:
        store.read("x", query=query)
    with events("stage.start") as second:
        store.read("x", query=query.filter("s > 0"))
    assert (len(first), len(second)) == (2, 1)
    assert planned(store, query).question is None
    # Another version of the symbol is another table.
    store.append("x", pa.table(table))
    assert planned(store, query).question is not None


def test_bounds_of_keys_save_the_question(asked: None, table: dict[str, Any]) -> None:
    store = stored(table, rows=700, columns=9)
    plan = planned(store, Q.groupby("few").agg(s=("v", "sum")))
    assert plan.question is None
    assert PartialAggregation in kinds(plan)
    computed = planned(store, Q.groupby(k="most % 100").agg(s=("v", "sum")))
    assert computed.question is None
    assert PartialAggregation in kinds(computed)


def test_no_rows_pass_a_filter(asked: None, table: dict[str, Any]) -> None:
    store = stored(table, rows=700, columns=9)
    for drop_missing in (True, False):
        query = Q.filter("n > 5000").groupby("most", drop_missing=drop_missing).agg(s=("v", "sum"))
        assert store.read("x", query=query).to_arrow().num_rows == 0


@pytest.mark.parametrize("groups", [50, 1000, 30_000, 10_000_000])
def test_the_expected_number_is_that_of_chance(groups: int) -> None:
    random = np.random.default_rng(groups)
    drawn = random.integers(0, groups, 200_000)
    sampled = 50_000
    found = len(np.unique(drawn[:sampled]))
    expected = expected_distinct(sampled, found, len(drawn))
    assert expected == pytest.approx(len(np.unique(drawn)), rel=0.05)


def test_a_sample_without_equals_is_all_groups() -> None:
    assert expected_distinct(100, 100, 5000) == 5000
    assert expected_distinct(100, 1, 5000) == pytest.approx(1, rel=0.02)
