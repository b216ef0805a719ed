"""top_k and sort with head: the rows of a sort, from few pages, whatever units tell each other."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tessel.clauses import QueryBuilder, top_rows
from tessel.clauses.capabilities import DynamicFilter, Filters, opens_filter
from tessel.clauses.combining import SubQuery
from tessel.clauses.units.bound_unit import BoundUnit, bound_unit, is_bound
from tessel.ecs import ProcessingUnit
from tessel.errors import ExpressionError
from tessel.expression import col
from tessel.options import options
from tessel.pipeline.plan import SourcePlan, Stage
from tessel.pipeline.planner.planner import plan_query
from tessel.pipeline.scan import _Scan
from tessel.pipeline.stage import run_bound, run_clause
from tessel.store.manifest.bindings import Bindings
from tessel.store.segment import paging
from tests.clauses.custom import InPairs
from tests.clauses.helpers import SETTINGS, Latest, answer, bare_answer, events, fresh_store, stored
from tests.clauses.orders import order_of_rows
from tests.oracles import duckdb_answer, nan_as_null, one_zero, polars_frame, rows_numbered
from tests.strategies.queries import query_tables
from tests.strategies.tables import bits, cut_into_segments

Q = QueryBuilder()


@contextmanager
def _tiny() -> Iterator[None]:
    """Write pages of a few rows, and let a page of few rows set a limit for those after it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paging, "LARGEST_PAGE_SHIFT", 2)
        patch.setattr(paging, "PAGE_BYTES", 64)
        patch.setattr(paging, "_SMALL_PAGE_BYTES", 8)
        patch.setattr(top_rows, "_FEW", 1)
        patch.setattr(top_rows, "_FEW_ROWS", 0)
        patch.setattr(top_rows, "_MOST_MET", 6)
        yield


def _opened(stage: Stage) -> DynamicFilter:
    """Return the dynamic filter of a run."""
    (clause,) = filter(opens_filter, stage.clauses)
    assert isinstance(clause, Filters)
    return clause.open_filter()


def _same(found: pa.Table, expected: pa.Table) -> None:
    assert found.schema.remove_metadata() == expected.schema.remove_metadata()
    for name in expected.column_names:
        assert bits(found.column(name)) == bits(expected.column(name)), name


@st.composite
def _orders(draw: st.DrawFn, names: list[str]) -> tuple[list[str], list[bool], Any]:
    by = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    return by, [draw(st.booleans()) for _ in by], draw(st.sampled_from(["last", "first"]))


@settings(max_examples=40)
@given(data=st.data())
def test_any_cut_and_any_pages_give_the_rows_of_a_sort(data: st.DataObject) -> None:
    table = data.draw(query_tables(max_rows=60))
    by, descending, missing = data.draw(_orders(table.column_names))
    k = data.draw(st.integers(0, 12))
    note(f"{by} {descending} {missing} {k}")
    order = order_of_rows(table, by, descending, missing)[:k]
    with _tiny():
        store = fresh_store()
        data.draw(cut_into_segments(table)).write(store, "x")
        if data.draw(st.booleans()):
            query = Q.top_k(k, by, descending=descending, missing=missing)
        else:
            order = order_of_rows(table, by, descending, missing)
            order = order[max(0, len(order) - k) :]
            query = Q.sort(by, descending=descending, missing=missing).tail(k)
        found = answer(store, query, [SETTINGS[0], data.draw(st.sampled_from(SETTINGS[1:]))])
    _same(found, table.take(pa.array(order, pa.int64())))


@st.composite
def _trades(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(20, 120))
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    price = np.round(random.normal(100, 5, rows), 2)
    times = np.sort(random.integers(0, 90, rows))
    if draw(st.booleans()):
        price = np.sort(price)
    holes = random.random(rows) < draw(st.sampled_from([0, 0, 0.2, 0.9]))
    return pa.table(
        {
            "t": pa.array(times, pa.timestamp("ns", "UTC")),
            "s": random.choice(["", "a", "common prefix 1", "common prefix 2", "é"], rows).tolist(),
            "p": pa.array(price, mask=holes),
            "v": random.integers(0, 5, rows),
            "u": pa.array(random.integers(0, 1 << 63, rows, np.uint64) * 2 + 1, pa.uint64()),
            "f": pa.array(random.normal(size=rows).astype(np.float32), pa.float32()),
            "d": pa.array((times - 40).astype(np.int32), pa.date32()),
            "b": random.random(rows) < 0.5,
            "w": random.normal(size=rows),
        }
    )


