"""resample: one row a time bucket, or one row a time bucket and key."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from tessel.arrays import arrow_array, numpy_array
from tessel.clauses.aggregates.base import has_compact_state
from tessel.clauses.base import Clause, ClauseInfo, IndexEffect, Structure
from tessel.clauses.buckets.base import Bucketer, Closed, bucket_runs
from tessel.clauses.buckets.origins import DATA_ORIGINS, bucketer_for
from tessel.clauses.buckets.rules import CalendarRule, parse_rule
from tessel.clauses.computed import columns_of_keys, key_fields, key_names, stored_names
from tessel.clauses.grouped.group_states import GroupShape, complete_table, parts_to_reduce
from tessel.clauses.grouped.grouping import group_codes, missing_rows, order_of_keys
from tessel.clauses.grouped.partial_groups import PartialGroups, joined_groups
from tessel.clauses.grouped.scanned_groups import reduced_slices, scanned_runs
from tessel.clauses.index_values import index_integers, index_of, with_times_of_index
from tessel.clauses.positional import Head, Tail
from tessel.clauses.reducing import Reducing
from tessel.clauses.registry import register
from tessel.clauses.results import AggregatingClause, NamedAggregate
from tessel.clauses.select import Select
from tessel.clauses.structures import (
    StructuredUnits,
    UnitFacts,
    last_bucket_of_front,
    structure_by_row_slice,
    structure_by_time_bucket,
)
from tessel.clauses.values import of_integers, plain_type
from tessel.ecs import ProcessingUnit
from tessel.errors import ExecutionError, PlanError
from tessel.expression.named import ComputedColumn
from tessel.expression.schema import TableSchema
from tessel.lazy import dataclass
from tessel.store.index_column import index_integers as integers_of_column
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.index import SegmentIndex

Empty = Literal["omit", "null", "zero", "ffill"]
_EMPTY = ("omit", "null", "zero", "ffill")


@dataclass(frozen=True)
class _Resampling(AggregatingClause):
    """What the forms of resample share: the rule, the keys, the aggregates, and the buckets."""

    rule: str
    aggregates: tuple[NamedAggregate, ...]
    closed: Literal["left", "right"] | None = None
    label: Literal["left", "right"] | None = None
    origin: str = "epoch"
    offset: str | None = None
    by: tuple[str | ComputedColumn, ...] = ()
    drop_missing: bool = True
    origin_at: int | None = None

    def __post_init__(self) -> None:
        for name, side in (("closed", self.closed), ("label", self.label)):
            if side not in ("left", "right", None):
                raise PlanError(f"resample: {name} is {side!r}", hint="it is left or right")
        if not isinstance(self.rule, str):
            raise PlanError(f"a rule is text, not {self.rule!r}", hint="write for instance 15min")
        if self.offset is not None and not isinstance(self.offset, str):
            raise PlanError(f"an offset is text, not {self.offset!r:.80}", hint="such as 6h or -1D")
        if self._ends and self.label == "left":
            raise PlanError(
                f"resample: {self.rule!r} names a bucket by its last day",
                hint="write the rule with S in place of E for the first day",
            )
        if self.origin_at is not None and self.origin not in DATA_ORIGINS:
            raise PlanError(
                f"resample: the origin {self.origin!r} is no time of the rows",
                hint="leave origin_at out: it is found when the query is planned",
            )

    @property
    def sides(self) -> tuple[Closed, Literal["left", "right"]]:
        """The edge that belongs to a bucket, and the one it is labelled with.

        Left, unless asked for; right for the origins ``end`` and ``end_day``. Rules such as ``ME``
        are labelled right, which is their last day.
        """
        default: Closed = "right" if self.origin in ("end", "end_day") else "left"
        return self.closed or default, self.label or ("right" if self._ends else default)

    @property
    def _ends(self) -> bool:
        """Whether the rule names a bucket by its last day."""
        read = parse_rule(self.rule)
        return isinstance(read, CalendarRule) and read.ends

    def bucketer(self, schema: TableSchema, closed: Closed | None = None) -> Bucketer:
        """Return the buckets of the rule for the index of a table; ``closed`` for another side."""
        return bucketer_for(
            self.rule,
            schema.type_of(index_of(schema, "resample")),
            closed=closed or self.sides[0],
            origin=self.origin,
            offset=self.offset,
            origin_at=self.origin_at,
        )

    def labels(self, numbers: np.ndarray, schema: TableSchema) -> pa.Array:
        """Return the label of each bucket, of the type of the index."""
        labels = self.bucketer(schema).labels(numbers, self.sides[1])
        return of_integers(labels, schema.type_of(index_of(schema)))

    def numbers_of_labels(self, labels: np.ndarray, schema: TableSchema) -> np.ndarray:
        """Return the buckets that have rows from their labels; int64 in, int64 out."""
        side, ends = self.sides[1], self._ends
        closed: Closed = "right" if side == "right" and not ends else "left"
        bucketer = self.bucketer(schema, closed)
        numbers = bucketer.numbers(labels)
        if ends:  # a last day that a zone skips begins with the next bucket
            numbers = numbers - (bucketer.labels(numbers, side) != labels)
        return numbers

    def describe(self) -> str:
        """Return one line for people, without what the planner has put in."""
        if self.origin_at is None:
            return super().describe()
        return dataclasses.replace(self, origin_at=None).describe()

    def _info(self, structure: Structure) -> ClauseInfo:
        return ClauseInfo(
            structure,
            structure,
            columns=columns_of_keys(self.by).union(*(each.columns for each in self.aggregates)),
            adds=self.output_names,
            uses_index=True,
            index=IndexEffect.REPLACE,
        )

    def _keys(self, schema: TableSchema) -> list[pa.Field]:
        """Return the columns that tell rows of the result apart; refuse misuse."""
        self.bucketer(schema)
        index = index_of(schema)
        self.check_results([index, *key_names(self.by)])
        time = pa.field(index, plain_type(schema.type_of(index)))
        return [time, *key_fields(self.by, schema)]


@register
@dataclass(frozen=True)
class Resample(_Resampling):
    """One row a time bucket: the bucket's label as index, the keys, then each aggregate.

    Rows come out by (time, key).

    Attributes
    ----------
    rule
        Length of a bucket. Elapsed time: ``"15s"``, ``"1h30min"``. Of the calendar, in the zone of
        the index: ``"1D"``, ``"W"`` (from Monday; ``"W-SUN"`` from Sunday), ``"MS"``, ``"QS"``,
        ``"YS"``, ``"B"`` (Monday to Friday, the weekend with Friday), and ``"ME"``, ``"QE"``,
        ``"YE"``: the same buckets, labelled with their last day. With a count: ``"3MS"``.
    aggregates
        What to compute; first and last skip missing values.
    closed, label
        Which edge of a bucket belongs to it, and which one it is labelled with; by default left,
        and right for the origins ``end`` and ``end_day``.
    origin
        Where a bucket starts: ``"epoch"``, an instant as ISO text, the first time of the rows
        (``"start"``), the beginning of its day (``"start_day"``), the last time (``"end"``) or the
        end of its day (``"end_day"``).
    offset
        A span by which all edges are moved; for calendar rules a time on local clocks.
    by
        Key columns, or expressions with names for them: each key has buckets of its own.
    drop_missing
        Whether rows with a missing key are left out.
    origin_at
        The time of the rows that ``origin`` speaks of; put in when the query is planned.
    empty
        What is done about buckets without rows between the first and the last that has some, of
        each key on its own: ``"omit"`` leaves them out, ``"null"`` gives them missing values,
        ``"zero"`` what each aggregate answers of no rows (0 for sum, count, size, nunique),
        ``"ffill"`` the values of the bucket before.
    results
        The outputs, where some compute with the results of aggregates; in a bucket without rows
        they compute with what stands there.
    """

    name: ClassVar[str] = "resample"
    empty: Empty = "omit"
    results: tuple[ComputedColumn, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.empty not in _EMPTY:
            raise PlanError(f"resample: empty is {self.empty!r}", hint=f"it is one of {_EMPTY}")

    @property
    def structure(self) -> ClauseInfo:
        """Time buckets in, time buckets out; the label is the index of the result."""
        return self._info(Structure.TIME_BUCKETED)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the index, the keys and the outputs; refuse a table without a time index."""
        fields = [*self._keys(input_schema), *self.output_fields(input_schema)]
        return TableSchema(pa.schema(fields), fields[0].name)

    @property
    def whole_by_itself(self) -> bool:
        """Whether a bucket and what comes out of it depend on no rows but its own."""
        return self.origin not in DATA_ORIGINS and self.empty == "omit"

    @property
    def asks(self) -> bool:
        """Whether the buckets depend on a time of the rows that is not known yet."""
        return self.origin in DATA_ORIGINS and self.origin_at is None

    def question(self, schema: TableSchema) -> tuple[Clause, ...]:
        """Return what finds the first or the last time: the index never goes back."""
        (index, *_) = self._keys(schema)
        return Select((index.name,)), Tail(1) if self.origin.startswith("end") else Head(1)

    def answered(self, answer: pa.Table) -> Resample:
        """Return the clause with the time that was found; without rows any will do."""
        found = integers_of_column(answer.column(0), answer.column_names[0]).tolist()
        return dataclasses.replace(self, origin_at=found[0] if found else 0)

    def structure_units(self, index: SegmentIndex) -> StructuredUnits:
        """Group row slices whose buckets touch, from their first and last time alone."""
        bucketer = self.bucketer(index.schema)
        assert index.slice_first_time is not None
        assert index.slice_last_time is not None
        first = bucketer.numbers(index.slice_first_time)
        last = bucketer.numbers(index.slice_last_time)
        members = structure_by_row_slice(index).units
        units = structure_by_time_bucket(first, last)
        return StructuredUnits(index, [[p for s in unit for p in members[s]] for unit in units])

    def restructure(self, units: Sequence[UnitFacts], schema: TableSchema) -> list[list[int]]:
        """Group what the stage before left by the time ranges it came from."""
        bucketer = self.bucketer(schema)

        def bounds() -> Iterator[tuple[int, int, int]]:
            for position, facts in enumerate(units):
                times = facts.time_range
                if times is not None and facts.rows:  # a piece without rows is in no bucket
                    yield position, times.first, times.last
                elif facts.rows:
                    raise ExecutionError(
                        "resample needs the time range of every piece, and a clause left one "
                        "without",
                        hint="return what a method of the unit returns, such as "
                        "unit.replace(table)",
                        clause=self.name,
                    )

        positions, first, last = np.fromiter(bounds(), np.dtype((np.int64, 3))).T
        groups = structure_by_time_bucket(bucketer.numbers(first), bucketer.numbers(last))
        return [positions[group].tolist() for group in groups]

    def process(self, unit: ProcessingUnit) -> ProcessingUnit:
        """Aggregate the buckets that are this unit's own.

        A front piece that an earlier unit fetches too leaves its first bucket there, and rows past
        the front slice's last bucket belong to the units after.
        """
        self.check_planned()
        table = unit.table
        numbers, starts = bucket_runs(self.bucketer(unit.schema), index_integers(unit))
        stops = np.append(starts[1:], len(table))
        spans = [p.time_range for p in unit.pieces if p.time_range is not None]
        if spans:
            bounds = np.array([[s.first, s.last] for s in spans], np.int64)
            first, last = self.bucketer(unit.schema).numbers(bounds.ravel()).reshape(-1, 2).T
            low = first[0] + (unit.pieces[0].planned_fetches > 1)
            high = last_bucket_of_front(first, last)
            own = slice(*np.searchsorted(numbers, [low, high + 1]))
            numbers, starts, stops = numbers[own], starts[own], stops[own]
        start, stop = (int(starts[0]), int(stops[-1])) if len(starts) else (0, 0)
        labels = self.labels(numbers, unit.schema)
        runs = np.repeat(np.arange(len(numbers)), stops - starts)
        return self._whole(unit, table.slice(start, stop - start), labels.take(arrow_array(runs)))

    def _whole(self, unit: ProcessingUnit, table: pa.Table, labels: pa.Array) -> ProcessingUnit:
        """Aggregate rows whose buckets are whole, given the label of each."""
        name = index_of(unit.schema)
        keyed = table.append_column(_KEY, labels)
        by = stored_names(self.by)
        if by and self.drop_missing:
            missing = missing_rows([table.column(key) for key in by])
            keyed = keyed.filter(arrow_array(~missing)) if missing.any() else keyed
        result, _ = complete_table(keyed, [_KEY, *by], self.aggregates)
        result = result.rename_columns([name, *result.column_names[1:]])
        if by:
            keys = [result.column(key) for key in (name, *by)]
            result = result.take(arrow_array(order_of_keys(keys)))
        return with_times_of_index(unit.replace(result, index=name))


