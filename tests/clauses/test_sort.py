"""sort: against Polars, pandas, DuckDB and brute force; within the byte budget; any cut."""

from __future__ import annotations

import datetime as dt
import itertools
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder
from tessel.clauses import ordering as ordering_module
from tessel.clauses.ordering import Ordering
from tessel.clauses.spill import Workspace, joined_dictionaries
from tessel.clauses.spill import sorting as sorting_module
from tessel.clauses.spill.sorting import ExternalSort
from tessel.clauses.values import is_text_or_binary
from tessel.errors import (
    ColumnNotFoundError,
    DuplicateColumnError,
    PlanError,
    UnsupportedTypeError,
)
from tessel.expression import col
from tessel.expression.text_bytes import rows_at
from tessel.options import Options, options
from tests.clauses.helpers import SETTINGS, answer, events, fresh_store, stored
from tests.clauses.orders import order_of_rows
from tests.oracles import (
    duckdb_answer,
    nan_as_null,
    one_zero,
    plain_dictionaries,
    polars_frame,
    rows_numbered,
)
from tests.strategies.queries import query_tables
from tests.strategies.tables import as_dictionary, bits, columns, cut_into_segments, tables

Q = QueryBuilder()
START = dt.datetime(2021, 1, 1)


def _same_bits(found: pa.Table, expected: pa.Table) -> None:
    assert found.schema.remove_metadata() == expected.schema.remove_metadata()
    for name in expected.column_names:
        assert bits(found.column(name)) == bits(expected.column(name)), name


def _ordered(table: pa.Table, by: list[str], descending: Any, missing: str) -> pa.Table:
    return table.take(pa.array(order_of_rows(table, by, descending, missing), pa.int64()))


@st.composite
def _sorts(draw: st.DrawFn, names: list[str]) -> tuple[list[str], list[bool], Any]:
    by = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    return by, [draw(st.booleans()) for _ in by], draw(st.sampled_from(["last", "first"]))


@settings(max_examples=60)
@given(data=st.data())
def test_any_cut_is_ordered_as_by_comparison(data: st.DataObject) -> None:
    table = data.draw(query_tables())
    index = "t" if "t" in table.column_names else None
    by, descending, missing = data.draw(_sorts(table.column_names))
    store = fresh_store()
    data.draw(cut_into_segments(table, index=index)).write(store, "x")
    query = Q.sort(by, descending=descending, missing=missing)
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):  # kernels order what usually is too little for them
            patch.setattr(ordering_module, "_FEW_ROWS", 2)
        found = answer(store, query, [SETTINGS[0], data.draw(st.sampled_from(SETTINGS[1:]))])
    _same_bits(found, _ordered(table, by, descending, missing))
    kept = index if by[0] == index and not descending[0] else None
    assert store.schema("x", query).index == kept
    k = data.draw(st.integers(0, 9))
    few = answer(
        store,
        Q.top_k(k, by, descending=descending, missing=missing),
        [SETTINGS[0], data.draw(st.sampled_from(SETTINGS[1:]))],
    )
    _same_bits(few, found.slice(0, k))
    _same_bits(answer(store, query.head(k), [SETTINGS[1]]), found.slice(0, k))