def test_a_unit_of_several_spans_keeps_no_more_rows_than_are_wanted() -> None:
    values = np.random.default_rng(5).normal(size=600)
    store = fresh_store()
    with _tiny(), options(segment_rows=300):
        store.write("x", pa.table({"t": np.arange(600), "w": values}), index="t")
        plan = plan_query(Latest(store), SubQuery("x", None, Q.top_k(3, "w").clauses))
        (source,) = plan.inputs
        assert isinstance(source, SourcePlan)
        stage, segments = plan.stages[0], source.view.source()
        dynamic = _opened(stage)
        kept = 0
        for ordinal, unit_of in enumerate(source.units):
            pieces = [source.index.source(position) for position in unit_of]
            unit: ProcessingUnit = bound_unit(
                pieces, segments, Bindings(source.index.schema), ordinal
            )
            found = run_clause(stage.clauses[0], stage.schemas[1], unit, dynamic=dynamic)
            assert found.num_rows <= 3
            kept += found.num_rows
    assert kept >= 3


@settings(max_examples=30)
@given(table=_trades(), data=st.data())
def test_units_in_any_order_leave_the_same_answer(table: pa.Table, data: st.DataObject) -> None:
    """What units tell each other depends on which comes first; the answer does not."""
    by, descending, missing = data.draw(_orders(table.column_names))
    query = Q.filter("v > 0") if data.draw(st.booleans()) else Q
    kept = table if query is Q else table.filter(pc.greater(table.column("v"), 0))
    k = data.draw(st.integers(1, 9))
    query = query.top_k(k, by, descending=descending, missing=missing)
    with _tiny(), options(segment_rows=data.draw(st.integers(8, 60)), segment_columns=20):
        store = fresh_store()
        store.write("x", table, index="t")
        plan = plan_query(Latest(store), SubQuery("x", None, query.clauses))
        (source,) = plan.inputs
        assert isinstance(source, SourcePlan)
        stage, segments = plan.stages[0], source.view.source()
        dynamic = _opened(stage)
        units: dict[int, ProcessingUnit] = {}
        ordinals = range(len(source.units))

        def bound(ordinal: int) -> BoundUnit:
            """Return a unit behind the clauses before the filter."""
            pieces = [source.index.source(position) for position in source.units[ordinal]]
            unit: ProcessingUnit = bound_unit(
                pieces, segments, Bindings(source.index.schema), ordinal
            )
            for clause, promised in zip(stage.clauses[:-1], stage.schemas[1:], strict=False):
                unit = run_clause(clause, promised, unit, dynamic=dynamic)
            assert is_bound(unit)
            return unit

        drawn = data.draw(st.permutations(ordinals))
        cuts = sorted(data.draw(st.sets(st.sampled_from(ordinals))) | {0, len(drawn)})
        for pack in (drawn[start:stop] for start, stop in itertools.pairwise(cuts)):
            if len(pack) == 1:
                unit = run_clause(
                    stage.clauses[-1], stage.schemas[-1], bound(pack[0]), dynamic=dynamic
                )
                assert is_bound(unit)  # nothing was read before the rows were chosen
                units[pack[0]] = unit
                continue
            together = [bound(ordinal) for ordinal in pack]
            batches = [unit.batches[0] for unit in together]
            narrowed = dynamic.narrow(batches, pack)
            for ordinal, unit, batch in zip(pack, together, narrowed, strict=True):
                assert batch is not None
                units[ordinal] = unit.with_batches([batch])
        assert all(unit.num_rows <= k for unit in units.values())
        if data.draw(st.booleans()):
            for ordinal, unit in units.items():
                assert isinstance(unit, BoundUnit)
                needed = [dynamic.still_needed(batch) for batch in unit.batches]
                units[ordinal] = unit.with_batches(needed)
            assert sum(unit.num_rows for unit in units.values()) == min(k, kept.num_rows)
    left = pa.concat_tables([units[ordinal].table for ordinal in sorted(units)])
    order = order_of_rows(kept, by, descending, missing)[:k]
    _same(
        left.take(pa.array(order_of_rows(left, by, descending, missing)[:k], pa.int64())),
        kept.take(pa.array(order, pa.int64())),
    )


