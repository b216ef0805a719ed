"""Idioms of ArcticDB, each run through its names and in our own words, with equal answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tessel as ts
import tessel.compat.arcticdb as adb

TIMES = pd.date_range("2024-01-01", periods=12, freq="h", name="time")
TRADES = pd.DataFrame(
    {
        "sym": ["A", "B", "C", "A", None, "B", "C", "A", "B", "C", "A", "B"],
        "price": [1.0, 2.5, np.nan, 4.0, 5.0, 6.5, 7.0, np.nan, 9.0, 10.0, 11.5, 12.0],
        "size": [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8],
        "live": [True, False] * 6,
    },
    index=TIMES,
)
QUOTES = pd.DataFrame({"bid": np.arange(6.0), "price": np.arange(6.0) * 2}, index=TIMES[6:])
START, END = TIMES[2], TIMES[7]


def rows(data: Any) -> list[dict[str, Any]]:
    """Return a frame, with its index, or a result as plain rows; NaN and null are None."""
    if isinstance(data, ts.Result):
        found: list[dict[str, Any]] = data.to_arrow().to_pylist()
    else:
        named = not isinstance(data.index, pd.RangeIndex)
        frame = data.reset_index() if named else data
        found = [
            dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False)
        ]
    return [{k: _plain(v) for k, v in sorted(row.items())} for row in found]


def _plain(value: Any) -> Any:
    if value is None or value != value:
        return None
    if isinstance(value, datetime):
        return pd.Timestamp(value).isoformat()
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Query:
    """A change of ArcticDB's builder, and the same on one of ours."""

    name: str
    theirs: Callable[[Any], Any]
    ours: Callable[[ts.QueryBuilder], ts.QueryBuilder]


