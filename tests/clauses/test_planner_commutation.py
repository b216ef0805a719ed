"""The whitelist of clauses that may change places: every pair of it is shown to be sound.

Both orders are run as written, without the passes that would move anything.
"""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.clauses.custom  # noqa: F401  (registers its clauses)
from tessel.clauses import (
    Apply,
    ApplyTogether,
    Clause,
    DateRange,
    Drop,
    Filter,
    Head,
    Merge,
    QueryBuilder,
    Rename,
    RowRange,
    Select,
    Sort,
    SubQuery,
    Tail,
    find_clause,
)
from tessel.expression import Expression, col
from tessel.expression.named import ComputedColumn
from tessel.pipeline.planner.commutation import PASSED_BY_FILTERS, SWAPS, swapped
from tessel.pipeline.planner.draft import Draft
from tessel.pipeline.planner.planner import PASSES, REQUIRED
from tessel.pipeline.planner.pushdown import push_into_inputs, push_left
from tests.clauses.helpers import answer_of_passes, bare_answer, fresh_store, same_table
from tests.clauses.test_clause_table import SAMPLES, SCHEMA
from tests.strategies.queries import row_ends

START = dt.datetime(2021, 1, 1)
PREDICATES: tuple[Expression, ...] = (
    col("a") > 1,
    col("b").is_missing(),
    (col("a") < col("b")) | (col("c") == "x"),
    ~(col("b") == 2),
    col("f") > 0.5,
)
LIMITS = st.integers(-4, 8)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 12))

    def column(values: st.SearchStrategy[object], kind: pa.DataType) -> pa.Array:
        drawn = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        return pa.array(drawn, kind)

    days = sorted(draw(st.lists(st.integers(0, 9), min_size=rows, max_size=rows)))
    return pa.table(
        {
            "t": pa.array([START + dt.timedelta(days=d) for d in days], pa.timestamp("us")),
            "a": column(st.integers(-2, 4), pa.int64()),
            "b": column(st.integers(-2, 4), pa.int64()),
            "c": column(st.sampled_from(["x", "y"]), pa.string()),
            "f": column(st.sampled_from([0.0, 0.5, 1.0, float("nan")]), pa.float64()),
        }
    )


def _filters() -> st.SearchStrategy[Clause]:
    return st.sampled_from(PREDICATES).map(Filter)


KINDS: dict[type[Clause], st.SearchStrategy[Clause]] = {
    Apply: st.sampled_from(
        [Apply("n", col("a") + 1), Apply("a", col("b")), Apply("b", col("f") * 2)]
    ),
    ApplyTogether: st.sampled_from(
        [
            ApplyTogether((ComputedColumn("n", col("a") + 1), ComputedColumn("b", col("f") * 2))),
            ApplyTogether((ComputedColumn("a", col("b")), ComputedColumn("b", col("a")))),
        ]
    ),
    Select: st.sampled_from([Select(("a", "b", "c", "f", "t")), Select(("t", "f", "c", "b", "a"))]),
    Drop: st.just(Drop(("n",))),
    Rename: st.sampled_from(
        [Rename((("a", "b"), ("b", "a"))), Rename((("t", "u"), ("f", "g"), ("c", "f"), ("g", "c")))]
    ),
    Filter: _filters(),
    DateRange: st.sampled_from(
        [
            DateRange("2021-01-03"),
            DateRange("2021-01-02", "2021-01-05", "left"),
            DateRange(None, "2021-01-04", "neither"),
        ]
    ),
    Head: LIMITS.map(Head),
    Tail: LIMITS.map(Tail),
    RowRange: row_ends(LIMITS).map(lambda ends: RowRange(*ends)),
    Merge: st.sampled_from([Merge(), Merge(on="t")]),
    Sort: st.sampled_from(
        [Sort(("t", "a"), (False, True)), Sort(("t", "f", "c"), (False, False, True), "first")]
    ),
}
RENAMES = (Rename((("a", "b"), ("b", "a"))), Rename((("t", "u"), ("a", "c"), ("c", "a"))))
BEFORE: dict[type[Clause], tuple[Clause, ...]] = {Drop: (Apply("n", col("a")),)}
"""What stands before the pair, so that it has something to do."""


def _id(pair: tuple[str, str]) -> str:
    return f"{pair[0]}-{pair[1]}"


