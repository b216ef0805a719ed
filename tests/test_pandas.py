"""Frames and Series of pandas: what is written comes back, whatever the index and the dtypes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessel as ts
from tessel.errors import (
    CorruptStoreError,
    DuplicateColumnError,
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedTypeError,
)
from tessel.store.history.symbol import SymbolState
from tests.profiles import cases

DOCS = Path(__file__).parents[1] / "docs"
TIMES = pd.DatetimeIndex(["2024-01-01", "2024-01-02", "2024-01-02"])


@pytest.fixture
def store() -> ts.Store:
    return ts.open("memory://")


def same(found: Any, wanted: Any) -> None:
    """Compare frames or Series, all that pandas compares but the frequency of times."""
    if isinstance(wanted, pd.Series):
        pd.testing.assert_series_equal(found, wanted, check_freq=False)
    else:
        pd.testing.assert_frame_equal(found, wanted, check_freq=False)


def frame(index: Any = None, /, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns or {"price": [1.5, 2.5, np.nan]}, index=index)


def numbered(names: list[Any], label: str | None = None) -> pd.DataFrame:
    made = pd.DataFrame(np.arange(3 * len(names)).reshape(3, -1), columns=pd.Index(names))
    return made.rename_axis(columns=label)


PAIRS = [(TIMES[0], "a"), (TIMES[1], "b"), (TIMES[2], None)]

# What is written: its columns as stored, and the time index. The keys are rows of docs/pandas.md.
ROWS: dict[str, tuple[Any, list[str], str | None]] = {
    "`RangeIndex`": (frame(), ["price"], None),
    "`RangeIndex(10, 16, 2, name=\"n\")`": (
        frame(pd.RangeIndex(10, 16, 2, name="n")), ["price"], None),
    "`DatetimeIndex` named `time`": (frame(TIMES.rename("time")), ["time", "price"], "time"),
    "`DatetimeIndex` without a name": (frame(TIMES), ["index", "price"], "index"),
    "`DatetimeIndex` that goes back": (frame(TIMES[::-1]), ["index", "price"], None),
    "`DatetimeIndex` with a zone": (
        frame(TIMES.tz_localize("Europe/Berlin")), ["index", "price"], "index"),
    "index of integers": (frame(pd.Index([5, 3, 5])), ["index", "price"], None),
    "index of text named `key`": (
        frame(pd.Index(["x", "y", "z"], name="key")), ["key", "price"], None),
    "unnamed index beside a column `index`": (
        frame(pd.Index([5, 3, 5]), index=[1, 2, 3]), ["level_0", "index"], None),
    "`MultiIndex` of instants and text, no names": (
        frame(pd.MultiIndex.from_tuples(PAIRS)), ["level_0", "level_1", "price"], "level_0"),
    "`MultiIndex` of `time` and `ticker`": (
        frame(pd.MultiIndex.from_tuples(PAIRS, names=["time", "ticker"])),
        ["time", "ticker", "price"], "time"),
    "ordered categories of which there are none": (
        frame(a=pd.Categorical([None] * 3, pd.Index([], dtype=object), ordered=True)),
        ["a"], None),
    "`MultiIndex` of integers, some missing": (
        frame(pd.MultiIndex.from_tuples([(7, "a"), (None, "b"), (2**60 + 1, "c")])),
        ["level_0", "level_1", "price"], None),
    "`CategoricalIndex`": (
        frame(pd.CategoricalIndex(["b", "a", "b"], categories=["b", "z", "a"])),
        ["index", "price"], None),
    "`TimedeltaIndex`": (
        frame(pd.to_timedelta(["1h", "2h", "3h"])), ["index", "price"], None),
    "`Series` named `price`": (pd.Series([1.5, None, 2.5], name="price"), ["price"], None),
    "`Series` without a name": (pd.Series([1, 2, 3], TIMES), ["index", "0"], "index"),
    "column names that are integers": (numbered([3, 1, 2], "n"), ["3", "1", "2"], None),
    "columns that have a name": (numbered(["a", "b"], "field"), ["a", "b"], None),
    "`Int64`, `UInt8`, `Float32`": (
        frame(a=pd.array([1, None, 3], "Int64"), b=pd.array([1, None, 3], "UInt8"),
              c=pd.array([1.5, None, 3], "Float32")), ["a", "b", "c"], None),
    "`boolean`": (frame(a=pd.array([True, None, False], "boolean")), ["a"], None),
    "`string`": (frame(a=pd.array(["a", None, "b"], "string")), ["a"], None),
    "`object` of text": (frame(a=pd.Series(["a", None, "b"], dtype=object)), ["a"], None),
    "`object` of integers": (frame(a=pd.Series([1, None, 2**60 + 1], dtype=object)), ["a"], None),
    "`object` of dates, times, decimals, bytes": (
        frame(a=[dt.date(2024, 1, 1), None, dt.date(1, 1, 1)], b=[dt.time(1), None, dt.time(2)],
              c=[Decimal("1.25"), None, Decimal("2.50")], d=[b"a", None, b""]),
        ["a", "b", "c", "d"], None),
    "`float16`": (frame(a=np.array([1.5, 2.5, np.nan], np.float16)), ["a"], None),
    "`datetime64`, `timedelta64` of any unit": (
        frame(a=TIMES.as_unit("s"), b=TIMES.as_unit("ns"), c=pd.to_timedelta([1, 2, None], "ms")),
        ["a", "b", "c"], None),
    "`category`, ordered, with unused categories": (
        frame(a=pd.Categorical(["b", None, "a"], ["c", "b", "a"], ordered=True)), ["a"], None),
    "`category` of integers, of instants with a zone or without": (
        frame(a=pd.Categorical([3, None, 1], [3, 2, 1]), b=pd.Categorical(TIMES),
              c=pd.Categorical(TIMES.tz_localize("Europe/Berlin"))),
        ["a", "b", "c"], None),
    "`category` without any category": (
        frame(a=pd.Categorical([None] * 3), b=pd.Categorical([None] * 3, pd.Index([], dtype=str))),
        ["a", "b"], None),
    "`category` without rows": (
        pd.DataFrame({"a": pd.Categorical([], ["x", "y"])}), ["a"], None),
    "`int64[pyarrow]` and other dtypes of Arrow": (
        frame(a=pd.array([1, None, 3], "int64[pyarrow]"), b=pd.array(["a"] * 3, "string[pyarrow]"),
              c=pd.array(TIMES, "timestamp[us][pyarrow]")), ["a", "b", "c"], None),
    "dtypes of Arrow with parameters, such as lists and decimals": (
        frame(a=pd.array([[1], None, []], pd.ArrowDtype(pa.list_(pa.int64()))),
              b=pd.array([Decimal("1.20"), None, None], pd.ArrowDtype(pa.decimal128(5, 2))),
              c=pd.array([{"x": 1}, None, None], pd.ArrowDtype(pa.struct([("x", pa.int64())]))),
              d=pd.array(["a", None, "b"],
                         pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))),
        ["a", "b", "c", "d"], None),
    "index alone, no columns": (pd.DataFrame(index=TIMES), ["index"], "index"),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_what_is_written_comes_back(store: ts.Store, row: str) -> None:
    written, columns, index = ROWS[row]
    store.write("s", written)
    schema = store.schema("s")
    assert (schema.names, schema.index) == (columns, index)
    found = store.read("s")
    same(found.to_pandas(), written)
    plain = found.to_pandas(index=False)
    assert isinstance(plain.index, pd.RangeIndex)
    assert [str(name) for name in plain.columns] == columns
    if index is not None:
        assert found.to_pandas(index=True).index.name == index


def test_the_page_has_every_row() -> None:
    told = (DOCS / "pandas.md").read_text()
    for row, (_, columns, index) in ROWS.items():
        (line,) = [line for line in told.splitlines() if line.startswith(f"| {row} |")]
        stored = ", ".join(f"`{name}`" for name in columns)
        assert line.split(" | ")[1:3] == [stored, f"`{index}`" if index else "–"], row


@pytest.mark.parametrize("row", ROWS)
def test_arrow_gives_the_index_back(store: ts.Store, row: str) -> None:
    written = ROWS[row][0]
    store.write("s", written)
    frame = store.read("s").to_arrow().to_pandas()
    assert list(frame.index.names) == list(written.index.names)
    assert frame.index.equals(written.index) or isinstance(written.index, pd.CategoricalIndex)


# --- what queries leave of it ---------------------------------------------------------------------

PRICES = pd.DataFrame(
    {
        "price": pd.array([3, 1, None, 2], "Int64"),
        "side": pd.Categorical(list("baab"), list("cba")),
    },
    index=pd.date_range("2024-01-01", periods=4, name="time"),
)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (ts.QueryBuilder().filter("price > 1"), PRICES[(PRICES.price > 1).fillna(False)]),
        (ts.QueryBuilder().head(2), PRICES.head(2)),
        (ts.QueryBuilder().sort("price"), PRICES.sort_values("price", kind="stable")),
        (ts.QueryBuilder().top_k(2, "price"), PRICES.nlargest(2, "price")),
        (ts.QueryBuilder().select("time", "side"), PRICES[["side"]]),
        (ts.QueryBuilder().select("side"), PRICES[["side"]].reset_index(drop=True)),
        (ts.QueryBuilder().rename({"time": "at"}), PRICES.reset_index(names="at")),
        (ts.QueryBuilder().rename({"time": "side", "side": "time"}).select("side"),
         pd.DataFrame({"side": PRICES.index})),
        (ts.QueryBuilder().date_range("2024-01-02", "2024-01-03"), PRICES.iloc[1:3]),
        (ts.QueryBuilder().distinct("side", keep="first").select("time", "side"),
         PRICES[["side"]].head(2)),
    ],
    ids=lambda value: str(value) if isinstance(value, ts.QueryBuilder) else "",
)  # fmt: skip
def test_rows_keep_their_index(store: ts.Store, query: ts.QueryBuilder, wanted: Any) -> None:
    store.write("s", PRICES)
    same(store.read("s", query=query).to_pandas(), wanted)


@pytest.mark.parametrize(
    "query",
    [
        ts.QueryBuilder().groupby("time").agg(n="size"),
        ts.QueryBuilder().resample("2D").agg(price=("price", "sum")),
        ts.QueryBuilder().value_counts("time"),
        ts.QueryBuilder().agg(time=("time", "max")),
        ts.QueryBuilder().describe(),
    ],
    ids=str,
)
def test_groups_have_no_index(store: ts.Store, query: ts.QueryBuilder) -> None:
    store.write("s", PRICES)
    found = store.read("s", query=query)
    assert found.to_pandas().columns.tolist() == found.column_names
    assert isinstance(found.to_pandas().index, pd.RangeIndex)


def test_index_true_is_the_buckets_of_a_resample(store: ts.Store) -> None:
    store.write("s", PRICES)
    found = store.scan("s").resample("1D").agg(n="size").collect().to_pandas(index=True)
    assert found.index.tolist() == list(PRICES.index)
    assert found.columns.tolist() == ["n"]


def test_index_true_without_an_index_is_refused(store: ts.Store) -> None:
    store.write("s", {"a": [1]})
    with pytest.raises(InvalidInputError, match="no time index"):
        store.read("s").to_pandas(index=True)


@pytest.mark.parametrize(
    ("query", "start", "step", "name"),
    [
        (ts.QueryBuilder(), 10, 5, "n"),
        (ts.QueryBuilder().apply("b", ts.col("a") * 2), 10, 5, "n"),
        (ts.QueryBuilder().filter("a >= 0"), 10, 5, "n"),
        (ts.QueryBuilder().filter("a >= 1"), 0, 1, None),
        (ts.QueryBuilder().sort("a", descending=True), 0, 1, None),
        (ts.QueryBuilder().groupby("a").agg(n="size"), 0, 1, None),
    ],
    ids=["all", "apply", "filter of all", "filter", "sort", "groups"],
)
def test_a_range_index_starts_anew_where_rows_are_missing(
    store: ts.Store, query: ts.QueryBuilder, start: int, step: int, name: str | None
) -> None:
    store.write("s", pd.DataFrame({"a": [0, 1, 2]}, index=pd.RangeIndex(10, 25, 5, name="n")))
    found = store.read("s", query=query).to_pandas()
    wanted = pd.RangeIndex(start, start + step * len(found), step, name=name)
    pd.testing.assert_index_equal(found.index, wanted, exact=True)


def test_rows_that_come_later_go_on_with_the_range(store: ts.Store) -> None:
    store.write("s", pd.DataFrame({"a": [0, 1]}, index=pd.RangeIndex(5, 7)))
    store.append("s", pd.DataFrame({"a": [2]}))
    assert store.read("s").to_pandas().index.tolist() == [5, 6, 7]


def test_integers_as_names_stay_where_all_names_are(store: ts.Store) -> None:
    store.write("s", numbered([3, 1, 2]))
    assert store.read("s", columns=["1", "3"]).to_pandas().columns.tolist() == [1, 3]
    more = store.scan("s").apply("sum", ts.col("3") + ts.col("1")).collect()
    assert more.to_pandas().columns.tolist() == ["3", "1", "2", "sum"]


def test_a_series_is_one_where_its_column_is_alone(store: ts.Store) -> None:
    written = pd.Series([1, 2, 3], TIMES, name="price")
    store.write("s", written)
    same(store.read("s", query=ts.QueryBuilder().head(2)).to_pandas(), written.head(2))
    twice = store.scan("s").apply("twice", ts.col("price") * 2).collect().to_pandas()
    assert twice.columns.tolist() == ["price", "twice"]


def test_a_column_of_another_type_has_the_dtype_of_arrow(store: ts.Store) -> None:
    store.write("s", PRICES)
    query = ts.QueryBuilder().cast({"price": "float64"}).apply("side", ts.col("price") + 1)
    found = store.read("s", query=query).to_pandas()
    assert [str(dtype) for dtype in found.dtypes] == ["float64", "float64"]


# --- what is written later ------------------------------------------------------------------------


def test_categories_of_later_rows_come_behind(store: ts.Store) -> None:
    store.write("s", pd.DataFrame({"a": pd.Categorical(["y"], ["z", "y"])}))
    store.append("s", pd.DataFrame({"a": pd.Categorical(["b", "y"])}))
    assert store.read("s").to_pandas()["a"].cat.categories.tolist() == ["z", "y", "b"]


def test_more_categories_than_are_kept(store: ts.Store) -> None:
    rare = [f"{number * 7919 % 10007:05d}" for number in range(10_007)]
    store.write("s", pd.DataFrame({"a": pd.Categorical(rare[:3] * 2, rare)}))
    found = store.read("s").to_pandas()["a"]
    assert found.tolist() == rare[:3] * 2
    assert set(found.cat.categories) == set(rare[:3])


def test_renamed_and_dropped_columns(store: ts.Store) -> None:
    store.write("s", PRICES)
    store.rename_columns("s", {"time": "at"})
    same(store.read("s").to_pandas(), PRICES)
    store.drop_column("s", "price")
    store.add_column("s", "price", [1, 2, 3, 4])
    assert str(store.read("s").to_pandas()["price"].dtype) == "int64"
    store.write("k", pd.DataFrame({"a": [1]}, index=pd.Index(["x"], name="key")))
    store.drop_column("k", "key")
    same(store.read("k").to_pandas(), pd.DataFrame({"a": [1]}))


def test_staged_frames(store: ts.Store) -> None:
    parts = [PRICES.iloc[:2], PRICES.iloc[2:]]
    staged = [store.stage("s", part, task_id=str(at)) for at, part in enumerate(parts)]
    store.finalize("s", staged)
    same(store.read("s").to_pandas(), PRICES)


def test_parts_of_an_iterable(store: ts.Store) -> None:
    store.write("s", [PRICES.iloc[:2], PRICES.iloc[2:]])
    same(store.read("s").to_pandas(), PRICES)


def test_sort_makes_a_time_index_of_times_that_go_back(store: ts.Store) -> None:
    store.write("s", PRICES[::-1], sort=True)
    assert store.schema("s").index == "time"
    same(store.read("s").to_pandas(), PRICES)


def test_a_store_on_disk_keeps_it(tmp_path: Any) -> None:
    ts.open(str(tmp_path / "s")).write("s", PRICES)
    same(ts.open(str(tmp_path / "s")).read("s").to_pandas(), PRICES)


@pytest.mark.parametrize("verb", ["append", "update"])
def test_another_index_is_refused(store: ts.Store, verb: str) -> None:
    store.write("s", PRICES)
    later = PRICES.set_axis(PRICES.index + pd.Timedelta("9D"))
    with pytest.raises(SchemaMismatchError, match=r"'when'.*'time'.*\n.*rename_axis\('time'\)"):
        getattr(store, verb)("s", later.rename_axis("when"))
    getattr(store, verb)("s", later.rename_axis("when").rename_axis("time"))
    later.index += pd.Timedelta("9D")
    store.append("s", later.reset_index())
    later.index += pd.Timedelta("9D")
    store.append("s", pa.Table.from_pandas(later.reset_index(), preserve_index=False))


@pytest.mark.parametrize(
    ("levels", "said", "way"),
    [
        (["ticker", "time"], r"reorder_levels\(\['time', 'ticker'\]\)",
         lambda f: f.reorder_levels(["time", "ticker"])),
        (["time", "name"], r"rename_axis\(\['time', 'ticker'\]\)",
         lambda f: f.rename_axis(["time", "ticker"])),
        (["time"], r"^  turn it into columns: frame.reset_index\(\)",
         lambda f: f.reset_index()),
    ],
)  # fmt: skip
def test_levels_of_another_index_are_told_apart(
    store: ts.Store, levels: list[str], said: str, way: Any
) -> None:
    columns = {"time": TIMES, "ticker": ["a", "b", "c"], "name": ["a", "b", "c"]}
    table = pd.DataFrame({**columns, "price": [1.5, 2.5, 3.5]})
    store.write("s", table.drop(columns="name").set_index(["time", "ticker"]))
    later = table.assign(time=TIMES + pd.Timedelta("9D"))
    later = later.drop(columns="ticker" if "name" in levels else "name").set_index(levels)
    with pytest.raises(SchemaMismatchError, match=rf"(?m){said}"):
        store.append("s", later)
    store.append("s", way(later))
    assert len(store.read("s")) == 6


def test_polars_and_arrow_are_as_they_were(store: ts.Store) -> None:
    table = pa.table({"a": [1, None], "b": ["x", None]})
    store.write("s", table)
    assert store.read("s").to_arrow().schema.metadata.keys() == {b"tessel"}
    assert store.read("s").to_arrow().replace_schema_metadata(None).equals(table)
    assert store.view("s").pandas is None
    store.write("p", PRICES)
    assert store.read("p").to_polars().columns == ["time", "price", "side"]


# --- refused --------------------------------------------------------------------------------------

PERIODS = pd.period_range("2024-01", periods=3, freq="M")
INTERVALS = pd.interval_range(0, 3)


@pytest.mark.parametrize(
    ("written", "error", "text", "way"),
    [
        (frame(a=PERIODS), UnsupportedTypeError, "column 'a' holds periods",
         lambda f: f.assign(a=f["a"].dt.to_timestamp())),
        (frame(PERIODS), UnsupportedTypeError, "the index holds periods",
         lambda f: f.set_axis(f.index.to_timestamp())),
        (frame(a=INTERVALS), UnsupportedTypeError, "column 'a' holds intervals",
         lambda f: pd.DataFrame({"left": f["a"].array.left, "right": f["a"].array.right})),
        (frame(INTERVALS), UnsupportedTypeError, "the index holds intervals",
         lambda f: f.assign(l=f.index.left, r=f.index.right).reset_index(drop=True)),
        (frame(a=pd.cut([1, 2, 3], [0, 2, 4])), UnsupportedTypeError, "holds intervals",
         lambda f: f.assign(a=f["a"].astype(str))),
        (frame().set_axis(pd.MultiIndex.from_tuples([("a", 1)]), axis=1), InvalidInputError,
         "columns of 2 levels", lambda f: f.set_axis(["_".join(map(str, e)) for e in f], axis=1)),
        (frame(TIMES.rename("price")), DuplicateColumnError,
         "level of the index and a column are both named 'price'\n.*rename_axis",
         lambda f: f.rename_axis(index={"price": "time"})),
        (frame(TIMES.rename(7)), InvalidInputError, "rename_axis", lambda f: f.rename_axis("7")),
        (numbered([1, "a"]), InvalidInputError, "no text",
         lambda f: f.set_axis(f.columns.map(str), axis=1)),
        (frame(a=[1, "x", None]), InvalidInputError, "one type", lambda f: f.astype(str)),
        (frame(a=[dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 13)]), InvalidInputError,
         "column 'a' has dates and times", lambda f: f.assign(a=pd.to_datetime(f["a"]))),
        (frame(pd.Index([dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 13)], object), a=[1, 2]),
         InvalidInputError, "column 'index' has dates and times",
         lambda f: f.set_axis(pd.to_datetime(f.index.to_series()))),
        (frame(a=["b", b"b"]), InvalidInputError, "'a' has bytes and text",
         lambda f: f.assign(a=f["a"].astype(str))),
        (frame(a=pd.arrays.SparseArray([0, 0, 1])), UnsupportedTypeError, "'a' holds sparse",
         lambda f: f.sparse.to_dense()),
        (frame(a=[2**70]), InvalidInputError, "64 bits", lambda f: f.astype(str)),
        (frame(a=[1j]), UnsupportedTypeError, "'a' holds complex",
         lambda f: pd.DataFrame({"re": f["a"].to_numpy().real, "im": f["a"].to_numpy().imag})),
    ],
    ids=["periods", "period index", "intervals", "interval index", "categories", "columns",
         "index is a column", "name of the index", "mixed names", "mixed values",
         "dates and times", "index of dates and times", "bytes and text", "sparse", "long integers",
         "complex"],
)  # fmt: skip
def test_refused_by_name_with_a_way_out(
    store: ts.Store, written: Any, error: type[Exception], text: str, way: Any
) -> None:
    with pytest.raises(error, match=text):
        store.write("s", written)
    assert store.symbols() == []
    store.write("s", way(written))


@pytest.mark.parametrize(
    "pandas",
    [
        [], {"levels": [[99, "a"]]}, {"levels": [["a", "a"]]}, {"levels": 1},
        {"range": ["n", 0, 0]}, {"range": [1, 0, 1]}, {"dtypes": [[0, 1]]},
        {"dtypes": [[0, "x" * 999]]}, {"dtypes": [[-1, "Int64"]]}, {"categories": [[0, "str"]]},
        {"columns": ["a"]}, {"series": [True, "a"]}, {"series": [99, None]},
    ],
    ids=str,
)  # fmt: skip
def test_forged_metadata_are_damaged(store: ts.Store, pandas: Any) -> None:
    from tessel.store.history.documents import Fields

    store.write("s", PRICES)
    document = {**store.view("s")._state.to_json(), "pandas": pandas}
    with pytest.raises(CorruptStoreError):
        SymbolState.read(Fields(document, "forged"))
    del document["pandas"]
    assert SymbolState.read(Fields(document, "older")).pandas is None


# --- any frame ------------------------------------------------------------------------------------

_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
_INSTANTS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))


def _column(values: st.SearchStrategy[Any], dtype: str, *, gaps: bool = True) -> Any:
    drawn = values | st.none() if gaps else values
    return lambda rows: st.lists(drawn, min_size=rows, max_size=rows).map(
        lambda listed: pd.Series(listed, dtype=dtype)
    )


def _categorical(rows: int) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda known, picks, ordered: pd.Series(
            pd.Categorical.from_codes([p % (len(known) + 1) - 1 for p in picks], known, ordered)
        ),
        st.lists(_TEXT, max_size=4, unique=True).map(lambda c: pd.Index(c, dtype="str"))
        | st.lists(st.integers(-9, 9), min_size=1, max_size=4, unique=True).map(pd.Index),
        st.lists(st.integers(0, 100), min_size=rows, max_size=rows),
        st.booleans(),
    )


_SMALL = st.integers(-100, 100)
_LEVELS = [
    _column(_SMALL, "int64", gaps=False), _column(_SMALL, "int8", gaps=False),
    _column(st.integers(0, 2**64 - 1), "uint64", gaps=False), _column(_SMALL, "Int64"),
    _column(_SMALL, "Int16"), _column(st.floats(), "float64"),
    _column(st.floats(width=32), "float32"),
    _column(st.booleans(), "bool", gaps=False), _column(st.booleans(), "boolean"),
    _column(_TEXT, "str"), _column(_TEXT, "string"), _column(_TEXT, "object"),
    _column(_SMALL, "object"), _column(st.booleans(), "object"),
    _column(st.dates(), "object"), _column(st.binary(max_size=4), "object"),
    _column(_INSTANTS, "datetime64[us]"), _column(_INSTANTS, "datetime64[ns]"),
    _column(_INSTANTS, "datetime64[us, Asia/Tokyo]"),
    _column(st.timedeltas(dt.timedelta(-999), dt.timedelta(999)), "timedelta64[us]"),
    _column(_SMALL, "int32[pyarrow]"), _categorical,
]  # fmt: skip
_COLUMNS = [*_LEVELS, _column(st.floats(width=16), "float16")]  # pandas has no such index
_NAMES = st.none() | st.sampled_from(["time", "key", "index"])


@st.composite
def _indexes(draw: st.DrawFn, rows: int) -> Any:
    kind = draw(st.sampled_from(["range", "one", "several"]))
    if kind == "range":
        start, step = draw(st.integers(-9, 9)), draw(st.sampled_from([1, 2, -3]))
        return pd.RangeIndex(start, start + step * rows, step, name=draw(_NAMES))
    levels = [
        draw(draw(st.sampled_from(_LEVELS))(rows))
        for _ in range(1 if kind == "one" else draw(st.integers(2, 3)))
    ]
    if draw(st.booleans()):
        levels[0] = levels[0].sort_values(ignore_index=True)
    names = draw(st.lists(_NAMES, min_size=len(levels), max_size=len(levels), unique=True))
    if kind == "one":
        return pd.Index(levels[0], name=names[0])
    return pd.MultiIndex.from_arrays(levels, names=names)


@st.composite
def _frames(draw: st.DrawFn) -> Any:
    rows = draw(st.integers(0, 6))
    kinds = draw(st.lists(st.sampled_from(_COLUMNS), min_size=1, max_size=4))
    names = draw(
        st.just([*range(len(kinds))])
        | st.lists(_TEXT.map("c".__add__), min_size=len(kinds), max_size=len(kinds), unique=True)
    )
    columns = [draw(kind(rows)) for kind in kinds]
    made = pd.concat(columns, axis=1, keys=names)
    made.columns = pd.Index(names, name=draw(st.none() | st.just("field")))
    made.index = draw(_indexes(rows))
    return made if draw(st.integers(0, 4)) else made.iloc[:, 0]


@cases(150, 500)
@given(_frames())
def test_any_frame_comes_back(written: Any) -> None:
    store = ts.open("memory://")
    store.write("s", written)
    found = store.read("s").to_pandas()
    if isinstance(written.index, pd.RangeIndex):
        pd.testing.assert_index_equal(found.index, written.index, exact=True)
    same(found, written)


@pytest.mark.parametrize("kind", [pa.time64("ns"), pa.list_(pa.time64("ns"))])
def test_times_of_day_that_pandas_cannot_hold_are_refused_by_name(
    store: ts.Store, kind: pa.DataType
) -> None:
    value = 67_045_832_940_437
    store.write("x", {"t": pa.array([[value] if pa.types.is_list(kind) else value], kind)})
    with pytest.raises(UnsupportedTypeError, match="column 't' has times of day with nanoseconds"):
        store.read("x").to_pandas()
    store.write("x", {"t": pa.array([value // 1000 * 1000], pa.time64("ns"))})
    assert store.read("x").to_pandas()["t"].iloc[0] == dt.time(18, 37, 25, 832_940)
