"""What users hold: stores, lazy tables, results; every bad input is one typed error."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import itertools
import json
import multiprocessing
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tessel as ts
from tessel.errors import (
    AggregateError,
    ColumnNotFoundError,
    ExpressionSyntaxError,
    ExpressionTypeError,
    IndexColumnError,
    InvalidInputError,
    MissingDependencyError,
    NameNotFoundError,
    NotAStoreError,
    PlanError,
    ReadOnlyStoreError,
    RefNameError,
    SchemaMismatchError,
    StoreNotFoundError,
    StoreNotVisibleError,
    SymbolNotFoundError,
    UnknownVerbError,
    UnsortedIndexError,
    VersionNotFoundError,
)

START = dt.datetime(2013, 1, 1)
FLIGHTS = pa.table(
    {
        "time_hour": pa.array(
            [START + dt.timedelta(hours=n) for n in range(6)], pa.timestamp("us")
        ),
        "carrier": ["UA", "AA", "UA", "B6", "AA", "UA"],
        "dep_delay": pa.array([2, None, 30, -4, 16, 5], pa.int32()),
    }
)
Q = ts.QueryBuilder()


@pytest.fixture
def store(tmp_path: Path) -> ts.Store:
    made = ts.open(str(tmp_path / "store"))
    with ts.options(segment_rows=2):
        made.write("flights", FLIGHTS, index="time_hour")
    return made


# --- reading --------------------------------------------------------------------------------------


def test_a_store_end_to_end(store: ts.Store, tmp_path: Path) -> None:
    assert store.version == 1
    assert store.symbols() == ["flights"]
    assert store.read("flights").to_arrow().equals(FLIGHTS)
    late = FLIGHTS.slice(5)
    assert store.append("flights", late) == 2
    assert len(store.read("flights")) == 7
    assert len(store.read("flights", as_of=1)) == 6
    assert store.versions("flights") == [1, 2]
    again = ts.open(str(tmp_path / "store"), read_only=True)
    assert again.read("flights").to_arrow().equals(store.read("flights").to_arrow())
    assert repr(store) == f"<Store {store.uri!r}: version 2, 1 symbol>"


def test_one_query_in_three_forms(store: ts.Store) -> None:
    text = Q.filter("dep_delay > 3 and carrier in ('UA', 'AA')").groupby("carrier").agg(n="size")
    methods = (
        Q[(Q["dep_delay"] > 3) & Q["carrier"].is_in(["UA", "AA"])].groupby("carrier").agg(n="size")
    )
    lazy = store.scan("flights").filter(ts.col("dep_delay") > 3)
    lazy = lazy.filter(ts.col("carrier").is_in(["UA", "AA"])).group_by("carrier").agg(n="size")
    expected = [{"carrier": "AA", "n": 1}, {"carrier": "UA", "n": 2}]
    for found in (
        store.read("flights", query=text),
        store.read("flights", query=methods),
        lazy.collect(),
    ):
        assert found.to_arrow().to_pylist() == expected


def test_columns_and_dates_are_short_for_clauses(store: ts.Store) -> None:
    found = store.read(
        "flights",
        date_range=("2013-01-01T01", "2013-01-01T02"),
        query=Q.apply("twice", "dep_delay * 2"),
        columns=["twice"],
    )
    assert found.to_arrow().to_pylist() == [{"twice": None}, {"twice": 60}]
    assert store.read("flights", columns="carrier").column_names == ["carrier"]


@pytest.mark.parametrize(
    "query",
    [
        Q.filter("dep_delay > 0"),
        Q.head(1),
        Q.apply("twice", "dep_delay * 2").drop("dep_delay"),
        Q.rename({"carrier": "line"}).sort("dep_delay"),
        Q.groupby("carrier").agg(late=("dep_delay", "max")),
        Q.resample("1h").agg(n="size", late=("dep_delay", "max")),
    ],
    ids=lambda query: query.clauses[0].name,
)
def test_a_read_is_a_date_range_then_a_query_then_names_of_its_result(
    store: ts.Store, query: ts.QueryBuilder
) -> None:
    span = ("2013-01-01T01", "2013-01-01T03")
    whole = store.scan("flights").date_range(*span).then(*query.clauses).collect().to_arrow()
    for size in range(1, whole.num_columns + 1):
        for names in itertools.permutations(whole.column_names, size):
            found = store.read("flights", columns=names, query=query, date_range=span)
            assert found.to_arrow().equals(whole.select(names))
    (many,) = store.read_many(["flights"], date_range=span, query=query, columns=names).values()
    assert many.to_arrow().equals(whole.select(names))
    with pytest.raises(ColumnNotFoundError):
        store.read("flights", query=query, columns=["carrier", "nothing"])
    with pytest.raises(PlanError, match="at least one column"):
        store.read("flights", query=query, columns=[])


def test_a_query_sees_one_version(store: ts.Store) -> None:
    lazy = store.scan("flights", as_of=1)
    batches = store.scan("flights").iter_batches()
    first = next(batches)
    store.write("flights", pa.table({"other": [1]}))
    assert first.num_rows + sum(batch.num_rows for batch in batches) == 6
    assert len(lazy.collect()) == 6
    both = store.scan("flights", as_of=1).concat(store.scan("flights")).collect()
    assert len(both) == 12  # the version that is asked for holds for the whole query
    newest = store.scan("flights").concat(lazy).collect()
    assert len(newest) == 1 + 6


def test_lazy_tables_share_nothing_and_are_told(store: ts.Store) -> None:
    root = store.scan("flights").filter("dep_delay > 3")
    one, other = root.head(1), root.select("carrier")
    assert [len(t.collect()) for t in (root, one, other)] == [3, 1, 3]
    assert repr(one) == "<LazyTable 'flights'>\n  .filter(dep_delay > 3)\n  .head(n=1)"
    assert one == root.head(1)
    assert one != other
    assert root.schema().names == FLIGHTS.column_names
    assert str(root.explain()) == str(store.explain("flights", Q.filter("dep_delay > 3")))


def test_read_many_is_of_one_version(store: ts.Store) -> None:
    store.write("more", FLIGHTS.slice(0, 2), index="time_hour")
    found = store.read_many(["flights", "more"], query=Q.agg(n="size"))
    assert {name: r.to_arrow().to_pylist() for name, r in found.items()} == {
        "flights": [{"n": 6}],
        "more": [{"n": 2}],
    }


# --- results --------------------------------------------------------------------------------------


def test_results_go_everywhere(store: ts.Store) -> None:
    found = store.read("flights", query=Q.filter("dep_delay > 3"))
    assert len(found) == 3
    assert found.index == "time_hour"
    assert found.to_pandas(index=True).index.name == "time_hour"
    assert found.to_pandas()["carrier"].tolist() == ["UA", "AA", "UA"]
    assert found.to_polars()["dep_delay"].to_list() == [30, 16, 5]
    assert found.to_duckdb().aggregate("sum(dep_delay)").fetchall() == [(51,)]
    assert pa.table(found).equals(found.to_arrow())
    assert "3 rows" in repr(found)
    assert "carrier" in found
    assert "UA" not in found
    assert "<table" in found._repr_html_()


@pytest.mark.parametrize(
    ("given", "said", "way"),
    [
        (dt.datetime(2024, 1, 2), "text, '2024-01-02T00:00:00'", "2024-01-02T00:00:00"),
        (dt.datetime(2024, 1, 2), "tzinfo=datetime.UTC", dt.datetime(2024, 1, 2, tzinfo=dt.UTC)),
        (dt.date(2024, 1, 2), "text, '2024-01-02'", "2024-01-02"),
        (dt.date(2024, 1, 2), "'timestamp[us, UTC]'",
         ts.lit(dt.date(2024, 1, 2)).cast("timestamp[us, UTC]")),
        (1704153600, "'timestamp[s, UTC]'", ts.lit(1704153600).cast("timestamp[s, UTC]")),
    ],
)  # fmt: skip
def test_what_is_said_of_times_with_a_zone_is_true(given: Any, said: str, way: Any) -> None:
    store = ts.open("memory://")
    days = [dt.datetime(2024, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3)]
    store.write("days", {"at": days})
    with pytest.raises(ts.TesselError) as caught:
        store.scan("days").filter(ts.col("at") > given).collect()
    assert said in (caught.value.hint or "")
    assert store.scan("days").filter(ts.col("at") > way).count() == 1


def test_casts_take_types_of_python() -> None:
    query = Q.apply("b", ts.col("a").cast(float)).cast({"a": str})
    store = ts.open("memory://")
    store.write("s", {"a": [1]})
    assert store.read("s", query=query).to_arrow().to_pylist() == [{"a": "1", "b": 1.0}]


def test_rows_that_python_cannot_hold_are_named() -> None:
    store = ts.open("memory://")
    store.write("late", {"at": pa.array([1, 1 << 62], pa.timestamp("us"))})
    result = store.read("late")
    with pytest.raises(InvalidInputError, match="date value out of range"):
        list(result)
    assert next(iter(store.read("late", query=ts.QueryBuilder().head(1))))["at"].year == 1970


def test_the_lineage_tells_where_it_came_from(store: ts.Store) -> None:
    query = Q.head(2).select("carrier")
    found = store.read("flights", query=query)
    lineage = found.lineage
    assert (lineage.store, lineage.symbols, lineage.version) == (store.uri, ("flights",), 1)
    assert (lineage.segments_read, lineage.segments, lineage.executor) == (1, 3, "local")
    assert ts.QueryBuilder.from_json(lineage.query) == query
    stored = json.loads(found.to_arrow().schema.metadata[b"tessel"])
    assert stored == json.loads(json.dumps(dataclasses.asdict(lineage)))


@pytest.mark.parametrize(
    ("as_of", "told"),
    [
        (None, "the newest of branch 'main'"),
        (1, "version 1"),
        ("1", "version 1"),
        ("2100-01-02", "tag '2100-01-02'"),
        ("2100-01", "the newest up to 2100-01-31 23:59:59.999999+00:00"),
        (dt.date(2100, 2, 1), "the newest up to 2100-02-01 23:59:59.999999+00:00"),
        (dt.datetime(2100, 1, 1, tzinfo=dt.UTC), "the newest up to 2100-01-01 00:00:00+00:00"),
        ("aside", "branch 'aside'"),
    ],
)
def test_the_lineage_tells_how_the_version_was_found(
    store: ts.Store, as_of: Any, told: str
) -> None:
    store.create_tag("2100-01-02", 1)
    store.create_branch("aside", 1)
    assert store.read("flights", as_of=as_of).lineage.as_of == told


@pytest.mark.parametrize(
    "query",
    [
        Q.filter("dep_delay > 1000"),
        Q.head(0),
        Q.date_range("1999", "1999"),
        Q.filter("dep_delay > 1000").groupby("carrier").agg(n="size", m=("dep_delay", "median")),
        Q.filter("dep_delay > 1000").resample("1D").agg(n="size"),
        Q.filter("false").resample("1D").agg(m=("dep_delay", "median")),
    ],
    ids=str,
)
def test_an_empty_answer_is_an_empty_table_of_the_right_schema(
    store: ts.Store, query: ts.QueryBuilder
) -> None:
    found = store.read("flights", query=query)
    assert len(found) == 0
    assert found.to_arrow().schema.equals(store.schema("flights", query).arrow)
    assert repr(found)


# --- bad input ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bad:
    """A call that must fail with one typed error, saying what is given here, changing nothing."""

    name: str
    call: Callable[[ts.Store], Any]
    error: type[ts.TesselError]
    builtin: type[Exception]
    says: str


READS = [
    Bad(
        "column",
        lambda s: s.read("flights", query=Q.filter("dep_dealy > 15")),
        ColumnNotFoundError,
        KeyError,
        "did you mean 'dep_delay'",
    ),
    Bad(
        "column to read",
        lambda s: s.read("flights", columns=["Carrier"]),
        ColumnNotFoundError,
        KeyError,
        "did you mean 'carrier'",
    ),
    Bad(
        "symbol",
        lambda s: s.read("flihgts"),
        SymbolNotFoundError,
        KeyError,
        "did you mean 'flights'",
    ),
    Bad(
        "symbol of a concat",
        lambda s: s.read("flights", query=Q.concat("fligths")),
        SymbolNotFoundError,
        KeyError,
        "did you mean 'flights'",
    ),
    Bad("version", lambda s: s.read("flights", as_of=9), VersionNotFoundError, LookupError, "9"),
    Bad(
        "types",
        lambda s: s.read("flights", query=Q.filter("carrier > 15")),
        ExpressionTypeError,
        TypeError,
        "carrier (text)",
    ),
    Bad(
        "no condition",
        lambda s: s.read("flights", query=Q.filter("dep_delay")),
        ExpressionTypeError,
        TypeError,
        "takes a condition",
    ),
    Bad(
        "syntax",
        lambda s: s.read("flights", query=Q.filter("dep_delay = 15")),
        ExpressionSyntaxError,
        ValueError,
        "==",
    ),
    Bad(
        "sum of text",
        lambda s: s.read("flights", query=Q.agg(s=("carrier", "sum"))),
        AggregateError,
        TypeError,
        "carrier",
    ),
    Bad(
        "verb",
        lambda s: s.scan("flights").where("dep_delay > 1"),
        UnknownVerbError,
        AttributeError,
        "'filter'",
    ),
    Bad(
        "executor",
        lambda s: s.read("flights", executor="sparkk"),
        NameNotFoundError,
        KeyError,
        "did you mean 'spark'",
    ),
    Bad(
        "no index left",
        lambda s: s.scan("flights").drop("time_hour").date_range("2013").collect(),
        IndexColumnError,
        ValueError,
        "time index",
    ),
    Bad(
        "no date",
        lambda s: s.read("flights", date_range=("soon", None)),
        PlanError,
        ValueError,
        "soon",
    ),
    Bad(
        "no query",
        lambda s: s.read("flights", query="dep_delay > 15"),
        InvalidInputError,
        ValueError,
        "QueryBuilder",
    ),  # type: ignore[arg-type]
    Bad(
        "no pair of dates",
        lambda s: s.read("flights", date_range="2013"),
        InvalidInputError,
        ValueError,
        "start and an end",
    ),  # type: ignore[arg-type]
    Bad(
        "no executor",
        lambda s: s.read("flights", executor=None),
        InvalidInputError,
        ValueError,
        "executor",
    ),  # type: ignore[arg-type]
    Bad(
        "another store",
        lambda s: s.scan("flights").concat(ts.open("memory://elsewhere").scan("flights")),
        InvalidInputError,
        ValueError,
        "one store",
    ),
]
BACKWARDS = FLIGHTS.take([1, 0])
WRITES = [
    Bad(
        "index",
        lambda s: s.write("new", FLIGHTS, index="time_hours"),
        IndexColumnError,
        ValueError,
        "did you mean 'time_hour'",
    ),
    Bad(
        "unsorted",
        lambda s: s.write("new", BACKWARDS, index="time_hour"),
        UnsortedIndexError,
        ValueError,
        "sort",
    ),
    Bad(
        "unsorted append",
        lambda s: s.append("flights", FLIGHTS.slice(0, 1)),
        UnsortedIndexError,
        ValueError,
        "time_hour",
    ),
    Bad(
        "other schema",
        lambda s: s.append("flights", FLIGHTS.slice(5).drop_columns(["carrier"])),
        SchemaMismatchError,
        ValueError,
        "carrier",
    ),
    Bad(
        "other types",
        lambda s: s.append(
            "flights",
            pa.table(
                {
                    "time_hour": FLIGHTS["time_hour"][5:],
                    "carrier": [1],
                    "dep_delay": pa.array([1], pa.int32()),
                }
            ),
        ),
        SchemaMismatchError,
        ValueError,
        "carrier",
    ),
    Bad(
        "append to nothing",
        lambda s: s.append("new", FLIGHTS),
        SymbolNotFoundError,
        KeyError,
        "'new'",
    ),
]


@pytest.mark.parametrize("bad", [*READS, *WRITES], ids=lambda bad: bad.name)
def test_bad_input_is_one_typed_error_and_changes_nothing(store: ts.Store, bad: Bad) -> None:
    before = _everything(store)
    with pytest.raises(bad.error) as caught:
        bad.call(store)
    assert type(caught.value) is bad.error
    assert isinstance(caught.value, bad.builtin)
    assert bad.says in str(caught.value)
    assert _everything(store) == before


def _everything(store: ts.Store) -> tuple[int, list[str], dict[str, bytes]]:
    files = sorted(path for path in Path(store.uri).rglob("*") if path.is_file())
    return store.version, store.symbols(), {str(path): path.read_bytes() for path in files}


def test_errors_show_the_place_in_the_text(store: ts.Store) -> None:
    with pytest.raises(ColumnNotFoundError) as caught:
        store.read("flights", query=Q.filter("carrier == 'UA' and dep_dealy > 15"))
    assert "dep_dealy" in str(caught.value)
    assert "'flights' (version 1)" in str(caught.value)


def test_a_store_opened_read_only_refuses_every_write(store: ts.Store) -> None:
    before = _everything(store)
    reader = ts.open(store.uri, read_only=True)
    for write in (
        lambda: reader.write("new", FLIGHTS),
        lambda: reader.append("flights", FLIGHTS.slice(5)),
        lambda: reader.delete("flights"),
        lambda: reader.transaction("x").__enter__(),
    ):
        with pytest.raises(ReadOnlyStoreError) as caught:
            write()
        assert isinstance(caught.value, PermissionError)
    assert len(reader.read("flights")) == 6
    assert _everything(store) == before


def test_foreign_and_absent_directories_are_left_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"not a store")
    with pytest.raises(NotAStoreError):
        ts.open(str(tmp_path))
    with pytest.raises(NotAStoreError):
        ts.open(str(tmp_path / "photo.jpg"))
    with pytest.raises(StoreNotFoundError):
        ts.open(str(tmp_path / "absent"), create=False)
    with pytest.raises(StoreNotFoundError):
        ts.open(str(tmp_path / "absent"), read_only=True)
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]


def test_a_damaged_store_says_so(store: ts.Store) -> None:
    for path in sorted(Path(store.uri).rglob("*")):
        if path.is_file():
            whole = path.read_bytes()
            path.write_bytes(whole[: len(whole) // 2])
            try:
                found = ts.open(store.uri).read("flights").to_arrow()
            except ts.TesselError:
                pass
            else:
                assert found.equals(FLIGHTS), path
            path.write_bytes(whole)
    assert ts.open(store.uri).read("flights").to_arrow().equals(FLIGHTS)


def test_a_concat_of_lazy_tables_of_one_store(store: ts.Store) -> None:
    one = store.scan("flights").filter("dep_delay > 15")
    assert len(one.concat(store.scan("flights").head(1), "flights").collect()) == 2 + 1 + 6


# --- other processes --------------------------------------------------------------------------


def test_copies_of_a_store_in_memory_are_handles_on_it() -> None:
    memory = ts.open("memory://")
    memory.write("a", {"n": [1, 2]})
    lazy = copy.deepcopy(memory.scan("a"))
    copy.copy(memory).append("a", {"n": [3]})
    assert lazy.count() == copy.deepcopy(memory).scan("a").count() == 3


def test_a_store_and_a_lazy_table_are_pickled_by_where_they_are(store: ts.Store) -> None:
    store.create_branch("side")
    side = ts.open(store.uri, read_only=True, branch="side")
    query = store.scan("flights", as_of=1).filter("dep_delay > 15").sort(ts.col("dep_delay"))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        twin, branched, table, size = pool.submit(_carried, store, side, query).result()
    assert (twin.id, twin.uri, twin.version) == (store.id, store.uri, store.version)
    assert (branched.read_only, branched.branch) == (True, "side")
    assert table == query.collect().to_arrow().replace_schema_metadata(None)
    assert size < 2000


def _carried(store: ts.Store, side: ts.Store, query: ts.LazyTable) -> tuple[Any, ...]:
    table = query.collect().to_arrow().replace_schema_metadata(None)
    return store, side, table, len(pickle.dumps(query))


def test_a_store_that_no_other_process_can_open_says_so(tmp_path: Path) -> None:
    store = ts.open("memory://")
    store.write("flights", FLIGHTS)
    for held in (store, store.scan("flights").head(2)):
        with pytest.raises(StoreNotVisibleError, match="in the memory of this process"):
            pickle.dumps(held)
    ours = ts.open(str(tmp_path / "a"))
    data = pickle.dumps(ours)
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(StoreNotFoundError):
        pickle.loads(data)
    ts.open(str(tmp_path / "a"))
    with pytest.raises(NotAStoreError, match="another store"):
        pickle.loads(data)


def test_a_home_directory_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert ts.open("~/stores/x").uri == str(tmp_path / "stores" / "x")
    with pytest.raises(InvalidInputError, match="home directory that is not known"):
        ts.open("~nobody-of-that-name/x")
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize("name", ["main/../x", "a/..", "a//b", "a/", "a/./b", "..", "a/../../b"])
def test_a_name_that_reads_as_a_path_is_refused(store: ts.Store, name: str) -> None:
    before = _everything(store)
    for make in (store.create_branch, store.create_tag):
        with pytest.raises(RefNameError):
            make(name)
    assert _everything(store) == before


@pytest.mark.parametrize("package", ["pandas", "polars", "duckdb"])
def test_a_form_whose_package_is_not_installed(
    store: ts.Store, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = store.read("flights")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=f"pip install {package}"):
        getattr(result, f"to_{package}")()


def test_a_version_is_a_whole_number_of_any_kind(store: ts.Store) -> None:
    for number in (np.int64(1), np.uint8(1), np.int32(1)):
        assert store.read("flights", as_of=number).lineage.version == 1
    for wrong in (True, np.bool_(True), np.timedelta64(1, "h"), 1.0, np.float64(1)):
        with pytest.raises(InvalidInputError, match="is no version"):
            store.read("flights", as_of=wrong)


def test_a_column_alone_is_no_table(store: ts.Store) -> None:
    for column in (pl.Series([1, 2]), pa.array([1]), pa.chunked_array([[1]])):
        with pytest.raises(InvalidInputError, match="is one column, and a table was asked for"):
            store.write("new", column)


def test_an_expression_is_no_value_of_a_new_column(store: ts.Store) -> None:
    with pytest.raises(InvalidInputError, match="is an expression, and the values of column"):
        store.add_column("flights", "new", ts.parse("dep_delay % 7"))


def test_categories_that_nobody_gave_take_the_first_type(store: ts.Store) -> None:
    store.write("new", pd.DataFrame({"kind": pd.Categorical([])}))
    assert store.schema("new").type_of("kind") == pa.null()
    store.append("new", pd.DataFrame({"kind": pd.Categorical(["a", "b"])}))
    assert store.read("new").to_arrow()["kind"].to_pylist() == ["a", "b"]
