"""Holistic states (median, quantiles, nunique) from stored integers.

Groups and values are integers. Values of a narrow range are counted in a table; others are sorted
by group, some rows at a time. Only the values of the final states are decoded, each once. Other
aggregates beside them are reduced by kernels. For anything else the answer is None, and the unit is
read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import arrow_array, different, numpy_array
from tessel.clauses.aggregates.holistic import GroupValues, Values
from tessel.clauses.aggregates.kernels.value_runs import (
    BITS,
    ValueRuns,
    few_cells,
    has_integers,
    ordered_integers,
)
from tessel.clauses.aggregates.reductions import typed_values
from tessel.clauses.grouped.group_states import GroupShape, StateKey
from tessel.clauses.grouped.partial_groups import PartialGroups
from tessel.clauses.grouped.reductions import has_numbers
from tessel.clauses.grouped.scanned_groups import reduced_groups
from tessel.clauses.grouped.stored_keys import NumberedGroups, PlannedGroups, planned_groups
from tessel.clauses.values import BoolArray, missing_rows, plain, plain_type
from tessel.expression.block_columns import Number
from tessel.expression.block_entries import Entries
from tessel.expression.block_steps import UnboundProgram
from tessel.expression.encoded import BlockProgram
from tessel.expression.schema import TableSchema
from tessel.kernels.blocks import outside_of_bounds
from tessel.lazy import dataclass
from tessel.memory import recycled
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.lazy_columns import OpenedBatch

Integers = NDArray[np.int64]

_ROWS_AT_A_TIME = 1 << 16
"""So many rows of several integers stay in the cache between what computes and what places them."""


@dataclass(frozen=True, eq=False)
class _Column:
    """A column as integers of a program.

    Attributes
    ----------
    number
        What the program computes; floats only where they are no decimals.
    kind
        The plain type of the values.
    places
        Decimal places of the integers, :data:`BITS` where they are none.
    entries
        The values that integers are places of; None where they say the value themselves.
    select, whole, ones
        The truth register of the selected rows with a value; the numbers, the least one where
        there is none; and the register of 1 where there is one, None where all have one.
    """

    number: Number
    kind: pa.DataType
    places: int = BITS
    entries: pa.Array | None = None
    select: int | None = None
    whole: int = -1
    ones: int | None = None


@dataclass(frozen=True, eq=False)
class _Plan:
    """How rows are numbered, and what is computed of them: numbers of groups, then values, too."""

    groups: PlannedGroups
    by_key: UnboundProgram
    columns: dict[str, _Column]
    program: UnboundProgram


def scanned_values(rows: Batch, shape: GroupShape, *, drop_missing: bool) -> PartialGroups | None:
    """Return the groups of some rows in order of first appearance; None where values are needed.

    Parameters
    ----------
    rows
        Not read yet.
    shape
        What is grouped, and how; without keys, one group of everything.
    drop_missing
        Whether rows with a missing key fall away.
    """
    held = {key: each for key, each in shape.plan.reductions.items() if isinstance(each, Values)}
    names = list(dict.fromkeys(name for (name,), _ in held))
    keys = shape.keys

    def plan(program: BlockProgram, select: int | None) -> _Plan | None:
        planned = planned_groups(program, select, keys, rows.schema, drop_missing=drop_missing)
        if planned is None:
            return None
        by_key = program.program()  # before there is anything in it that decodes values
        columns: dict[str, _Column] = {}
        for name in names:
            column = _column(program, planned.select, name, rows.schema)
            if column is None:
                return None
            columns[name] = column
        return _Plan(planned, by_key, columns, program.program())

    question = "values", len(keys), drop_missing
    opened = rows.open([*keys, *names], question, plan, exact=True)
    grouped = None if opened is None else opened.plan.groups.few(opened)
    if opened is None or grouped is None:
        return None
    columns, scan = opened.plan.columns, _Scan(opened, grouped)
    states: dict[StateKey, Any] = {}
    others = [key for key in shape.plan.reductions if key not in held]
    if others:
        # It sees the same rows, and gives groups in the same order.
        summed = reduced_groups(rows, shape, others, drop_missing=drop_missing, by_appearance=True)
        if summed is None:
            return None
        states |= summed.states
    for key, reduction in held.items():
        (name,), which = key
        runs = scan.runs(name, which == "different")
        states[key] = reduction.of_groups(_group_values(runs, columns[name]))
    return PartialGroups(shape, grouped.keys, scan.order, states)


class _Scan:
    """Rows whose groups and values are computed in one pass, after one that counts groups.

    Attributes
    ----------
    order
        The groups that have rows, in order of first appearance.
    """

    def __init__(self, opened: OpenedBatch[_Plan], grouped: NumberedGroups) -> None:
        from tessel.kernels.group_sums import group_sums

        self._opened, self._grouped = opened, grouped
        self._columns = opened.plan.columns
        groups = grouped.groups
        self._few = {
            name
            for name, each in self._columns.items()
            if not each.number.is_float and few_cells(groups * _span(each.number), opened.rows)
        }
        self._program = opened.bound(opened.plan.program)
        seen = group_sums(
            opened.spans,
            opened.bound(opened.plan.by_key),
            select=grouped.select,
            group=grouped.register,
            groups=groups,
            fields=[],
        )
        if seen is None:
            raise outside_of_bounds()
        there = np.flatnonzero(seen.counts)
        self.order: Integers = there[np.argsort(seen.first_row[there], kind="stable")]
        self._starts = np.concatenate([[0], np.cumsum(seen.counts[self.order])])
        self._placed: dict[str, ValueRuns] = {}

    def runs(self, name: str, once: bool) -> ValueRuns:
        """Return the integers of a column by group, of groups in their order."""
        if name in self._few:
            return self._counted(name, once)
        if not self._placed:
            self._placed = self._place()
        # Values that repeat stay as they are: to select of them takes less than to sort them.
        return self._placed[name].compact(once=True) if once else self._placed[name]

    def _counted(self, name: str, once: bool) -> ValueRuns:
        from tessel.kernels.count_values import count_values, runs_of_counts

        column = self._columns[name]
        number = column.number
        counts = count_values(
            self._opened.spans,
            self._program,
            select=column.select,
            group=self._grouped.register,
            groups=self._grouped.groups,
            value=column.whole,
            low=number.low,
            span=_span(number),
        )
        numbers, times, starts = runs_of_counts(counts, self.order, number.low)
        return ValueRuns(numbers, None if once else times, starts)

    def _place(self) -> dict[str, ValueRuns]:
        """Write the integers of all columns that are not counted to the places of their groups."""
        from tessel.kernels.group_rows import place_numbers
        from tessel.kernels.register_rows import register_rows

        starts, group = self._starts, self._grouped.register
        firsts = recycled(self._grouped.groups, np.int64, fill=0)
        firsts[self.order] = starts[:-1]
        names = [name for name in self._columns if name not in self._few]
        found = {name: recycled(starts[-1], np.int64) for name in names}
        places = {name: firsts.copy() for name in names}
        numbers = [self._columns[name].number for name in names]
        registers = [~each.register if each.is_float else each.register for each in numbers]
        ones = {name: self._columns[name].ones for name in names}
        is_known = {name: register for name, register in ones.items() if register is not None}
        registers += is_known.values()
        registers += [] if group is None else [group]
        for span in self._opened.spans:
            for start in range(span.start, span.stop, _ROWS_AT_A_TIME):
                lines = register_rows(
                    [span.cut(start, min(start + _ROWS_AT_A_TIME, span.stop))],
                    self._program,
                    select=self._grouped.select,
                    registers=registers,
                )
                owners = recycled(lines.shape[1], np.int64, fill=0) if group is None else lines[-1]
                known = dict(zip(is_known, lines[len(names) :], strict=False))
                for name, line in zip(names, lines, strict=False):
                    there = known[name] > 0 if name in known else None
                    own, of = self._present(name, line, owners, there)
                    place_numbers(own, of, places[name], found[name])
        return {name: self._runs_up_to(places[name], found[name]) for name in names}

    def _present(
        self, name: str, line: Integers, owners: Integers, known: BoolArray | None
    ) -> tuple[Integers, Integers]:
        """Return the integers of values that are there, and the group of each."""
        if known is not None:
            line, owners = line[known], owners[known]
        if not self._columns[name].number.is_float:
            return np.ascontiguousarray(line), np.ascontiguousarray(owners)
        values = plain(arrow_array(line.view(np.float64)))
        missing = missing_rows(values)
        if missing is not None:
            values, owners = values.filter(arrow_array(~missing)), owners[~missing]
        return ordered_integers(values), np.ascontiguousarray(owners)

    def _runs_up_to(self, places: Integers, found: Integers) -> ValueRuns:
        """Return runs of groups that were written up to some places, without gaps between them."""
        from tessel.kernels.group_rows import place_lists

        lengths = places[self.order] - self._starts[:-1]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        if starts[-1] == len(found):
            return ValueRuns(found, None, starts)
        whole = recycled(starts[-1], np.int64)
        each = np.arange(len(lengths))
        place_lists(found, self._starts[:-1].copy(), lengths, each, starts[:-1].copy(), whole)
        return ValueRuns(whole, None, starts)


def _span(number: Number) -> int:
    return int(number.high) - int(number.low) + 1


def _group_values(runs: ValueRuns, column: _Column) -> GroupValues:
    from tessel.kernels.group_rows import group_words

    entries = column.entries
    if entries is not None and has_integers(column.kind):
        runs, entries = replace(runs, numbers=numpy_array(entries)[runs.numbers]), None
    elif pa.types.is_uint64(column.kind):
        numbers = ordered_integers(arrow_array(runs.numbers.view(np.uint64)))
        runs = replace(runs, numbers=numbers)
    elif entries is None and not has_integers(column.kind):  # integers behind decimals
        numbers, first = group_words(runs.numbers)
        entries = typed_values(arrow_array(runs.numbers[first]), column.kind)
        runs = replace(runs, numbers=numbers)
    return GroupValues(runs, column.kind, column.places, entries)


def _column(
    program: BlockProgram, select: int | None, name: str, schema: TableSchema
) -> _Column | None:
    """Return a column as integers, and what is computed of it; None where values are needed."""
    found = _integers(program, name, plain_type(schema.type_of(name)))
    if found is None:
        return None
    number = found.number
    known = number.known
    if not number.is_float:
        whole = program.chosen(number.register, known, number.low)
        found = replace(found, select=program.both(select, known), whole=whole)
    return found if known is None else replace(found, ones=program.ones(known))


def _integers(program: BlockProgram, name: str, kind: pa.DataType) -> _Column | None:
    from tessel.clauses.stored_numbers import decimal_integers

    coded = program.codes(name)
    if coded is not None:
        return _of_codes(*coded, kind)
    if not has_numbers(kind):
        return None
    # Integers of several segments are compared as doubles, which do not say the value of a single.
    decimal = None if pa.types.is_float32(kind) else decimal_integers(program, name, kind)
    if decimal is not None:
        return _Column(decimal[0], kind, decimal[1])
    number = program.number(name)
    if number is None or number.is_float != pa.types.is_floating(kind):
        return None
    return _Column(number, kind)


def _of_codes(codes: Number, held: Entries, kind: pa.DataType) -> _Column | None:
    entries = plain(held.values)
    if entries.type != kind or missing_rows(entries) is not None:
        return None
    if not has_integers(kind):
        return _Column(codes, kind, entries=entries) if held.are_distinct else None
    numbers = ordered_integers(entries)
    # Codes stand for integers where those are in order, and none occurs twice.
    if len(different(numbers)) < len(numbers) or (np.diff(numbers) <= 0).any():
        return None
    return _Column(codes, kind, entries=arrow_array(numbers))