@pytest.mark.parametrize("pair", SWAPS, ids=_id)
@settings(max_examples=15)
@given(data=st.data())
def test_both_orders_give_the_same(pair: tuple[str, str], data: st.DataObject) -> None:
    left_kind, right_kind = map(find_clause, pair)
    left = data.draw(st.sampled_from(RENAMES) if left_kind is Rename else KINDS[left_kind])
    right = data.draw(KINDS[right_kind])
    if right_kind is Filter and left_kind is Rename and left == RENAMES[1]:
        right = Filter(data.draw(st.sampled_from([col("a") == "x", col("u").is_missing()])))
    turned = swapped(left, right)
    if turned is None:
        assert left_kind in (Apply, ApplyTogether, Merge), "the others of the list always may"
        return
    store = fresh_store()
    store.write("x", data.draw(tables()), index="t")
    first = BEFORE.get(left_kind, ())
    written = bare_answer(store, QueryBuilder((*first, left, right)))
    assert same_table(bare_answer(store, QueryBuilder((*first, *turned))), written)


@pytest.mark.parametrize("name", PASSED_BY_FILTERS)
@settings(max_examples=15)
@given(data=st.data())
def test_filters_before_and_after_several_symbols(name: str, data: st.DataObject) -> None:
    kind = find_clause(name)
    store = fresh_store()
    store.write("x", data.draw(tables()), index="t")
    store.write("y", data.draw(tables()), index="t")
    what = data.draw(_filters())
    last = data.draw(st.sampled_from([Head, Tail]))(data.draw(st.integers(0, 6)))
    after = QueryBuilder((kind((SubQuery("y"),)), what, last))
    before = QueryBuilder((what, last, kind((SubQuery("y", None, (what, last)),)), last))
    assert same_table(bare_answer(store, before), bare_answer(store, after))


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer", "semi", "anti"])
@settings(max_examples=15)
@given(data=st.data())
def test_filters_before_and_behind_a_join(how: str, data: st.DataObject) -> None:
    store = fresh_store()
    store.write("x", data.draw(tables()), index="t")
    other = data.draw(tables()).select(["t", "a", "f"]).rename_columns(["t", "a", "g"])
    store.write("y", other, index="t")
    columns = ["b", "c", "a"] + ([] if how in ("semi", "anti") else ["g"])
    conditions = [col(name).is_missing() for name in columns] + [col("a") > 1, col("b") * 2 > 2]
    conditions += [col("g") > 0.5] if "g" in columns else []
    query = QueryBuilder().join("y", on="a", how=how)  # type: ignore[arg-type]
    for predicate in data.draw(st.lists(st.sampled_from(conditions), min_size=1, max_size=3)):
        query = query.filter(predicate)
    if how not in ("right", "outer") and data.draw(st.booleans()):
        query = query.date_range("2021-01-03")
    if data.draw(st.booleans()):
        query = data.draw(st.sampled_from([query.head, query.tail]))(data.draw(LIMITS))
    only = tuple(each for each in PASSES if each in REQUIRED or each is push_into_inputs)
    assert same_table(answer_of_passes(store, query, only), bare_answer(store, query))
    assert same_table(answer_of_passes(store, query, PASSES), bare_answer(store, query))


def test_an_apply_is_not_passed_by_what_reads_its_column() -> None:
    assert swapped(Apply("a", col("b")), Filter(col("a") > 1)) is None
    assert swapped(Filter(col("b") > 1), Filter(col("a") * col("a") > 1)) is None
    assert swapped(Merge((SubQuery("y"),)), Filter(col("a") > 1)) is None


OTHERS = tuple(
    find_clause(name)("v")
    for name in ("drop_negative", "previous_differs", "fails_above", "every_other")
)


@pytest.mark.parametrize("left", [*SAMPLES, *OTHERS], ids=lambda clause: clause.name)
def test_what_is_not_listed_stays(left: Clause) -> None:
    for right in (*SAMPLES, *OTHERS):
        if (left.name, right.name) not in SWAPS:
            assert swapped(left, right) is None
            draft = Draft(SCHEMA, (left, right))
            assert push_left(draft).clauses == (left, right)


def test_a_clause_that_inherits_from_ours_is_anothers() -> None:
    class Sampled(Filter):
        name = "sampled"

    assert swapped(Select(("a",)), Sampled(col("a") > 1)) is None
    assert swapped(Sampled(col("a") > 1), DateRange("2021")) is None


def test_the_document_lists_the_pairs() -> None:
    lines = (Path(__file__).parents[2] / "docs" / "clauses.md").read_text("utf-8").splitlines()
    start = lines.index("| left | may be passed by |") + 2
    rows = [line.split("|")[1:3] for line in itertools.takewhile(bool, lines[start:])]
    told = {(left.strip(" `"), right) for left, cell in rows for right in cell.split("`")[1::2]}
    assert told == set(SWAPS)


def test_the_document_lists_the_passes() -> None:
    lines = (Path(__file__).parents[2] / "docs" / "clauses.md").read_text("utf-8").splitlines()
    start = lines.index("| pass | what it does |") + 2
    told = [line.split("`")[1] for line in itertools.takewhile(bool, lines[start:])]
    assert told == [each.__name__ for each in PASSES]
