"""Clauses that carry from unit to unit: stages, the scan, look-ahead, promises and errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessel.clauses import Carry, Clause, ClauseInfo, QueryBuilder, Structure, find_clause, register
from tessel.clauses.spill import Workspace
from tessel.clauses.spill.local_pool import LocalPool
from tessel.ecs import Piece, ProcessingUnit
from tessel.ecs.piece import ColRange, RowRange
from tessel.errors import ClauseFailedError, PlanError, SchemaPromiseError, UnknownVerbError
from tessel.expression.schema import TableSchema
from tessel.options import Options, options
from tessel.pipeline.carrying import carried_units
from tessel.pipeline.plan import Stage
from tests.clauses.helpers import answer, events, stored

Q = QueryBuilder()
SCHEMA = TableSchema(pa.schema([("v", pa.int64())]))
TOTAL = pa.schema([("total", pa.int64())])


@register
@dataclass(frozen=True)
class Around(Clause):
    """The sums of all rows before and after the unit of each row: not what a query would want."""

    name: ClassVar[str] = "around_units"
    enough: int = 1_000_000
    side: str = "both"
    fault: str = ""

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in and out."""
        return ClauseInfo(Structure.ROW_SLICE, Structure.ROW_SLICE, carries=Carry(self.side))

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        return input_schema.with_column("before", pa.int64()).with_column("after", pa.int64())

    def carry_schema(self, input_schema: TableSchema) -> pa.Schema:
        return TOTAL

    def summary(self, unit: ProcessingUnit) -> pa.Table:
        if self.fault == "summary raises" and unit.ordinal == 2:
            raise KeyError("no summary")
        if self.fault == "other columns":
            return pa.table({"sum": [1]})
        if self.fault == "no table":
            return 5
        return _total(sum(unit.column("v").to_pylist()))

    def combine(self, earlier: pa.Table, later: pa.Table, schema: TableSchema) -> pa.Table:
        assert schema == SCHEMA
        if self.fault == "combining raises":
            raise KeyError("no sum")
        return _total(_number(earlier) + _number(later))

    def suffices(self, summary: pa.Table, after: pa.Table) -> bool:
        return _number(after) >= self.enough

    def process_between(
        self, unit: ProcessingUnit, before: pa.Table, after: pa.Table
    ) -> ProcessingUnit:
        if self.fault == "processing raises" and unit.ordinal == 1:
            raise KeyError("no result")
        for name, carry in (("before", before), ("after", after)):
            unit = unit.with_column(name, pa.array([_number(carry)] * unit.num_rows, pa.int64()))
        return unit

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return self.process_between(unit, TOTAL.empty_table(), TOTAL.empty_table())


def _total(number: int) -> pa.Table:
    return pa.table({"total": pa.array([number], pa.int64())})


def _number(carry: pa.Table) -> int:
    return sum(carry.column("total").to_pylist())


def _units(values: list[int]) -> Iterator[ProcessingUnit]:
    for at, value in enumerate(values):
        table = pa.table({"v": pa.array([value], pa.int64())})
        yield ProcessingUnit(at, SCHEMA, [Piece(table, RowRange(at, at + 1), ColRange(0, 1))])


def _stage(clause: Clause) -> Stage:
    return Stage((clause,), (SCHEMA, clause.output_schema(SCHEMA)))


@settings(max_examples=30)
@given(
    values=st.lists(st.integers(0, 9), max_size=30),
    enough=st.integers(0, 40),
    workers=st.sampled_from([1, 2]),
    live_bytes=st.sampled_from([1, 60, 1 << 20]),
)
def test_each_unit_gets_all_before_and_enough_after(
    values: list[int], enough: int, workers: int, live_bytes: int
) -> None:
    stage = _stage(Around(enough))
    options = Options(workers=workers, inline_bytes=0, live_bytes=live_bytes)
    with Workspace(options) as workspace, LocalPool(options, workspace.account) as pool:
        carried = carried_units(stage, _units(values), pool, workspace)
        found = [unit.table.to_pylist()[0] for unit in carried]
        assert workspace.account.alive == 0
    assert [row["v"] for row in found] == values
    for at, row in enumerate(found):
        assert row["before"] == sum(values[:at])
        # As much as was seen when it sufficed: never more than one unit too many.
        ends = [sum(values[at + 1 : end]) for end in range(at + 1, len(values) + 1)]
        assert row["after"] in ends
        assert row["after"] >= min(enough, sum(values[at + 1 :]))


