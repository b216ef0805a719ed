"""Random chains of clauses on random tables, cut at random: one answer on both executors.

A case is a few chains on two symbols, since what costs is Spark's jobs, not tables. Chains may
fail; then both executors end with the same typed error.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tessel import options
from tessel.api import Store, open_store
from tessel.clauses import QueryBuilder, Structure
from tessel.expression.schema import TableSchema
from tessel.pipeline.plan import Plan
from tessel.spark_exec import SparkExecutor
from tessel.testing.parity import assert_parity
from tests.strategies.queries import build, chains, query_tables, row_ends
from tests.strategies.tables import cut_into_segments, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_CHAINS_A_CASE = 4
_numbers = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parity")


@pytest.fixture(scope="module")
def executor(spark: SparkSession) -> SparkExecutor:
    return SparkExecutor(spark)


@pytest.fixture
def structures() -> Iterator[set[Structure]]:
    """Collects the structures that the plans of a test need; all must be among them."""
    found: set[Structure] = set()
    yield found
    assert found == set(Structure)


def _structures(plan: Plan) -> set[Structure]:
    own = {stage.input for stage in plan.stages}
    return own.union(*(_structures(part) for part in plan.inputs if isinstance(part, Plan)))


def _fresh_store(folder: Path) -> Store:
    return open_store(str(folder / str(next(_numbers))))


def _check_case(
    data: st.DataObject, folder: Path, executor: SparkExecutor, structures: set[Structure]
) -> None:
    drawn = {"x": data.draw(query_tables(index=True)), "y": data.draw(query_tables(max_rows=8))}
    index = {name: "t" if "t" in table.column_names else None for name, table in drawn.items()}
    schemas = {name: TableSchema(table.schema, index[name]) for name, table in drawn.items()}
    store = _fresh_store(folder)
    bucket_bytes = data.draw(st.sampled_from([100, 1_000, 32_000_000]))
    with options(fsync=False, hash_bucket_bytes=bucket_bytes):
        for name, table in drawn.items():
            cut = data.draw(cut_into_segments(table, index=index[name]))
            cut.write(store, name)
        for number in range(_CHAINS_A_CASE):
            query = build(data.draw(chains(schemas["x"], others={"y": schemas["y"]})))
            query = _ended(data, number, query, store.schema("x", query))
            note(repr(query))
            structures |= _structures(store.scan("x").then(*query.clauses).plan(slots=2))
            assert_parity(store, "x", query, executor)


def _ended(
    data: st.DataObject, number: int, query: QueryBuilder, schema: TableSchema
) -> QueryBuilder:
    """End two chains of each case with what no partial aggregation answers, or buckets are rare."""
    names = st.sampled_from(schema.names)
    if number == 0 and schema.index is not None:
        return query.resample("90min").agg(n=(data.draw(names), "nunique"))
    if number == 1:
        keys = data.draw(st.lists(names, min_size=1, max_size=2, unique=True))
        return query.groupby(keys, sort=data.draw(st.booleans())).agg(
            fresh=(data.draw(names), "nunique")
        )
    return query


@settings(max_examples=15)
@given(data=st.data())
def test_random_queries(
    data: st.DataObject, folder: Path, executor: SparkExecutor, structures: set[Structure]
) -> None:
    _check_case(data, folder, executor, structures)


@pytest.mark.slow
@pytest.mark.timeout(5_400)
@settings(max_examples=600)
@given(data=st.data())
def test_many_random_queries(
    data: st.DataObject, folder: Path, executor: SparkExecutor, structures: set[Structure]
) -> None:
    _check_case(data, folder, executor, structures)


def _check_types(data: st.DataObject, folder: Path, executor: SparkExecutor) -> None:
    """Every stored type passes what lies between stages."""
    indexed = data.draw(st.booleans())
    table = data.draw(tables(index=indexed))
    store = _fresh_store(folder)
    cut = data.draw(cut_into_segments(table, index="t" if indexed else None))
    with options(fsync=False):
        cut.write(store, "x")
    names = table.column_names
    query = QueryBuilder().select(data.draw(st.permutations(names)))
    ends = st.integers(-table.num_rows, table.num_rows)
    chosen = data.draw(st.sampled_from(names))
    queries = [
        query.filter(f"`{chosen}` is not missing").row_range(*data.draw(row_ends(ends))),
        query.concat("x").tail(abs(data.draw(ends))),
        query.agg(n=(chosen, "count")),
    ]
    assert_parity(store, "x", data.draw(st.sampled_from(queries)), executor)


@settings(max_examples=15)
@given(data=st.data())
def test_random_types(data: st.DataObject, folder: Path, executor: SparkExecutor) -> None:
    _check_types(data, folder, executor)


@pytest.mark.slow
@pytest.mark.timeout(5_400)
@settings(max_examples=600)
@given(data=st.data())
def test_many_random_types(data: st.DataObject, folder: Path, executor: SparkExecutor) -> None:
    _check_types(data, folder, executor)
