"""Components of a clause's own: they belong to rows, wherever these go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from hypothesis import given

from tessel.clauses import Clause, ClauseInfo, QueryBuilder, UnitFacts, structure_by_bucket
from tessel.clauses.units.bound_unit import is_bound
from tessel.ecs import ColRange, Piece, ProcessingUnit, RowRange
from tessel.errors import ExecutionError, InvalidInputError
from tessel.expression import col
from tessel.expression.schema import TableSchema
from tessel.options import options
from tests.clauses.attaching import Case, Mark, Regroup, Rows, Span, Stamp, Told, cases
from tests.clauses.helpers import answer, stored

Q = QueryBuilder()
NINE = {"n": range(9), "v": [row % 7 for row in range(9)]}


def unit_of(*ranges: tuple[int, int]) -> ProcessingUnit:
    table = pa.table(NINE)
    pieces = [Piece(table.slice(a, b - a), RowRange(a, b), ColRange(0, 2)) for a, b in ranges]
    return ProcessingUnit(0, TableSchema(table.schema), pieces)


# --- units ----------------------------------------------------------------------------------------


def test_a_unit_holds_one_component_of_each_kind() -> None:
    unit = unit_of((0, 3), (3, 5))
    assert unit.component(Span) is None
    assert unit.components(Span) == ()
    one = unit.with_component(Span(0, 4)).with_component(Mark("a"))
    assert (one.component(Span), one.component(Mark)) == (Span(0, 4), Mark("a"))
    assert one.with_component(Span(1, 1)).components(Span) == (Span(1, 1),)
    assert one.component(Span) == Span(0, 4)
    assert unit.component(Span) is None


def test_what_is_derived_of_a_unit_has_its_components() -> None:
    unit = unit_of((0, 3), (3, 5)).with_component(Mark("a"))
    derived = [
        unit.filter(col("v") > 1),
        unit.filter(col("v") > 100),
        unit.slice(1, 2),
        unit.take(pa.array([4, 0]).to_numpy()),
        unit.select(["v"]),
        unit.rename({"v": "w"}),
        unit.with_column("w", col("v") + 1),
        unit.replace(pa.table({"x": [1]})),
    ]
    assert [each.component(Mark) for each in derived] == [Mark("a")] * len(derived)


@pytest.mark.parametrize("unit", [unit_of(), unit_of((2, 2))], ids=["no piece", "no row"])
def test_a_unit_without_rows_takes_a_component(unit: ProcessingUnit) -> None:
    marked = unit.with_component(Mark("a"))
    assert (marked.component(Mark), marked.num_rows) == (Mark("a"), 0)


def test_rows_of_several_units_have_those_of_all_of_them() -> None:
    first = unit_of((0, 3)).with_component(Mark("a"))
    second = unit_of((3, 5)).with_component(Mark("b")).with_component(Span(3, 4))
    gone = unit_of((5, 5)).with_component(Mark("c"))
    pieces = [*first.pieces, *second.pieces, *gone.pieces, *first.pieces]
    joined = first.with_pieces(pieces, first.schema)
    for unit in (joined, joined.replace(joined.table)):
        assert unit.components(Mark) == (Mark("a"), Mark("b"))
        assert unit.component(Span) == Span(3, 4)
        with pytest.raises(ExecutionError, match=r"2 different Mark .*\n.*components\(Mark\)"):
            unit.component(Mark)
    assert joined.slice(0, 2).component(Mark) == Mark("a")
    assert joined.with_component(Mark("d")).components(Mark) == (Mark("d"),)


@dataclass
class Thawed:
    value: int = 1


@dataclass(frozen=True)
class Unhashable:
    values: list[int]


@pytest.mark.parametrize("component", [1, Thawed(), Unhashable([1]), Span], ids=repr)
def test_a_component_is_a_frozen_value(component: object) -> None:
    with pytest.raises(InvalidInputError, match="frozen dataclass"):
        unit_of((0, 1)).with_component(component)


# --- queries --------------------------------------------------------------------------------------


def told(table: pa.Table) -> list[tuple[int, str]]:
    return list(zip(table["n"].to_pylist(), table["told"].to_pylist(), strict=True))


@given(cases())
def test_components_go_with_their_rows(case: Case) -> None:
    store = stored(case.table(), rows=case.segment_rows, columns=case.segment_columns)
    assert told(answer(store, case.query)) == case.expected


def test_a_unit_that_is_not_read_takes_a_component_and_stays_unread() -> None:
    seen: list[bool] = []

    @dataclass(frozen=True)
    class Marks(Rows):
        name = "marks"

        def process(self, unit: ProcessingUnit) -> ProcessingUnit:
            marked = unit.filter(col("v") > 2).with_component(Mark("a")).rename({"v": "w"})
            assert marked.component(Mark) == Mark("a")
            seen.append(is_bound(marked))
            return marked.rename({"w": "v"})

    store = stored(NINE, rows=4)
    assert answer(store, Q.then(Marks()).agg(v=("v", "sum"))).to_pydict() == {"v": [18]}
    assert seen
    assert all(seen)


@pytest.mark.parametrize(
    "query",
    [Q.sort("v"), Q.distinct(["v"]), Q.rank("v"), Q.sort("v").head(3), Q.sample(n=4, seed=1)],
    ids=repr,
)
def test_rows_that_clauses_make_of_several_units_have_none(query: QueryBuilder) -> None:
    store = stored(NINE, rows=4)
    found = answer(store, Q.then(Stamp(), *query.clauses, Told()))
    assert set(found["told"].to_pylist()) == {""}


@pytest.mark.parametrize("query", [Q.head(6), Q.tail(8), Q.shift("n"), Q.row_range(1, 8)], ids=repr)
def test_clauses_that_take_units_one_by_one_leave_components(query: QueryBuilder) -> None:
    store = stored(NINE, rows=4)
    found = answer(store, Q.then(Stamp(), *query.clauses, Told()))
    assert set(found["told"].to_pylist()) <= {"0-3", "4-7", "8-8"}


@dataclass(frozen=True)
class Halves(Regroup):
    """Takes a bucket in parts, where it is more than may be held."""

    name = "halves"

    def restructure(self, units: Sequence[UnitFacts], schema: TableSchema) -> list[list[int]]:
        return structure_by_bucket(units)

    @property
    def structure(self) -> ClauseInfo:
        return replace(super().structure, whole=True)

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        parts = [unit.table for unit in units]
        assert parts
        for table in parts:
            yield ProcessingUnit(0, schema).replace(table)


@pytest.mark.parametrize("live_bytes", [1, 1 << 28])
def test_components_are_those_of_a_bucket_taken_in_parts(live_bytes: int) -> None:
    store = stored(NINE, rows=4)
    steps: list[Clause] = [Stamp(), *Q.partition(["v"], buckets=1).clauses]
    with options(live_bytes=live_bytes, inline_bytes=0):
        query = Q.then(*steps, Halves(need="hash_bucketed"), Told())
        found = store.read("x", query=query).to_arrow()
    assert set(found["told"].to_pylist()) == {"0-3 4-7 8-8"}


def test_components_pass_a_partition() -> None:
    store = stored(NINE, rows=4)
    steps: list[Clause] = [Stamp(), *Q.partition(["v"], buckets=3).clauses]
    found = answer(store, Q.then(*steps, Regroup(100, need="hash_bucketed"), Told()))
    assert set(found["told"].to_pylist()) == {"0-3 4-7 8-8"}
