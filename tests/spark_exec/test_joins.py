"""Joins on Spark: both ways, every kind, and what stands before and behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tessel import options
from tessel.api import Store
from tessel.clauses import QueryBuilder, SubQuery
from tessel.spark_exec import SparkExecutor, executor, running_flows
from tessel.spark_exec.barriers import Barriers
from tessel.testing.parity import assert_parity
from tests.clauses.joins.tables import narrowed
from tests.spark_exec.queries import many_symbols

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Q = QueryBuilder()
WAYS = {"broadcast": 256 << 20, "hash": 64}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return many_symbols(tmp_path_factory.mktemp("joins"))


def _right(symbol: str, query: QueryBuilder = Q) -> SubQuery:
    return SubQuery(symbol, None, query.clauses)


CASES = {
    "asof": Q.join_asof("b", tolerance="2h", direction="nearest").filter("u_right is not missing"),
    "asof by": Q.join_asof(_right("b", Q.filter("v > 0")), by=["s", "k"]).head(40),
    "inner": Q.join("b", ["k", "s"]),
    "left": Q.join("b", {"c": "s"}, "left").head(70),
    "right": Q.filter("i < 9").join("b", {"e": "e", "s": "s"}, "right"),
    "outer": Q.join("one", "k", "outer"),
    "semi": Q.join(_right("b", Q.filter("v > 0")), "k", "semi")
    .resample("6h")
    .agg(n=("i", "count")),
    "anti": Q.join("b", {"i": "i"}, "anti").tail(8),
    "of nothing": Q.filter("i < 0").join("b", "k", "outer"),
    "with nothing": Q.join("empty", "k", "left"),
    "behind barriers": Q.groupby("k")
    .agg(n=("i", "count"))
    .join(_right("b", Q.groupby("k").agg(m=("i", "median"))), "k", "outer"),
    "in a concat": Q.join("one", "k", "semi")
    .concat(_right("b", Q.join("one", "k", "semi")))
    .groupby("k", drop_missing=False)
    .agg(n=("i", "count")),
    "outer twice": Q.join("b", "i", "outer")
    .join("one", "i", "outer")
    .groupby("i")
    .agg(n=("i", "count"), first=("u", "first")),
    "twice": Q.join(_right("b", Q.join("one", "k", "semi").select("k", "u")), "k").select(
        "i", "u_right"
    ),
}


FEW = {
    ("asof", "broadcast"),
    ("asof", "hash"),
    ("asof by", "hash"),
    ("left", "broadcast"),
    ("right", "broadcast"),
    ("outer", "hash"),
    ("outer twice", "hash"),
}
MANY = [
    pytest.param(case, way, marks=[] if (case, way) in FEW else pytest.mark.slow)
    for case in CASES
    for way in WAYS
]


@pytest.mark.parametrize(("case", "way"), MANY)
def test_one_answer(spark: SparkSession, store: Store, case: str, way: str) -> None:
    with options(live_bytes=WAYS[way], hash_bucket_bytes=4_000):
        assert_parity(store, "a", CASES[case], SparkExecutor(spark))


@pytest.mark.parametrize("case", ["asof by", "left", "twice"])
def test_keys_that_are_asked_for_first_change_no_answer(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(executor, "_WORTH_A_JOB", 0)
    with narrowed(10_000):
        assert "asked first, " in str(store.explain("a", CASES[case]))
        assert_parity(store, "a", CASES[case], SparkExecutor(spark))


def test_two_ordered_symbols_are_joined_by_tasks(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(*_: object) -> None:
        raise AssertionError("the driver joins")

    monkeypatch.setattr(executor, "interleave_units", here)
    with options(live_bytes=WAYS["hash"]):
        query = Q.join_asof("b", direction="forward").filter("u_right is not missing")
        assert "asof_inputs" in str(store.explain("a", query))
        assert_parity(store, "a", query, SparkExecutor(spark))


_COUNTS = Q.groupby("s").agg(i=("i", "count"), u=("u", "max"))  # in the driver: they are few
_SORTED = Q.sort("s", "i").select("s", "i", "u", "k")
IN_TASKS = {
    "unmatched rows": (
        "broadcast",
        Q.join("b", {"i": "i"}, "outer").groupby("b").agg(n=("i", "sum")),
    ),
    "unmatched rows at the end": ("broadcast", Q.filter("i < 9").join("b", "e", "right").tail(5)),
    "unmatched rows of nothing": ("broadcast", Q.filter("i < 0").join("b", "k", "outer")),
    "a join behind barriers": (
        "hash",
        _SORTED.join(_right("b", _SORTED), "i", "outer", suffix="_b").cum_sum("k"),
    ),
    "a concat of concats": (
        "hash",
        Q.concat(_right("b", _SORTED.concat(_right("one", _SORTED)))).select("s", "i").cum_sum("i"),
    ),
}


@pytest.mark.parametrize("case", IN_TASKS)
def test_tasks_go_on_behind_barriers(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """No input of several is brought here, and rows that pass are not put into one task."""

    def here(*_: object) -> None:
        raise AssertionError("the driver takes them, or one task")

    way, query = IN_TASKS[case]
    monkeypatch.setattr(executor, "renumbered_units", here)
    if way == "broadcast" and "end" not in case:
        monkeypatch.setattr(Barriers, "_all_in_one", here)
    with options(live_bytes=WAYS[way], hash_bucket_bytes=4_000):
        assert_parity(store, "a", query, SparkExecutor(spark))


_NEWEST = Q.groupby("s").agg(i=("i", "max"))
_IN_TIME = Q.sort("t", "i").select("t", "i", "v", "s")
HERE = {
    "groups behind rows": Q.select("s", "i").concat(_right("b", _NEWEST)).filter("i > 3").tail(9),
    "groups before rows": _NEWEST.concat(_right("b", Q.select("s", "i"))).cum_sum("i"),
    "the first rows behind a sort": Q.sort("i").select("i").concat(_right("b", Q.head(9))),
    "as-of behind a sort": _IN_TIME.join_asof(_right("b", _IN_TIME), on="t"),
    "as-of of the first rows": Q.head(30).join_asof(_right("b", _IN_TIME), on="t", tolerance="9h"),
    "as-of of all with the first": Q.join_asof(_right("b", Q.head(9)), direction="nearest"),
}


@pytest.mark.parametrize("case", HERE)
def test_inputs_that_are_here_are_sent_to_tasks(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    def here(*_: object) -> None:
        raise AssertionError("the driver goes on with all of them")

    monkeypatch.setattr(executor, "renumbered_units", here)
    monkeypatch.setattr(executor, "interleave_units", here)
    with options(live_bytes=WAYS["hash"]):
        found = assert_parity(store, "a", HERE[case], SparkExecutor(spark))
    assert isinstance(found, pa.Table)


@pytest.mark.parametrize("most", [0, 300])
def test_inputs_of_many_rows_stay_here(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(running_flows, "MOST_SENT_BYTES", most)
    failing = Q.groupby("s").agg(i=("i", "max")).apply("i", "cast(s, 'int64')")
    for query in (HERE["groups behind rows"], Q.select("s", "i").concat(_right("b", failing))):
        assert_parity(store, "a", query, SparkExecutor(spark))


def test_the_error_of_the_first_input_wins(spark: SparkSession, store: Store) -> None:
    """Whatever barriers stand before the error of either; all rows of one have the same."""
    early = Q.filter("s == 'blue'").apply("i", "cast(s, 'int64')")
    late = Q.filter("s == 'red'").sort("i").select("s", "i").apply("i", "cast(s, 'int32')")
    for first, second in ((early, late), (late, early), (_COUNTS, early)):
        query = first.concat(_right("b", second))
        with options(live_bytes=WAYS["hash"]):
            assert_parity(store, "a", query, SparkExecutor(spark))


def test_of_rows_in_one_task_the_first_tells(spark: SparkSession, store: Store) -> None:
    """A sort gives tasks everything as one unit; here it gives units of a few rows."""
    wrong = Q.filter("s != ''").sort("s", "i").select("s", "i").apply("z", "cast(s, 'int64')")
    for query in (
        wrong,
        wrong.concat(_right("b", wrong)),
        Q.select("s").concat(_right("b", wrong)),
    ):
        with options(live_bytes=64):
            assert_parity(store, "a", query, SparkExecutor(spark))


@pytest.mark.parametrize("way", WAYS)
def test_one_error(spark: SparkSession, store: Store, way: str) -> None:
    wrong = Q.apply("z", "cast(s, 'int64')")
    with options(live_bytes=WAYS[way]):
        for query in (Q.join(_right("b", wrong), "k"), wrong.join("b", "k")):
            assert_parity(store, "a", query, SparkExecutor(spark))