@pytest.mark.parametrize("missing", [None, 7])
@pytest.mark.parametrize(
    "kind",
    [
        *(pa.int8(), pa.uint64(), pa.float32(), pa.bool_(), pa.date32(), pa.timestamp("ns", "UTC")),
        *(pa.decimal128(20, 2), pa.decimal128(38, 0), pa.string(), pa.binary(), pa.binary(3)),
    ],
    ids=str,
)
def test_rows_for_which_kernels_are_called_are_ordered(
    kind: pa.DataType, missing: int | None
) -> None:
    """Random tables are smaller than what kernels are called for."""
    numbers = np.random.default_rng(1).integers(0, 2 if pa.types.is_boolean(kind) else 100, 5_000)
    is_decimal = pa.types.is_decimal(kind)
    if is_text_or_binary(kind):
        values = pa.array([f"{number:03}"[-3:].encode() for number in numbers]).cast(kind)
    else:
        small = pa.array(numbers, pa.int32() if pa.types.is_date(kind) else pa.int64())
        values = pa.array([*map(Decimal, numbers.tolist())]) if is_decimal else small
        values = values.cast(kind)
    if missing is not None:
        values = pc.if_else(pa.array(numbers % missing == 0), pa.scalar(None, kind), values)
    table = pa.table({"v": values, "row": range(len(values))})
    store = fresh_store()
    store.write("x", table)
    found = store.read("x", query=Q.sort("v", descending=True)).to_arrow()
    _same_bits(found, _ordered(table, ["v"], [True], "last"))


@settings(max_examples=40)
@given(data=st.data())
def test_peers_agree(data: st.DataObject) -> None:
    table = data.draw(query_tables(index=False))
    by, descending, missing = data.draw(_sorts(table.column_names))
    found = answer(
        stored(rows_numbered(table), rows=5),
        Q.sort(by, descending=descending, missing=missing).select("row"),
        [SETTINGS[0]],
    )
    rows = found.column("row").to_pylist()
    adapted = rows_numbered(plain_dictionaries(one_zero(nan_as_null(table))))
    frame = polars_frame(adapted).sort(
        by, descending=descending, nulls_last=missing == "last", maintain_order=True
    )
    assert frame["row"].to_list() == rows
    terms = ", ".join(
        f'"{name}" {"desc" if down else "asc"} nulls {missing}'
        for name, down in zip(by, descending, strict=True)
    )
    theirs = duckdb_answer(f"select row from x order by {terms}, row", x=adapted)
    assert theirs.column("row").to_pylist() == rows
    numeric = [n for n in by if n in ("i", "f", "g")]
    if len(by) == 1 and numeric:  # pandas puts missing values apart by one key only, and so do we
        pandas = adapted.to_pandas().sort_values(
            by, ascending=not descending[0], kind="stable", na_position=missing
        )
        assert pandas["row"].tolist() == rows


def test_polars_counts_nan_as_a_value_unless_it_is_adapted() -> None:
    table = pa.table({"f": [float("nan"), 1.0, None]})
    assert polars_frame(table).sort("f", nulls_last=True)["f"].to_list()[0] == 1.0
    assert polars_frame(table).sort("f", descending=True, nulls_last=True)["f"].is_nan()[0]
    found = answer(stored(table), Q.sort("f", descending=True))
    assert found.column("f").to_pylist()[0] == 1.0


# --- time indexes ---------------------------------------------------------------------------------


def _timed(steps: list[int], **columns: list[Any]) -> pa.Table:
    times = np.cumsum(steps)
    return pa.table({"t": pa.array(times, pa.timestamp("s")), **columns})


def test_what_follows_a_sort_by_time_and_more_sees_the_index() -> None:
    table = _timed([0, 0, 1, 0, 60, 0], v=[3, 1, 2, 9, 5, 4])
    store = stored(table, index="t", rows=2)
    query = Q.sort("t", "v", descending=[False, True])
    assert answer(store, query).column("v").to_pylist() == [3, 1, 9, 2, 5, 4]
    assert store.schema("x", query).index == "t"
    ohlc = answer(store, query.resample("1min").agg(o=("v", "first"), c=("v", "last")))
    assert ohlc.to_pydict() == {
        "t": [dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, 0, 1)],
        "o": [3, 5],
        "c": [2, 4],
    }
    late = answer(store, query.date_range("1970-01-01T00:01"))
    assert late.column("v").to_pylist() == [5, 4]
    assert store.schema("x", Q.sort("t", descending=True)).index is None