@settings(max_examples=30)
@given(data=st.data())
def test_peers_agree(data: st.DataObject) -> None:
    table = rows_numbered(data.draw(_trades()))
    by, descending, missing = data.draw(_orders(["s", "p", "v", "d", "w"]))
    k = data.draw(st.integers(0, 9))
    with _tiny():
        query = Q.top_k(k, by, descending=descending, missing=missing).select("row")
        rows = answer(stored(table, rows=30, columns=20), query, SETTINGS[:2])
    found = rows.column("row").to_pylist()
    adapted = one_zero(nan_as_null(table))
    terms = ", ".join(
        f'"{name}" {"desc" if down else "asc"} nulls {missing}'
        for name, down in zip(by, descending, strict=True)
    )
    theirs = duckdb_answer(f"select row from x order by {terms}, row limit {k}", x=adapted)
    assert theirs.column("row").to_pylist() == found
    frame = polars_frame(adapted).sort(
        by, descending=descending, nulls_last=missing == "last", maintain_order=True
    )
    assert frame["row"].head(k).to_list() == found


def test_what_was_narrowed_before_a_batch_that_fails_stays_needed() -> None:
    """A unit that cannot be narrowed is read; rows of those before it are still in the answer."""
    values = np.random.default_rng(9).permutation(400)
    store = stored({"v": values, "w": values * 2}, rows=100)
    narrowed, asked = top_rows.stored_first_rows, itertools.count()

    def failing(*given: Any, **named: Any) -> Any:
        if next(asked) == 2:
            raise ExpressionError("no filter for this one")
        return narrowed(*given, **named)

    with pytest.MonkeyPatch.context() as patch, options(workers=1):
        patch.setattr(top_rows, "stored_first_rows", failing)
        found = store.read("x", query=Q.top_k(5, "v", descending=False)).to_arrow()
    assert next(asked) > 3
    assert found.column("w").to_pylist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("rows", [4, 9, 12, 20, 65])
def test_a_limit_of_zone_maps_is_none_of_rows(rows: int) -> None:
    """As many rows as are wanted, of pages that each have fewer, tell nothing new."""
    values = [
        *(2, -3, 2, -2, 1, -4, -2, -3, -4, 2, 1, -4, 2, 2, -3, -2, -1, 0, -2, -4, 2, 0),
        *(-5, 1, 0, -4, -1, -1, -5, 2, 0, -3, -5, -5, 1, -4, -1, 2, 2, -3, -5, -2, 1, -1),
        *(-5, 0, -3, -4, -2, 1, 2, -4, -1, 1, -3, -3, -4, -4, 2, -4, -4, -4, -5, 1, -3),
    ]
    with _tiny():
        store = stored({"v": values, "row": range(len(values))}, rows=rows)
        last = answer(store, Q.sort("v").tail(3), SETTINGS[:1])
        first = answer(store, Q.top_k(3, "v"), SETTINGS[:1])
    assert last.column("row").to_pylist() == [38, 50, 58]
    assert first.column("row").to_pylist() == [0, 2, 9]


def test_units_of_several_row_ranges_are_narrowed_one_by_one() -> None:
    values = np.random.default_rng(9).permutation(500)
    store = stored({"v": values, "w": values * 2}, rows=100)
    pairs = Q.then(InPairs("v"))
    for query in (pairs.top_k(3, "v"), pairs.sort("v").tail(3).sort("v", descending=True)):
        assert answer(store, query).column("w").to_pylist() == [998, 996, 994]
    found = answer(store, pairs.distinct("v"))
    assert found.column("v").to_pylist() == [value for value in values.tolist() if value]
    found = answer(store, pairs.groupby("v").agg(n="count(w)"))
    assert found.column("v").to_pylist() == list(range(1, 500))


def _pages_touched(query: QueryBuilder, **asked: Any) -> int:
    """Return how many of the 250 pages of four rows of the column ``v`` a query touches."""
    values = np.random.default_rng(3).permutation(1000)
    with _tiny(), options(workers=1, segment_rows=100):
        store = fresh_store()
        store.write("x", pa.table({"v": values, "w": values * 2}), **asked)
        plan = plan_query(Latest(store), SubQuery("x", None, query.clauses))
        (source,) = plan.inputs
        assert isinstance(source, SourcePlan)
        stage, segments = plan.stages[0], source.view.source()
        dynamic = _opened(stage)
        touched = 0
        for unit in source.units:
            pieces = [source.index.source(position) for position in unit]
            bound = bound_unit(pieces, segments, Bindings(source.index.schema), 0)
            run_bound(stage, bound, dynamic)
            segment = segments._reader.open(pieces[0].key)
            touched += sum(page is not None for page in segment._known.get(0, []))
    return touched


def test_pages_that_cannot_hold_one_of_the_best_are_not_touched() -> None:
    assert _pages_touched(Q.top_k(2, "v")) <= 25
    assert _pages_touched(Q.sort("v").head(2)) <= 25
    assert _pages_touched(Q.select("v").top_k(2, "v")) <= 25
    assert _pages_touched(Q.sort("v").tail(2)) <= 25


