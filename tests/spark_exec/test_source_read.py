"""The data source ``tessel`` reads what the store holds; frames and views of Spark do, too."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessel as ts
from tessel.errors import (
    DuplicateColumnError,
    InvalidInputError,
    StoreNotVisibleError,
    TesselError,
    UnsupportedTypeError,
)
from tessel.spark_exec import register_source
from tests.profiles import cases
from tests.spark_exec.spark_values import columns_of, fits_spark
from tests.strategies.tables import PLAIN_TYPES, column_types, cut_into_segments, tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Q = ts.QueryBuilder()
_numbers = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("source")


@pytest.fixture(scope="module")
def store(folder: Path) -> ts.Store:
    """A symbol of 60 rows in ten segments, beside others, on a branch too."""
    store = ts.open(str(folder / "shared"))
    rows = 60
    table = pa.table(
        {
            "t": pa.array([n * 3_600_000_000 for n in range(rows)], pa.timestamp("us", "UTC")),
            "k": [n % 7 for n in range(rows)],
            "s": ["abc"[n % 3] for n in range(rows)],
            "v": [None if n % 11 == 0 else n / 8 for n in range(rows)],
        }
    )
    with ts.options(segment_rows=6):
        store.write("x", table, index="t")
        store.write("a/b-c", table.slice(0, 9), index="t")
        store.write("other", table.select(["t", "k"]).slice(30), index="t")
        store.create_tag("full")
        store.create_branch("side")
        store.on_branch("side").append("x", table.slice(59))
        store.append("x", table.slice(59))
    return store


def load(spark: SparkSession, store: ts.Store, symbol: str = "x", /, **options: Any) -> DataFrame:
    register_source(spark)
    asked = {"store": store.uri, "symbol": symbol, **options}
    return spark.read.format("tessel").options(**asked).load()


def plan_text(query: ts.QueryBuilder) -> str:
    return json.dumps(query.to_json())


# --- every type -----------------------------------------------------------------------------------


def assert_read(spark: SparkSession, store: ts.Store, symbol: str) -> None:
    stored = store.read(symbol).to_arrow()
    if all(fits_spark(chunk) for column in stored.columns for chunk in column.chunks):
        expected = columns_of(stored)
        assert columns_of(load(spark, store, symbol).toArrow()) == expected
        assert columns_of(store.read(symbol).to_spark(spark).toArrow()) == expected
        return
    with pytest.raises(InvalidInputError, match="does not hold"):
        store.read(symbol).to_spark(spark)
    with pytest.raises(InvalidInputError, match="does not hold"):
        load(spark, store, symbol).toArrow()


@cases(6, 15)
@given(data=st.data())
def test_random_tables_come_as_they_are_stored(
    data: st.DataObject, folder: Path, spark: SparkSession
) -> None:
    kinds = column_types().filter(lambda kind: "null" not in str(kind) or pa.types.is_null(kind))
    table = data.draw(tables(index=data.draw(st.booleans()), kinds=kinds, max_columns=8))
    index = "t" if "t" in table.column_names else None
    store = ts.open(str(folder / str(next(_numbers))))
    with ts.options(fsync=False):
        data.draw(cut_into_segments(table, index=index)).write(store, "x")
    assert_read(spark, store, "x")


def value_of(kind: pa.DataType) -> Any:
    made: list[tuple[Callable[[pa.DataType], bool], Any]] = [
        (pa.types.is_null, None),
        (pa.types.is_boolean, True),
        (pa.types.is_fixed_size_binary, b"abc"),
        (pa.types.is_binary, b"\xff\x00"),
        (pa.types.is_string, "é"),
        (pa.types.is_time, dt.time(23, 59, 58)),
        (pa.types.is_date, dt.date(1969, 12, 31)),
        (pa.types.is_temporal, 86_400_000),
        (pa.types.is_uint64, 2**64 - 1),
    ]
    return next((value for applies, value in made if applies(kind)), 101)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_type_alone_and_nested_with_missing_values(
    zone: str, folder: Path, spark: SparkSession
) -> None:
    columns: dict[str, pa.Array] = {}
    for at, kind in enumerate(PLAIN_TYPES):
        plain = pa.array([value_of(kind), None], kind)
        columns[f"p{at}"] = plain
        if not pa.types.is_null(kind):
            columns[f"l{at}"] = pa.ListArray.from_arrays([0, 2, 2], plain)
            columns[f"s{at}"] = pa.StructArray.from_arrays([plain, plain], ["a", "b"])
    columns["d"] = pa.array(["x", None]).dictionary_encode()
    columns["f"] = pa.array([[1, 2], None], pa.list_(pa.uint16(), 2))
    store = ts.open(str(folder / f"types-{zone.replace('/', '-')}"))
    store.write("x", pa.table(columns))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        assert_read(spark, store, "x")
        assert columns_of(store.scan("x").to_spark(spark).toArrow()) == columns_of(
            store.read("x").to_arrow()
        )
        back = ts.from_spark(load(spark, store))
        assert columns_of(back) == columns_of(store.read("x").to_arrow())
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_types_of_spark(store: ts.Store, spark: SparkSession) -> None:
    assert load(spark, store).schema.simpleString() == (
        "struct<t:timestamp,k:bigint,s:string,v:double>"
    )


@pytest.mark.parametrize("kind", [pa.decimal128(5, -2), pa.list_(pa.null())], ids=str)
def test_a_type_that_spark_has_not_is_refused_by_name(
    kind: pa.DataType, folder: Path, spark: SparkSession
) -> None:
    store = ts.open(str(folder / str(next(_numbers))))
    store.write("x", {"n": [1], "d": pa.array([None], kind)})
    for call in (store.scan("x").to_spark, store.read("x").to_spark, store.register_views):
        with pytest.raises(UnsupportedTypeError, match="'d' has type"):
            call(spark)
    with pytest.raises(UnsupportedTypeError, match="'d' has type"):
        load(spark, store)
    assert load(spark, store, columns="n").collect() == [(1,)]


def test_nanoseconds_are_never_dropped(folder: Path, spark: SparkSession) -> None:
    store = ts.open(str(folder / "nanoseconds"))
    store.write("x", {"t": pa.array([1_000, 2_001], pa.timestamp("ns"))}, index="t")
    message = r"'t' of type timestamp\[ns\] has a value that(.|\n)*round it first"
    with pytest.raises(TesselError, match=message):
        load(spark, store).collect()
    with pytest.raises(TesselError, match=message):
        store.scan("x").to_spark(spark).collect()
    with pytest.raises(InvalidInputError, match=message):
        store.read("x").to_spark(spark)
    assert len(load(spark, store, query=plan_text(Q.head(1))).collect()) == 1


# --- what is read ---------------------------------------------------------------------------------

QUERIES = {
    "rows": Q.filter("v > 2").select("t", "v"),
    "nothing": Q.filter("k > 100"),
    "times": Q.resample("5h").agg(v="sum(v)", n="median(k)"),
    "groups": Q.groupby("s").agg(v="sum(v)", n=("k", "nunique")),
    "a sum": Q.agg(v="sum(v)"),
    "first": Q.filter("k > 2").head(7),
    "last": Q.tail(7),
    "order": Q.sort("k", "t"),
    "windows": Q.cum_sum("k", by="s"),
    "symbols": Q.concat("other").filter("k > 2"),
    "a join": Q.join("other", "t").filter("k > 2"),
    "as of": Q.join_asof("other"),
}


@pytest.mark.parametrize("name", QUERIES)
def test_queries(name: str, store: ts.Store, spark: SparkSession) -> None:
    query = QUERIES[name]
    expected = columns_of(store.read("x", query=query).to_arrow())
    source = load(spark, store, query=plan_text(query)).toArrow()
    assert columns_of(source) == expected
    frame = store.scan("x").then(*query.clauses).to_spark(spark).toArrow()
    assert frame.column_names == list(expected)
    order = [(name, "ascending") for name in frame.column_names]
    as_read = ts.from_spark(load(spark, store, query=plan_text(query)))
    assert frame.sort_by(order).equals(source.sort_by(order)), as_read


def test_partitions_are_read_side_by_side_in_order(
    store: ts.Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tessel.spark_exec import unit_columns
    from tessel.spark_exec.source import reader

    monkeypatch.setattr(unit_columns, "_TASK_BYTES", 1)
    asked = reader.ReadOptions.of({"store": store.uri, "symbol": "x", "query": "k > 1"})
    pin, declared = reader.pinned(asked)
    made = reader.made_reader(asked, pin, declared, slots=4)
    partitions = made.partitions()
    assert len(partitions) == 11
    tables = [pa.Table.from_batches(list(made.read(each))) for each in partitions]
    expected = store.read("x", query=Q.filter("k > 1")).to_arrow()
    assert columns_of(pa.concat_tables(tables)) == columns_of(expected)


def test_a_condition_and_columns(store: ts.Store, spark: SparkSession) -> None:
    frame = load(spark, store, query="k == 3 and v > 1", columns=" v, s ")
    expected = store.read("x", query=Q.filter("k == 3 and v > 1").select("v", "s")).to_arrow()
    assert columns_of(frame.toArrow()) == columns_of(expected)
    assert load(spark, store, columns='["s"]').columns == ["s"]


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({}, 61),
        ({"as_of": 3}, 60),
        ({"as_of": "full"}, 60),
        ({"branch": "side"}, 61),
        ({"as_of": "side"}, 61),
        ({"as_of": "2100-01-01T00:00:00+00:00"}, 61),
        ({"as_of": "2100-01"}, 61),
    ],
    ids=str,
)
def test_versions(options: dict[str, Any], rows: int, store: ts.Store, spark: SparkSession) -> None:
    assert load(spark, store, **options).count() == rows


def test_one_snapshot_whatever_is_written_later(folder: Path, spark: SparkSession) -> None:
    store = ts.open(str(folder / "snapshot"))
    store.write("x", {"n": [1, 2]})
    frames = [load(spark, store), store.scan("x").to_spark(spark)]
    assert store.register_views(spark, "x") == ["x"]
    store.append("x", {"n": [3]})
    for frame in (*frames, spark.table("x")):
        assert sorted(frame.collect()) == [(1,), (2,)]
        assert frame.union(frame).count() == 4
    assert load(spark, store).count() == 3


def test_a_frame_that_is_used_twice_loses_nothing(store: ts.Store, spark: SparkSession) -> None:
    frame = load(spark, store)
    assert frame.filter("k = 3").count() == 10
    assert frame.count() == 61
    assert frame.alias("a").join(frame.alias("b"), "t").count() == 63  # one time is there twice


def test_views(store: ts.Store, spark: SparkSession) -> None:
    assert store.register_views(spark, as_of="full") == ["a/b-c", "other", "x"]
    answer = spark.sql("select s, sum(k) as n from x group by s order by s").toArrow()
    expected = store.read("x", query=Q.groupby("s").agg(n="sum(k)"), as_of="full").to_arrow()
    assert columns_of(answer) == columns_of(expected)
    assert spark.sql("select count(*) from `a/b-c` join x using (t)").collect() == [(9,)]
    assert store.register_views(spark, "oth.*") == ["other"]


def test_a_frame_of_clauses_of_a_script(store: ts.Store, spark: SparkSession) -> None:
    from tests.spark_exec.queries import Reversed

    frame = store.scan("x").then(Reversed()).to_spark(spark)
    expected = store.read("x", query=Q.then(Reversed())).to_arrow()
    assert sorted(frame.toArrow()["t"].to_pylist()) == sorted(expected["t"].to_pylist())


def test_from_spark(spark: SparkSession, folder: Path) -> None:
    frame = spark.sql("select id, cast(id as string) as s, array(id) as l from range(3)")
    table = ts.from_spark(frame)
    assert table.schema == pa.schema(
        [("id", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.int64()))]
    )
    store = ts.open(str(folder / "from"))
    store.write("x", table, index="id")
    assert store.read("x").to_spark(spark).collect() == frame.collect()


# --- what is refused ------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"column": "v"}, "no option 'column' here(.|\n)*did you mean 'columns'"),
    "of a writer": ({"write_id": "1"}, "no option 'write_id' here"),
    "secret": ({"aws_secret_access_key": "hush"}, "'aws_secret_access_key' looks like a secret"),
    "provider": ({"credentials": "a:b"}, "'credentials' looks like a secret"),
    "path": ({"path": "/tmp/x"}, "takes no path(.|\n)*load\\(\\)"),
    "no store": ({"store": ""}, "needs the option 'store'"),
    "no symbol": ({"symbol": ""}, "needs the option 'symbol'"),
    "store": ({"store": "/nowhere/at/all"}, "no store at '/nowhere/at/all'"),
    "memory": ({"store": "memory://x"}, "store-not-visible(.|\n)*memory of this process"),
    "symbol": ({"symbol": "othr"}, "no symbol 'othr'(.|\n)*did you mean 'other'"),
    "version": ({"as_of": "99"}, "no version 99"),
    "tag": ({"as_of": "ful"}, "'ful'(.|\n)*did you mean 'full'"),
    "columns": ({"columns": "t,vv"}, "no column 'vv'(.|\n)*columns: t, k, s, v"),
    "list": ({"columns": "[1]"}, "'columns' is a list of names"),
    "condition": ({"query": "k >"}, "expression-syntax"),
    "plan": ({"query": "{}"}, "not the plain form of a query"),
    "json": ({"query": "{"}, "is not JSON"),
    "clause": (
        {"query": '{"tessel_plan": 1, "clauses": [{"clause": "fliter"}]}'},
        "no clause 'fliter'(.|\n)*did you mean 'filter'",
    ),
    "query of another store": (
        {"query": '{"tessel_plan": 1, "clauses": [], "store": "/other"}'},
        "no field 'store': it reads the store that the caller opened",
    ),
    "branch": ({"branch": "sid"}, "'sid'(.|\n)*did you mean 'side'"),
    "truth": ({"store": "s3://bucket/x", "allow_http": "yes"}, "'allow_http' is true or false"),
    "number": ({"store": "s3://bucket/x", "attempts": "many"}, "'attempts' is a number"),
    "cloud": ({"region": "eu"}, "are for stores in a cloud"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_options_that_are_refused(name: str, store: ts.Store, spark: SparkSession) -> None:
    options, message = REFUSED[name]
    with pytest.raises(TesselError, match=message) as caught:
        load(spark, store, **options)
    assert "hush" not in str(caught.value)


def test_a_schema_that_is_not_that_of_the_symbol(store: ts.Store, spark: SparkSession) -> None:
    register_source(spark)
    reader = spark.read.format("tessel").options(store=store.uri, symbol="x")
    with pytest.raises(TesselError, match=r"is not that of symbol 'x'(.|\n)*leave schema\(\) out"):
        reader.schema("t timestamp, k int").load().collect()
    same = reader.schema("t timestamp, k bigint, s string, v double").load()
    assert same.count() == 61


def test_a_store_that_no_other_process_opens(spark: SparkSession) -> None:
    store = ts.open("memory://")
    store.write("x", {"n": [1]})
    for call in (store.scan("x").to_spark, store.register_views):
        with pytest.raises(StoreNotVisibleError, match="memory of this process"):
            call(spark)
    assert store.read("x").to_spark(spark).collect() == [(1,)]


def test_names_that_differ_in_case_alone(folder: Path, spark: SparkSession) -> None:
    store = ts.open(str(folder / "case"))
    store.write("Bars", {"n": [1]})
    store.write("bars", {"n": [1]})
    with pytest.raises(InvalidInputError, match="'Bars' and 'bars' differ in case alone"):
        store.register_views(spark)
    assert not spark.catalog.tableExists("bars")


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("select map(1, 2) as m", UnsupportedTypeError, "'m' has Spark's type map<int,int>"),
        ("select array(map(1, 2)) as m", UnsupportedTypeError, "map_entries"),
        ("select array() as m", UnsupportedTypeError, "'m' has Spark's type void"),
        ("select interval '1' month as m", UnsupportedTypeError, "'m' has Spark's type interval"),
        ("select 1 as n, 2 as n", DuplicateColumnError, "two columns are named 'n'"),
    ],
)
def test_frames_that_are_not_taken(
    text: str, kind: type[ts.TesselError], message: str, spark: SparkSession
) -> None:
    with pytest.raises(kind, match=message):
        ts.from_spark(spark.sql(text))


def test_what_is_no_frame() -> None:
    with pytest.raises(InvalidInputError, match="takes a DataFrame of Spark, not dict"):
        ts.from_spark({"n": [1]})
