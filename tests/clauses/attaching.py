"""Clauses that attach a component of their own, group by it and read it; none is registered."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from hypothesis import strategies as st

from tessel.clauses import Clause, ClauseInfo, QueryBuilder, Structure, UnitFacts
from tessel.ecs import ProcessingUnit
from tessel.expression import col
from tessel.expression.schema import TableSchema


@dataclass(frozen=True)
class Span:
    """The lowest and the highest row number of a unit."""

    low: int
    high: int

    def to_json(self) -> dict[str, int]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, int]) -> Span:
        return cls(data["low"], data["high"])


@dataclass(frozen=True)
class Mark:
    """A component that cannot cross processes."""

    text: str


@dataclass(frozen=True)
class Rows(Clause):
    """What the clauses here share: row slices in and out, over a column ``n`` of row numbers."""

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(Structure.ROW_SLICE, Structure.ROW_SLICE)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        return input_schema


@dataclass(frozen=True)
class Stamp(Rows):
    """Attaches the span of each unit, before or after the unit is read."""

    name: ClassVar[str] = "stamp"
    attaches = (Span,)
    reads: bool = False

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        numbers = unit.column("n").to_pylist()
        if self.reads:
            unit = unit.replace(unit.table)
        return unit.with_component(Span(min(numbers, default=-1), max(numbers, default=-1)))


@dataclass(frozen=True)
class Told(Rows):
    """Writes the spans of each unit beside its rows."""

    name: ClassVar[str] = "told"

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        return input_schema.with_column("told", pa.string())

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        spans = " ".join(f"{each.low}-{each.high}" for each in unit.components(Span))
        return unit.with_column("told", pa.array([spans] * unit.num_rows, pa.string()))


@dataclass(frozen=True)
class Regroup(Rows):
    """Makes one unit of the pieces whose spans begin in the same stretch of rows."""

    name: ClassVar[str] = "regroup"
    width: int = 5
    joins: bool = False
    need: str = "all"

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(Structure(self.need), Structure.ROW_SLICE)

    def restructure(self, units: Sequence[UnitFacts], schema: TableSchema) -> list[list[int]]:
        groups: dict[int, list[int]] = {}
        for position, facts in enumerate(units):
            span = facts.component(Span)
            assert span is not None
            groups.setdefault(span.low // self.width, []).append(position)
        return list(groups.values())

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit.replace(unit.table) if self.joins else unit


@dataclass(frozen=True)
class Case:
    """A table of row numbers in segments, a query over it, and what it must tell of each row."""

    rows: int
    segment_rows: int
    segment_columns: int
    query: QueryBuilder
    expected: list[tuple[int, str]]

    def table(self) -> pa.Table:
        return pa.table({"n": range(self.rows), "v": [row % 7 for row in range(self.rows)]})


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a cut into segments, a filter and a grouping; the model is a walk over row ranges."""
    rows, step = draw(st.integers(1, 24)), draw(st.integers(1, 9))
    width, residue, joins = draw(st.integers(1, 12)), draw(st.integers(0, 7)), draw(st.booleans())
    need = draw(st.sampled_from([None, "all", "time_bucketed", "hash_bucketed"]))
    place = draw(st.sampled_from(["before", "between", "last"]))

    steps: list[Clause] = [Stamp(draw(st.booleans())), Told()]
    if need is not None:
        steps.insert(1, Regroup(width, joins, need))
    keeps = QueryBuilder().filter(col("v") != residue).clauses[0]
    steps.insert({"before": 1, "between": len(steps) - 1, "last": len(steps)}[place], keeps)

    slices = [range(low, min(low + step, rows)) for low in range(0, rows, step)]
    left = {each: [n for n in each if n % 7 != residue] for each in slices}
    expected: list[tuple[int, str]] = []
    for _, group in itertools.groupby(
        slices, lambda s: s.start if need is None else s.start // width
    ):
        own = list(group)
        is_seen = place == "last" or (place == "between" and joins and need is not None)
        held = own if is_seen else [each for each in own if left[each]]
        told = " ".join(f"{each.start}-{each.stop - 1}" for each in held)
        expected += [(n, told) for each in own for n in left[each]]
    return Case(rows, step, draw(st.integers(1, 2)), QueryBuilder().then(*steps), expected)