def test_the_other_columns_are_read_and_computed_for_what_is_left() -> None:
    table = pa.table({"v": np.arange(1000) % 97, "w": np.arange(1000)})
    store = stored(table, rows=100)
    query = Q.apply("x", "w * 2").top_k(3, "v", "w")
    with events("clause.process") as seen:
        found = answer(store, query, SETTINGS[:1])
    assert found.column("w").to_pylist() == [969, 872, 775]
    assert found.column("x").to_pylist() == [1938, 1744, 1550]
    computed = [each.attributes["rows_in"] for each in seen if each.attributes["clause"] == "apply"]
    assert sum(computed) == 3  # of all units, once each has said which rows it would take
    assert found.equals(bare_answer(store, query))


def test_the_index_orders_backwards_too() -> None:
    start = dt.datetime(2022, 1, 1)
    times = [start + dt.timedelta(hours=n) for n in range(50)]
    store = stored({"t": times, "v": list(range(50))}, index="t", rows=7)
    assert answer(store, Q.top_k(3, "t")).column("v").to_pylist() == [49, 48, 47]
    assert answer(store, Q.top_k(3, "t", descending=False)).column("v").to_pylist() == [0, 1, 2]


@contextmanager
def _by_values() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BoundUnit, "narrowed_by", lambda *given: None)
        patch.setattr(_Scan, "_narrowed", lambda *given: iter(()))
        yield


@st.composite
def _whole(draw: st.DrawFn) -> pa.Table:
    """Return rows of which nothing is missing: decimals, integers of any width, doubles."""
    rows = draw(st.integers(1, 80))
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    price = np.round(random.normal(0, 5, rows), draw(st.sampled_from([0, 2, 3])))
    return pa.table(
        {
            "t": pa.array(np.sort(random.integers(0, 90, rows)), pa.timestamp("ns")),
            "p": price,
            "v": random.integers(-5, draw(st.sampled_from([3, 300])), rows),
            "w": random.integers(-(1 << 62), 1 << 62, rows),
            "k": pa.array(random.integers(0, 4, rows), pa.uint8()),
            "f": random.normal(size=rows),
        }
    )


_COMPUTED = st.sampled_from([None, "p * v", "v * k - 2", "p - f", "v + 0.5", "w", "p"])


@settings(max_examples=60)
@given(table=_whole(), computed=_COMPUTED, data=st.data())
def test_keys_as_they_are_stored_choose_what_their_values_choose(
    table: pa.Table, computed: str | None, data: st.DataObject
) -> None:
    names = [*table.column_names, *(["n"] if computed else [])]
    by, descending, missing = data.draw(_orders(names))
    query = (
        Q.filter(data.draw(st.sampled_from(["v > 0", "f < 0.5"])))
        if data.draw(st.booleans())
        else Q
    )
    query = query if computed is None else query.apply("n", computed)
    count = data.draw(st.integers(1, 9))
    if data.draw(st.booleans()):
        query = query.top_k(count, by, descending=descending, missing=missing)
    else:
        query = query.sort(by, descending=descending, missing=missing).tail(count)
    note(str(query))
    with _tiny(), options(segment_rows=data.draw(st.integers(8, 60)), segment_columns=20):
        store = fresh_store()
        store.write("x", table, index="t")
        found = answer(store, query, [SETTINGS[0], data.draw(st.sampled_from(SETTINGS[1:]))])
        with _by_values():
            wanted = answer(store, query, SETTINGS[:1])
    _same(found, wanted)


@pytest.mark.parametrize(
    ("query", "stored_keys"),
    [
        (Q.top_k(3, "p"), True),
        (Q.top_k(3, "k", "p", descending=[False, True]), True),
        (Q.filter("v < 7").apply("n", "p * v").top_k(3, "n"), True),
        (Q.apply("n", "p * v").top_k(3, "n", "k"), False),  # a double and more: no one integer
        (Q.top_k(3, "s"), False),
        (Q.top_k(3, "h"), False),
    ],
)
def test_which_keys_are_compared_as_they_are_stored(query: QueryBuilder, stored_keys: bool) -> None:
    rows = np.arange(400)
    table = pa.table(
        {
            "p": rows % 97 / 100,
            "v": rows % 11,
            "k": rows % 3,
            "s": [f"text {row}" for row in rows],
            "h": pa.array(rows, mask=rows % 50 == 0),
        }
    )
    store = stored(table, rows=100, columns=20)
    with events("clause.choose") as seen:
        found = answer(store, query, SETTINGS[:1])
    with _by_values():
        _same(found, answer(store, query, SETTINGS[:1]))
    # Predicates may drop all rows of a unit with no value read.
    left = [each for each in seen if stored_keys or each.attributes.get("rows_out") != 0]
    assert {each.attributes["stored"] for each in left} == {stored_keys}


