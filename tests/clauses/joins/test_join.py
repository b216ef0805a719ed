"""join against nested loops, DuckDB and Polars: one answer whatever the way, cut and threads."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.api import Store
from tessel.clauses import Join, QueryBuilder, SubQuery, join
from tessel.clauses.joining import shape, steps
from tessel.clauses.joining import shape as keys
from tessel.errors import (
    ColumnNotFoundError,
    DuplicateColumnError,
    PlanError,
    PlanFormatError,
    SchemaMismatchError,
    SymbolNotFoundError,
    UnsupportedTypeError,
)
from tessel.options import options
from tessel.testing.conformance import check_clause
from tests.clauses.helpers import SETTINGS, answer, events, fresh_store
from tests.clauses.joins.tables import MOST_KEYS, Case, cases, left_held, narrowed, nested_loops
from tests.kernels.forced import LEVELS, in_form
from tests.oracles import (
    as_declared,
    duckdb_answer,
    polars_frame,
    same_rows,
)

Q = QueryBuilder()
HOWS = ("inner", "left", "right", "outer", "semi", "anti")


def _numbers(column: pa.ChunkedArray) -> list[int | None]:
    """Return the row numbers that stand in a column ``v``."""
    return [None if text is None else int(text[1:]) for text in column.to_pylist()]


@settings(max_examples=25)
@given(
    case=cases(),
    how=st.sampled_from(HOWS),
    left_rows=st.integers(1, 5),
    right_rows=st.integers(1, 5),
    level=st.sampled_from(LEVELS),
    most_keys=MOST_KEYS,
    held=st.booleans(),
)
def test_rows_are_those_of_nested_loops(
    case: Case,
    how: Any,
    left_rows: int,
    right_rows: int,
    level: str,
    most_keys: int | None,
    held: bool,
) -> None:
    store = case.stored(left_rows, right_rows)
    query = Q.join("y", case.on, how)
    types = [(case.left.schema.field(k).type, case.right.schema.field(k).type) for k in case.on]
    if how in ("right", "outer") and any(
        pa.uint64() in kinds and any(map(pa.types.is_signed_integer, kinds)) for kinds in types
    ):
        with pytest.raises(SchemaMismatchError, match="cast it first"):
            store.read("x", query=query)
        return
    with in_form(level), narrowed(most_keys), left_held(held):
        found = answer(store, query)
    expected = nested_loops(case.left_numbers, case.right_numbers, how)
    assert _numbers(found.column("v")) == [left for left, _ in expected]
    if how not in ("semi", "anti"):
        assert _numbers(found.column("v_right")) == [right for _, right in expected]
    promised = store.schema("x", query)
    assert promised.arrow == found.schema.remove_metadata()
    assert promised.index == (None if how in ("right", "outer") else "t")
    for key in case.on:
        left = case.left.column(key).combine_chunks()
        ours = left.take(pa.array([a for a, _ in expected], pa.int64()))
        if how in ("right", "outer"):
            theirs = case.right.column(key).combine_chunks()
            theirs = theirs.take(pa.array([b for _, b in expected], pa.int64()))
            kind = found.schema.field(key).type
            alone = pa.array([a is None for a, _ in expected], pa.bool_())
            ours, theirs = ours.cast(kind), theirs.cast(kind)
            if pa.types.is_dictionary(kind):
                ours, theirs = ours.cast(kind.value_type), theirs.cast(kind.value_type)
            ours = pc.if_else(alone, theirs, ours)
        assert repr(found.column(key).to_pylist()) == repr(ours.to_pylist())


@pytest.mark.parametrize("how", HOWS)
def test_categories_have_an_order_of_their_own(how: str) -> None:
    entries = ["d", "b", "unused", "a", "c"]
    for places in itertools.permutations([0, 1, 3, 4]):
        store = fresh_store()
        store.write("x", {"k": ["a", "b", "c", "d", "a", "e"], "l": list(range(6))})
        keys = pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), pa.array(entries))
        store.write("y", {"k": keys, "r": [entries[at] for at in places]})
        found = answer(store, Q.join("y", "k", how), [*SETTINGS, {"workers": 1}])
        expected = [k for k in "abcda" if how != "anti"] + ["e"] * (
            how in ("left", "outer", "anti")
        )
        assert sorted(found.column("k").to_pylist()) == sorted(expected)
        if how not in ("semi", "anti"):
            same = [k if k != "e" else None for k in found.column("k").to_pylist()]
            assert found.column("r").to_pylist() == same


def _two(rows: int = 160, keys: int = 20, seed: int = 0) -> tuple[Store, pa.Table, pa.Table]:
    random = np.random.default_rng(seed)

    def side(count: int, name: str) -> pa.Table:
        skewed = np.minimum(random.integers(0, keys, count), random.integers(0, 3 * keys, count))
        word = pa.array([None if k == 7 else f"w{k % 11}" for k in skewed], pa.string())
        return pa.table(
            {"k": skewed, "w": word, name: np.arange(count), "v": random.normal(size=count)}
        )

    left, right = side(rows, "l"), side(rows // 2, "r")
    store = fresh_store()
    with options(segment_rows=64, segment_columns=2):
        store.write("x", left)
        store.write("y", right)
    return store, left, right


SQL = {
    "inner": "select l.*, r.r, r.v as v_right from l join r using (k, w) order by l.l, r.r",
    "left": "select l.*, r.r, r.v as v_right from l left join r using (k, w) order by l.l, r.r",
    "right": "select l.l, k, w, l.v, r.r, r.v as v_right from l right join r using (k, w) "
    "order by l.l nulls last, r.r",
    "outer": "select l.l, k, w, l.v, r.r, r.v as v_right from l full join r using (k, w) "
    "order by l.l nulls last, r.r",
    "semi": "select l.* from l semi join r using (k, w) order by l.l",
    "anti": "select l.* from l anti join r using (k, w) order by l.l",
}


@pytest.mark.parametrize("how", HOWS)
def test_rows_are_those_of_duckdb(how: Any) -> None:
    store, left, right = _two()
    found = answer(store, Q.join("y", ["k", "w"], how))
    expected = duckdb_answer(SQL[how], l=left, r=right)
    assert same_rows(found, as_declared(expected, found.schema))
    assert found.num_rows > 0


@pytest.mark.parametrize("how", HOWS)
def test_rows_are_those_of_polars(how: Any) -> None:
    store, left, right = _two(seed=1)
    found = answer(store, Q.join("y", {"k": "k", "w": "w"}, how))
    order: Any = "left_right" if how in ("inner", "left", "outer") else "left"
    joined = polars_frame(left).join(
        polars_frame(right),
        on=["k", "w"],
        how="full" if how == "outer" else how,
        coalesce=True if how == "outer" else None,
        maintain_order=order,
    )
    if how == "right":  # Polars keeps the order of the right here, or none
        joined = joined.sort("l", "r", nulls_last=True, maintain_order=True)
    assert same_rows(found, joined.select(found.column_names).to_arrow())


def test_keys_of_other_names_and_columns_of_one_name() -> None:
    store = fresh_store()
    store.write("x", pa.table({"a": [1, 2, 3], "v": ["p", "q", "r"], "id": [7, 8, 9]}))
    store.write("y", pa.table({"id": [2, 3, 5], "v": ["s", "t", "u"], "a": [0, 0, 0]}))
    query = Q.join("y", left_on="a", right_on="id", how="outer")
    found = answer(store, query)
    assert found.to_pylist() == [
        {"a": 1, "v": "p", "id": 7, "v_right": None, "a_right": None},
        {"a": 2, "v": "q", "id": 8, "v_right": "s", "a_right": 0},
        {"a": 3, "v": "r", "id": 9, "v_right": "t", "a_right": 0},
        {"a": 5, "v": None, "id": None, "v_right": "u", "a_right": 0},
    ]
    assert query == Q.join("y", [("a", "id")], "outer") == Q.join("y", {"a": "id"}, "outer")
    named = answer(store, Q.join("y", {"a": "id"}, suffix="_y")).column_names
    assert named == ["a", "v", "id", "v_y", "a_y"]


def test_each_has_clauses_of_its_own_first() -> None:
    store, left, right = _two()
    other = SubQuery(
        "y", None, Q.filter("r > 20").groupby("k").agg(n=("r", "count"), m=("v", "max")).clauses
    )
    query = (
        Q.filter("l < 120")
        .join(other, "k", "left")
        .filter("n > 2")
        .groupby("w")
        .agg(n=("n", "sum"))
    )
    found = answer(store, query)
    expected = duckdb_answer(
        "with g as (select k, count(*) as n, max(v) as m from r where r > 20 group by k) "
        "select w, sum(n) as n from l left join g using (k) where l < 120 and n > 2 "
        "and w is not null group by w order by w",
        l=left,
        r=right,
    )
    assert same_rows(found, as_declared(expected, found.schema))


def test_joins_of_joins_of_concats_and_of_itself() -> None:
    store, left, _ = _two(rows=120)
    itself = Q.join(SubQuery("x", None, Q.select("k", "l").clauses), "k").select("l", "l_right")
    found = answer(store, itself)
    pairs = duckdb_answer(
        "select a.l, b.l as l_right from l a join l b using (k) order by a.l, b.l", l=left
    )
    assert same_rows(found, as_declared(pairs, found.schema))
    twice = SubQuery("y", None, Q.concat("y").select("k", "r").clauses)
    joined = answer(store, Q.join(twice, "k", "semi").join(twice, "k").tail(7))
    plain = answer(store, Q.join(twice, "k").tail(7))
    assert joined.equals(plain)
    assert joined.num_rows == 7


def test_rows_without_a_partner_come_last_behind_rows_of_several_symbols() -> None:
    """Rows of one key have one order, in which a later clause takes the first or the last."""
    store = fresh_store()
    with options(segment_rows=1):
        store.write("x", pa.table({"k": [None, 7], "v": [0, 1]}))
        store.write("y", pa.table({"k": pa.array([None] * 3, "int64"), "v": [2, 3, 4]}))
        store.write("z", pa.table({"k": pa.array([None, 8], "int64"), "w": [5, 6]}))
    rows = QueryBuilder().concat("y").join("z", on="k", how="outer")
    assert answer(store, rows)["v"].to_pylist() == [0, 1, 2, 3, 4, None, None]
    for keep, left in (("first", [0, 1, None]), ("last", [1, None, None])):
        found = answer(store, rows.distinct(["k"], keep=keep))
        assert found["v"].to_pylist() == left
    found = answer(store, rows.groupby("k", drop_missing=False).agg(n=("v", "last")))
    assert dict(zip(*found.to_pydict().values(), strict=True)) == {None: 4, 7: 1, 8: None}


def test_the_index_that_stays_is_one() -> None:
    store = fresh_store()
    times = pa.array(np.repeat(np.arange(30), 2), pa.timestamp("s"))
    with options(segment_rows=7):
        store.write("x", pa.table({"t": times, "k": np.arange(60) % 5}), index="t")
        store.write("y", pa.table({"k": [0, 0, 3], "n": [1, 2, 4]}))
    query = Q.join("y", "k")
    ranged = answer(store, query.date_range("1970-01-01T00:00:10", "1970-01-01T00:00:12"))
    everything = answer(store, query).to_pylist()
    assert ranged.to_pylist() == [row for row in everything if 10 <= row["t"].second <= 12]
    found = answer(store, query.resample("10s").agg(n=("n", "sum"), u=("n", "nunique")))
    sums = [sum(row["n"] for row in everything if row["t"].second // 10 == b) for b in range(3)]
    assert found.column("n").to_pylist() == sums


def test_many_with_many_comes_in_bounded_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    store = fresh_store()
    count = 300
    store.write("x", pa.table({"k": [0] * count + [1], "l": range(count + 1)}))
    store.write("y", pa.table({"k": [0] * count + [2], "r": range(count + 1)}))
    whole = answer(store, Q.join("y", "k", "outer"))
    assert whole.num_rows == count * count + 2
    monkeypatch.setattr(steps, "_PART_BYTES", 16_000)
    lazy = store.scan("x").join("y", "k", "outer")
    budget = 400_000
    with options(live_bytes=budget, workers=2, inline_bytes=0), events("memory.alive") as alive:
        parts = list(lazy.iter_batches())
    assert max(part.num_rows for part in parts) <= 1_000
    assert pa.Table.from_batches(parts).equals(whole)
    assert whole.nbytes > 4 * budget
    assert max(event.attributes["bytes"] for event in alive) <= budget
    assert answer(store, Q.join("y", "k", "outer")).equals(whole)
    first = answer(store, Q.join("y", "k").groupby("k").agg(a=("r", "first"), z=("r", "last")))
    assert first.to_pylist() == [{"k": 0, "a": 0, "z": count - 1}]


@pytest.mark.parametrize("how", HOWS)
def test_what_every_clause_promises(how: Any) -> None:
    table = pa.table(
        {
            "t": pa.array(range(24), pa.timestamp("us")),
            "k": pa.array([None if n % 5 == 0 else n % 4 for n in range(24)], pa.int32()),
            "f": pa.array([n % 3 / 2 for n in range(24)]),
            "s": pa.array([f"s{n % 6}" for n in range(24)]),
        }
    )
    other = SubQuery("symbol", None, Q.filter("f > 0").clauses)
    check_clause(lambda: Join(other, (("k", "k"), ("f", "f")), how), table, index="t")


def test_explain_tells_the_way() -> None:
    store, _, _ = _two()
    query = Q.join("y", ["k", "w"], "outer")
    assert "broadcast_join(on=k, w, how=outer)" in str(store.explain("x", query))
    with options(live_bytes=64, workers=3):
        text = str(store.explain("x", query))
    assert "hash_join(on=k, w, how=outer)" in text
    assert "expand_joined(on=k, w, how=outer)" in text


def test_a_small_left_of_a_large_right_is_held() -> None:
    store = fresh_store()
    times = pa.array([3, 4, 4, 90, 95], pa.timestamp("s"))
    store.write("x", pa.table({"t": times, "k": [3, 1, 2, 1, 7]}), index="t")
    rows = 20_000
    right = pa.table({"t": pa.array(range(rows), pa.timestamp("s")), "k": np.arange(rows) % 5})
    with options(segment_rows=1_000):
        store.write("y", right, index="t")
    query = Q.join("y", "k")
    behind = query.resample("1min").agg(n=("k", "count"), s=("t_right", "max"))
    ways = []
    with options(live_bytes=64 * 1024, hash_bucket_bytes=4_000):
        shown = str(store.explain("x", query))
        assert "broadcast_join" in shown
        assert "hash_join" not in shown
        assert store.schema("x", query).index == "t"
        ways.append((answer(store, query), answer(store, behind)))
    with options(live_bytes=64, hash_bucket_bytes=4_000):
        assert "hash_join" in str(store.explain("x", query))
        ways.append((answer(store, query), answer(store, behind)))
    for held, hashed in zip(*ways, strict=True):
        assert held.equals(hashed)
    assert ways[0][0].num_rows == 4 * rows // 5


def test_the_plain_form_and_the_lazy_table() -> None:
    store, _, _ = _two()
    other = SubQuery("y", None, Q.head(30).clauses)
    query = Q.join(other, [("k", "k"), "w"], "left", suffix="2").tail(9)
    again = QueryBuilder.from_json(json.dumps(query.to_json()))
    assert again == query
    assert answer(store, again).equals(answer(store, query))
    lazy = store.scan("x").join(store.scan("y").head(30), ["k", "w"], "left", suffix="2").tail(9)
    assert lazy.collect().to_arrow().equals(answer(store, query))
    plain = {"clause": "join", "other": {"symbol": "y"}, "on": [["k", "k"]]}
    assert QueryBuilder.from_json({"tessel_plan": 1, "clauses": [plain]}) == Q.join("y", "k")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"on": "k"}, r"join\.on takes a list"),
        ({"on": ["k"]}, r"join\.on\[0\] takes a list"),
        ({"on": [["k"]]}, r"join\.on\[0\] takes a list of 2 items"),
        ({"on": [["k", 3]]}, r"join\.on\[0\]\[1\] takes str"),
        ({"how": "cross"}, r"join\.how takes"),
        ({"other": "y"}, r"join\.other takes an object"),
        ({"other": {"symbol": 3}}, "not the plain form of a symbol's query"),
        ({"suffix": None}, r"join\.suffix takes str"),
        ({"sufix": "_"}, r"did you mean 'suffix'"),
    ],
)
def test_rubbish_is_refused_with_its_place(change: dict[str, Any], text: str) -> None:
    plain = {"clause": "join", "other": {"symbol": "y"}, "on": [["k", "k"]]} | change
    with pytest.raises(PlanFormatError, match=text):
        QueryBuilder.from_json({"tessel_plan": 1, "clauses": [plain]})


CASES: list[tuple[Callable[[], QueryBuilder], type[Exception], str]] = [
    (lambda: Q.join("y", "kk"), ColumnNotFoundError, "'kk' in the left of the join"),
    (lambda: Q.join("y", {"k": "idd"}), ColumnNotFoundError, r"'idd' in the right, 'y'(?s:.*)'id'"),
    (lambda: Q.join("yy", "k"), SymbolNotFoundError, "'yy'"),
    (lambda: Q.join("y"), PlanError, "needs a column to join on"),
    (lambda: Q.join("y", []), PlanError, "needs a column to join on"),
    (lambda: Q.join("y", ["k", "k"]), DuplicateColumnError, "twice"),
    (lambda: Q.join("y", "k", "cross"), PlanError, "inner, left, right"),  # type: ignore[arg-type]
    (lambda: Q.join(3, "k"), PlanError, "takes symbols, not 3"),  # type: ignore[arg-type]
    (lambda: Q.join("y", 3), PlanError, "names of key columns"),  # type: ignore[arg-type]
    (lambda: Q.join("y", "k", left_on="k"), PlanError, "not both"),
    (lambda: Q.join("y", left_on="k"), PlanError, "as many columns"),
    (lambda: Q.join("y", left_on=["k", "s"], right_on="id"), PlanError, "as many columns"),
    (lambda: Q.join("y", {"k": "s"}), SchemaMismatchError, "'k' of the left is int64 and 's'"),
    (lambda: Q.join("y", {"k": "f"}), SchemaMismatchError, "such keys are not compared"),
    (lambda: Q.join("y", {"k": "l"}), UnsupportedTypeError, "'l' of type list"),
    (lambda: Q.join("y", "k", suffix=""), DuplicateColumnError, "would be named 's'"),
    (lambda: Q.apply("s_right", "k").join("y", "k"), DuplicateColumnError, "suffix="),
]


@pytest.mark.parametrize(("make", "error", "text"), CASES, ids=[case[2] for case in CASES])
def test_misuse_is_refused_before_anything_is_read(
    make: Callable[[], QueryBuilder], error: type[Exception], text: str
) -> None:
    store = fresh_store()
    store.write("x", pa.table({"k": [1, 2], "s": ["p", "q"]}))
    right = {"k": [1], "id": [1], "s": ["p"], "f": [0.5], "l": [[1]]}
    store.write("y", pa.table(right))
    with pytest.raises(error, match=text):
        store.explain("x", make())


def test_the_schema_is_the_stores_to_tell() -> None:
    with pytest.raises(PlanError, match="schema of a join depends on the other symbols"):
        Q.join("y", "k").schema(fresh_store_schema())


def fresh_store_schema() -> Any:
    store = fresh_store()
    store.write("x", pa.table({"k": [1]}))
    return store.schema("x")


def test_instants_that_a_finer_unit_cannot_count_match_nothing() -> None:
    store = fresh_store()
    far = pa.array([2**40, 5, -(2**40)], pa.timestamp("s"))
    store.write("x", pa.table({"k": far, "v": [1, 2, 3]}))
    near = pa.array([5 * 10**9, 2**62], pa.timestamp("ns"))
    store.write("y", pa.table({"k": near, "n": [1, 2]}))
    assert answer(store, Q.join("y", "k").select("v", "n")).to_pylist() == [{"v": 2, "n": 1}]
    assert answer(store, Q.join("y", "k", "anti").select("v")).to_pylist() == [{"v": 1}, {"v": 3}]


def test_tables_of_nothing_but_keys() -> None:
    store = fresh_store()
    store.write("x", pa.table({"k": [3, 1, 2]}))
    store.write("y", pa.table({"k": [2, 3, 3]}))
    for how in ("inner", "left"):
        found = answer(store, Q.join("y", "k", how))
        theirs = pl.DataFrame({"k": [3, 1, 2]}).join(
            pl.DataFrame({"k": [2, 3, 3]}),
            "k",
            how,
            maintain_order="left_right",
        )
        assert found.column("k").to_pylist() == theirs["k"].to_list()


@pytest.mark.parametrize("how", HOWS)
def test_only_the_columns_that_are_wanted_are_read(how: Any) -> None:
    store, _, _ = _two(rows=40)
    query = Q.join("y", "k", how)
    whole = answer(store, query)
    for name in whole.column_names:
        assert answer(store, query.select(name)).equals(whole.select([name])), name
    text = str(store.explain("x", query.select("l")))
    assert "columns: 2 of 4: k, l" in text
    assert "columns: 1 of 4: k" in text


def test_long_columns_of_few_values_are_found_as_others_are() -> None:
    random = np.random.default_rng(4)
    words = pa.array([None, "", "a", "ä", "aa", "b"], pa.string())
    left = pa.table({"s": words.take(pa.array(random.integers(0, 6, 9_000))), "l": range(9_000)})
    left = left.append_column(
        "d", pc.cast(pa.array(random.integers(0, 4, 9_000)), pa.decimal128(22, 1))
    )
    right = pa.table({"s": ["ä", "b", None, "c"], "d": pa.array([1, 2, 3, 1]), "r": [0, 1, 2, 3]})
    right = right.set_column(1, "d", right.column("d").cast(pa.decimal128(20, 0)))
    store = fresh_store()
    with options(segment_rows=5_000):
        store.write("x", left)
        store.write("y", right)
    for how in HOWS[:4]:
        found = answer(store, Q.join("y", ["s", "d"], how), [{}, {"live_bytes": 64}])  # type: ignore[arg-type]
        kind = {"inner": "", "left": "left", "right": "right", "outer": "full"}[how]
        expected = duckdb_answer(
            f"select s, l.l, d::decimal(23, 1) as d, r.r from l {kind} join r using (s, d) "
            "order by l.l nulls last, r.r",
            l=left,
            r=right,
        )
        assert same_rows(found, as_declared(expected, found.schema))


def test_two_large_sides_stay_in_the_budget() -> None:
    random = np.random.default_rng(5)
    count, budget = 10_000, 100_000
    store = fresh_store()
    left = pa.table({"k": random.integers(0, count, count), "v": random.normal(size=count)})
    right = pa.table({"k": random.permutation(count), "z": random.normal(size=count)})
    with options(segment_rows=1_000):
        store.write("x", left)
        store.write("y", right)
    expected = store.read("x", query=Q.join("y", "k", "outer")).to_arrow()
    with (
        options(workers=2, live_bytes=budget, hash_bucket_bytes=15_000, inline_bytes=0),
        events("memory.alive") as alive,
        events("spill.write") as written,
    ):
        batches = list(store.scan("x").join("y", "k", "outer").iter_batches())
    assert pa.Table.from_batches(batches).equals(expected)
    assert max(event.attributes["bytes"] for event in alive) <= budget
    assert sum(event.attributes["bytes"] for event in written) > 3 * budget


@pytest.mark.parametrize("how", ["inner", "outer"])
def test_a_key_of_many_rows_stays_in_the_budget_and_stops_early(
    monkeypatch: pytest.MonkeyPatch, how: Any
) -> None:
    """25 million pairs of one bucket, of which the first rows alone are wanted."""
    monkeypatch.setattr(join, "is_held_whole", lambda *_: False)
    count, budget = 5_000, 2_000_000
    random = np.random.default_rng(6)
    store = fresh_store()
    with options(segment_rows=1_000):
        store.write("x", pa.table({"k": np.full(count, 7), "l": random.normal(size=count)}))
        store.write("y", pa.table({"k": np.full(count, 7), "r": random.normal(size=count)}))
    left, right = (store.read(name).to_arrow() for name in "xy")
    with (
        options(workers=2, live_bytes=budget, hash_bucket_bytes=15_000, inline_bytes=0),
        events("memory.alive") as alive,
        events("clause.process") as processed,
    ):
        assert "hash_join" in str(store.explain("x", Q.join("y", "k", how)))
        first = store.read("x", query=Q.join("y", "k", how).head(10)).to_arrow()
        batches: Any = store.scan("x").join("y", "k", how).iter_batches()
        some = [next(batches) for _ in range(30)]
        batches.close()
    made = [e for e in processed if e.attributes["clause"] == "expand_joined"]
    # One that was cancelled when no more was wanted made no rows.
    assert 10 <= sum(event.attributes.get("rows_out", 0) for event in made) < 1_000_000
    assert max(event.attributes["bytes"] for event in alive) <= budget
    assert max(part.nbytes for part in some) <= budget // 4
    found = pa.Table.from_batches(some)
    rows = np.arange(found.num_rows)
    assert found.num_rows > 2 * count
    assert found["l"].equals(left["l"].take(pa.array(rows // count)))
    assert found["r"].equals(right["r"].take(pa.array(rows % count)))
    assert first.equals(found.slice(0, 10))


def _words(random: np.random.Generator, rows: int) -> pa.Array:
    words = pa.array([f"word {number}" for number in range(40)])
    absent = random.random(rows) < 0.05
    return words.take(pa.array(random.integers(0, 40, rows), mask=absent))


@pytest.mark.parametrize("how", HOWS)
def test_text_is_joined_by_the_codes_that_are_stored(
    monkeypatch: pytest.MonkeyPatch, how: Any
) -> None:
    random = np.random.default_rng(11)
    left = pa.table({"t": np.arange(900), "w": _words(random, 900), "v": np.arange(900)})
    right = pa.table({"w": _words(random, 60).slice(7), "r": np.arange(53)})
    store = fresh_store()
    with options(segment_rows=300):
        store.write("x", left, index="t", encodings={"w": "dictionary"})
        store.write("y", right, encodings={"w": "dictionary"})
    seen: list[pa.DataType] = []

    def noting(columns: Any, types: Any) -> Any:
        seen.extend(column.type for column in columns)
        return as_keys(columns, types)

    as_keys = keys.as_keys
    monkeypatch.setattr(shape, "as_keys", noting)
    query = Q.select("t", "w", "v").filter("v != 5").join("y", "w", how)
    found = answer(store, query, SETTINGS[:2])
    assert all(map(pa.types.is_dictionary, seen))
    beside = "" if how in ("semi", "anti") else ", r"
    key = "coalesce(x.w, y.w) AS w" if how in ("right", "outer") else "x.w"
    expected = duckdb_answer(
        f"SELECT t, {key}, v{beside} FROM x {'FULL' if how == 'outer' else how} JOIN y "
        f"ON x.w = y.w ORDER BY t NULLS LAST{beside}",
        x=left.filter(pc.not_equal(left["v"], 5)),
        y=right,
    )
    assert found.to_pylist() == expected.to_pylist()
    assert found.schema.field("w").type == pa.string()


def test_what_computes_with_text_before_a_join_gets_text() -> None:
    """Codes come of what is read and of nothing else; segments may also differ in what they are."""
    table = pa.table({"w": ["a", "b", None, "a"] * 50, "v": range(200)})
    store = fresh_store()
    with options(segment_rows=100):
        store.write("x", table, encodings={"w": "dictionary"})
        store.append("x", pa.table({"w": [f"v{n}" for n in range(100)], "v": range(100)}))
    store.write("y", pa.table({"w": ["A", "v3"], "r": [1, 2]}))
    upper = Q.apply("w", "where(v == 3, w, upper(w))").join("y", "w")
    assert answer(store, upper).to_pylist() == [
        *({"w": "A", "v": n, "r": 1} for n in range(200) if n % 4 in (0, 3) and n != 3),
        {"w": "v3", "v": 3, "r": 2},
    ]
    assert answer(store, Q.join("y", "w")).to_pylist() == [{"w": "v3", "v": 3, "r": 2}]
    assert answer(store, Q.join("y", "w", "anti").agg(n="size"))["n"].to_pylist() == [299]


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
def test_groups_of_text_behind_a_join_are_those_of_duckdb(how: Any) -> None:
    """Keys come as codes: of the left as stored, of the right from one dictionary."""
    random = np.random.default_rng(4)
    store = fresh_store()
    with options(segment_rows=100):
        left = {"k": random.integers(0, 60, 400), "s": _words(random, 400), "n": range(400)}
        store.write("x", pa.table(left))
        right = {"k": random.integers(0, 70, 40), "city": _words(random, 40)}
        store.write("y", pa.table(right))
    tables = {name: store.read(name).to_arrow() for name in "xy"}
    for by in (["city"], ["s"], ["city", "s"]):
        # Where a key is read by an aggregate too, its values are wanted row by row.
        for extra in ({}, {"last": ("city", "last")}):
            names, joined = ", ".join(by), "full" if how == "outer" else how
            others = [name for name in ("city", "n") if name not in by]
            query = Q.join("y", "k", how).filter("n % 3 != 1").select(*by, *others)
            aggregates: dict[str, Any] = {"t": ("n", "sum"), "c": "size", **extra}
            found = answer(store, query.groupby(*by).agg(**aggregates), SETTINGS[:2])
            wanted = duckdb_answer(
                f"SELECT {names}, sum(n)::BIGINT t, count(*) c FROM x {joined} JOIN y USING (k)"
                f" WHERE n % 3 != 1 AND {' AND '.join(f'{key} IS NOT NULL' for key in by)}"
                f" GROUP BY {names} ORDER BY {names}",
                **tables,
            )
            assert same_rows(found.select([*by, "t", "c"]), wanted)


@pytest.mark.parametrize("how", ["right", "outer"])
def test_a_key_of_two_pairs_has_the_type_of_the_first(how: str) -> None:
    store = fresh_store()
    kinds = [pa.timestamp(unit, "UTC") for unit in ("ms", "s", "ns")]
    store.write("x", pa.table({"u": pa.array([1_000, 2_000], kinds[0])}))
    right = {"v": pa.array([1, 5], kinds[1]), "w": pa.array([10**9, 7], kinds[2])}
    store.write("y", pa.table(right))
    query = QueryBuilder().join("y", on=[("u", "v"), ("u", "w")], how=how)
    found = store.read("x", query=query).to_arrow()
    assert found.schema.field("u").type == kinds[0]
    values = found["u"].cast(pa.int64()).to_pylist()
    assert values == ([1_000, 5_000] if how == "right" else [1_000, 2_000, 5_000])
