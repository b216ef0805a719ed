"""Every scalar that enters keeps its unit, wherever it enters; nothing is cut."""

from __future__ import annotations

import datetime as dt
import decimal
import subprocess
import sys
import warnings
import zoneinfo
from collections.abc import Callable
from typing import Any

import dateutil.tz
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessel as ts
from tessel.errors import ExpressionTypeError, InvalidInputError, TesselError
from tessel.expression import coalesce, lit, min_of, parse
from tessel.expression.scalars import array_of, elapsed_text, moment_of, scalar_of
from tessel.store.events import Cell, LiveStore, Recorder
from tessel.store.rows import RowArena, RowSchema
from tests.clauses.helpers import fresh_store

Q = ts.QueryBuilder()
PARIS = zoneinfo.ZoneInfo("Europe/Paris")

# --- the table of types and units -----------------------------------------------------------------

INSTANTS: list[tuple[Any, int, pa.DataType]] = [
    *((np.datetime64(7, unit), 7, pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
    *((pd.Timestamp(7, unit=u).as_unit(u), 7, pa.timestamp(u)) for u in ("s", "ms", "us", "ns")),
    *((pa.scalar(7, pa.timestamp(u)), 7, pa.timestamp(u)) for u in ("s", "ms", "us", "ns")),
    (np.datetime64(7, "m"), 420, pa.timestamp("s")),
    (np.datetime64(7, "h"), 25_200, pa.timestamp("s")),
    (np.datetime64(7, "D"), 604_800, pa.timestamp("s")),
    (np.datetime64(7, "W"), 7 * 604_800, pa.timestamp("s")),
    (np.datetime64("1969-12", "M"), -31 * 86_400, pa.timestamp("s")),
    (np.datetime64(-400, "Y"), -146_097 * 86_400, pa.timestamp("s")),
    (np.array([7], "M8[25s]")[0], 175, pa.timestamp("s")),
    (np.datetime64(7_000, "ps"), 7, pa.timestamp("ns")),
    (np.datetime64(7_000_000_000, "as"), 7, pa.timestamp("ns")),
    (dt.datetime(1970, 1, 1, 0, 0, 0, 7), 7, pa.timestamp("us")),
    (dt.datetime(1970, 1, 1, 1, tzinfo=PARIS), 0, pa.timestamp("us", "Europe/Paris")),
    (
        dt.datetime(2013, 10, 27, 2, 30, tzinfo=PARIS, fold=1),
        1_382_837_400_000_000,
        pa.timestamp("us", "Europe/Paris"),
    ),
    (pd.Timestamp(7, tz=PARIS), 7, pa.timestamp("ns", "Europe/Paris")),
    (
        dt.datetime(1970, 1, 1, 1, tzinfo=dateutil.tz.tzoffset("x", 3_600)),
        0,
        pa.timestamp("us", "+01:00"),
    ),
    (
        dt.datetime(1970, 1, 1, tzinfo=dt.timezone(dt.timedelta(seconds=30))),
        -30_000_000,
        pa.timestamp("us", "UTC"),
    ),
]
LENGTHS: list[tuple[Any, int, pa.DataType]] = [
    *((np.timedelta64(7, unit), 7, pa.duration(unit)) for unit in ("s", "ms", "us", "ns")),
    *((pd.Timedelta(7, unit=u).as_unit(u), 7, pa.duration(u)) for u in ("s", "ms", "us", "ns")),
    (np.timedelta64(7, "D"), 604_800, pa.duration("s")),
    (np.timedelta64(7_000, "ps"), 7, pa.duration("ns")),
    (dt.timedelta(microseconds=7), 7, pa.duration("us")),
    (dt.timedelta(-1), -86_400_000_000, pa.duration("us")),
]
OTHERS: list[tuple[Any, Any, pa.DataType]] = [
    (dt.date(1970, 1, 8), 7, pa.date32()),
    (dt.time(0, 0, 0, 7), 7, pa.time64("us")),
]


@pytest.mark.parametrize(
    ("value", "count", "kind"), INSTANTS + LENGTHS + OTHERS, ids=lambda value: repr(value)[:60]
)
def test_a_value_keeps_its_unit_and_zone(value: Any, count: int, kind: pa.DataType) -> None:
    found = scalar_of(value)
    assert (found.value, found.type) == (count, kind)
    assert lit(value).value == count
    assert lit(value).type == kind
    assert parse(str(lit(value))).equals(lit(value))


MISSING = [
    None,
    pd.NaT,
    pd.NA,
    np.datetime64("NaT", "ns"),
    np.timedelta64("NaT", "ns"),
    decimal.Decimal("NaN"),
    pa.scalar(None, pa.timestamp("ns")),
]


@pytest.mark.parametrize("value", MISSING, ids=repr)
def test_what_is_missing_is_null(value: Any) -> None:
    assert scalar_of(value).type in (pa.null(), pa.timestamp("ns"))
    assert lit(value).equals(lit(None))
    assert array_of([value, 1]).to_pylist() == [None, 1] or isinstance(value, pa.Scalar)
    store = _store([0, 1, 2])
    assert len(store.read("x", query=Q.filter(ts.col("t") == value))) == 0
    store.add_column("x", "none", value)
    assert store.read("x").to_arrow()["none"].null_count == 3


def _without_unit() -> np.timedelta64:
    with warnings.catch_warnings():  # deprecated since numpy 2.5
        warnings.simplefilter("ignore", DeprecationWarning)
        return np.timedelta64(1)


@pytest.mark.parametrize(
    "value",
    [
        np.datetime64(1, "ps"),
        np.datetime64(10**15, "Y"),
        np.timedelta64(1, "Y"),
        np.timedelta64(1, "M"),
        _without_unit(),
        dt.timedelta.max,
        dt.time(1, tzinfo=dt.UTC),
        decimal.Decimal("Infinity"),
        np.longdouble(1),
        np.complex128(1),
        pd.Period("2020"),
        pd.Interval(0, 1),
        2**70,
        [1],
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_no_type_holds_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInputError):
        scalar_of(value)
    with pytest.raises((ExpressionTypeError, InvalidInputError, TesselError)):
        lit(value)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (pd.Timestamp(1), pa.timestamp("us")),
        (pd.Timedelta(1), pa.duration("us")),
        (dt.datetime(2020, 1, 1, 0, 0, 0, 1), pa.timestamp("s")),
        (dt.datetime(2020, 1, 1, 1), pa.date32()),
        (dt.time(0, 0, 0, 1), pa.time32("ms")),
        (dt.datetime(2020, 1, 1), pa.timestamp("us", "UTC")),
        (dt.datetime(2020, 1, 1, tzinfo=dt.UTC), pa.timestamp("us")),
        (dt.datetime(9000, 1, 1), pa.timestamp("ns")),
        (dt.timedelta(1), pa.timestamp("us")),
        (1, pa.string()),
        (300, pa.int8()),
    ],
    ids=repr,
)
def test_a_type_that_does_not_hold_a_value_refuses_it(value: Any, kind: pa.DataType) -> None:
    with pytest.raises(InvalidInputError, match="does not fit"):
        scalar_of(value, kind)
    with pytest.raises((InvalidInputError, pa.ArrowException, TypeError, ValueError)):
        array_of([value], kind)


_INTEGERS = [
    pa.int8(),
    pa.uint64(),
    pa.date32(),
    pa.timestamp("us"),
    pa.time64("ns"),
    pa.duration("s"),
    pa.dictionary(pa.int32(), pa.int64()),
]


@pytest.mark.parametrize("kind", _INTEGERS, ids=str)
@pytest.mark.parametrize("number", [2.5, decimal.Decimal("2.5"), np.float64(2.5), np.float32(2.5)])
def test_fractions_are_not_cut(kind: pa.DataType, number: Any) -> None:
    held = [
        ([1, number, None], kind),
        ([[1], None, [number]], pa.list_(kind)),
        ([{"a": number}, None], pa.struct([("a", kind)])),
        ([{"k": number}, None], pa.map_(pa.string(), kind)),
        ([[("k", number)], None], pa.map_(pa.string(), kind)),
        ([[{"a": [number]}]], pa.list_(pa.struct([("a", pa.list_(kind))]))),
    ]
    for values, whole in held:
        with pytest.raises(ValueError, match="is no whole number"):
            array_of(values, whole)
    with pytest.raises(InvalidInputError, match="no whole number"):
        scalar_of(number, kind)
    assert array_of([2.0, None], pa.int8()).to_pylist() == [2, None]
    assert array_of([float(number)], pa.float64()).to_pylist() == [2.5]


def test_fields_that_a_struct_lacks_are_not_dropped() -> None:
    kind = pa.struct([("a", pa.int64())])
    with pytest.raises(ValueError, match="has no field 'b'"):
        array_of([{"a": 1}, {"a": 1, "b": 2}], kind)
    assert array_of([{"a": 1}, {}, None], kind).to_pylist() == [{"a": 1}, {"a": None}, None]


@given(
    st.lists(
        st.tuples(st.integers(-(10**15), 10**15), st.sampled_from(range(4))), min_size=1, max_size=6
    )
)
@settings(max_examples=25)
def test_lists_take_the_finest_unit_of_their_values(rows: list[tuple[int, int]]) -> None:
    values, expected = [], []
    for number, form in rows:
        whole = number if form < 2 else number // 1_000 * 1_000
        makers: list[Callable[[int], Any]] = [
            pd.Timestamp,
            lambda ns: np.datetime64(ns, "ns"),
            lambda ns: dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=ns // 1_000),
            lambda ns: np.datetime64(ns // 1_000, "us"),
        ]
        values.append(makers[form](whole))
        expected.append(whole)
    for found in (array_of(values), array_of([values]).flatten()):
        unit = found.type.unit
        assert unit == ("ns" if any(form < 2 for _, form in rows) else "us")
        counts = found.cast(pa.int64()).to_pylist()
        assert [count * (1 if unit == "ns" else 1_000) for count in counts] == expected


# --- entry points ---------------------------------------------------------------------------------

STAMPS: dict[str, Callable[[int], Any]] = {
    "pandas": pd.Timestamp,
    "numpy": lambda ns: np.datetime64(ns, "ns"),
    "arrow": lambda ns: pa.scalar(ns, pa.timestamp("ns")),
}
SPANS: dict[str, Callable[[int], Any]] = {
    "pandas": pd.Timedelta,
    "numpy": lambda ns: np.timedelta64(ns, "ns"),
    "arrow": lambda ns: pa.scalar(ns, pa.duration("ns")),
}
BASE = 1_577_836_800_000_000_000
COUNTS = st.lists(st.integers(0, 4_000), min_size=1, max_size=8).map(sorted)


def _times(counts: list[int], kind: pa.DataType | None = None) -> pa.Array:
    return pa.array([BASE + n for n in counts], pa.int64()).cast(kind or pa.timestamp("ns"))


def _store(counts: list[int]) -> ts.Store:
    store = fresh_store()
    lengths = pa.array(counts, pa.int64()).cast(pa.duration("ns"))
    store.write("x", pa.table({"t": _times(counts), "v": counts, "d": lengths}), index="t")
    return store


def _kept(store: ts.Store, query: ts.QueryBuilder | None = None) -> list[int]:
    return store.read("x", query=query).to_arrow()["v"].to_pylist()  # type: ignore[no-any-return]


def _ints(column: pa.ChunkedArray) -> list[int]:
    return column.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("form", STAMPS)
@given(counts=COUNTS, asked=st.integers(0, 4_000))
@settings(max_examples=4)
def test_instants_of_a_nanosecond_in_queries(form: str, counts: list[int], asked: int) -> None:
    store, at, t = _store(counts), STAMPS[form](BASE + asked), ts.col("t")
    same, later = [n for n in counts if n == asked], [n for n in counts if n > asked]
    assert _kept(store, Q.filter(t == at)) == same
    assert _kept(store, Q.filter(t > at)) == later
    assert _kept(store, Q.filter(t.is_in([at]))) == same
    assert _kept(store, Q.filter(t.between(at, at))) == same
    assert _kept(store, Q.filter(min_of(t, at) == at)) == same + later
    assert _kept(store, Q.filter(coalesce(lit(None).cast("timestamp[ns]"), at) == at)) == counts
    assert _kept(store, Q.date_range(at, at)) == same
    assert _kept(store, Q.date_range(at, None, closed="right")) == later
    assert store.read("x", date_range=(at, at)).to_arrow()["v"].to_pylist() == same
    before = [n for n in counts if n <= asked]
    assert _kept(store, Q.latest_at(at)) == before[-1:]
    assert _kept(store, Q.latest_at([at, at])) == before[-1:]
    filled = store.read("x", query=Q.shift({"s": "t"}, 1, fill=at)).to_arrow()["s"]
    assert _ints(filled)[0] == BASE + asked
    filled = store.read("x", query=Q.shift("t", 1).fill("t", value=at)).to_arrow()["t"]
    assert _ints(filled)[0] == BASE + asked
    named = store.read("x", query=Q.apply("now", at)).to_arrow()["now"]
    assert _ints(named) == [BASE + asked] * len(counts)
    buckets = store.read("x", query=Q.resample("7ns", origin=at).agg(n="size")).to_arrow()["t"]
    assert {(n - BASE - asked) % 7 for n in _ints(buckets)} == {0}


@pytest.mark.parametrize("form", STAMPS)
@given(counts=COUNTS, asked=st.integers(0, 4_000))
@settings(max_examples=4)
def test_instants_of_a_nanosecond_in_changes(form: str, counts: list[int], asked: int) -> None:
    at, t = STAMPS[form](BASE + asked), ts.col("t")
    others = [n for n in counts if n != asked]
    for change in ({"where": t == at}, {"date_range": (at, at)}):
        store = _store(counts)
        store.delete_rows("x", **change)
        assert _kept(store) == others
    store = _store(counts)
    row = pa.table(
        {"t": _times([asked]), "v": [-1], "d": pa.array([0], pa.int64()).cast(pa.duration("ns"))}
    )
    store.update("x", row, date_range=(at, at))
    assert sorted(_kept(store)) == sorted([*others, -1])
    store.add_column("x", "one", at)
    store.add_column("x", "many", [at] * len(store.read("x")))
    table = store.read("x").to_arrow()
    assert {*_ints(table["one"]), *_ints(table["many"])} == {BASE + asked}
    with _store(counts).transaction("read") as transaction:
        assert transaction.read("x", times=(at, at))["v"].to_pylist() == [
            n for n in counts if n == asked
        ]
    store.write("lists", {"t": [at, None], "inside": [[at], []]})
    table = store.read("lists").to_arrow()
    assert _ints(table["t"]) == [BASE + asked, None]
    assert _ints(table["inside"].combine_chunks().flatten()) == [BASE + asked]
    with store.appender("lists") as appender:
        appender.append_rows([{"t": at, "inside": [at, at]}])
    table = store.read("lists").to_arrow()
    assert _ints(table["t"]) == [BASE + asked, None, BASE + asked]
    assert len(table["inside"].combine_chunks().flatten()) == 3


@pytest.mark.parametrize("form", SPANS)
@given(counts=COUNTS, asked=st.integers(1, 3_000))
@settings(max_examples=4)
def test_lengths_of_nanoseconds(form: str, counts: list[int], asked: int) -> None:
    store, length, t = _store(counts), SPANS[form](asked), ts.col("t")
    assert _kept(store, Q.filter(ts.col("d") == length)) == [n for n in counts if n == asked]
    moved = store.read("x", query=Q.apply("u", t + length)).to_arrow()["u"]
    assert _ints(moved) == [BASE + n + asked for n in counts]
    windows = store.read("x", query=Q.rolling(length).agg(n=("v", "size"))).to_arrow()["n"]
    expected = [sum(n - asked < m <= n for m in counts) for n in counts]
    assert windows.to_pylist() == expected
    buckets = store.read("x", query=Q.resample(length, offset=SPANS[form](3)).agg(n="size"))
    assert {(n - 3) % asked for n in _ints(buckets.to_arrow()["t"])} == {0}
    floored = store.read("x", query=Q.apply("f", t.floor(length))).to_arrow()["f"]
    assert _ints(floored) == [(BASE + n) // asked * asked for n in counts]
    filled = store.read("x", query=Q.shift({"s": "d"}, 1, fill=length)).to_arrow()["s"]
    assert _ints(filled)[0] == asked
    store.write("y", pa.table({"t": _times([0]), "w": [1]}), index="t")
    near = store.read("x", query=Q.join_asof("y", tolerance=length)).to_arrow()["w"]
    assert near.to_pylist() == [1 if n <= asked else None for n in counts]
    one = store.read("x", query=Q.ewm(halflife=length).agg(m=("v", "mean"))).to_arrow()
    other = store.read("x", query=Q.ewm(halflife=f"{asked}ns").agg(m=("v", "mean"))).to_arrow()
    assert one.equals(other)


LIVE = {**STAMPS, "pandas": lambda ns: pd.Timestamp(ns, tz="UTC")}


@pytest.mark.parametrize("form", LIVE)
@given(counts=COUNTS, asked=st.integers(0, 4_000))
@settings(max_examples=4)
def test_live_times_of_a_nanosecond(form: str, counts: list[int], asked: int) -> None:
    live, stamp = LiveStore(), LIVE[form]
    with Recorder(live) as recorder:
        for n in counts:
            recorder.log("e", {"v": n}, at=stamp(BASE + n), after=SPANS[form](n))
    at, same = stamp(BASE + asked), [n for n in counts if n == asked]
    before = [n for n in counts if n <= asked]
    assert [c.cell.to_list()[0] for c in live.latest_at("at", at, "e").values()] == before[-1:]
    assert live.range("at", at, at, "e").num_rows == len(same)
    assert live.range("after", SPANS[form](asked), SPANS[form](asked), "e").num_rows == len(same)
    found = live.latest_at_many("at", [at], "e", "v")["v"].to_pylist()
    assert found == [before[-1:] or None]
    assert live.table("at", "e", at=[at]).num_rows == 1
    cell = Cell.from_values("when", [at])
    assert cell.values.cast(pa.int64()).to_pylist() == [BASE + asked]
    assert live.drop_range("at", at, at) == len(same)
    assert live.drop_after("at", at) == sum(n > asked for n in counts)


def test_fields_of_rows_hold_nanoseconds_or_refuse_them() -> None:
    kinds = {"n": pa.timestamp("ns"), "u": pa.timestamp("us"), "d": pa.duration("ns")}
    arena = RowArena(RowSchema.from_arrow(pa.schema(kinds)), row_capacity=2, var_capacity=64)
    row = arena.new_row()
    row.set("n", pd.Timestamp(1_001))
    row.set("d", pd.Timedelta(1_001))
    row.set("u", pd.NaT)
    with pytest.raises(InvalidInputError, match="takes no"):
        row.set("u", pd.Timestamp(1_001))
    read = row.view()
    assert read.get("n") == np.datetime64(1_001, "ns")
    assert read.get("d") == np.timedelta64(1_001, "ns")
    assert read.get("u") is None


def test_versions_by_instants_of_any_kind() -> None:
    store = _store([0])
    now = store.log()[0].timestamp
    for value in (
        now,
        pd.Timestamp(now),
        pd.Timestamp(now) + pd.Timedelta(999),
        pa.scalar(now),
        np.int64(1),
        pa.scalar(1),
    ):
        assert len(store.read("x", as_of=value)) == 1
    before = pd.Timestamp(now) - pd.Timedelta(1)
    with pytest.raises(TesselError, match="version 0"):
        store.read("x", as_of=before)
    for value in (pd.NaT, np.datetime64("NaT", "ns"), True, 1.0, object()):
        with pytest.raises(InvalidInputError, match="is no version"):
            store.read("x", as_of=value)
    with pytest.raises(InvalidInputError, match="no time zone"):
        store.read("x", as_of=np.datetime64(0, "ns"))
    assert store.gc(minimum_age=pd.Timedelta(hours=7)).dry_run
    assert store.gc(minimum_age=np.timedelta64(7, "h")).dry_run
    assert store.expire(np.int64(1)).dry_run
    assert store.expire(pd.Timedelta(days=1)).dry_run
    with ts.options(workers=np.int64(2)) as found:
        assert type(found.workers) is int


def test_bounds_that_are_no_instants_are_refused() -> None:
    store = _store([0])
    for value in (pd.NaT, np.datetime64("NaT", "ns"), pd.NA, 1.5, pd.Period("2020"), b"2020"):
        with pytest.raises(InvalidInputError, match="is not a date or time"):
            Q.date_range(value)
        with pytest.raises(InvalidInputError, match="is not a date or time"):
            store.delete_rows("x", date_range=(value, None))
    with pytest.raises(InvalidInputError, match="years 1 to 9999"):
        Q.date_range(np.datetime64(10**12, "s"))
    assert Q.date_range(np.datetime64("2020-03"), dt.date(2020, 4, 1)) == Q.date_range(
        "2020-03", "2020-04-01"
    )


def test_lengths_are_spelled_in_elapsed_time() -> None:
    assert elapsed_text(dt.timedelta(days=1, microseconds=1)) == "24h1us"
    assert elapsed_text(pd.Timedelta(-1)) == "-1ns"
    assert elapsed_text(dt.timedelta(0)) == "0s"
    assert elapsed_text("1D") == "1D"
    assert moment_of(np.datetime64(-1, "ns")) == dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)


def test_a_constant_is_not_cut_to_the_unit_of_its_column() -> None:
    store = fresh_store()
    store.write("x", {"u": pa.array([None, 1], pa.timestamp("us")), "k": [1, 2]})
    with pytest.raises(InvalidInputError, match="does not hold"):
        store.read("x", query=Q.fill("u", value=pd.Timestamp(1)))
    found = store.read("x", query=Q.fill("u", value=pd.Timestamp(1_000))).to_arrow()["u"]
    assert _ints(found) == [1, 1]


WITHOUT_PANDAS = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import numpy as np, pyarrow as pa, tessel as ts
store = ts.open("memory://without-pandas")
t = pa.array([1, 2, 3, 1001], pa.timestamp("ns"))
store.write("x", pa.table({"t": t, "v": [1, 2, 3, 4]}), index="t")
at, Q = np.datetime64(2, "ns"), ts.QueryBuilder()
for query in (
    Q.filter(ts.col("t") == at), Q.date_range(at, at), Q.latest_at(at).filter("v == 2"),
    Q.sort("t", descending=True).filter(ts.col("t").is_in([at])), Q.top_k(2, "t").filter("v > 3"),
):
    assert len(store.read("x", query=query)) == 1, query
store.add_column("x", "at", at)
store.delete_rows("x", where=ts.col("t") == at)
assert len(store.read("x")) == 3
"""


def test_nothing_needs_pandas() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], check=True)