_KEY = "\0bucket"


@register
@dataclass(frozen=True)
class PartialResample(_Resampling, Reducing):
    """One row a time bucket and key of this unit: label, keys, and the state of each aggregate."""

    name: ClassVar[str] = "partial_resample"
    internal: ClassVar[bool] = True

    @property
    def structure(self) -> ClauseInfo:
        """Row slices in, row slices out."""
        info = self._info(Structure.ROW_SLICE)
        if not self.is_reducible:
            return info
        return dataclasses.replace(info, stored=info.columns or frozenset())

    def joins(self) -> bool:
        """Return whether there are buckets alone, of which slices share no more than one."""
        return not self.by and self.is_reducible

    def shape_of(self, schema: TableSchema) -> GroupShape:
        """Return the shape: groups by bucket, and then by the keys."""
        return GroupShape((str(schema.index), *stored_names(self.by)), self.aggregates, schema)

    def output_schema(self, input_schema: TableSchema) -> TableSchema:
        """Return the label, the keys and the states."""
        self.output_fields(input_schema)
        self._keys(input_schema)
        return TableSchema(self.shape(input_schema).schema, input_schema.index)

    def of_stored(
        self, rows: Sequence[Batch], shape: GroupShape, *, by_appearance: bool
    ) -> list[PartialGroups] | None:
        """Reduce rows as they are stored; buckets and their groups are in order of appearance."""
        if not all(has_compact_state(each.aggregate) for each in shape.aggregates):
            return None
        schema = shape.source
        bucketer = self.bucketer(schema)

        def labels(numbers: np.ndarray) -> pa.Array:
            return self.labels(numbers, schema)

        def reduced(each: Batch) -> list[PartialGroups] | None:
            return scanned_runs(each, bucketer, labels, shape, drop_missing=self.drop_missing)

        found = [part for parts in reduced_slices(rows, reduced) or [] for part in parts]
        if not found:
            return None
        return found if self.by else [joined_groups(found)]

    def of_values(self, unit: ProcessingUnit, shape: GroupShape) -> list[PartialGroups]:
        """Reduce values, some rows after others; the index never goes back: buckets are runs."""
        table, times = unit.table, index_integers(unit)
        groups, start = list[PartialGroups](), 0
        for part in parts_to_reduce(table):
            own = times[start : start + len(part)]
            groups.append(self._reduced(part, own, shape))
            start += len(part)
        return groups

    def _reduced(self, table: pa.Table, times: np.ndarray, shape: GroupShape) -> PartialGroups:
        numbers, starts = bucket_runs(self.bucketer(shape.source), times)
        codes = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(table)))
        keys = []
        if self.by:
            columns = [arrow_array(codes), *(table.column(key) for key in stored_names(self.by))]
            found = group_codes(columns, drop_missing=self.drop_missing)
            if found.rows is not None:
                table = table.take(arrow_array(found.rows))
            codes, keys = found.codes, found.keys[1:]
            numbers = numbers[numpy_array(found.keys[0])]
        labels = self.labels(numbers, shape.source)
        return PartialGroups.of_rows(shape, table, codes, len(numbers), [labels, *keys])
