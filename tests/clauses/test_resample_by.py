"""resample by keys, and what stands in buckets without rows, on any split."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import FillBuckets, QueryBuilder, Resample
from tessel.clauses import fill_buckets as filling
from tessel.errors import (
    ColumnNotFoundError,
    DuplicateColumnError,
    IndexColumnError,
    PlanError,
    PlanFormatError,
    UnsupportedTypeError,
)
from tests.clauses.helpers import SETTINGS, answer, stored
from tests.oracles import as_declared, duckdb_answer, nan_as_null, same_rows
from tests.strategies.tables import as_dictionary

Q = QueryBuilder()
START = dt.datetime(2021, 3, 27, 20)
UNDER = SETTINGS[::2]
KEYS = st.none() | st.sampled_from(["a", "b", "é"])


@st.composite
def tables(draw: st.DrawFn, *, max_rows: int = 24, zone: str | None = None) -> pa.Table:
    """Draw rows with two key columns, on times with gaps."""
    rows = draw(st.integers(1, max_rows))
    steps = draw(st.lists(st.sampled_from([0, 1, 9, 30, 200, 5000]), min_size=rows, max_size=rows))
    times = [START + dt.timedelta(minutes=int(m)) for m in np.cumsum(steps)]

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=rows, max_size=rows))

    text = pa.array(column(KEYS), pa.string())
    return pa.table(
        {
            "t": pa.array(times, pa.timestamp("us", zone)),
            "k": as_dictionary(text) if draw(st.booleans()) else text,
            "f": pa.array(column(st.sampled_from([None, float("nan"), 1.5, -0.0, 0.0]))),
            "v": pa.array(column(st.none() | st.integers(-5, 5)), pa.int64()),
        }
    )


@pytest.mark.parametrize("how", ["sum", "median"])
@settings(max_examples=20)
@given(
    table=tables(),
    by=st.sampled_from([("k",), ("f",), ("k", "f"), ("f", "k")]),
    rule=st.sampled_from([("20min", "20 minutes"), ("7D", "7 days"), ("MS", "1 month")]),
    drop=st.booleans(),
    cut=st.integers(1, 9),
)
def test_keys_are_those_of_duckdb(
    how: str, table: pa.Table, by: tuple[str, ...], rule: tuple[str, str], drop: bool, cut: int
) -> None:
    query = Q.resample(rule[0], by=by, drop_missing=drop).agg(
        o=("v", how), n="size", a=("v", "min")
    )
    found = answer(stored(table, index="t", rows=cut), query, UNDER)
    # −0.0 and 0.0 are one key for us, which adding 0 makes them for DuckDB; months begin alike.
    plain = nan_as_null(table.set_column(1, "k", table.column("k").cast(pa.string())))
    keys = [f"({key} + 0.0)" if key == "f" else key for key in by]
    where = " and ".join(f"{key} is not null" for key in by) if drop else "true"
    asked = (
        f"select time_bucket(interval '{rule[1]}', t, timestamp '1970-01-01') as t, "
        f"{', '.join(f'{key} as {name}' for key, name in zip(keys, by, strict=True))}, "
        f"coalesce({how}(v), {'0' if how == 'sum' else 'null'}) as o, count(*) as n, min(v) as a "
        f"from x where {where} group by all "
        f"order by {', '.join(f'{at} nulls last' for at in range(1, len(by) + 2))}"
    )
    assert same_rows(found, as_declared(duckdb_answer(asked, x=plain), found.schema))


@settings(max_examples=30)
@given(
    table=tables(zone="America/Sao_Paulo"),
    rule=st.sampled_from(["25h", "1D", "W", "MS", "3B"]),
    how=st.sampled_from(["max", "nunique"]),
    empty=st.sampled_from(["omit", "null", "zero", "ffill"]),
    cut=st.integers(1, 7),
)
def test_each_key_is_a_resample_of_its_own(
    table: pa.Table, rule: str, how: str, empty: Any, cut: int
) -> None:
    """Also where empty buckets are given: from the first to the last of each key."""
    store = stored(table, index="t", rows=cut)
    outputs: dict[str, Any] = {"o": ("v", how), "n": "size", "l": ("f", "last")}
    found = answer(store, Q.resample(rule, by="k", empty=empty).agg(outputs), UNDER)
    expected = []
    for key in ("a", "b", "é"):
        alone = Q.filter(f"k == '{key}'").resample(rule, empty=empty).agg(outputs)
        rows = answer(store, alone, ({},)).to_pylist()
        expected += [{"t": row.pop("t"), "k": key, **row} for row in rows]
    expected.sort(key=lambda row: (row["t"], row["k"]))
    assert str(found.to_pylist()) == str(expected)  # as text, in which NaN equals itself


@pytest.mark.parametrize("how", ["sum", "median"])
@settings(max_examples=15)
@given(
    minutes=st.lists(st.integers(0, 3000), min_size=1, max_size=15).map(sorted),
    rule=st.sampled_from(["20min", "7h", "1D"]),
    label=st.sampled_from(["left", "right"]),
    closed=st.sampled_from(["left", "right"]),
    cut=st.integers(1, 9),
)
def test_empty_buckets_are_those_of_pandas(
    how: str, minutes: list[int], rule: str, label: Any, closed: Any, cut: int
) -> None:
    """pandas gives every bucket: sums of none are 0, other aggregates missing, as with zero."""
    times = pa.array([START + dt.timedelta(minutes=m) for m in minutes], pa.timestamp("us"))
    table = pa.table({"t": times, "v": pa.array(range(len(minutes)), pa.int64())})
    series = pd.Series(range(len(minutes)), index=pd.DatetimeIndex(times.to_pandas()))
    buckets = series.resample(rule, closed=closed, label=label, origin="epoch")
    sizes = buckets.size()
    whole = buckets.agg(how)
    present = whole.where(sizes > 0)
    wanted = {
        "zero": (sizes, whole),
        "null": (sizes.where(sizes > 0), present),
        "ffill": (sizes.where(sizes > 0).ffill(), present.ffill()),
    }
    store = stored(table, index="t", rows=cut)
    for empty, (size, outputs) in wanted.items():
        query = Q.resample(rule, closed=closed, label=label, empty=empty)  # type: ignore[arg-type]
        found = answer(store, query.agg(o=("v", how), n="size"), UNDER)
        labels = found.column("t").cast(pa.int64()).to_pylist()
        assert labels == sizes.index.as_unit("us").asi8.tolist()
        for name, column in (("o", outputs), ("n", size)):
            given = [None if pd.isna(value) else value for value in column.tolist()]
            assert found.column(name).to_pylist() == given, (empty, name)


@settings(max_examples=20)
@given(table=tables(), cut=st.integers(1, 7))
def test_empty_buckets_of_keys_are_those_of_polars(table: pa.Table, cut: int) -> None:
    query = Q.resample("1h", by="k", empty="ffill").agg(n="size", s=("v", "sum"))
    found = answer(stored(table, index="t", rows=cut), query, UNDER)
    frame = pl.from_arrow(table.set_column(1, "k", table.column("k").cast(pa.string())))
    assert isinstance(frame, pl.DataFrame)
    grouped = (
        frame.filter(pl.col("k").is_not_null())
        .group_by_dynamic("t", every="1h", group_by="k")
        .agg(n=pl.len(), s=pl.col("v").sum())
    )
    if len(grouped) == 0:
        assert found.num_rows == 0
        return
    filled = grouped.sort("t").upsample("t", every="1h", group_by="k", maintain_order=True)
    filled = filled.with_columns(pl.all().exclude("t").forward_fill()).sort("t", "k")
    expected = filled.select("t", "k", "n", "s").to_arrow()
    assert same_rows(found, as_declared(expected, found.schema))


OF_NONE: dict[str, Any] = {
    **dict.fromkeys(["sum", "count", "size", "nunique"], 0),
    **dict.fromkeys(["mean", "min", "max", "first", "last", "median", "var", "std"]),
}


@pytest.mark.parametrize("name", OF_NONE)
def test_what_an_aggregate_answers_of_none(name: str) -> None:
    """The rule of ``zero``, one aggregate after another: the same as of a filter without rows."""
    times = pa.array([START, START + dt.timedelta(hours=3)], pa.timestamp("us"))
    store = stored({"t": times, "v": [1.5, 2.5]}, index="t")
    outputs = {"o": ("v", name) if name != "size" else name}
    found = answer(store, Q.resample("1h", empty="zero").agg(**outputs))
    nothing = answer(store, Q.filter("false").agg(**outputs)).column("o").to_pylist()
    assert found.column("o").to_pylist()[1:3] == nothing * 2 == [OF_NONE[name]] * 2
    missing = answer(store, Q.resample("1h", empty="null").agg(**outputs)).column("o")
    assert missing.to_pylist()[1:3] == [None, None]


def test_many_parts_are_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts end anywhere, keys begin and end anywhere, and no part is much longer than asked."""
    rng = np.random.default_rng(5)
    minutes = np.sort(rng.integers(0, 60 * 24 * 40, 200))
    times = pa.array([START + dt.timedelta(minutes=int(m)) for m in minutes], pa.timestamp("us"))
    table = pa.table({"t": times, "k": rng.integers(0, 30, 200), "v": rng.integers(0, 9, 200)})
    store = stored(table, index="t", rows=50)
    query = Q.resample("1h", by="k", empty="ffill").agg(s=("v", "sum"))
    whole = answer(store, query, ({},))
    for rows in (1, 7, 100, 5000):
        monkeypatch.setattr(filling, "_ROWS_A_UNIT", rows)
        with_parts = list(store.scan("x").then(*query.clauses).iter_batches())
        assert pa.Table.from_batches(with_parts).equals(whole)
        assert max(len(part) for part in with_parts) <= max(2 * rows, 30)
    assert answer(store, query.head(5), ({},)).equals(whole.slice(0, 5))
    again = answer(store, query.resample("1D", by="k").agg(s=("s", "median")), ({},))
    assert again.num_rows > 500


