"""Every barrier of the Spark executor against the local pool."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import tessel as ts
from tessel import options
from tessel.api import Store
from tessel.clauses import QueryBuilder, Structure, SubQuery, clause_names, find_clause
from tessel.clauses.aggregates import Quantile, aggregate_names
from tessel.clauses.partition import Partition
from tessel.expression import col
from tessel.pipeline.plan import Plan, SourcePlan
from tessel.spark_exec import SparkExecutor
from tessel.testing.parity import assert_parity, assert_same, outcome
from tests.spark_exec import test_carried, test_joins, test_whole_clauses
from tests.spark_exec.queries import CountRows, Facts, Overlapping, Pairs, Reversed, many_symbols

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Q = QueryBuilder()
OUTPUTS = {f"{how}_u": ("u", how) for how in ("min", "max", "count", "first", "last", "nunique")}
OUTPUTS |= {f"{how}_v": ("v", how) for how in ("sum", "mean", "median", "var", "std", "sem")}
OUTPUTS |= {"quantile_v": ("v", Quantile(0.3)), "any_b": ("b", "any"), "all_b": ("b", "all")}
OUTPUTS |= {"vwap_v": ("v", "vwap", "k"), "bar": ("u", "ohlc")}
BUCKETED = ("median_v", "nunique_u", "quantile_v")
MERGED = {name: how for name, how in OUTPUTS.items() if name not in BUCKETED}
PER_KEY = SubQuery("b", None, Q.groupby("k").agg(u=("u", "max"), s=("s", "first")).clauses)
MEDIANS = SubQuery("b", None, Q.resample("2h").agg(v=("v", "median")).drop("t").clauses)
FROM_START = SubQuery(
    "b",
    None,
    Q.filter("b").resample("2h", origin="start").agg(v=("v", "median")).drop("t").clauses,
)
TAIL = SubQuery("b", None, Q.filter("b").tail(5).clauses)
NESTED = SubQuery("a", None, Q.filter("k > 1").concat("b", "one").clauses)


@dataclass(frozen=True)
class Case:
    """A query with the structures that its stages must need."""

    name: str
    query: QueryBuilder
    structures: frozenset[Structure]

    def __str__(self) -> str:
        return self.name


def case(name: str, query: QueryBuilder, *structures: Structure) -> Case:
    return Case(name, query, frozenset(structures))


ROW, TIME, HASH, ALL, MANY = Structure
CASES = [
    case("read", Q, ROW),
    case("filter", Q.filter("v > 0").filter("b"), ROW),
    case("project", Q.apply("w", "v * 2").rename({"s": "text"}).select("w", "text", "c"), ROW),
    case("drop", Q.drop("l", "d"), ROW),
    case("dates", Q.date_range("1970-01-01T03", "1970-01-01T12"), ROW),
    case("one column of every type", Q.select("n", "l", "d", "e"), ROW),
    case("nothing left", Q.filter("v > 1000"), ROW),
    case("pruned", Q.filter("i > 1000"), ROW),
    # limits
    case("head", Q.filter("b").head(9), ROW, ALL),
    case("head of few", Q.filter("i == 59").head(9), ROW, ALL),
    case("head of none", Q.filter("b").head(0), ALL),
    case("all but the last", Q.filter("b").head(-9), ROW, ALL),
    case("tail", Q.filter("b").tail(9), ROW, ALL),
    case("all but the first", Q.filter("b").tail(-9), ROW, ALL),
    case("rows from the end", Q.filter("b").row_range(-12, -3), ROW, ALL),
    case("rows to no end", Q.filter("b").row_range(11), ROW, ALL),
    case("limit, clauses, limit", Q.filter("b").tail(20).filter("k > 1").head(3), ROW, ALL),
    case("limit of buckets", Q.resample("2h").agg(m=("v", "median")).tail(3), TIME, ALL),
    case("first buckets", Q.resample("2h").agg(m=("v", "median")).head(3).filter("m > 0"),
         TIME, ALL, ROW),
    case("limits of limits", Q.resample("1h").agg(m=("v", "median")).tail(9).tail(5).head(2),
         TIME, ALL),
    case("rows by number", Q.take([7, 3, 3, 0]), ALL),
    case("rows by number from the end", Q.filter("b").take([-1, 2]), ROW, ALL),
    # groups
    case("merged", Q.groupby("k").agg(**MERGED), ROW, ALL),
    case("merged, unsorted, missing", Q.groupby("s", "k", sort=False, drop_missing=False)
         .agg(n="size", **MERGED), ROW, ALL),
    case("keys and values that are computed", Q.groupby(col("t").floor("2h"), odd="k % 2").agg(
        most="max(v - k)", vk=(col("v") * col("k")).mean()), ROW, ALL),
    case("times of what is computed", Q.resample("3h").agg(m="median(v - k)"), ROW),
    case("buckets", Q.groupby("k").agg(**OUTPUTS), ROW, HASH, ALL),
    case("buckets, unsorted, missing", Q.groupby("c", "k", sort=False, drop_missing=False)
         .agg(n="size", **OUTPUTS), ROW, HASH, ALL),
    case("buckets of nothing", Q.filter("i < 0").groupby("k").agg(**OUTPUTS), ROW, HASH, ALL),
    case("one group", Q.agg(n="size", **MERGED), ROW, ALL),
    case("one group of rows", Q.agg(**OUTPUTS), ALL),
    case("one group of nothing", Q.filter("i < 0").agg(**OUTPUTS), ALL),
    case("one group of no rows", Q.filter("v > 1000").agg(**OUTPUTS), ALL),
    case("groups of groups", Q.groupby("k", "s").agg(**OUTPUTS).groupby("k").agg(
        n=("s", "nunique"), m=("median_v", "max")), ROW, HASH, ALL),
    case("groups of buckets", Q.resample("1h").agg(m=("v", "median"), k=("k", "max")).filter(
        "m == m").groupby("k", sort=False).agg(n=("m", "nunique")),
        TIME, ROW, HASH, ALL),
    case("groups after a limit", Q.filter("b").head(25).groupby("s", sort=False).agg(
        n=("i", "nunique")), ROW, HASH, ALL),
    # time
    case("merged times", Q.resample("3h").agg(**MERGED), ROW, ALL),
    case("times", Q.resample("3h", closed="right", label="right").agg(**OUTPUTS), TIME),
    case("times after a filter", Q.filter("b").resample("5h").agg(**OUTPUTS), ROW),
    case("merged times of keys", Q.resample("D", by=["s", "k"], empty="ffill").agg(**MERGED),
         ROW, ALL),
    case("times of keys", Q.resample("3h", by="k", drop_missing=False, empty="null").agg(
        **OUTPUTS), TIME, ALL),
    case("times from the first row", Q.filter("b").resample("100min", origin="start").agg(
        **MERGED), ROW, ALL),
    case("times to the last row", Q.filter("b").resample("5h", origin="end", empty="zero").agg(
        m=("v", "median")), ROW, ALL),
    case("months", Q.resample("ME").agg(m=("v", "median"), n="size"), TIME),
    case("concat with times from the first row", Q.concat(FROM_START).filter("v > 0"),
         ROW, MANY),
    case("times of nothing", Q.filter("i < 0").resample("5h").agg(**OUTPUTS), TIME),
    case("times of times", Q.resample("2h").agg(m=("v", "median")).resample("6h").agg(
        m=("m", "median")), TIME),
    case("times after a limit", Q.filter("b").tail(30).resample("4h").agg(m=("v", "median")),
         ROW, ALL, TIME),
    # several symbols
    case("concat", Q.concat("b", "empty", "one"), ROW, MANY),
    case("concat of few columns", Q.concat("b", join="inner").filter("k > 2"), ROW, MANY),
    case("concat, groups in order of appearance", Q.concat("b", "one").groupby(
        "s", "k", sort=False).agg(n=("i", "nunique")), ROW, MANY, HASH, ALL),
    case("concat, merged", Q.concat("b").groupby("s", sort=False).agg(f=("i", "first")),
         ROW, MANY, ALL),
    case("concat with groups", Q.filter("b").concat(PER_KEY, "one").filter("u > 5"),
         ROW, MANY, ALL),
    case("concat with buckets", Q.concat(MEDIANS).filter("v > 0"), ROW, MANY, TIME),
    case("concat with limits", Q.tail(50).concat(TAIL, "one").filter("k > 0"), ROW, MANY, ALL),
    case("concat, limit", Q.concat(TAIL, "one").head(63), ROW, MANY, ALL),
    case("concat, last rows", Q.filter("b").concat("b", "one").tail(30), ROW, MANY, ALL),
    case("concat of concats", Q.concat(NESTED, NESTED, "one").filter("b").groupby(
        "s", sort=False).agg(n=("i", "nunique"), f=("u", "first")), ROW, MANY, HASH, ALL),
    case("merge", Q.merge("b", "empty", "one"), ROW, MANY),
    case("merge of few columns", Q.filter("b").merge("b", join="inner").filter("k > 2"), ROW, MANY),
    case("merge with groups and limits", Q.tail(50).merge(TAIL, "one").groupby(
        "s", sort=False).agg(f=("i", "first")), ROW, MANY, ALL),
    case("merge, times", Q.merge("b").resample("2h").agg(v=("v", "median")), ROW, MANY, TIME),
    case("merge of segments", Q.concat("b").merge(on="t").filter("k > 2"), ROW, MANY, ALL),
    case("merge of nothing else", Q.merge().head(9), ALL),
    # clauses of others
    case("everything", Q.filter("b").then(Reversed()), ROW, ALL),
    case("everything first", Q.then(Reversed()), ALL),
    case("everything in one", Q.filter("b").then(CountRows()), ROW, ALL),
    case("everything in one first", Q.then(CountRows()), ALL),
    case("everything after buckets", Q.resample("1h").agg(m=("v", "median")).then(CountRows()),
         TIME, ALL),
    case("everything of nothing", Q.filter("i < 0").then(CountRows()), ALL),
    case("everything of no rows", Q.filter("v > 1000").then(CountRows()), ALL),
    case("everything of no buckets", Q.filter("v > 1000").resample("1h").agg(
        m=("v", "median")).then(CountRows()), TIME, ALL),
    case("grouped by itself", Q.filter("b").then(Pairs()).filter("k > 0"), ROW, ALL),
    case("grouped by itself first", Q.then(Pairs()), ALL),
    case("grouped by itself twice", Q.then(Pairs(), Pairs()), ALL),
    case("grouped by itself, nothing", Q.filter("i < 0").then(Pairs()), ALL),
    case("buckets grouped anew", Q.then(Partition(("s", "k"), buckets=3), Overlapping()),
         ROW, HASH),
    case("buckets grouped anew, nothing", Q.filter("v > 1000").then(
        Partition(("s",), buckets=3), Overlapping()), ROW, HASH),
    case("buckets as they are", Q.then(Partition(("s", "k"), buckets=5)), ROW),
]  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return many_symbols(tmp_path_factory.mktemp("spark"))


@pytest.fixture(scope="module")
def executor(spark: SparkSession) -> SparkExecutor:
    return SparkExecutor(spark)


def structures_of(plan: Plan) -> set[Structure]:
    found = {stage.input for stage in plan.stages}
    return found.union(*(structures_of(part) for part in plan.inputs if isinstance(part, Plan)))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_query_has_one_answer(store: Store, executor: SparkExecutor, case: Case) -> None:
    plan = store.scan("a").then(*case.query.clauses).plan(slots=executor.slots)
    assert structures_of(plan) == case.structures
    found = assert_parity(store, "a", case.query, executor)
    assert isinstance(found, pa.Table), str(found)
    assert found.schema.equals(plan.schema.arrow, check_metadata=False)


def test_the_cases_reach_every_structure_clause_and_aggregate() -> None:
    assert frozenset().union(*(case.structures for case in CASES)) == set(Structure)
    clauses = [clause for case in CASES for clause in case.query.clauses]
    others = [
        *test_carried.QUERIES.values(),
        *test_joins.CASES.values(),
        *test_whole_clauses.QUERIES,
        test_whole_clauses.ZONED,
    ]
    reached = {clause.name for clause in clauses}
    reached |= {clause.name for query in others for clause in query.clauses}
    ours = {c for c in map(find_clause, clause_names()) if c.__module__.startswith("tessel.")}
    assert reached >= {c.name for c in ours if not c.internal}
    aggregates = {
        each.aggregate.name for clause in clauses for each in getattr(clause, "aggregates", ())
    }
    assert aggregates == set(aggregate_names())


@pytest.mark.parametrize("symbol", ["b", "empty", "one"])
@pytest.mark.parametrize(
    "name", ["buckets, unsorted, missing", "times after a filter", "tail", "one group of rows",
             "everything", "grouped by itself", "concat", "read"],
)  # fmt: skip
def test_small_symbols(store: Store, executor: SparkExecutor, symbol: str, name: str) -> None:
    (query,) = [case.query for case in CASES if case.name == name]
    if symbol == "b":
        query = QueryBuilder().then(
            *(c for c in query.clauses if not {"c", "l"} & set(c.structure.columns or ()))
        )
        if name.startswith("buckets"):
            return
    assert_parity(store, symbol, query, executor)


@pytest.mark.parametrize("name", ["read", "buckets", "times after a filter", "grouped by itself",
                                  "buckets grouped anew", "limit of buckets", "concat, last rows",
                                  "concat with buckets"])  # fmt: skip
def test_parts_of_several_blobs(store: Store, spark: SparkSession, name: str) -> None:
    """A blob holds a row or two: parts are put together again behind every barrier."""
    (query,) = [case.query for case in CASES if case.name == name]
    assert_parity(store, "a", query, SparkExecutor(spark, max_blob_bytes=200))


@pytest.mark.parametrize("name", ["buckets, unsorted, missing", "groups of groups",
                                  "concat of concats"])  # fmt: skip
def test_many_buckets(store: Store, executor: SparkExecutor, name: str) -> None:
    (query,) = [case.query for case in CASES if case.name == name]
    expected = outcome(store, "a", query, "local")
    with options(hash_bucket_bytes=300):
        assert_same(expected, outcome(store, "a", query, executor))


@pytest.mark.parametrize(
    "query",
    [
        Q.select("i").then(Facts()),
        Q.select("i").filter("i > 20").then(Facts()),
        Q.select("i").filter("i > 20").then(Facts("all")),
        Q.select("i").concat(SubQuery("b", None, Q.select("i").clauses)).then(Facts()),
        Q.select("i", "b").filter("b").tail(20).then(Facts()),
        Q.select("i").concat(NESTED, "one", join="inner").filter("i > 3").then(Facts()),
        Q.select("i", "b").filter("b").head(25).then(Facts()),
        Q.select("i").then(Pairs()).then(Facts()),
        Q.select("i").then(Partition(("i",), buckets=4), Overlapping(), Facts()),
        Q.select("i").then(Partition(("i",), buckets=4), Facts()),
        Q.select("i").then(Partition(("i",), buckets=4), Facts("all")),
        Q.resample("3h").agg(m=("i", "median")).then(Facts()),
        Q.filter("b").resample("3h").agg(m=("i", "median")).then(Facts("all")),
    ],
    ids=str,
)
def test_units_are_the_same(store: Store, executor: SparkExecutor, query: QueryBuilder) -> None:
    """Ordinals, row and time ranges, symbols, buckets and planned fetches agree."""
    found = assert_parity(store, "a", query, executor)
    assert isinstance(found, pa.Table), str(found)
    assert found.num_rows > 0


def test_a_part_that_two_units_want_leaves_its_first_bucket_to_the_earlier(
    tmp_path_factory: pytest.TempPathFactory, executor: SparkExecutor
) -> None:
    """Hours that end in the middle of segments: each segment is wanted by two units."""
    store = many_symbols(tmp_path_factory.mktemp("shared"))
    minutes = pa.array([i * 13 * 60 for i in range(90)]).cast(pa.timestamp("s"))
    table = pa.table({"t": minutes, "x": range(90), "y": [i % 3 for i in range(90)]})
    with options(segment_rows=10, segment_columns=1, fsync=False):
        store.write("ticks", table, index="t")
    for query in (Q, Q.filter("y < 2"), Q.filter("y < 2").filter("x > 4").select("t", "x")):
        hourly = query.resample("1h").agg(n="size", m=("x", "median"))
        plan = store.scan("ticks").then(*hourly.clauses).plan()
        if len(plan.stages) == 1:
            (source,) = plan.inputs
            assert isinstance(source, SourcePlan)
            units = source.units
            shared = [p for unit in units for p in unit]
            assert len(shared) > len(set(shared))
        found = assert_parity(store, "ticks", hourly, executor)
        assert isinstance(found, pa.Table)
        assert sum(found.column("n").to_pylist()) == len(store.read("ticks", query=query))


def test_times_are_read_in_another_zone(spark: SparkSession, tmp_path: Path) -> None:
    store = ts.open(str(tmp_path))
    times = pa.array(np.arange(3_000) * 3_600_000_000, pa.timestamp("us", "UTC"))
    with ts.options(segment_rows=700):
        store.write("z", pa.table({"t": times, "v": np.arange(3_000) * 0.5}), index="t")
    asked: Any = Q
    for before in (asked, asked.filter("v > 99")):
        query = before.in_zone("Europe/Berlin").resample("1D").agg(v=("v", "sum"), h="max(hour(t))")
        here = store.read("z", query=query).to_arrow()
        assert here.schema.field("t").type == pa.timestamp("us", "Europe/Berlin")
        assert store.read("z", query=query, executor=SparkExecutor(spark)).to_arrow().equals(here)