def test_the_last_rows_of_a_sort_that_do_not_fit_are_sorted_in_files() -> None:
    values = np.arange(30_000) * 7919 % 10_007
    store = stored({"v": values, "w": np.arange(30_000)}, rows=1000, columns=9)
    order = np.argsort(values, kind="stable")[-9000:]
    query = Q.sort("v").tail(9000)
    with options(workers=2, live_bytes=100_000), events("spill.write") as written:
        found = store.read("x", query=query).to_arrow()
    assert written
    assert found.column("w").to_pylist() == order.tolist()


def test_rows_of_several_units_are_gathered_slice_by_slice() -> None:
    random = np.random.default_rng(8)
    rows, parts = 4_000, 5
    whole = pa.table(
        {
            "a": random.permutation(rows * parts),
            "b": pa.array([f"b{n % 7}" for n in range(rows * parts)]),
            "gaps": pa.array(random.random(rows * parts), mask=random.random(rows * parts) < 0.5),
            "d": random.normal(size=rows * parts),
            "late": pa.array(np.arange(rows * parts), mask=np.arange(rows * parts) < 2 * rows),
        }
    )
    store = fresh_store()
    with options(segment_rows=rows, segment_columns=2):
        store.write("x", whole.slice(0, 2 * rows).drop_columns(["late"]))
        store.append("x", whole.slice(2 * rows), evolve="add")
    query = Q.top_k(40, "a")
    with events("segment.read") as read:
        found = store.read("x", query=query).to_arrow()
    wanted = whole.sort_by([("a", "descending")]).slice(0, 40)
    assert found.equals(wanted.cast(found.schema))
    assert len(read) <= 2 + 3  # slices of the segments before, and of those after the column came


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("missing", ["last", "first"])
def test_the_first_groups_leave_their_buckets_alone(sort: bool, missing: str) -> None:
    random = np.random.default_rng(3)
    keys = pa.array([None if k == 5 else k for k in random.integers(0, 60, 600).tolist()])
    table = pa.table({"k": keys, "v": random.integers(0, 9, 600)})
    groups = Q.groupby("k", sort=sort, drop_missing=False).agg(n="nunique(v)")
    first = groups.top_k(7, "n", missing=missing)
    store = fresh_store()
    with options(segment_rows=50, hash_bucket_bytes=1_000):
        store.write("x", table)
        plan = store.explain("x", first).plan
        whole, found = (store.read("x", query=each).to_arrow() for each in (groups, first))
    names = [clause.name for clause in plan.clauses]
    early = names.index("partial_top_k") < names.index("merge_sorted")
    assert early is (missing == "last")
    order = np.argsort(-whole.column("n").to_numpy(), kind="stable")[:7]
    assert found.equals(whole.take(pa.array(order)))


@pytest.mark.parametrize("endless", [float("inf"), float("-inf")])
@pytest.mark.parametrize("at", range(7))
@pytest.mark.parametrize("descending", [False, True])
def test_an_endless_limit_of_another_segment(endless: float, at: int, descending: bool) -> None:
    """Doubles of one segment are integers, beside a segment with one that is none."""
    values = [0.0, 0.0, 3.0, 1.5, 7.0, 2.0]
    values.insert(at, endless)
    store = fresh_store()
    with options(segment_rows=2):
        store.write("x", {"f": values})
    for count in (1, 2, 5):
        with options(workers=1):
            found = store.read("x", query=Q.sort("f", descending=descending).head(count))
        assert found["f"].to_pylist() == sorted(values, reverse=descending)[:count]


@pytest.mark.parametrize("workers", [1, 2])
def test_columns_that_may_raise_are_computed_for_the_result_alone(workers: int) -> None:
    """Which other rows the first half of a top-k leaves depends on what it has seen."""
    table = pa.table({"f": [3.0, 9.0, 1.0, 7.0], "w": [1 << 40, 2, 1 << 41, 4]})
    store = fresh_store()
    with options(segment_rows=1):
        store.write("x", table)
    query = QueryBuilder().apply("i", col("w").cast("int16")).select("f", "i")
    with options(workers=workers):
        found = store.read("x", query=query.top_k(2, "f", descending=True))
        assert found.to_arrow().to_pydict() == {"f": [9.0, 7.0], "i": [2, 4]}
        with pytest.raises(ExpressionError, match=str(1 << 40)):
            store.read("x", query=query.top_k(3, "f", descending=True))