def test_a_date_that_a_zone_skips_is_no_bucket() -> None:
    zone = "Pacific/Apia"  # 2011-12-29 was followed by 2011-12-31
    times = [dt.datetime(2011, 12, day, 12, tzinfo=ZoneInfo(zone)) for day in (28, 29, 31)]
    times.append(dt.datetime(2012, 1, 2, 12, tzinfo=ZoneInfo(zone)))
    table = {"t": pa.array(times, pa.timestamp("s", zone)), "v": [1, 2, 3, 4]}
    for label, rule in itertools.product(("left", "right"), ("1D", "2D")):
        query = Q.resample(rule, label=label, empty="null").agg(n="size")  # type: ignore[arg-type]
        found = answer(stored(table, index="t"), query)
        days = [t.isoformat()[:10] for t in found.column("t").to_pylist()]
        if rule == "1D":
            shown = ["2011-12-28", "2011-12-29", "2011-12-31", "2012-01-01", "2012-01-02"]
            assert days == (shown if label == "left" else [*shown[1:], "2012-01-03"])
            assert found.column("n").to_pylist() == [1, 1, 1, None, 1]
        assert len(set(days)) == len(days)


def test_labels_of_a_last_day_that_a_zone_skips() -> None:
    zone = "Asia/Manila"  # 1844-12-30 was followed by 1845-01-01
    times = [dt.datetime(1844, 10, 5, 12, tzinfo=ZoneInfo(zone)),
             dt.datetime(1844, 12, 5, 12, tzinfo=ZoneInfo(zone)),
             dt.datetime(1845, 2, 5, 12, tzinfo=ZoneInfo(zone))]  # fmt: skip
    table = {"t": pa.array(times, pa.timestamp("s", zone)), "v": [1, 2, 3]}
    found = answer(stored(table, index="t"), Q.resample("ME", empty="zero").agg(n="size"))
    assert found.column("n").to_pylist() == [1, 0, 1, 0, 1]
    shown = [t.isoformat()[:10] for t in found.column("t").to_pylist()]
    assert shown == ["1844-10-31", "1844-11-30", "1845-01-01", "1845-01-31", "1845-02-28"]