@pytest.mark.parametrize(("side", "enough", "taken"), [("before", 0, 1), ("after", 3, 4)])
def test_units_are_taken_no_further_ahead_than_needed(side: str, enough: int, taken: int) -> None:
    seen: list[int] = []

    def counted() -> Iterator[ProcessingUnit]:
        for unit in _units([1] * 100):
            seen.append(unit.ordinal)
            yield unit

    options = Options(workers=1)
    with Workspace(options) as workspace, LocalPool(options, workspace.account) as pool:
        found = carried_units(_stage(Around(enough, side)), counted(), pool, workspace)
        next(found)
        assert len(seen) == taken
        next(found)
        assert len(seen) == taken + 1
        found.close()


def test_what_waits_for_the_end_stays_in_the_budget() -> None:
    rows = 20_000
    store = stored({"v": list(range(rows))}, rows=500)
    most = 0
    with options(workers=2, inline_bytes=0, live_bytes=40_000), events("memory.alive") as alive:
        found = store.read("x", query=Q.shift({"w": "v"}, -rows // 2)).to_arrow()
        most = max(event.attributes["bytes"] for event in alive)
    assert found.column("w").to_pylist() == [*range(rows // 2, rows), *[None] * (rows // 2)]
    assert most < 60_000  # 160,000 bytes wait, and more


def test_the_answer_of_a_query() -> None:
    store = stored({"v": [1, 2, 3, 4, 5]}, rows=2)
    found = answer(store, Q.then(Around()).filter("v > 2"))
    assert found.to_pydict() == {"v": [3, 4, 5], "before": [3, 3, 10], "after": [5, 5, 0]}
    assert answer(stored({"v": [1, 2, 3]}, rows=1), Q.then(Around(side="before"))).to_pydict() == {
        "v": [1, 2, 3],
        "before": [0, 1, 3],
        "after": [0, 0, 0],
    }


def test_a_clause_that_carries_begins_a_stage() -> None:
    store = stored({"v": [1, 2, 3]})
    query = Q.filter("v > 1").shift({"w": "v"}).apply("y", "v").shift({"z": "v"}).shift("v")
    stages = store.scan("x").then(*query.clauses).plan().stages
    names = [[clause.name for clause in stage.clauses] for stage in stages]
    assert names == [["filter"], ["shift", "apply"], ["shift"], ["shift"]]


@pytest.mark.parametrize(
    ("fault", "error", "text"),
    [
        ("summary raises", ClauseFailedError, "around_units.* raised KeyError: 'no summary'"),
        ("combining raises", ClauseFailedError, "around_units.* raised KeyError: 'no sum'"),
        ("processing raises", ClauseFailedError, "around_units.* raised KeyError: 'no result'"),
        ("other columns", SchemaPromiseError, "other columns of its carry"),
        ("no table", SchemaPromiseError, "other columns of its carry"),
    ],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_faults_are_named(fault: str, error: type[Exception], text: str, workers: int) -> None:
    store = stored({"v": list(range(10))}, rows=2)
    with options(workers=workers, inline_bytes=0), pytest.raises(error, match=text) as caught:
        store.read("x", query=Q.then(Around(fault=fault)))
    assert "around_units" in str(caught.value)


def test_declaring_a_carry_without_the_methods() -> None:
    @dataclass(frozen=True)
    class Says(find_clause("rename")):  # type: ignore[misc]
        name: ClassVar[str] = "only_says"

        @property
        def structure(self) -> ClauseInfo:
            return ClauseInfo(Structure.ROW_SLICE, Structure.ROW_SLICE, carries=Carry.BEFORE)

    with pytest.raises(PlanError, match="without the methods"):
        stored({"v": [1]}).read("x", query=Q.then(Says((("v", "w"),))))


def test_explain_says_what_units_are_told() -> None:
    store = stored({"t": pa.array([1, 2, 3], pa.timestamp("s")), "v": [1, 2, 3]}, index="t")
    query = Q.filter("v > 1").shift("v").fill("v", "backward").rolling("1s").agg(n="size")
    text = str(store.scan("x").then(*query.clauses).explain())
    told = [side for side in ("before", "after", "around") if f"what lies {side} it" in text]
    assert told == ["before", "after", "around"]


def test_results_that_nothing_uses_are_not_made() -> None:
    table = {"t": pa.array([1, 2, 3], pa.timestamp("s")), "k": [1, 2, 1], "v": [1, 2, 3]}
    table |= {"w": [1.5, 2.5, 3.5], "s": ["a", "b", "c"]}
    store = stored(table, index="t")
    query = Q.shift({"a": "v", "b": "s"}, by="k").cum_sum({"c": "w"})
    query = query.rolling(2).agg(d=("v", "max"), e=("w", "mean")).ewm(com=1).agg(f=("w", "mean"))
    plan = store.scan("x").then(*query.select("a", "d").clauses).plan()
    (source,) = plan.inputs
    assert source.schema.names == ["k", "v"]
    shown = [clause.describe() for stage in plan.stages for clause in stage.clauses]
    assert shown[:2] == [
        "shift(columns={'a': 'v'}, by=['k'])",
        "rolling(window=2, aggregates=[d=max(v)])",
    ]
    whole = answer(store, query)
    assert answer(store, query.select("a", "d")).equals(whole.select(["a", "d"]))
    assert answer(store, query.select("s", "f")).equals(whole.select(["s", "f"]))
    assert answer(store, query.agg(n="size")).to_pylist() == [{"n": 3}]


def test_a_name_that_others_use_is_understood() -> None:
    for name, ours in (("ffill", "fill"), ("lag", "shift"), ("cumsum", "cum_sum")):
        with pytest.raises(UnknownVerbError, match=f"'{ours}'"):
            getattr(Q, name)


@pytest.mark.parametrize(
    "query",
    [
        Q.shift({"a": "v"}, 1, by="k"),
        Q.shift({"a": "v"}, -1, by="k"),
        Q.shift({"a": "s"}, -1),
        Q.diff({"a": "v"}, by="k"),
        Q.cum_sum({"a": "v"}, by="k"),
        Q.cum_max({"a": "s"}),
        Q.fill({"a": "s"}, by="k"),
        Q.fill({"a": "v"}, "backward", by="k"),
        Q.fill({"a": "f"}, "linear", by="k"),
        Q.rolling(3, by="k").agg(a=("v", "sum")),
        Q.rolling(3, by="k", center=True).agg(a=("s", "max")),
        Q.rolling("3s", by="k").agg(a=("f", "std")),
        Q.ewm(span=3, by="k").agg(a=("f", "mean")),
        Q.latest_at(["1970-01-01T00:00:04"], by=["k"]),
    ],
    ids=lambda query: "_".join(clause.name for clause in query.clauses),
)
def test_carries_and_units_without_a_chunk(query: QueryBuilder) -> None:
    """What comes of no rows from another process has columns without a chunk."""
    fields = {"t": pa.timestamp("s"), "k": pa.string(), "v": pa.int32(), "f": pa.float64()}
    schema = TableSchema(pa.schema([*fields.items(), ("s", pa.string())]), "t")
    clause: Any = next(each for each in query.clauses if each.structure.carries is not None)
    rows = {"t": [1, 2], "k": ["a", None], "v": [1, None], "f": [0.5, 1.5], "s": ["x", None]}
    full, none = (
        ProcessingUnit(0, schema, [Piece(table, RowRange(0, len(table)), ColRange(0, 5))])
        for table in (
            pa.table(rows, schema=schema.arrow),
            pa.Table.from_batches([], schema.arrow),
        )
    )
    nothing = pa.Table.from_batches([], clause.carry_schema(schema))
    told = clause.summary(full)
    assert clause.summary(none).schema.equals(nothing.schema)
    state = clause.combine(nothing, told, schema)
    for earlier, later in [(nothing, nothing), (nothing, told), (state, nothing)]:
        assert clause.combine(earlier, later, schema).schema.equals(nothing.schema)
        assert clause.suffices(earlier, later) in (True, False)
        for unit in (none, full):
            found = clause.process_between(unit, earlier, later)
            assert found.schema == clause.output_schema(schema)
