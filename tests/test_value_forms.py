"""Forms of values that people have at hand: pairs, words for units, types of Python, brackets."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tessel as ts
from tessel.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    PlanError,
    SymbolNotFoundError,
    TesselError,
)

Q = ts.QueryBuilder()
START = dt.datetime(2024, 1, 1)


@pytest.fixture
def store() -> ts.Store:
    found = ts.open("memory://")
    times = [START + dt.timedelta(minutes=minute) for minute in range(300)]
    found.write(
        "trades",
        {"time": times, "side": ["a", "b", "c"] * 100, "price": [1.5, 2.5] * 150},
        index="time",
    )
    found.write("names", {"side": ["a"]})
    return found


@pytest.mark.parametrize(
    ("form", "plain"),
    [
        (lambda: Q.date_range(("2024-01-01", "2024-01-02")),
         lambda: Q.date_range("2024-01-01", "2024-01-02")),
        (lambda: Q.date_range([None, "2024-01-02"]), lambda: Q.date_range(None, "2024-01-02")),
        (lambda: Q.row_range((3, 9)), lambda: Q.row_range(3, 9)),
        (lambda: Q.row_range((None, 9)), lambda: Q.row_range(None, 9)),
        (lambda: Q.cast({"a": int, "b": float, "c": str, "d": bool}),
         lambda: Q.cast({"a": "int64", "b": "float64", "c": "string", "d": "bool"})),
    ],
    ids=["date_range", "open date_range", "row_range", "open row_range", "cast"],
)  # fmt: skip
def test_a_form_means_the_plain_one(form: Any, plain: Any) -> None:
    assert form() == plain()


@pytest.mark.parametrize(
    ("form", "plain"),
    [
        (lambda q: q.agg(n="count"), lambda q: q.agg(n="size")),
        (lambda q: q.agg(n="COUNT"), lambda q: q.agg(n="size")),
        (lambda q: q.agg(m=("price", "MEAN")), lambda q: q.agg(m=("price", "mean"))),
        (lambda q: q.agg({"price": "SUM"}), lambda q: q.agg({"price": "sum"})),
        (lambda q: q.agg(ts.col("price").mean()), lambda q: q.agg(price=("price", "mean"))),
        (lambda q: q.agg(ts.col("price").mean(), ts.col("qty").sum(), n="size"),
         lambda q: q.agg(price=("price", "mean"), qty=("qty", "sum"), n="size")),
        (lambda q: q.agg([ts.col("price").mean(), ts.col("qty").sum()]),
         lambda q: q.agg(price=("price", "mean"), qty=("qty", "sum"))),
        (lambda q: q.agg("mean(price)"), lambda q: q.agg(price=("price", "mean"))),
        (lambda q: q.agg(["mean(price)", ts.col("qty").sum()]),
         lambda q: q.agg(price=("price", "mean"), qty=("qty", "sum"))),
        (lambda q: q.agg(ts.col("price").max() - ts.col("price").min()),
         lambda q: q.agg(price=ts.col("price").max() - ts.col("price").min())),
    ],
    ids=["count", "COUNT", "MEAN", "SUM", "one", "several", "list", "text", "texts", "computed"],
)  # fmt: skip
@pytest.mark.parametrize("query", [Q, Q.groupby("side"), Q.resample("1h")], ids=["a", "g", "r"])
def test_forms_of_aggregates(query: Any, form: Any, plain: Any) -> None:
    assert form(query) == plain(query)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (lambda: Q.agg((ts.col("p") * ts.col("q")).sum()), "has no name: it reads p, q"),
        (lambda: Q.agg(ts.col("a").min(), ts.col("a").max()), "two of these aggregates"),
        (lambda: Q.agg(ts.col("a")), "is not an aggregate"),
        (lambda: Q.agg(m=("price", "Mean")), "did you mean 'mean'"),
    ],
    ids=["two columns", "one name", "no aggregate", "half upper"],
)  # fmt: skip
def test_aggregates_without_a_name_that_is_clear(form: Any, text: str) -> None:
    with pytest.raises(TesselError, match=text):
        form()


@pytest.mark.parametrize("pair", [(1,), (1, 2, 3), ("a", 2)])
def test_what_is_no_pair_of_rows_is_refused(pair: Any) -> None:
    with pytest.raises((InvalidInputError, PlanError)):
        Q.row_range(pair)


@pytest.mark.parametrize(
    ("rule", "short"),
    [
        ("1 hour", "1h"), ("2 hours", "2h"), ("hour", "1h"), ("90 minutes", "90min"),
        ("1 hour 30 minutes", "1h30min"), ("15 seconds", "15s"), ("1 day", "1D"),
        ("2 weeks", "2W"), ("1 month", "1MS"), ("quarter", "QS"), ("1 year", "1YS"),
        (dt.timedelta(minutes=5), "5min"), (dt.timedelta(hours=24), "24h"),
    ],
    ids=str,
)  # fmt: skip
def test_rules_in_words(store: ts.Store, rule: Any, short: str) -> None:
    found, wanted = (
        store.scan("trades").resample(each).agg(n="size").collect().to_arrow().to_pylist()
        for each in (rule, short)
    )
    assert found == wanted


@pytest.mark.parametrize(
    ("rule", "new"), [("5T", "5min"), ("T", "min"), ("1H30T", "1h30min"), ("10 S", "10 s")]
)
def test_an_old_spelling_is_taken_and_the_new_one_named(
    store: ts.Store, rule: str, new: str
) -> None:
    lazy = store.scan("trades")
    with pytest.warns(DeprecationWarning, match=f"write '{new}' for '{rule}'"):
        old = lazy.resample(rule).agg(n="size").collect().to_arrow()
    assert old.drop_columns([]).equals(lazy.resample(new).agg(n="size").collect().to_arrow())


def test_an_alias_names_what_verbs_make(store: ts.Store) -> None:
    lazy, price = store.scan("trades"), ts.col("price")
    for named, plain in (
        (lazy.with_columns((price * 2).alias("x"), price.abs()), lazy.with_columns(x=price * 2)),
        (lazy.with_columns({"x": price * 2}), lazy.with_columns(x=price * 2)),
        (lazy.agg(price.mean().alias("m"), n="count"), lazy.agg(m=price.mean(), n="count")),
        (lazy.agg({"m": price.mean().alias("z")}), lazy.agg(m=price.mean())),
        (lazy.groupby(price.ceil().alias("up"), "side").agg(n="count"),
         lazy.groupby({"up": price.ceil()}, "side").agg(n="count")),
        (lazy.filter((price > 2).alias("unused")), lazy.filter("price > 2")),
        (lazy.select(price, "side"), lazy.select("price", "side")),
    ):  # fmt: skip
        assert named.collect().to_arrow().equals(plain.collect().to_arrow())
    with pytest.raises(PlanError, match=r"price [*] 2 computes one"):
        lazy.select(price * 2)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="reads price, side, so it needs a name"):
        lazy.with_columns(ts.col("side").concat(price.cast("text")))
    with pytest.raises(PlanError, match=r"'price [*] 2' needs a name"):
        lazy.with_columns("price * 2")  # type: ignore[arg-type]
    with pytest.raises(ColumnNotFoundError):
        lazy.with_columns(pric="pric").collect()


def test_functions_of_text_are_methods() -> None:
    from tessel.expression.text import functions

    # what is written by an operator, and functions of several operands that are none's method
    others = {"add", "subtract", "multiply", "divide", "floor_divide", "modulo", "power"}
    others |= {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
    others |= {"coalesce", "min_of", "max_of", "where", "clip_low", "clip_high", "floor_number"}
    others |= {"negative", "xor", "lookup"}
    methods = {name for name in dir(ts.Expression) if not name.startswith("_")}
    assert set(functions()) - methods == others
    x = ts.col("x")
    for text, made in (
        ("abs(x)", x.abs()), ("round(x, 2)", x.round(2)), ("ceil(x)", x.ceil()),
        ("floor(x)", x.floor()), ("floor(x, '1h')", x.floor("1h")),
    ):  # fmt: skip
        assert ts.parse(text).equals(made)


def test_the_metadata_of_a_symbol_comes_with_its_rows(store: ts.Store) -> None:
    store.write("noted", {"a": [1]}, metadata={"source": {"feed": 7}})
    assert store.read("noted").metadata == {"source": {"feed": 7}}
    assert store.scan("noted").agg(n="count").collect().metadata == {"source": {"feed": 7}}
    assert store.read("names").metadata == {}
    assert store.scan("names").concat("noted").collect().metadata == {}


def test_narwhals_takes_results_and_lazy_tables(store: ts.Store) -> None:
    import narwhals as nw
    import narwhals.stable.v1 as nw1

    lazy = store.scan("trades").filter("side == 'a'")
    natives: tuple[Any, ...] = (lazy, lazy.collect())
    for native in natives:
        frame = nw.from_native(native)
        assert isinstance(frame, nw.DataFrame)
        assert frame.select(nw.col("price").sum()).item() == 100 * 2.0
        assert frame.to_native().num_rows == 100
        assert isinstance(nw1.from_native(native), nw1.DataFrame)


def test_spans_in_words(store: ts.Store) -> None:
    lazy = store.scan("trades")
    for words, short in (("10 minutes", "10min"), ("1 hour", "1h")):
        found, wanted = (
            lazy.rolling(each).agg(m=("price", "sum")).collect()["m"].to_pylist()
            for each in (words, short)
        )
        assert found == wanted


@pytest.mark.parametrize("rule", ["1 hourly", "hours-", "1 decade", "one hour", "1 hour ago"])
def test_other_words_are_no_rules(rule: str) -> None:
    with pytest.raises(PlanError, match=f"'{rule}' is not a rule"):
        Q.resample(rule).agg(n="size")


def test_read_takes_a_row_range_behind_the_date_range(store: ts.Store) -> None:
    found = store.read(
        "trades",
        date_range=("2024-01-01T01", None),
        row_range=(2, 10),
        query=Q.filter("side == 'a'"),
        columns=["time"],
    )
    minutes = [time.hour * 60 + time.minute for time in found["time"].to_pylist()]
    assert minutes == [63, 66, 69]
    with pytest.raises(InvalidInputError, match="row_range is a start and an end, not 3"):
        store.read("trades", row_range=3)  # type: ignore[arg-type]


def test_a_store_is_like_a_mapping_of_its_symbols(store: ts.Store) -> None:
    assert list(store) == ["names", "trades"]
    assert len(store) == 2
    assert "trades" in store
    assert "trade" not in store
    assert 3 not in store
    assert store["trades"].head(2).collect().to_arrow().num_rows == 2
    with pytest.raises(SymbolNotFoundError, match="did you mean 'trades'"):
        store["trade"].collect()
    assert ts.open("memory://")


def test_a_lazy_table_counts_and_streams(store: ts.Store) -> None:
    lazy = store.scan("trades").filter("side != 'b'")
    assert lazy.count() == 200
    wanted = lazy.collect().to_arrow().replace_schema_metadata(None)
    assert pa.table(lazy).equals(wanted)
    assert pl.DataFrame(lazy).equals(pl.from_arrow(wanted))
    store.write("parts", [lazy, lazy])
    assert len(store.read("parts")) == 400


@pytest.mark.parametrize(
    "use", [len, list, iter, bool, lambda lazy: lazy["price"], lambda lazy: lazy[0]]
)
def test_a_lazy_table_says_that_it_is_not_run(store: ts.Store, use: Any) -> None:
    with pytest.raises(PlanError, match=r"before it is run\n.*collect\(\)"):
        use(store.scan("trades"))


def test_results_are_like_tables(store: ts.Store, tmp_path: Path) -> None:
    found = store.read("trades", query=Q.head(5000).concat("trades"))
    assert found.shape == (600, 3)
    assert found["price"].to_pylist()[:3] == [1.5, 2.5, 1.5]
    assert [row["side"] for row in found][:4] == ["a", "b", "c", "a"]
    assert sum(1 for _ in found) == len(found)
    assert found.version == store.version
    assert found.schema == store.schema("trades", Q.head(5000).concat("trades"))
    assert store.read("trades").schema.index == "time"
    with pytest.raises(ColumnNotFoundError, match="did you mean 'price'"):
        found["prise"]
    found.write_parquet(tmp_path / "found.parquet")
    assert pq.read_table(tmp_path / "found.parquet").equals(found.to_arrow())
    with pytest.raises(InvalidInputError, match="no file can be written"):
        found.write_parquet(tmp_path / "nowhere" / "found.parquet")