def test_an_index_of_dates() -> None:
    days = np.array(["2021-01-30", "2021-01-31", "2021-02-01", "2021-05-01"], "datetime64[D]")
    for kind in (pa.date32(), pa.date64()):
        table = pa.table({"t": pa.array(days).cast(kind), "v": [1, 2, 3, 4], "k": list("abab")})
        store = stored(table, index="t")
        for how in ("sum", "median"):
            found = answer(store, Q.resample("ME", empty="null").agg(o=("v", how)))
            assert found.schema.field("t").type == kind
            assert [str(day) for day in found.column("t").to_pylist()] == [
                "2021-01-31", "2021-02-28", "2021-03-31", "2021-04-30", "2021-05-31"
            ]  # fmt: skip
            of_january = 3 if how == "sum" else 1.5
            assert found.column("o").to_pylist() == [of_january, 3, None, None, 4]
            two = answer(store, Q.resample("2D", by="k", origin="end").agg(o=("v", how)))
            assert [str(day) for day in two.column("t").to_pylist()] == [
                "2021-01-31",
                "2021-01-31",
                "2021-02-02",
                "2021-05-01",
            ]
            assert two.column("k").to_pylist() == ["a", "b", "a", "b"]


def test_a_year_is_not_put_into_one_unit() -> None:
    times = [START + dt.timedelta(hours=n) for n in range(60)]
    store = stored({"t": pa.array(times, pa.timestamp("us")), "v": range(60)}, index="t", rows=5)
    plan = store.scan("x").resample("YS").agg(s=("v", "sum")).plan()
    assert len(plan.inputs[0].units) == 12  # type: ignore[union-attr]
    assert answer(store, Q.resample("YS").agg(s=("v", "sum"), m=("v", "median"))).num_rows == 1


