"""Clauses as other people write them, good and bad."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from tessel.clauses import Clause, ClauseInfo, Structure, UnitFacts, register
from tessel.clauses.filter import Filter
from tessel.clauses.index_values import index_integers
from tessel.clauses.structures import StructuredUnits, structure_by_row_slice
from tessel.ecs import ProcessingUnit
from tessel.expression import col
from tessel.expression.schema import TableSchema
from tessel.store.manifest.index import SegmentIndex


@dataclass(frozen=True)
class RowWise(Clause):
    """What the clauses here share: row slices in, row slices out, the columns stay."""

    column: str

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(
            Structure.ROW_SLICE, Structure.ROW_SLICE, columns=frozenset([self.column])
        )

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        input_schema.require([self.column])
        return input_schema


@register
@dataclass(frozen=True)
class DropNegative(RowWise):
    name: ClassVar[str] = "drop_negative"

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit.filter(unit.evaluate(col(self.column) >= 0))


@register
@dataclass(frozen=True)
class UpToNow(RowWise):
    """Lowers to another filter as time passes, which its plain form does not tell."""

    name: ClassVar[str] = "up_to_now"
    now: ClassVar[int] = 0

    def lower(self, schema: TableSchema) -> Sequence[Clause]:
        return (Filter(col(self.column) <= self.now),)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit.filter(col(self.column) <= self.now)


@register
@dataclass(frozen=True)
class InPairs(RowWise):
    """Has the first units of a query made of two row slices each."""

    name: ClassVar[str] = "in_pairs"

    def structure_units(self, index: SegmentIndex) -> StructuredUnits:
        slices = structure_by_row_slice(index).units
        pairs = [[*slices[at], *more] for at, more in enumerate(slices[1:]) if at % 2 == 0]
        return StructuredUnits(index, [*pairs, *slices[len(pairs) * 2 :]])

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit.filter(col(self.column) > 0)


@register
@dataclass(frozen=True)
class OddCategories(RowWise):
    """Adds categories, of which one is null and one stands twice."""

    name: ClassVar[str] = "odd_categories"

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        return input_schema.with_column(self.column, pa.dictionary(pa.int8(), pa.string()))

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        codes = pa.array([row % 4 for row in range(unit.num_rows)], pa.int8())
        entries = pa.array(["b", None, "a", "b"])
        return unit.with_column(self.column, pa.DictionaryArray.from_arrays(codes, entries))


@register
@dataclass(frozen=True)
class PreviousDiffers(RowWise):
    """Looks at neighbours, and says that it reads everything."""

    name: ClassVar[str] = "previous_differs"

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(Structure.ALL, Structure.ROW_SLICE)

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        values = unit.column(self.column).to_pylist()
        kept = [at == 0 or value != values[at - 1] for at, value in enumerate(values)]
        return unit.filter(pa.array(kept, pa.bool_()))


@register
@dataclass(frozen=True)
class FailsAbove(RowWise):
    """Raises an error of its own in every unit that holds a value above the limit."""

    name: ClassVar[str] = "fails_above"
    limit: int = 0

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        worst = max(unit.column(self.column).to_pylist(), default=self.limit)
        if worst > self.limit:
            raise KeyError(f"value {worst}")
        return unit


@register
@dataclass(frozen=True)
class Slow(RowWise):
    """Takes its time; the later the unit, the less, so that units finish out of order."""

    name: ClassVar[str] = "slow"
    seconds: float = 0.01

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        time.sleep(self.seconds / (1 + unit.ordinal))
        return unit


@register
@dataclass(frozen=True)
class BreaksPromise(RowWise):
    """Returns something other than its output_schema says; ``how`` tells what."""

    name: ClassVar[str] = "breaks_promise"
    how: str = "type"

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        if self.how == "type":
            return unit.with_column(self.column, pa.nulls(unit.num_rows, pa.string()))
        if self.how == "extra":
            return unit.with_column("extra", pa.nulls(unit.num_rows, pa.string()))
        if self.how == "order":
            return unit.select(unit.schema.names[::-1])
        if self.how == "data":
            wrong = unit.with_column(self.column, pa.nulls(unit.num_rows, pa.string()))
            return unit.with_pieces(wrong.pieces, unit.schema)
        return unit.table  # type: ignore[return-value]


@register
@dataclass(frozen=True)
class EveryOther(RowWise):
    """Takes a stream: every second row of the whole, and can be told to fail or to lie."""

    name: ClassVar[str] = "every_other"
    fault: str = ""

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(Structure.ALL, Structure.ROW_SLICE, columns=frozenset([self.column]))

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return next(iter(self.consume([unit], unit.schema)), unit.slice(0, 0))

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        at = 0
        for unit in units:
            if self.fault == "raises":
                raise KeyError("no more")
            kept = [(at + row) % 2 == 0 for row in range(unit.num_rows)]
            at += unit.num_rows
            result = unit.filter(pa.array(kept, pa.bool_()))
            yield result.rename({self.column: "lie"}) if self.fault == "lies" else result


class Whole(Clause):
    """Base of clauses of any structure that keep the columns."""

    needs: str
    leaves: str

    @property
    def structure(self) -> ClauseInfo:
        return ClauseInfo(Structure(self.needs), Structure(self.leaves))

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        return input_schema


@register
@dataclass(frozen=True)
class Passes(Whole):
    """Lets all rows of any structure pass, each piece a unit where it is asked."""

    name: ClassVar[str] = "passes"
    needs: str = "row_slice"
    leaves: str = "row_slice"

    def restructure(self, units: Sequence[UnitFacts], schema: TableSchema) -> list[list[int]]:
        ranges: dict[tuple[int, int], list[int]] = {}
        for position, facts in enumerate(units):
            ranges.setdefault((facts.unit, facts.row_range.start), []).append(position)
        return list(ranges.values())

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        return unit


@register
@dataclass(frozen=True)
class PassesStream(Passes):
    """Lets a stream pass, unit by unit."""

    name: ClassVar[str] = "passes_stream"

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        yield from units


@register
@dataclass(frozen=True)
class LastOfSpan(Whole):
    """The last row of each span of time; all that it says of units is its ``restructure``."""

    name: ClassVar[str] = "last_of_span"
    needs: str = "time_bucketed"
    leaves: str = "row_slice"
    span: int = 3_600_000_000

    def restructure(self, units: Sequence[UnitFacts], schema: TableSchema) -> list[list[int]]:
        groups: list[list[int]] = []
        open_until: int | None = None
        for position, facts in enumerate(units):
            assert facts.time_range is not None
            first, last = facts.time_range.first // self.span, facts.time_range.last // self.span
            if open_until is None or first > open_until:
                groups.append([])
                open_until = last
            groups[-1].append(position)
            open_until = max(open_until, last)
        return groups

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        spans = (index_integers(unit) // self.span).tolist()
        ends = [at + 1 == len(spans) or spans[at + 1] != each for at, each in enumerate(spans)]
        return unit.filter(pa.array(ends, pa.bool_()))


@register
@dataclass(frozen=True)
class FirstOfEach(Whole):
    """The first row of each value of a hash bucket, grouped as hash buckets are."""

    name: ClassVar[str] = "first_of_each"
    column: str = "k"
    needs: str = "hash_bucketed"
    leaves: str = "row_slice"

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        values = unit.column(self.column).to_pylist()
        return unit.filter(pa.array([values.index(v) == at for at, v in enumerate(values)], "bool"))


@register
@dataclass(frozen=True)
class StreamOfFirsts(FirstOfEach):
    """The same as a stream, of all buckets one after another."""

    name: ClassVar[str] = "stream_of_firsts"

    def consume(
        self, units: Iterable[ProcessingUnit], schema: TableSchema
    ) -> Iterator[ProcessingUnit]:
        seen: set[object] = set()
        for unit in units:
            kept = []
            for value in unit.column(self.column).to_pylist():
                kept.append(value not in seen)
                seen.add(value)
            yield unit.filter(pa.array(kept, pa.bool_()))