def test_a_sort_by_the_index_reads_no_more_than_is_wanted() -> None:
    store = stored(_timed([1] * 20, v=list(range(20))), index="t", rows=2)
    with options(workers=1), events("segment.read") as read:
        found = store.read("x", query=Q.sort("t").head(3)).to_arrow()
    assert found.column("v").to_pylist() == [0, 1, 2]
    assert len(read) == 2


def test_a_sort_by_time_and_more_holds_one_time_only() -> None:
    rows = 30_000
    table = _timed([n % 3 == 0 for n in range(rows)], v=[n * 7919 % 1009 for n in range(rows)])
    store = stored(table, index="t", rows=1000, columns=9)
    with options(workers=1, live_bytes=300_000), events("spill.write") as written:
        found = store.read("x", query=Q.sort("t", "v")).to_arrow()
    assert written == []
    _same_bits(found, _ordered(table, ["t", "v"], [False, False], "last"))


def test_text_that_comes_as_codes_and_as_text_is_held_alike() -> None:
    """Neither form of a column makes a sort write what it may hold."""
    often = pa.array([f"word {n % 5}" for n in range(3_000)])
    once = pa.array([f"{n} is here once" for n in range(3_000)])
    for first, second in ((often, once), (once, often)):
        store = fresh_store()
        store.write("x", pa.table({"s": first, "v": range(3_000)}))
        store.append("x", pa.table({"s": second, "v": range(3_000)}))
        with events("spill.write") as written:
            found = store.read("x", query=Q.sort("v", "s")).to_arrow()
        assert written == []
        table = pa.table({"s": pa.chunked_array([first, second]), "v": [*range(3_000)] * 2})
        _same_bits(found, _ordered(table, ["v", "s"], [False, False], "last"))


def test_one_time_of_all_rows_is_put_aside() -> None:
    table = _timed([0] * 4000, v=[n * 7919 % 1009 for n in range(4000)])
    store = stored(table, index="t", rows=500, columns=9)
    with options(workers=1, live_bytes=10_000), events("spill.write") as written:
        found = store.read("x", query=Q.sort("t", "v")).to_arrow()
    assert written
    _same_bits(found, _ordered(table, ["t", "v"], [False, False], "last"))


# --- keys that are expressions --------------------------------------------------------------------


def test_keys_may_be_expressions_and_leave_no_column() -> None:
    store = stored({"a": [3, -1, 2, None], "b": ["x", "y", "z", "w"]})
    found = answer(store, Q.sort(abs(col("a")), "b", descending=[True, False]))
    assert found.column_names == ["a", "b"]
    assert found.column("b").to_pylist() == ["x", "z", "y", "w"]
    assert answer(store, Q.sort(col("b"))).column("b").to_pylist() == ["w", "x", "y", "z"]
    assert answer(store, Q.top_k(1, -col("a"))).column("a").to_pylist() == [-1]
    frame = pl.DataFrame({"a": [3, -1, 2, None], "b": ["x", "y", "z", "w"]})
    theirs = frame.sort(pl.col("a").abs(), "b", descending=[True, False], nulls_last=True)
    assert theirs["b"].to_list() == found.column("b").to_pylist()


# --- more than may be held ------------------------------------------------------------------------