def _new(name: str, value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def change(q: Any) -> Any:
        q[name] = value(q)
        return q

    return change


def _then(q: Any) -> Any:
    return q.then(adb.QueryBuilder().head(3))


def _prepend(q: Any) -> Any:
    return q.head(2).prepend(adb.QueryBuilder().tail(5))


def _fast(q: Any) -> Any:
    q.optimise_for_speed()
    q.optimise_for_memory()
    return q[q["price"] > 3]


p, s = ts.col("price"), ts.col("size")
QUERIES = [
    Query("filter", lambda q: q[q["price"] > 3], lambda b: b.filter("price > 3")),
    Query("attribute", lambda q: q[q.price > 3], lambda b: b.filter("price > 3")),
    Query("less or equal", lambda q: q[q["price"] <= 4], lambda b: b.filter("price <= 4")),
    Query("greater or equal", lambda q: q[q["size"] >= 5], lambda b: b.filter("size >= 5")),
    Query("less", lambda q: q[q["size"] < 5], lambda b: b.filter("size < 5")),
    Query("equal", lambda q: q[q["sym"] == "A"], lambda b: b.filter("sym == 'A'")),
    Query(
        "not equal, missing differs",
        lambda q: q[q["price"] != 4],
        lambda b: b.filter((p != 4) | p.is_missing()),
    ),
    Query("reversed", lambda q: q[q["price"] > 3], lambda b: b.filter("price > 3")),
    Query("numpy scalar", lambda q: q[np.int64(3) < q["size"]], lambda b: b.filter("size > 3")),
    Query("two columns", lambda q: q[q["price"] > q["size"]], lambda b: b.filter("price > size")),
    Query(
        "and",
        lambda q: q[(q["price"] > 3) & (q["size"] > 3)],
        lambda b: b.filter("price > 3 and size > 3"),
    ),
    Query(
        "or",
        lambda q: q[(q["price"] > 9) | (q["size"] > 3)],
        lambda b: b.filter("price > 9 or size > 3"),
    ),
    Query(
        "xor",
        lambda q: q[(q["size"] > 3) ^ (q["live"])],
        lambda b: b.filter((s > 3) ^ ts.col("live")),
    ),
    Query(
        "not, of a missing value",
        lambda q: q[~(q["price"] > 4)],
        lambda b: b.filter((p <= 4) | p.is_missing()),
    ),
    Query("column of truths", lambda q: q[q["live"]], lambda b: b.filter("live")),
    Query("not of a column", lambda q: q[~q["live"]], lambda b: b.filter("not live")),
    Query("optimise_for_speed", _fast, lambda b: b.filter("price > 3")),
    Query(
        "chained",
        lambda q: (lambda f: f[f["size"] < 5])(q[q["price"] > 3]),
        lambda b: b.filter("price > 3").filter("size < 5"),
    ),
    Query(
        "isin, list",
        lambda q: q[q["sym"].isin(["A", "B"])],
        lambda b: b.filter("sym in ('A', 'B')"),
    ),
    Query("isin, values", lambda q: q[q["size"].isin(1, 5)], lambda b: b.filter("size in (1, 5)")),
    Query(
        "isin, array",
        lambda q: q[q["size"].isin(np.array([1, 5]))],
        lambda b: b.filter(s.is_in([1, 5])),
    ),
    Query("isin, empty", lambda q: q[q["size"].isin([])], lambda b: b.filter(s.is_in([]))),
    Query("equal to a list", lambda q: q[q["size"] == [1, 5]], lambda b: b.filter(s.is_in([1, 5]))),
    Query(
        "isnotin, missing is not in",
        lambda q: q[q["sym"].isnotin(["A"])],
        lambda b: b.filter((ts.col("sym") != "A") | ts.col("sym").is_missing()),
    ),
    Query(
        "different from a list",
        lambda q: q[q["size"] != {1, 5}],
        lambda b: b.filter(s.not_in([1, 5])),
    ),
    Query("isnull", lambda q: q[q["price"].isnull()], lambda b: b.filter(p.is_missing())),
    Query("isna", lambda q: q[q["sym"].isna()], lambda b: b.filter("sym is missing")),
    Query("notnull", lambda q: q[q["price"].notnull()], lambda b: b.filter(p.not_missing())),
    Query("notna", lambda q: q[q["sym"].notna()], lambda b: b.filter(ts.col("sym").not_missing())),
    Query(
        "regex_match",
        lambda q: q[q["sym"].regex_match("^[AB]$")],
        lambda b: b.filter(ts.col("sym").matches("^[AB]$")),
    ),
    Query("set a column", _new("n", lambda q: q.price * q.size), lambda b: b.apply("n", p * s)),
    Query("apply", lambda q: q.apply("n", q["price"] + 1), lambda b: b.apply("n", p + 1)),
    Query("apply, a constant", lambda q: q.apply("n", 7), lambda b: b.apply("n", 7)),
    Query("replace", _new("price", lambda q: -q["price"]), lambda b: b.apply("price", -p)),
    Query("abs", _new("n", lambda q: abs(q["price"] - 6)), lambda b: b.apply("n", abs(p - 6))),
    Query("divide", _new("n", lambda q: q["price"] / q["size"]), lambda b: b.apply("n", p / s)),
    Query("reversed minus", _new("n", lambda q: 10 - q["size"]), lambda b: b.apply("n", 10 - s)),
    Query("reversed divide", _new("n", lambda q: 1 / q["size"]), lambda b: b.apply("n", 1 / s)),
    Query("power", _new("n", lambda q: q["size"] ** 2), lambda b: b.apply("n", s**2)),
    Query(
        "where",
        _new("n", lambda q: adb.where(q["size"] > 3, q["price"], 0.0)),
        lambda b: b.apply("n", ts.where(s > 3, p, 0.0)),
    ),
    Query(
        "where in a filter",
        lambda q: q[adb.where(q["live"], q["size"] > 3, q["size"] < 3)],
        lambda b: b.filter(ts.where(ts.col("live"), s > 3, s < 3)),
    ),
    Query(
        "col",
        lambda q: q.apply("n", adb.col("price") * adb.col("size")),
        lambda b: b.apply("n", p * s),
    ),
    Query(
        "filter on a new column",
        lambda q: (lambda f: f[f["n"] > 20])(_new("n", lambda q: q.price * q.size)(q)),
        lambda b: b.apply("n", p * s).filter("n > 20"),
    ),
    Query("head", lambda q: q.head(3), lambda b: b.head(3)),
    Query("head, negative", lambda q: q.head(-3), lambda b: b.head(-3)),
    Query("tail", lambda q: q.tail(3), lambda b: b.tail(3)),
    Query("row_range", lambda q: q.row_range((2, 5)), lambda b: b.row_range(2, 5)),
    Query("row_range, negative", lambda q: q.row_range((-4, -1)), lambda b: b.row_range(-4, -1)),
    Query("row_range, open", lambda q: q.row_range((9, None)), lambda b: b.row_range(9)),
    Query(
        "date_range",
        lambda q: q.date_range((START, END)),
        lambda b: b.date_range("2024-01-01 02:00:00.000000", "2024-01-01 07:00:00.000000"),
    ),
    Query(
        "date_range, open", lambda q: q.date_range((None, END)), lambda b: b.date_range(None, END)
    ),
    Query(
        "date_range, index", lambda q: q.date_range(TIMES[2:8]), lambda b: b.date_range(START, END)
    ),
    *(
        Query(
            f"groupby, {how}",
            lambda q, how=how: q.groupby("sym").agg({"price": how}),  # type: ignore[misc]
            lambda b, how=how: b.groupby("sym").agg({"price": how}),  # type: ignore[misc]
        )
        for how in ("sum", "mean", "min", "max", "count")
    ),
    Query(
        "groupby, named, capital letters",
        lambda q: q.groupby("sym").agg({"high": ("price", "MAX"), "size": "SUM"}),
        lambda b: b.groupby("sym").agg(high=("price", "max"), size=("size", "sum")),
    ),
    Query(
        "filter, then groupby",
        lambda q: q[q["size"] > 2].groupby("sym").agg({"size": "sum"}),
        lambda b: b.filter("size > 2").groupby("sym").agg({"size": "sum"}),
    ),
    Query(
        "filter on groups",
        lambda q: (lambda f: f[f["size"] > 12])(q.groupby("sym").agg({"size": "sum"})),
        lambda b: b.groupby("sym").agg({"size": "sum"}).filter("size > 12"),
    ),
    *(
        Query(
            f"resample, {how}",
            lambda q, how=how: q.resample("3h").agg({"size": how}),  # type: ignore[misc]
            lambda b, how=how: b.resample("3h").agg({"size": how}),  # type: ignore[misc]
        )
        for how in ("sum", "mean", "min", "max", "count", "first", "last")
    ),
    Query(
        "resample, an offset of pandas",
        lambda q: q.resample(pd.offsets.Hour(6)).agg({"size": "sum"}),
        lambda b: b.resample("6h").agg({"size": "sum"}),
    ),
    Query(
        "resample, options",
        lambda q: q.resample("3h", closed="right", label="right", offset="1h", origin="start").agg(
            {"n": ("size", "count")}
        ),
        lambda b: b.resample("3h", closed="right", label="right", offset="1h", origin="start").agg(
            n=("size", "count")
        ),
    ),
    Query("then", _then, lambda b: b.head(3)),
    Query("prepend", _prepend, lambda b: b.tail(5).head(2)),
]


@pytest.fixture
def library() -> adb.Library:
    made = adb.Arctic("mem://").create_library("desk")
    made.write("trades", TRADES)
    return made


@pytest.mark.parametrize("case", QUERIES, ids=lambda case: case.name)
def test_queries(case: Query, library: adb.Library) -> None:
    theirs = library.read("trades", query_builder=case.theirs(adb.QueryBuilder())).data
    ours = library.store.read("trades", query=case.ours(ts.QueryBuilder()))
    assert rows(theirs) == rows(ours)


def test_a_query_is_changed_by_its_verbs_and_copied_by_brackets() -> None:
    q = adb.QueryBuilder()
    filtered = q[q["price"] > 3]
    assert q == adb.QueryBuilder()
    assert filtered != q
    assert filtered.head(2) is filtered


@dataclass(frozen=True)
class Call:
    """A call on a library of ArcticDB, and what it comes to in our words, on the same store."""

    name: str
    theirs: Callable[[adb.Library], Any]
    ours: Callable[[ts.Store], Any]


MORE = TRADES.set_index(TIMES + pd.Timedelta(12, "h"))
MIXED = TRADES.iloc[[3, 0]].assign(price=7.5)
MIXED.index = pd.DatetimeIndex([TIMES[3], TIMES[-1] + pd.Timedelta("9h")], name="time")
FIX = TRADES.iloc[2:4].assign(price=99.0)


def _many(store: ts.Store, *symbols: str) -> list[Any]:
    return [rows(store.read(symbol)) for symbol in symbols]


CALLS = [
    Call("read", lambda lib: rows(lib.read("trades").data), lambda b: rows(b.read("trades"))),
    Call("brackets", lambda lib: rows(lib["trades"].data), lambda b: rows(b.read("trades"))),
    Call("in", lambda lib: ("trades" in lib, "x" in lib), lambda b: (True, "x" in b.symbols())),
    Call("has_symbol", lambda lib: lib.has_symbol("trades"), lambda b: "trades" in b.symbols()),
    Call("list_symbols", lambda lib: lib.list_symbols(), lambda b: b.symbols()),
    Call(
        "list_symbols, regex",
        lambda lib: lib.list_symbols(regex="^tr"),
        lambda b: b.symbols("tr.*"),
    ),
    Call(
        "columns bring the index",
        lambda lib: rows(lib.read("trades", columns=["size", "price"]).data),
        lambda b: rows(b.read("trades", columns=["time", "price", "size"])),
    ),
    Call(
        "no columns give the index",
        lambda lib: rows(lib.read("trades", columns=[]).data),
        lambda b: rows(b.read("trades", columns=["time"])),
    ),
    Call(
        "date_range of read",
        lambda lib: rows(lib.read("trades", date_range=(START, None)).data),
        lambda b: rows(b.read("trades", date_range=(START, None))),
    ),
    Call(
        "row_range of read",
        lambda lib: rows(lib.read("trades", row_range=(2, 5)).data),
        lambda b: rows(b.scan("trades").row_range(2, 5).collect()),
    ),
    Call(
        "head of a library",
        lambda lib: rows(lib.head("trades", 2).data),
        lambda b: rows(b.scan("trades").head(2).collect()),
    ),
    Call(
        "tail of a library",
        lambda lib: rows(lib.tail("trades", 2, columns=["price"]).data),
        lambda b: rows(b.scan("trades").tail(2).select("time", "price").collect()),
    ),
    Call(
        "lazy",
        lambda lib: rows(lib.read("trades", lazy=True).head(2).collect().data),
        lambda b: rows(b.scan("trades").head(2).collect()),
    ),
    Call(
        "as arrow",
        lambda lib: lib.read("trades", output_format="PYARROW").data.to_pylist()[0],
        lambda b: b.read("trades").to_arrow().to_pylist()[0],
    ),
    Call(
        "as polars",
        lambda lib: lib.read("trades", output_format=adb.OutputFormat.POLARS).data.rows()[0],
        lambda b: b.read("trades").to_polars().rows()[0],
    ),
    Call(
        "read_batch",
        lambda lib: [
            rows(item.data) for item in lib.read_batch(["trades", adb.ReadRequest("quotes")])
        ],
        lambda b: _many(b, "trades", "quotes"),
    ),
    Call(
        "read_batch, a query for all",
        lambda lib: [
            rows(item.data)
            for item in lib.read_batch(
                ["trades", "quotes"], query_builder=adb.QueryBuilder().head(1)
            )
        ],
        lambda b: [rows(b.scan(name).head(1).collect()) for name in ("trades", "quotes")],
    ),
    Call(
        "read_batch, lazy",
        lambda lib: [
            rows(i.data) for i in lib.read_batch(["trades", "quotes"], lazy=True).tail(1).collect()
        ],
        lambda b: [rows(b.scan(name).tail(1).collect()) for name in ("trades", "quotes")],
    ),
    Call(
        "concat",
        lambda lib: rows(
            adb.concat([lib.read("trades", lazy=True), lib.read("quotes", lazy=True)], "inner")
            .head(20)
            .collect()
            .data
        ),
        lambda b: rows(b.scan("trades").concat("quotes", join="inner").head(20).collect()),
    ),
    Call(
        "read_batch_and_join",
        lambda lib: rows(
            lib.read_batch_and_join(["trades", "quotes"], adb.QueryBuilder().concat("outer")).data
        ),
        lambda b: rows(b.scan("trades").concat("quotes").collect()),
    ),
    Call(
        "read_metadata",
        lambda lib: lib.read_metadata("quotes").metadata,
        lambda b: b.view("quotes").metadata,
    ),
    Call(
        "version",
        lambda lib: lib.read("trades").version,
        lambda b: b.versions("trades")[-1],
    ),
    Call(
        "list_versions",
        lambda lib: [each.version for each in lib.list_versions("trades")],
        lambda b: b.versions("trades")[::-1],
    ),
    Call(
        "get_description",
        lambda lib: (
            lib.get_description("trades").row_count,
            [c.name for c in lib.get_description("trades").columns],
            lib.get_description("trades").index[0].name,
            lib.get_description("trades").date_range,
        ),
        lambda b: (
            b.view("trades").row_count,
            b.view("trades").schema.names[1:],
            b.view("trades").schema.index,
            (TIMES[0].to_pydatetime(), TIMES[-1].to_pydatetime()),
        ),
    ),
]


@pytest.mark.parametrize("case", CALLS, ids=lambda case: case.name)
def test_reading(case: Call, library: adb.Library) -> None:
    library.write("quotes", QUOTES, metadata={"venue": "X"})
    assert case.theirs(library) == case.ours(library.store)


CHANGES = [
    Call("write", lambda lib: lib.write("new", QUOTES), lambda b: b.write("new", QUOTES)),
    Call("append", lambda lib: lib.append("trades", MORE), lambda b: b.append("trades", MORE)),
    Call(
        "append that creates", lambda lib: lib.append("new", MORE), lambda b: b.write("new", MORE)
    ),
    Call("update", lambda lib: lib.update("trades", FIX), lambda b: b.update("trades", FIX)),
    Call(
        "update of a range",
        lambda lib: lib.update("trades", FIX, date_range=(TIMES[1], TIMES[6])),
        lambda b: b.update("trades", FIX, date_range=(TIMES[1], TIMES[6])),
    ),
    Call(
        "update that creates",
        lambda lib: lib.update("new", FIX, upsert=True),
        lambda b: b.write("new", FIX),
    ),
    Call("delete", lambda lib: lib.delete("trades"), lambda b: b.delete("trades")),
    Call("delete what is not there", lambda lib: lib.delete("new"), lambda b: None),
    Call(
        "delete_data_in_range",
        lambda lib: lib.delete_data_in_range("trades", (START, END)),
        lambda b: b.delete_rows("trades", date_range=(START, END)),
    ),
    Call(
        "write_metadata",
        lambda lib: lib.write_metadata("trades", {"a": 1}),
        lambda b: b.set_metadata("trades", {"a": 1}),
    ),
    Call(
        "write_batch",
        lambda lib: lib.write_batch(
            [adb.WritePayload("a", QUOTES, {"m": 1}), adb.WritePayload("b", FIX)]
        ),
        lambda b: (b.write("a", QUOTES, metadata={"m": 1}), b.write("b", FIX)),
    ),
    Call(
        "append_batch",
        lambda lib: lib.append_batch([adb.WritePayload("trades", MORE)]),
        lambda b: b.append("trades", MORE),
    ),
    Call(
        "update_batch",
        lambda lib: lib.update_batch([adb.UpdatePayload("trades", FIX)]),
        lambda b: b.update("trades", FIX),
    ),
    Call(
        "stage and finalize",
        lambda lib: (
            lib.stage("new", TRADES),
            lib.stage("new", MORE),
            lib.finalize_staged_data("new"),
        ),
        lambda b: b.write("new", pd.concat([TRADES, MORE])),
    ),
    Call(
        "sort and finalize",
        lambda lib: (
            lib.write("trades", MORE, staged=True),
            lib.sort_and_finalize_staged_data("trades", adb.StagedDataFinalizeMethod.APPEND),
        ),
        lambda b: b.append("trades", MORE),
    ),
    Call(
        "prune_previous_versions",
        lambda lib: (
            lib.write("trades", MORE, prune_previous_versions=True),
            lib.prune_previous_versions("trades"),
        ),
        lambda b: b.write("trades", MORE),
    ),
    Call(
        "merge",
        lambda lib: lib.merge_experimental("trades", MIXED),
        lambda b: b.upsert("trades", MIXED, keys=["time"]),
    ),
    Call(
        "merge that updates",
        lambda lib: lib.merge_experimental(
            "trades", MIXED, strategy=adb.MergeStrategy("update", adb.MergeAction.DO_NOTHING)
        ),
        lambda b: b.upsert("trades", MIXED.iloc[:1], keys=["time"]),
    ),
    Call(
        "merge that inserts",
        lambda lib: lib.merge_experimental(
            "trades", MIXED, strategy=adb.MergeStrategy("do_nothing", "insert")
        ),
        lambda b: b.append("trades", MIXED.iloc[1:]),
    ),
    Call(
        "merge that creates",
        lambda lib: lib.merge_experimental("new", MIXED, upsert=True),
        lambda b: b.write("new", MIXED),
    ),
    Call("compact_data", lambda lib: lib.compact_data("trades"), lambda b: b.compact("trades")),
    Call("snapshot", lambda lib: lib.snapshot("eod"), lambda b: b.create_tag("eod")),
    Call(
        "compact", lambda lib: lib.defragment_symbol_data("trades"), lambda b: b.compact("trades")
    ),
]


@pytest.mark.parametrize("case", CHANGES, ids=lambda case: case.name)
def test_changing(case: Call, library: adb.Library) -> None:
    other = ts.open("memory://")
    other.write("trades", TRADES)
    case.theirs(library)
    case.ours(other)
    assert library.list_symbols() == other.symbols()
    assert library.store.tags().keys() == other.tags().keys()
    for symbol in other.symbols():
        assert rows(library.read(symbol).data) == rows(other.read(symbol))
        assert library.store.view(symbol).metadata == other.view(symbol).metadata


def test_there_are_as_many_rows_as_are_promised() -> None:
    assert len(QUERIES) + len(CALLS) + len(CHANGES) >= 60


def test_versions_are_read_by_number_from_the_end_by_time_and_by_snapshot(
    library: adb.Library,
) -> None:
    first = library.read("trades").version
    library.snapshot("before")
    between = datetime.now(UTC)
    second = library.append("trades", MORE).version
    for as_of in (first, -2, "before", between, between.replace(tzinfo=None)):
        assert len(library.read("trades", as_of=as_of).data) == 12
    for as_of in (second, -1, None):
        assert len(library.read("trades", as_of=as_of).data) == 24
    assert library.list_snapshots() == {"before": None}
    listed = library.list_versions("trades")
    assert [info.snapshots for info in listed.values()] == [[], ["before"]]
    assert list(library.list_versions(snapshot="before")) == [adb.SymbolVersion("trades", first)]
    with pytest.raises(adb.exceptions.NoSuchVersionException, match="has no version -3"):
        library.read("trades", as_of=-3)
    library.delete_snapshot("before")
    assert library.list_snapshots(load_metadata=False) == []


def test_no_columns_of_a_frame_without_an_index_give_its_rows(library: adb.Library) -> None:
    library.write("x", pd.DataFrame({"a": [1, 2, 3]}))
    pd.testing.assert_frame_equal(
        library.read("x", columns=[]).data, pd.DataFrame(index=range(3)), check_column_type=False
    )
    unnamed = pd.DataFrame({"a": [1, 2, 3]}, index=pd.date_range("2024", periods=3))
    library.write("y", unnamed)
    assert library.read("y", columns=[]).data.index.equals(unnamed.index)
    q = adb.QueryBuilder().resample("1D").agg({"a": "sum"})
    assert library.read("y", query_builder=q).data.index.name is None


def test_metadata_are_those_of_one_version(library: adb.Library) -> None:
    library.write("x", QUOTES, metadata=["any", "JSON"])
    assert library.read_metadata("x").metadata == ["any", "JSON"]
    later = QUOTES.set_index(TIMES[6:] + pd.Timedelta(1, "D"))
    library.append("x", later)
    assert library.read("x").metadata is None


def test_a_library_with_a_dynamic_schema_takes_new_columns(tmp_path: Any) -> None:
    arctic = adb.Arctic(f"lmdb://{tmp_path}")
    arctic.create_library("a/dynamic", adb.LibraryOptions(dynamic_schema=True))
    arctic.create_library("static")
    assert arctic.list_libraries() == ["a/dynamic", "static"]
    for name, taken in (("a/dynamic", True), ("static", False)):
        library = adb.Arctic(str(tmp_path))[name]
        assert library.options().dynamic_schema is taken
        library.write("x", QUOTES)
        wider = QUOTES.set_index(TIMES[6:] + pd.Timedelta(1, "D")).assign(ask=1.0)
        if taken:
            assert list(library.append("x", wider) and library.read("x").data) == [
                "bid",
                "price",
                "ask",
            ]
        else:
            with pytest.raises(adb.exceptions.StreamDescriptorMismatch):
                library.append("x", wider)
    assert arctic["a/dynamic"].list_snapshots() == {}
    arctic.delete_library("static")
    assert "static" not in arctic


def test_a_dynamic_schema_goes_to_the_common_type() -> None:
    library = adb.Arctic("mem://").create_library("x", adb.LibraryOptions(dynamic_schema=True))
    days = pd.date_range("2024", periods=3)
    for day, column in zip(days, (np.array([1]), [2.5], np.array([3], "uint8")), strict=True):
        library.append("s", pd.DataFrame({"a": column}, index=[day]))
    library.append("s", pd.DataFrame({"b": ["x"]}, index=[days[2]]))
    found = library["s"].data
    assert found["a"].to_list()[:3] == [1.0, 2.5, 3.0]
    assert found["a"].isna().to_list() == [False, False, False, True]
    assert found["b"].isna().to_list() == [True, True, True, False]
    q = adb.QueryBuilder().resample("1D").agg({"n": ("a", "count")})
    assert library.read("s", query_builder=q).data["n"].dtype == np.uint64


def test_symbols_put_one_after_the_other_show_what_they_share(library: adb.Library) -> None:
    one = pd.Series([1.0], index=pd.date_range("2024", periods=1, tz="UTC", name="a"), name="s")
    two = pd.Series([2.0], index=pd.date_range("2025", periods=1, name="b"), name="s")
    library.write("one", one)
    library.write("two", two)
    found = adb.concat(library.read_batch(["one", "two"], lazy=True)).collect()
    assert [item.symbol for item in found.versions] == ["one", "two"]
    expected = pd.concat([one.tz_localize(None), two]).rename_axis(None)
    pd.testing.assert_series_equal(found.data, expected, check_index_type=False)
    levels = [one.to_frame().set_index(["s"], append=True, drop=False), two.to_frame()]
    library.write("levels", levels[0].set_axis(["x"], axis=1))
    with pytest.raises(adb.exceptions.SchemaException, match="of 2, 1 levels"):
        adb.concat(library.read_batch(["levels", "two"], lazy=True)).collect()


def test_options_without_effect_are_taken_and_what_is_not_offered_is_told(tmp_path: Any) -> None:
    arctic = adb.Arctic(str(tmp_path))
    library = arctic.create_library("x")
    arctic.modify_library_option(library, "rows_per_segment", 10)
    assert library.options().rows_per_segment == 10
    with pytest.raises(adb.exceptions.ArcticInvalidApiUsageException, match="not changed"):
        arctic.modify_library_option(library, "dynamic_schema", True)
    with pytest.raises(ts.TesselError, match="admin_tools is not offered"):
        getattr(library, "admin_tools")  # noqa: B009 - type checkers do not know it
    assert not hasattr(library, "no_such_name")
    with pytest.raises(ts.TesselError, match="changes nothing that is offered"):
        library.merge_experimental("s", QUOTES, strategy=adb.MergeStrategy("insert", "insert"))


def test_another_library_finalizes_what_was_staged_by_its_results(tmp_path: Any) -> None:
    here = adb.Arctic(str(tmp_path)).create_library("x")
    staged = [here.stage("s", TRADES), here.stage("s", MORE)]
    there = adb.Arctic(str(tmp_path))["x"]
    with pytest.raises(adb.exceptions.UserInputException, match="no rows are staged"):
        there.finalize_staged_data("s")
    there.finalize_staged_data("s", stage_results=staged, metadata={"k": 1})
    assert len(here["s"].data) == 24
    assert here.get_staged_symbols() == ["s"]
    here.delete_staged_data("s")
    assert here.get_staged_symbols() == []


def test_one_symbol_that_fails_does_not_fail_a_batch(library: adb.Library) -> None:
    found = library.read_batch(["trades", "nope"])
    assert len(found[0].data) == 12
    assert found[1].symbol == "nope"
    assert "symbols: trades" in found[1].exception_string
    assert isinstance(
        library.delete_batch(["trades", adb.DeleteRequest("x", [1])])[1], adb.DataError
    )


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda lib: lib.write_pickle("x", {"a": 1}), "a dict would be pickled"),
        (lambda lib: lib.write("x", object()), "an object is no table"),
        (lambda lib: lib.read("nope"), "no symbol 'nope'"),
        (lambda lib: lib.read("trades", columns=["prise"]), "no column 'prise'"),
        (lambda lib: lib.delete("trades", versions=[1]), "single versions"),
        (lambda lib: lib.snapshot("s", versions={"trades": 1}), "takes no versions"),
        (lambda lib: lib.update("nope", QUOTES), "no symbol 'nope'"),
        (lambda lib: lib.write_batch([adb.WritePayload("x", 1)] * 2), "more than once"),
        (lambda lib: lib.read("trades", output_format="xlsx"), "is none"),
        (
            lambda lib: lib.read("trades", query_builder=adb.QueryBuilder().groupby("sym")),
            "wait for",
        ),
        (lambda lib: adb.QueryBuilder().agg({"price": "sum"}), "comes after groupby"),
        (lambda lib: adb.QueryBuilder().head(2).concat(), "behind other verbs"),
        (lambda lib: adb.QueryBuilder()[3], "indexed by a column's name"),
        (lambda lib: bool(adb.col("price") > 3), "neither true nor false"),
        (lambda lib: adb.col("price").regex_match(3), "a pattern is text"),
        (lambda lib: lib.read_batch_and_join(["trades"], adb.QueryBuilder()), "begins with concat"),
        (lambda lib: adb.Arctic("s3://host:bucket?aws_auth=true"), "form of a place in a cloud"),
        (lambda lib: adb.Arctic("mem://")["nope"], "no store at"),
        (lambda lib: adb.Arctic("mem://").create_library("../x"), "no name of a library"),
    ],
)
def test_what_cannot_be_is_told(
    call: Callable[[adb.Library], Any], says: str, library: adb.Library
) -> None:
    with pytest.raises(ts.TesselError, match=says):
        call(library)