def test_rows_past_any_answer_are_refused() -> None:
    times = pa.array([0, 2**62], pa.timestamp("ns"))
    store = stored({"t": times, "v": [1, 2]}, index="t")
    for rule in ("1ns", "1s"):
        with pytest.raises(PlanError, match=r"rows, more than 2,147,483,647") as refused:
            store.read("x", query=Q.resample(rule, empty="null").agg(n="size"))
        assert "use a longer rule" in str(refused.value)
    apart = pa.table({"t": times, "v": [1, 2]})
    found = answer(stored(apart, index="t"), Q.resample("1ns", by="v", empty="zero").agg(n="size"))
    assert found.column("n").to_pylist() == [1, 1]


def test_plain_forms() -> None:
    query = Q.resample("3MS", by=["k", "f"], empty="ffill", origin="start_day", offset="-1D",
                       drop_missing=False, label="right").agg(n="size", o=("v", "max"))  # fmt: skip
    assert QueryBuilder.from_json(query.to_json()) == query
    old = {"clause": "resample", "rule": "1h", "aggregates": []}
    assert Resample.from_json(old) == Resample("1h", ())
    for field, value in (("empty", "nulls"), ("by", "k"), ("origin_at", "1"), ("closed", "both")):
        with pytest.raises(PlanFormatError, match=field):
            Resample.from_json({**old, field: value})
    schema = stored({"t": pa.array([START]), "v": [1]}, index="t").scan("x").schema()
    filled = FillBuckets(Resample("1h", (), empty="null"), schema)
    assert FillBuckets.from_json(filled.to_json()) == filled
    assert filled.describe() == "fill_buckets(rule='1h', empty='null')"


def test_misuse_is_refused() -> None:
    times = pa.array([START], pa.timestamp("us"))
    store = stored({"t": times, "v": [1], "l": [[1]]}, index="t")
    cases: list[tuple[Any, type[Exception], str]] = [
        (lambda: Q.sort("v").resample("1h").agg(n="size"), IndexColumnError, "needs a time index"),
        (lambda: Q.resample("1h", by="w").agg(n="size"), ColumnNotFoundError, "'w'"),
        (lambda: Q.resample("1h", by="t").agg(n="size"), DuplicateColumnError, "'t'"),
        (lambda: Q.resample("1h", by="v").agg(v=("v", "sum")), DuplicateColumnError, "'v'"),
        (lambda: Q.resample("1h", by="l").agg(n="size"), UnsupportedTypeError, "cannot be a key"),
        (lambda: Q.resample("1h", by=[3]).agg(n="size"), PlanError, "named by text"),  # type: ignore[list-item]
        (lambda: Q.resample("1h", empty="nan").agg(n="size"), PlanError, "empty is 'nan'"),  # type: ignore[arg-type]
        (lambda: Q.resample("ME", label="left").agg(n="size"), PlanError, "by its last day"),
        (lambda: Q.resample(5).agg(n="size"), PlanError, "a rule is text"),  # type: ignore[arg-type]
    ]
    for make, error, text in cases:
        with pytest.raises(error, match=text):
            store.schema("x", make())