@settings(max_examples=40)
@given(data=st.data())
def test_ranges_are_ordered_as_one_table_is(data: st.DataObject) -> None:
    parts = [data.draw(tables(max_rows=12, max_columns=1))]
    name = parts[0].column_names[0]
    kind = parts[0].schema.field(0).type
    if pa.types.is_nested(kind):
        return
    for _ in range(data.draw(st.integers(0, 6))):
        rows = data.draw(st.integers(0, 12))
        parts.append(pa.table({name: data.draw(columns(kind, rows))}))
    ordering = Ordering(
        (name,), (data.draw(st.booleans()),), data.draw(st.sampled_from(["last", "first"]))
    )
    numbered = rows_numbered(pa.concat_tables(parts))
    live_bytes = data.draw(st.sampled_from([0, 300, 1500, 1 << 20]))
    cuts = np.cumsum([0, *(part.num_rows for part in parts)])
    with (
        pytest.MonkeyPatch.context() as patch,
        Workspace(Options(live_bytes=live_bytes)) as workspace,
    ):
        patch.setattr(sorting_module, "_LEAST_ORDERED_BYTES", 40)
        with ExternalSort(ordering, numbered.schema, workspace) as rows:
            for start, stop in itertools.pairwise(cuts):
                rows.add(numbered.slice(start, stop - start))
            found = pa.concat_tables([numbered.schema.empty_table(), *rows.sorted()])
        assert workspace.account.alive == 0
    expected = order_of_rows(numbered, [name], ordering.descending, ordering.missing)
    assert found.column("row").to_pylist() == expected
    _same_bits(found, numbered.take(pa.array(expected, pa.int64())))


