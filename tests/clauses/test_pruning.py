"""Pruning by statistics is sound in every order of clauses, and is done where it may be.

Every table here tempts a wrong pruner: whole segments that no later predicate keeps stand where a
positional clause has to count them.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import pyarrow as pa
import pytest

from tessel.api import Store
from tessel.clauses import QueryBuilder
from tests.clauses.helpers import answer, stored

START = dt.datetime(2021, 1, 1)
Q = QueryBuilder()


@pytest.fixture(scope="module")
def store() -> Store:
    """Twelve rows in six slices: ``a`` rises by slice, ``b`` falls, so every predicate prunes."""
    return stored(
        {
            "t": pa.array([START + dt.timedelta(days=n) for n in range(12)], pa.timestamp("us")),
            "a": list(range(12)),
            "b": list(range(11, -1, -1)),
        },
        index="t",
        columns=1,
    )


@dataclass(frozen=True)
class Case:
    """A query, the values of ``a`` that it leaves, and the row slices that it may read."""

    name: str
    query: QueryBuilder
    left: list[int]
    slices: int
    column: str = "a"


CASES = [
    Case("filter, head", Q.filter("a >= 6").head(2), [6, 7], 1),
    Case("head, filter", Q.head(8).filter("a >= 6"), [6, 7], 1),
    Case("head, filter none", Q.head(4).filter("a >= 6"), [], 0),
    Case("filter, head, filter", Q.filter("a >= 4").head(4).filter("a >= 6"), [6, 7], 1),
    Case("date_range, tail", Q.date_range("2021-01-03", "2021-01-08").tail(2), [6, 7], 1),
    Case("tail, date_range", Q.tail(6).date_range(None, "2021-01-08"), [6, 7], 1),
    Case("tail, filter", Q.tail(6).filter("b > 3"), [6, 7], 1),
    Case("filter, tail", Q.filter("b > 3").tail(2), [6, 7], 1),
    Case("filter, tail, filter", Q.filter("b > 3").tail(4).filter("a > 5"), [6, 7], 1),
    Case("apply, head", Q.apply("c", "a + b").head(2), [0, 1], 1),
    Case(
        "apply, head, filter", Q.apply("c", "a * 0").head(4).filter("c == 0 and a > 1"), [2, 3], 1
    ),
    Case("head, apply, filter", Q.head(4).apply("c", "a").filter("a > 1"), [2, 3], 1),
    Case("select, row_range, filter", Q.select("a").row_range(2, 8).filter("a > 5"), [6, 7], 1),
    Case("row_range, select, filter", Q.row_range(-6, None).select("a").filter("a < 8"), [6, 7], 1),
    Case("drop, head, filter", Q.drop("b").head(8).filter("a >= 6"), [6, 7], 1),
    Case("head, tail", Q.head(8).tail(2), [6, 7], 1),
    Case(
        "filter, row_range, date_range",
        Q.filter("a > 1").row_range(2, 6).date_range("2021-01-07"),
        [6, 7],
        1,
    ),
    Case(
        "rename, filter", Q.rename({"a": "c"}).filter("c in (6, 7)").rename({"c": "a"}), [6, 7], 1
    ),
    Case("traded names, filter", Q.rename({"a": "b", "b": "a"}).filter("a < 2"), [10, 11], 1, "b"),
    Case(
        "traded twice",
        Q.rename({"a": "b", "b": "a"}).rename({"a": "b", "b": "a"}).filter("a > 9"),
        [10, 11],
        1,
    ),
    Case("replaced, filter", Q.apply("a", "b").filter("a > 9"), [11, 10], 6),
    Case("dropped and made again", Q.drop("a").apply("a", "b").filter("a > 9"), [11, 10], 6),
    Case("replaced, then another", Q.apply("b", "a").filter("b > 9 and a > 9"), [10, 11], 1),
    Case("filter, replaced", Q.filter("a > 9").apply("a", "b"), [1, 0], 1),
    # From here on the first predicate goes through a slice: nobody knows how many rows it leaves.
    Case("filter in part, head", Q.filter("a >= 5").head(2), [5, 6], 4),
    Case("filter in part, head, filter", Q.filter("a >= 3").head(4).filter("a >= 6"), [6], 5),
    Case("filter in part, tail", Q.filter("b > 4").tail(2), [5, 6], 4),
    Case("filter in part, tail, filter", Q.filter("b > 4").tail(4).filter("a > 5"), [6], 4),
    Case(
        "filter in part, row_range, filter",
        Q.filter("a > 2").row_range(2, 6).filter("a > 6"),
        [7, 8],
        5,
    ),
    Case("date_range, head, filter", Q.date_range("2021-01-04").head(4).filter("a > 5"), [6], 5),
    Case(
        "filter in part, date_range, head",
        Q.filter("a > 2").date_range(None, "2021-01-10").head(5).filter("b < 6"),
        [6, 7],
        4,
    ),
    Case("filter, head, date_range", Q.filter("a > 2").head(4).date_range("2021-01-06"), [5, 6], 5),
    Case("filter, tail, date_range", Q.filter("a < 9").tail(4).date_range("2021-01-08"), [7, 8], 5),
    Case(
        "filter, row_range, filter on the index",
        Q.filter("a > 2").row_range(0, 4).filter("t >= '2021-01-06'"),
        [5, 6],
        5,
    ),
    Case("groupby, filter", Q.groupby("a").agg(n="size").filter("a > 9"), [10, 11], 6),
    Case("resample, filter", Q.resample("4D").agg(a=("a", "max")).filter("a > 9"), [11], 6),
    Case("index replaced, filter", Q.apply("t", "a").filter("t > 9"), [10, 11], 6),
    Case(
        "filter, date_range, filter",
        Q.filter("a > 3").date_range(None, "2021-01-08").filter("b < 6"),
        [6, 7],
        1,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_order(store: Store, case: Case) -> None:
    assert answer(store, case.query).column(case.column).to_pylist() == case.left
    plan = store.scan("x").then(*case.query.clauses).plan()
    assert plan.inputs[0].index.slices == case.slices  # type: ignore[union-attr]


def test_clauses_of_others_are_passed_by_nothing(store: Store) -> None:
    from tests.clauses.custom import PreviousDiffers

    query = Q.then(PreviousDiffers("a")).filter("a > 9")
    assert answer(store, query).column("a").to_pylist() == [10, 11]
    assert store.scan("x").then(*query.clauses).plan().inputs[0].index.slices == 6  # type: ignore[union-attr]


@pytest.mark.parametrize("null", [None, float("nan")])
def test_segments_of_missing_values_are_dropped_and_counted_rightly(null: float | None) -> None:
    values = [null, null, 1.0, null, 2.0, 3.0]
    store = stored({"v": pa.array(values, pa.float64()), "n": list(range(6))})

    def left(predicate: str) -> list[int]:
        return answer(store, Q.filter(predicate)).column("n").to_pylist()  # type: ignore[no-any-return]

    assert left("v > 0") == [2, 4, 5]
    assert left("v != 1") == [4, 5]
    assert left("not (v == 1)") == [4, 5]
    assert left("v is missing") == [0, 1, 3]
    assert left("v is missing or v > 2") == [0, 1, 3, 5]
