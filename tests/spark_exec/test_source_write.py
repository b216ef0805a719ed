"""The data source ``tessel`` writes DataFrames: all rows in one commit, or nothing."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessel as ts
from tessel.errors import (
    IndexColumnError,
    InvalidInputError,
    NotAStoreError,
    TesselError,
    UnsortedIndexError,
)
from tessel.spark_exec import register_source
from tessel.spark_exec.runtime import ignore_pandas_notice
from tests.collecting import collect_all
from tests.profiles import cases
from tests.spark_exec.spark_values import columns_of, fits_spark
from tests.strategies.tables import column_types, tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tessel.spark_exec.source.writer import SymbolWriter

pytestmark = pytest.mark.spark

Q = ts.QueryBuilder()
_numbers = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


@pytest.fixture
def store(folder: Path) -> ts.Store:
    return ts.open(str(folder / str(next(_numbers))))


@pytest.fixture(scope="module")
def numbers(spark: SparkSession) -> DataFrame:
    """A hundred rows in four partitions, in order."""
    register_source(spark)
    return spark.range(0, 100, 1, 4).selectExpr("id as t", "id % 7 as k", "string(id) as s")


def save(
    frame: DataFrame, store: ts.Store, /, mode: str = "append", symbol: str = "x", **options: Any
) -> None:
    asked = {"store": store.uri, "symbol": symbol, **options}
    frame.write.format("tessel").options(**asked).mode(mode).save()


def rows(store: ts.Store, symbol: str = "x") -> dict[str, list[Any]]:
    return columns_of(store.read(symbol).to_arrow())


def load(spark: SparkSession, store: ts.Store, symbol: str = "x") -> DataFrame:
    return spark.read.format("tessel").options(store=store.uri, symbol=symbol).load()


# --- every type, both ways ------------------------------------------------------------------------


@cases(6, 12)
@given(data=st.data(), partitions=st.integers(1, 3))
def test_random_tables_go_through_spark_and_back(
    data: st.DataObject, partitions: int, folder: Path, spark: SparkSession
) -> None:
    register_source(spark)
    kinds = column_types().filter(lambda kind: "null" not in str(kind) or pa.types.is_null(kind))
    table = data.draw(tables(kinds=kinds, max_columns=8))
    store = ts.open(str(folder / str(next(_numbers))))
    store.write("before", table)
    stored = store.read("before").to_arrow()
    if not all(fits_spark(chunk) for column in stored.columns for chunk in column.chunks):
        return
    frame = load(spark, store, "before")
    save(frame, store, symbol="new")
    assert rows(store, "new") == rows(store, "before")
    # Rows that are added take the types of the symbol, whatever they are.
    store.write("like", stored.slice(0, 0))
    save(frame, store, symbol="like")
    assert store.read("like").to_arrow().schema.types == stored.schema.types
    assert rows(store, "like") == rows(store, "before")
    assert store.version == (4 if table.num_rows else 3)  # no rows to add are no version


def test_every_type_of_spark(store: ts.Store, spark: SparkSession) -> None:
    register_source(spark)
    one = spark.sql(
        "select tinyint(1) a, smallint(2) b, 3 c, 4L d, float(5) e, 6d f, 7.25bd g, 'é' h, "
        "binary('x') i, true j, date'1969-12-31' k, timestamp'2026-03-29 01:30:00' l, "
        "timestamp_ntz'0001-01-01 00:00:00' m, interval '1 02:03:04.5' day to second n, "
        "array(1, null) o, struct(1 as p, array('q') as q) p, null q"
    )
    frame = one.union(one.selectExpr(*[f"if(false, {name}, null) {name}" for name in one.columns]))
    before = spark.conf.get("spark.sql.session.timeZone")
    for zone in ("UTC", "America/New_York"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            save(frame.coalesce(1), store, mode="overwrite")
            assert sorted(map(str, load(spark, store).collect())) == sorted(
                map(str, frame.collect())
            )
        finally:
            spark.conf.set("spark.sql.session.timeZone", before)
        stored = store.read("x").to_arrow()
        assert stored["l"].type == pa.timestamp("us", "UTC")
        assert stored["n"][0].as_py() == dt.timedelta(days=1, seconds=7384, milliseconds=500)
        assert set(rows(store)["a"]) == {1, None}


def test_a_value_that_the_symbol_does_not_hold(store: ts.Store, numbers: DataFrame) -> None:
    store.write("x", {"t": pa.array([0], pa.uint16())})
    with pytest.raises(InvalidInputError, match=r"'t' of type int32(.|\n)*-1"):
        save(numbers.selectExpr("int(t) - 1 as t"), store)
    assert store.version == 1


# --- what becomes of the rows ---------------------------------------------------------------------


def test_append_makes_the_symbol_and_adds_to_it(store: ts.Store, numbers: DataFrame) -> None:
    save(numbers, store, index="t")
    assert store.schema("x").index == "t"
    assert rows(store)["t"] == list(range(100))
    save(numbers.selectExpr("s", "t + 100 as t", "k"), store)
    assert rows(store)["t"] == list(range(200))
    assert rows(store)["s"] == [str(n) for n in range(100)] * 2
    assert store.version == 2


def test_overwrite_makes_the_symbol_anew(store: ts.Store, numbers: DataFrame) -> None:
    save(numbers, store, "overwrite", index="t")
    save(numbers.selectExpr("t + 5 as t", "2.5d as v"), store, "overwrite")
    assert store.schema("x").index == "t"
    assert rows(store)["v"] == [2.5] * 100
    save(numbers.select("s"), store, "overwrite")
    assert store.schema("x").index is None
    assert store.version == 3


def test_update_replaces_the_rows_of_its_times(store: ts.Store, numbers: DataFrame) -> None:
    save(numbers, store, index="t")
    half = numbers.filter("t >= 40 and t < 60 and t % 2 = 0").selectExpr("t", "-k as k", "s")
    save(half, store, verb="update")
    expected = [t for t in range(100) if not 40 <= t < 59 or t % 2 == 0]
    assert rows(store)["t"] == expected
    assert store.version == 2


def test_upsert_replaces_rows_by_key(store: ts.Store, numbers: DataFrame) -> None:
    save(numbers, store, index="t")
    save(
        numbers.selectExpr("t + 50 as t", "-1L as k", "s").repartition(3),
        store,
        verb="upsert",
        keys="t",
    )
    assert rows(store)["t"] == list(range(150))
    assert rows(store)["k"] == [n % 7 for n in range(50)] + [-1] * 100
    assert store.version == 2


def test_sort_merges_what_tasks_have(store: ts.Store, numbers: DataFrame) -> None:
    save(numbers.repartition(3).sortWithinPartitions("s"), store, index="t", sort=True)
    assert rows(store)["t"] == list(range(100))
    assert rows(store)["s"] == [str(n) for n in range(100)]
    save(numbers.selectExpr("99 - t + 100 as t", "k", "s"), store, sort=True)
    assert rows(store)["t"] == list(range(200))


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_frames_without_rows_have_columns(
    mode: str, store: ts.Store, numbers: DataFrame, spark: SparkSession
) -> None:
    save(numbers.filter("t < 0"), store, mode, index="t")
    assert rows(store) == {"t": [], "k": [], "s": []}
    save(spark.createDataFrame([], numbers.schema), store, mode)
    assert len(store.read("x")) == 0


def test_a_branch(store: ts.Store, numbers: DataFrame) -> None:
    store.write("x", {"t": [0]})
    store.create_branch("side")
    save(numbers.select("t"), store, branch="side")
    assert len(store.read("x")) == 1
    assert len(store.on_branch("side").read("x")) == 101


def test_a_symbol_is_read_while_it_is_written(
    store: ts.Store, numbers: DataFrame, spark: SparkSession
) -> None:
    save(numbers, store, index="t")
    frame = load(spark, store)
    save(frame.selectExpr("t + 100 as t", "k", "s"), store)
    save(frame.filter("k = 1"), store, "overwrite")
    assert rows(store)["t"] == list(range(1, 100, 7))


# --- once -----------------------------------------------------------------------------------------


def test_a_write_with_a_name_is_done_once(store: ts.Store, numbers: DataFrame) -> None:
    for _ in range(2):
        save(numbers, store, write_id="monday")
    save(numbers, store, write_id="tuesday")
    assert store.version == 2
    assert len(store.read("x")) == 200
    with pytest.raises(TesselError, match=r"'monday' stands for 100 rows(.|\n)*now for 3"):
        save(numbers.limit(3), store, write_id="monday")
    assert store.version == 2


def writer_of(store: ts.Store, frame: DataFrame, **options: Any) -> SymbolWriter:
    from tessel.spark_exec.source.options import WriteOptions
    from tessel.spark_exec.source.writer import SymbolWriter, made_writer

    asked = {"store": store.uri, "symbol": "x", **options}
    return made_writer(WriteOptions.of(asked, overwrite=False), frame.schema, SymbolWriter)


def batches(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    return iter(frame.toArrow().to_batches())


def test_of_several_attempts_of_a_task_one_counts(store: ts.Store, numbers: DataFrame) -> None:
    writer = writer_of(store, numbers, index="t")
    first, second = writer.write(batches(numbers)), writer.write(batches(numbers))
    assert first.descriptor != second.descriptor
    assert store.version == 0
    writer.commit([first, None, second])
    assert rows(store)["t"] == list(range(100))
    writer.commit([first])  # the answer of the first commit may have been lost
    assert store.version == 1


def test_what_is_given_up_is_never_seen_and_collected(store: ts.Store, numbers: DataFrame) -> None:
    writer = writer_of(store, numbers, index="t")
    before = set(store.objects.list())
    writer.write(batches(numbers))
    writer.abort([None])
    assert store.version == 0
    assert store.symbols() == []
    assert set(store.objects.list()) > before
    collect_all(store)
    assert not any(name.startswith(("seg/", "man/")) for name in store.objects.list())


def test_a_task_that_fails_leaves_nothing_visible(
    store: ts.Store, numbers: DataFrame, spark: SparkSession
) -> None:
    save(numbers, store, index="t")
    failing = numbers.selectExpr("t + 100 as t", "if(t = 80, raise_error('no more'), k) as k", "s")
    for mode in ("append", "overwrite"):
        with pytest.raises(Exception, match="no more"):
            save(failing, store, mode)
    assert store.version == 1
    assert rows(store)["t"] == list(range(100))


def test_a_task_that_dies_is_repeated_and_its_rows_are_there_once(
    store: ts.Store, numbers: DataFrame, folder: Path
) -> None:
    marker = str(folder / f"died-{next(_numbers)}")

    def dying(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import signal

        for part in parts:
            if 80 in part.column(0).to_pylist() and not os.path.exists(marker):
                open(marker, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            yield part

    ignore_pandas_notice()
    # A local session does not repeat tasks: the write fails, and is then done again.
    frame = numbers.mapInArrow(dying, numbers.schema)
    with pytest.raises(Exception, match=r"(?s)."):
        save(frame, store, index="t", write_id="a")
    assert store.version == 0
    save(frame, store, index="t", write_id="a")
    save(frame, store, index="t", write_id="a")
    assert rows(store)["t"] == list(range(100))


def test_two_jobs_that_finalise_the_same_symbol(store: ts.Store, numbers: DataFrame) -> None:
    one, other = (writer_of(store, numbers) for _ in range(2))
    staged = [writer.write(batches(numbers)) for writer in (one, other)]
    one.commit([staged[0]])
    other.commit([staged[1]])
    assert rows(store)["t"] == [*range(100), *range(100)]


def test_another_store_at_the_place(store: ts.Store, numbers: DataFrame) -> None:
    writer = writer_of(store, numbers)
    writer._store = "another"
    with pytest.raises(NotAStoreError, match="another store here"):
        writer.write(batches(numbers))


# --- what is refused ------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "errorifexists": ({"mode": "errorifexists"}, "cannot be written in the .ErrorIfExists. mode"),
    "ignore": ({"mode": "ignore"}, 'cannot be written in the "Ignore" mode'),
    "verb": ({"verb": "upsrt"}, "no verb 'upsrt'(.|\n)*did you mean 'upsert'"),
    "verb and mode": ({"verb": "update", "mode": "overwrite"}, "'update' goes with mode"),
    "upsert without keys": ({"verb": "upsert"}, "'upsert' needs the option 'keys'"),
    "keys without upsert": ({"keys": "t"}, "'keys' goes with the verb 'upsert'"),
    "a key that is none": ({"verb": "upsert", "keys": "t,kk"}, "'kk'(.|\n)*columns: t, k, s"),
    "option": ({"write_ids": "a"}, "no option 'write_ids' here(.|\n)*mean 'write_id'"),
    "option of a reader": ({"query": "t > 1"}, "no option 'query' here"),
    "secret": ({"session_token": "hush"}, "'session_token' looks like a secret"),
    "sort": ({"sort": "yes"}, "'sort' is true or false"),
    "no index to sort by": ({"sort": True}, "sort=True without an index"),
    "index": ({"index": "tt"}, "no column 'tt' to be its index(.|\n)*did you mean 't'"),
    "index of text": ({"index": "s"}, "'s' has type string and cannot be a time index"),
    "update without index": ({"verb": "update"}, "the verb 'update' needs a time index"),
    "write_id": ({"write_id": ""}, "names no write"),
    "symbol": ({"symbol": "a\tb"}, "cannot name a symbol"),
    "store": ({"store": "/nowhere/at/all"}, "no store at '/nowhere/at/all'"),
    "memory": ({"store": "memory://a"}, "memory of this process"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_options_that_are_refused(name: str, store: ts.Store, numbers: DataFrame) -> None:
    options, message = REFUSED[name]
    with pytest.raises(Exception, match=message) as caught:
        save(numbers, store, **options)
    assert "hush" not in str(caught.value)
    # The modes are refused by Spark, in a sentence of its own.
    assert isinstance(caught.value, TesselError) or name in ("errorifexists", "ignore")
    assert "Traceback" not in str(caught.value)
    assert store.version == 0


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["t", "k"], "column 's' is missing"),
        (["t", "k", "s", "t as u"], r"column 'u' is new \(bigint\)"),
        (["t", "double(k) as k", "s"], "column 'k' is double, not bigint"),
        (["t", "map(1, 2) as k", "s"], "'k' has Spark's type map<int,int>"),
    ],
)
def test_columns_that_are_refused(
    columns: list[str], message: str, store: ts.Store, numbers: DataFrame
) -> None:
    save(numbers, store, index="t")
    with pytest.raises(TesselError, match=message):
        save(numbers.selectExpr(*columns), store)
    assert store.version == 1


def test_rows_out_of_order(store: ts.Store, numbers: DataFrame) -> None:
    sort = r'(.|\n)*option\("sort", True\)'
    with pytest.raises(UnsortedIndexError, match=f"the index 't' goes back{sort}"):
        save(numbers.orderBy("s").coalesce(1), store, index="t")
    with pytest.raises(UnsortedIndexError, match=sort):
        save(numbers.union(numbers), store, index="t")
    assert store.version == 0
    save(numbers, store, index="t")
    with pytest.raises(
        UnsortedIndexError, match=r'before the last time(.|\n)*option\("verb", "update"\)'
    ):
        save(numbers, store)
    with pytest.raises(IndexColumnError, match="the index of symbol 'x' is 't', not 'k'"):
        save(numbers, store, index="k")
    assert store.version == 1


def test_one_key_in_two_tasks(store: ts.Store, numbers: DataFrame) -> None:
    with pytest.raises(TesselError, match=r"have the key t=0(.|\n)*keep one row of each key"):
        save(numbers.union(numbers), store, verb="upsert", keys="t")
    assert store.version == 0


def test_missing_times(store: ts.Store, numbers: DataFrame) -> None:
    with pytest.raises(IndexColumnError):
        save(numbers.selectExpr("if(t = 50, null, t) as t"), store, index="t")
    assert store.version == 0


def test_messages_that_are_none(store: ts.Store, numbers: DataFrame) -> None:
    from tessel.spark_exec.source.writer import Staged

    writer = writer_of(store, numbers)
    with pytest.raises(InvalidInputError, match="no descriptor of staged rows"):
        writer.commit([Staged(0, "{}")])
    assert store.version == 0