_SHAPES: dict[str, Callable[[Any, int], Any]] = {
    "random": lambda random, rows: random.random(rows),
    "ascending": lambda random, rows: np.arange(rows),
    "descending": lambda random, rows: -np.arange(rows),
    "nearly": lambda random, rows: np.arange(rows) + random.integers(0, rows // 20, rows),
    "few": lambda random, rows: random.integers(0, 5, rows),
    "skewed": lambda random, rows: random.zipf(1.5, rows) % 1000,
    "one": lambda random, rows: np.zeros(rows),
    "last late": lambda random, rows: np.arange(rows) == rows - 1,
    "narrowing": lambda random, rows: (
        random.random(rows) / np.repeat([1, 1e3, 1e6, 1e9], rows // 4)
    ),
    "missing": lambda random, rows: np.where(random.random(rows) < 0.7, np.nan, 1),
    "text": lambda random, rows: [f"key {n}" for n in random.integers(0, rows, rows)],
}


def _sorted_outside(
    table: pa.Table, ordering: Ordering, live_bytes: int, part_rows: int
) -> tuple[pa.Table, int]:
    """Return a table sorted in parts, and the rows written for it."""
    with (
        Workspace(Options(live_bytes=live_bytes)) as workspace,
        events("spill.write") as written,
    ):
        with ExternalSort(ordering, table.schema, workspace) as rows:
            for start in range(0, table.num_rows, part_rows):
                rows.add(table.slice(start, part_rows))
            found = pa.concat_tables([table.schema.empty_table(), *rows.sorted()])
        assert workspace.account.alive == 0
    return found, sum(event.attributes["rows"] for event in written)


@pytest.mark.parametrize("downwards", [False, True])
@pytest.mark.parametrize("shape", _SHAPES)
def test_rows_of_any_shape_are_sorted_in_few_passes(shape: str, downwards: bool) -> None:
    rows = 20_000
    random = np.random.default_rng(6)
    table = rows_numbered(pa.table({"k": _SHAPES[shape](random, rows), "n": random.random(rows)}))
    ordering = Ordering(("k",), (downwards,))
    for live_bytes in (32_000, 200_000):
        found, written = _sorted_outside(table, ordering, live_bytes, part_rows=300)
        _same_bits(found, _ordered(table, ["k"], [downwards], "last"))
        # Once where ranges fit; again where so little may be held that a range does not.
        assert rows <= written <= (4 if shape == "narrowing" else 2) * rows
    theirs = pc.sort_indices(table, [("k", "descending" if downwards else "ascending")])
    _same_bits(found, table.take(theirs))


@pytest.mark.parametrize("shape", ["ascending", "descending", "few", "one"])
def test_rows_that_come_in_order_or_have_few_keys_are_written_once(shape: str) -> None:
    rows = 100_000
    random = np.random.default_rng(6)
    table = pa.table({"k": _SHAPES[shape](random, rows), "n": random.random(rows)})
    found, written = _sorted_outside(table, Ordering(("k",), (False,)), 40_000, part_rows=300)
    _same_bits(found, table.take(pc.sort_indices(table, [("k", "ascending")])))
    assert written == rows


def test_a_long_dictionary_is_not_written_with_every_frame() -> None:
    rows, random = 20_000, np.random.default_rng(7)
    entries = pa.array([f"entry {n} of the dictionary" for n in range(5_000)])
    codes = pa.array(random.integers(0, 5_000, rows), pa.int32(), mask=random.random(rows) < 0.1)
    text = pa.DictionaryArray.from_arrays(codes, entries)
    table = pa.table({"k": random.random(rows), "s": text})
    with events("spill.write") as written:
        found, _ = _sorted_outside(table, Ordering(("k",), (False,)), 400_000, part_rows=500)
    _same_bits(found, _ordered(table, ["k"], [False], "last"))
    assert sum(event.attributes["bytes"] for event in written) < 4 * table.nbytes


@settings(max_examples=40)
@given(data=st.data())
def test_ranges_of_several_keys_are_divided_again(data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 400))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    table = rows_numbered(
        pa.table(
            {
                "a": pa.array(random.integers(0, 3, rows), mask=random.random(rows) < 0.2),
                "b": as_dictionary(pa.array(random.choice(["", "a", "b", "é"], rows))),
                "c": random.choice([0.0, -0.0, np.nan, 1.5, -np.inf], rows),
            }
        )
    )
    by, descending, missing = data.draw(_sorts(["a", "b", "c"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting_module, "_LEAST_ORDERED_BYTES", 40)
        patch.setattr(sorting_module, "_FIRST_RANGES", data.draw(st.sampled_from([2, 3, 64])))
        found, _ = _sorted_outside(
            table, Ordering(tuple(by), tuple(descending), missing), 400, part_rows=7
        )
    _same_bits(found, _ordered(table, by, descending, missing))


_TEXTS = st.none() | st.sampled_from(["", "a", "b", "é", "ab", "\0", "a longer text than others"])


@st.composite
def _units_of_text(draw: st.DrawFn, count: int, kind: pa.DataType) -> list[pa.Table]:
    """Draw the units of a table: text columns as text, or each as a dictionary of its own."""
    units: list[pa.Table] = []
    shared = as_dictionary(pa.array(draw(st.lists(_TEXTS, max_size=9)), kind)).dictionary
    for _ in range(count):
        rows = draw(st.integers(0, 12))
        made: dict[str, pa.Array] = {"n": pa.array(draw(_numbers_of(rows)), pa.int32())}
        for name in "st":
            text = pa.array(draw(st.lists(_TEXTS, min_size=rows, max_size=rows)), kind)
            form = draw(st.sampled_from(["text", "own", "shared", "sliced"]))
            if form == "own":
                text = as_dictionary(text)
            elif form == "shared" and len(shared):
                codes = st.none() | st.integers(0, len(shared) - 1)
                held = draw(st.lists(codes, min_size=rows, max_size=rows))
                text = pa.DictionaryArray.from_arrays(pa.array(held, pa.int32()), shared)
            elif form == "sliced":
                text = as_dictionary(pa.concat_arrays([pa.array(["z", None], kind), text]))[2:]
            made[name] = text
        units.append(pa.table(made))
    return units


def _numbers_of(rows: int) -> st.SearchStrategy[list[int | None]]:
    return st.lists(st.none() | st.integers(0, 3), min_size=rows, max_size=rows)


@settings(max_examples=200)
@given(data=st.data())
def test_text_that_came_as_dictionaries_is_sorted_as_text(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([pa.string(), pa.large_string()]))
    units = data.draw(_units_of_text(data.draw(st.integers(1, 9)), kind))
    schema = pa.schema([("n", pa.int32()), ("s", kind), ("t", kind), ("row", pa.int64())])
    plain = pa.concat_tables(
        pa.table({name: pc.cast(unit.column(name), kind) for name in "st"}) for unit in units
    )
    numbers = pa.chunked_array([c for unit in units for c in unit.column("n").chunks], pa.int32())
    table = pa.table([numbers, *plain.columns, np.arange(plain.num_rows)], schema=schema)
    by, descending, missing = data.draw(_sorts(["n", "s", "t"]))
    live_bytes = data.draw(st.sampled_from([0, 300, 1500, 5000, 1 << 20]))
    at = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        Workspace(Options(live_bytes=live_bytes)) as workspace,
    ):
        patch.setattr(sorting_module, "_LEAST_ORDERED_BYTES", 40)
        patch.setattr(
            joined_dictionaries, "_PART_OF_ENTRIES", data.draw(st.sampled_from([1, 16, 64]))
        )
        ordering = Ordering(tuple(by), tuple(descending), missing)
        with ExternalSort(ordering, schema, workspace) as rows:
            for unit in units:
                numbered = unit.append_column("row", table.column("row").slice(at, unit.num_rows))
                at += unit.num_rows
                rows.add(numbered)
            found = pa.concat_tables([schema.empty_table(), *rows.sorted()])
        assert workspace.account.alive == 0
    _same_bits(found, _ordered(table, by, descending, missing))


@pytest.mark.parametrize("live_bytes", [1 << 20, 1 << 28])
def test_text_stored_as_dictionaries_goes_through_a_sort_as_codes(
    live_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, rows = np.random.default_rng(3), 20_000
    words = np.array([f"word {n} of many that are as long as this" for n in range(50)])
    text = pa.array(words[random.integers(0, 50, rows)], mask=random.random(rows) < 0.1)
    table = pa.table({"v": random.random(rows), "s": text, "n": np.arange(rows)})
    store = stored(table, rows=4_000, columns=9)
    added: list[pa.Schema] = []
    add = ExternalSort.add

    def noted(self: ExternalSort, table: pa.Table) -> None:
        added.append(table.schema)
        add(self, table)

    monkeypatch.setattr(ExternalSort, "add", noted)
    few = [{"live_bytes": live_bytes, "workers": 1}, {"live_bytes": live_bytes, "inline_bytes": 0}]
    for query, left in ((Q, table), (Q.filter("n >= 1_000"), table.slice(1_000))):
        for by in ("v", "s"):
            added.clear()
            found = answer(store, query.sort(by), few)
            _same_bits(found, _ordered(left, [by], [False], "last"))
            kinds = {each.field("s").type for each in added}
            assert kinds
            assert pa.string() not in kinds


@pytest.mark.parametrize("workers", [1, 2])
def test_ten_times_the_budget_is_sorted_within_it(workers: int) -> None:
    random = np.random.default_rng(1)
    rows = 60_000
    table = pa.table(
        {
            "a": random.integers(-(10**12), 10**12, rows),
            "f": random.random(rows),
            "s": [f"text {n}" for n in random.integers(0, 1000, rows)],
        }
    )
    store = stored(table, rows=1000, columns=9)
    budget = table.nbytes // 10
    expected = table.take(pa.array(np.lexsort([table["a"].to_numpy()])))
    with (
        options(workers=workers, live_bytes=budget, inline_bytes=0),
        events("memory.alive") as alive,
        events("spill.write") as written,
    ):
        plan = store.scan("x").then(*Q.sort("a").clauses)
        found = pa.concat_tables(pa.Table.from_batches([b]) for b in plan.iter_batches())
    _same_bits(found, expected)
    assert max(event.attributes["bytes"] for event in alive) <= budget
    assert sum(event.attributes["bytes"] for event in written) > 5 * budget


def test_ranges_are_ordered_by_the_threads_of_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    random, rows = np.random.default_rng(1), 30_000
    gaps = pa.array(random.integers(0, 99, rows), mask=random.random(rows) < 0.3)
    table = pa.table({"a": random.random(rows), "n": np.arange(rows), "gaps": gaps})
    store = stored(table, rows=1000)
    threads: set[str] = set()
    of_range = ExternalSort._of_range

    def noted(self: ExternalSort, rows: Any) -> Any:
        threads.add(threading.current_thread().name.rpartition("_")[0])
        return of_range(self, rows)

    monkeypatch.setattr(ExternalSort, "_of_range", noted)
    for workers, expected in ((1, ""), (2, "tessel-pool")):
        threads.clear()
        with options(workers=workers, live_bytes=table.nbytes // 4, inline_bytes=0):
            found = store.read("x", query=Q.sort("a")).to_arrow()
        _same_bits(found, table.sort_by("a"))
        assert threads == {expected}


_ONE = {
    **{pa.bool_(): True, pa.int8(): 1, pa.float64(): 1.5, pa.timestamp("us"): START},
    **{pa.date32(): START.date(), pa.duration("s"): dt.timedelta(1), pa.string(): "1"},
    **{pa.decimal128(5, 2): Decimal(1), pa.binary(1): b"1", pa.list_(pa.int8()): [1]},
    pa.null(): None,
}


@pytest.mark.parametrize("offset", [0, 3, 13])
@pytest.mark.parametrize(("kind", "one"), _ONE.items(), ids=map(str, _ONE))
def test_rows_are_taken_with_their_gaps(kind: pa.DataType, one: Any, offset: int) -> None:
    random = np.random.default_rng(2)
    column = pa.array([None, one, one] * 20, kind)[offset:]
    for count in (0, 100):
        places = pa.array(random.integers(0, len(column), count))
        found = rows_at(column, places)
        found.validate(full=True)
        assert found.equals(column.take(places))


def test_codes_stay_codes_beside_text_of_dictionaries_that_became_too_long() -> None:
    random, rows, kind = np.random.default_rng(4), 400, pa.string()
    texts = [f"{at} " + "x" * 500 for at in range(20)]
    units = [
        pa.array(random.choice(texts[:first], rows), kind).dictionary_encode()
        for first in (2, 2, 20, 20)
    ]
    schema = pa.schema([("k", pa.int64()), ("s", kind)])
    keys = random.permutation(4 * rows).reshape(4, rows)
    with Workspace(Options(live_bytes=60_000)) as workspace, events("spill.write") as written:
        with ExternalSort(Ordering(("k",), (False,)), schema, workspace) as ordered:
            for key, unit in zip(keys, units, strict=True):
                ordered.add(pa.table({"k": key, "s": unit}))
            found = pa.concat_tables(ordered.sorted())
        assert workspace.account.alive == 0
    plain = pa.concat_arrays([unit.cast(kind) for unit in units])
    _same_bits(found, pa.table({"k": keys.ravel(), "s": plain}).sort_by("k"))
    assert sum(event.attributes["bytes"] for event in written[:2]) < rows * 500


# --- misuse ---------------------------------------------------------------------------------------


def test_misuse_is_refused() -> None:
    store = stored({"price": [1.0], "l": [[1]]})
    with pytest.raises(ColumnNotFoundError, match="did you mean 'price'"):
        store.read("x", query=Q.sort("Price"))
    with pytest.raises(UnsupportedTypeError, match=r"'l' of type list.* has no order"):
        store.read("x", query=Q.sort("l"))
    with pytest.raises(UnsupportedTypeError, match="has no order"):
        store.read("x", query=Q.top_k(1, "l"))
    with pytest.raises(DuplicateColumnError, match="names 'price' twice"):
        Q.sort("price", "price")
    with pytest.raises(PlanError, match="needs a column"):
        Q.sort([])
    with pytest.raises(PlanError, match="2 directions for 1 columns"):
        Q.sort("price", descending=[True, False])
    with pytest.raises(PlanError, match="descending is true or false"):
        Q.sort("price", descending="down")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="missing is 'middle'"):
        Q.sort("price", missing="middle")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="columns or expressions"):
        Q.sort(3)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="at least no rows"):
        Q.top_k(-1, "price")
    with pytest.raises(PlanError, match="whole number"):
        Q.top_k(1.5, "price")  # type: ignore[arg-type]


def test_pandas_is_not_asked_for_more_than_it_promises() -> None:
    # pandas counts False before True and puts missing apart, as we do.
    frame = pd.DataFrame({"b": pd.array([True, None, False], dtype="boolean")})
    assert frame.sort_values("b", kind="stable").index.tolist() == [2, 0, 1]
    found = answer(stored({"b": [True, None, False]}), Q.sort("b"))
    assert found.column("b").to_pylist() == [False, True, None]


@pytest.mark.parametrize("constant", [False, True])
def test_codes_go_out_as_no_more_text_than_the_budget_allows(constant: bool) -> None:
    texts = pa.array([f"{at}-" + "x" * 4_000 for at in range(10)])
    random = np.random.default_rng(1)
    keys = np.zeros(3_000, np.int64) if constant else random.permutation(3_000)
    table = pa.table({"k": keys, "c": texts.take(pa.array(random.integers(0, 10, 3_000)))})
    store = stored(table, rows=500)
    limit = 3_000_000
    with options(workers=2, live_bytes=limit, inline_bytes=0), events("memory.alive") as alive:
        parts = list(store.scan("x").then(*Q.sort("k").clauses).iter_batches())
    assert max(part.nbytes for part in parts) < (limit if constant else limit / 4)
    assert max(event.attributes["bytes"] for event in alive) <= limit
    found = pa.concat_tables([pa.Table.from_batches([part]) for part in parts])
    assert found.equals(table.sort_by("k") if not constant else table)


def test_dictionaries_of_many_columns_share_one_bound() -> None:
    names = [f"c{at}" for at in range(24)]
    schema = pa.schema([(name, pa.string()) for name in names])
    with Workspace(Options(live_bytes=1_000_000)) as workspace:
        texts = joined_dictionaries.JoinedDictionaries(schema, workspace.account)
        for unit in range(20):
            column = pa.array([f"{unit} {row} " + "x" * 80 for row in range(20)])
            table = pa.table({name: column.dictionary_encode() for name in names})
            found = pa.concat_tables(list(texts.restored(texts.joined([table]))))
            assert found.column("c23").to_pylist() == column.to_pylist()
            assert workspace.account.alive <= 1_000_000 // 16
        texts.close()
        assert workspace.account.alive == 0


_ENTRIES = st.lists(st.sampled_from([b"", b"\0", b"a", b"ab", b"\xc3\xa9", None]), min_size=1)


@given(
    kind=st.sampled_from([pa.string(), pa.large_string(), pa.binary()]),
    dictionaries=st.lists(st.tuples(_ENTRIES, st.lists(st.integers(-1, 9)))),
)
def test_texts_of_several_dictionaries_come_out_as_they_are(
    kind: pa.DataType, dictionaries: list[tuple[list[bytes | None], list[int]]]
) -> None:
    given_rows: list[pa.Table] = []
    for entries, places in dictionaries:
        codes = [None if place < 0 else place % len(entries) for place in places]
        texts = pa.array(entries, pa.binary()).cast(kind)
        column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), texts)
        given_rows.append(pa.table({"c": column}))
    with Workspace(Options()) as workspace:
        joined = joined_dictionaries.JoinedDictionaries(pa.schema([("c", kind)]), workspace.account)
        coded = [joined.coded(table) for table in given_rows]
        found = pa.concat_tables([*joined.restored(joined.joined(coded))]) if coded else None
    if found is not None:
        wanted = [row for table in given_rows for row in table.column("c").to_pylist()]
        assert found.column("c").to_pylist() == wanted
        assert found.column("c").type == kind
