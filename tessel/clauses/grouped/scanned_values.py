"""States that hold values (median, quantiles, nunique), from rows as they are stored.

A group is a number and a value is one, so both become one integer a row, and these are counted or
sorted: nothing is decoded but the values that are left in the end, which are looked up or divided
once. What else is aggregated is summed where it lies. Anything else, None: the unit is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessel.arrays import arrow_array, different
from tessel.clauses.aggregates.base import has_compact_state
from tessel.clauses.aggregates.kernels.value_runs import (
    BITS,
    WIDEST,
    ValueRuns,
    few_cells,
    has_integers,
    ordered_integers,
    packed_runs,
    value_runs,
)
from tessel.clauses.grouped.asked_facts import is_numeric
from tessel.clauses.grouped.group_tables import partial_schema
from tessel.clauses.grouped.scanned_groups import scanned_groups
from tessel.clauses.grouped.stored_facts import all_from_facts
from tessel.clauses.grouped.stored_keys import NumberedGroups, few_groups, key_values
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.values import missing_rows, plain, plain_type
from tessel.expression.encoded import Number
from tessel.expression.schema import TableSchema
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.opened_batch import OpenedBatch

__all__ = ["all_from_stored_values", "scanned_values"]

Integers = NDArray[np.int64]


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
    """

    number: Number
    kind: pa.DataType
    places: int = BITS
    entries: pa.Array | None = None


def all_from_stored_values(aggregates: Sequence[NamedAggregate]) -> bool:
    """Return whether aggregates hold values or are made of sums, one of the former among them."""
    held, others = _split(aggregates)
    computed = any(each.computed for each in held)
    return bool(held) and not computed and all_from_facts(others)


def _split(
    aggregates: Sequence[NamedAggregate],
) -> tuple[list[NamedAggregate], list[NamedAggregate]]:
    if all(has_compact_state(each.aggregate) for each in aggregates):
        return [], list(aggregates)
    from tessel.clauses.aggregates.held_values import HeldValuesAggregate

    held = [each for each in aggregates if isinstance(each.aggregate, HeldValuesAggregate)]
    others = [each for each in aggregates if not isinstance(each.aggregate, HeldValuesAggregate)]
    return held, others


def scanned_values(
    rows: Batch,
    keys: Sequence[str],
    aggregates: Sequence[NamedAggregate],
    *,
    drop_missing: bool,
) -> pa.Table | None:
    """Return the partial table of some rows, groups in order of first appearance; maybe None.

    Parameters
    ----------
    rows
        Not read yet.
    keys, aggregates
        Of the aggregation; without keys, one group of everything.
    drop_missing
        Whether rows with a missing key fall away.
    """
    from tessel.clauses.aggregates.held_values import HeldValuesAggregate

    held, others = _split(aggregates)
    names = list(dict.fromkeys(str(each.column) for each in held))
    opened = rows.open([*keys, *names])
    if opened is None:
        return None
    grouped = few_groups(opened, keys, rows.schema, drop_missing=drop_missing)
    found = {name: _column(opened, name, rows.schema) for name in names}
    columns = {name: column for name, column in found.items() if column is not None}
    if grouped is None or len(columns) < len(found):
        return None
    scan = _Scan(opened, grouped, columns)
    order = scan.order()
    states: dict[str, pa.ChunkedArray | pa.Array] = dict(
        zip(keys, key_values(grouped.keys, order), strict=True)
    )
    if others:
        # It sees the same rows, and gives groups in the same order.
        summed = scanned_groups([rows], keys, others, drop_missing=drop_missing)
        if summed is None:
            return None
        states |= dict(zip(summed.table.column_names, summed.table.columns, strict=True))
    schema = partial_schema(keys, aggregates, rows.schema)
    runs: dict[tuple[str, bool], ValueRuns] = {}
    for each in held:
        aggregate, name = each.aggregate, str(each.column)
        assert isinstance(aggregate, HeldValuesAggregate)  # they were split so
        asked = name, aggregate.once
        if asked not in runs:
            runs[asked] = scan.runs(*asked, order)
        made = _state(runs[asked], columns[name])
        at = schema.get_field_index(f"{each.output}\0values")
        for field, state in zip(schema.names[at : at + len(made)], made, strict=True):
            states[field] = state
    return pa.Table.from_arrays([states[name] for name in schema.names], schema=schema)


class _Scan:
    """Rows whose groups and values are computed in one pass."""

    def __init__(
        self,
        opened: OpenedBatch,
        grouped: NumberedGroups,
        columns: dict[str, _Column],
    ) -> None:
        self._opened, self._select = opened, grouped.select
        self._group = group = grouped.register
        self._groups = groups = grouped.groups
        self._columns = columns
        program = opened.program
        self._few = {
            name
            for name, column in columns.items()
            if not column.number.is_float and few_cells(groups * _span(column.number), opened.rows)
        }
        registers = [] if group is None else [group]
        self._lines: dict[str, int] = {}
        self._known_lines: dict[str, int] = {}
        self._packed: set[str] = set()
        for name, column in columns.items():
            if name in self._few:
                continue
            number = column.number
            register = ~number.register if number.is_float else number.register
            if not number.is_float and _span(number) * groups <= WIDEST:
                self._packed.add(name)
                number = program.shifted(number, -number.low)
                if group is not None:
                    owner = Number(False, group, 0, groups - 1)
                    number = program.combined(owner, _span(number), number)
                register = number.register
            self._lines[name] = len(registers)
            registers.append(register)
            if number.known is not None:
                self._known_lines[name] = len(registers)
                registers.append(program.ones(number.known))
        # Which rows count, and the numbers, where values are counted in a table.
        self._counted_of = {
            name: (
                program.both(grouped.select, number.known),
                program.chosen(number.register, number.known, number.low),
            )
            for name, number in ((name, columns[name].number) for name in sorted(self._few))
        }
        self._program = program.program()
        self._found = np.zeros((0, 0), np.int64)
        if self._lines:
            from tessel.kernels.register_rows import register_rows

            self._found = register_rows(
                opened.spans, self._program, select=self._select, registers=registers
            )

    def order(self) -> Integers:
        """Return the groups that have rows in order of first appearance."""
        from tessel.kernels.first_of_groups import first_of_groups

        if self._group is None:
            return np.zeros(1, np.int64)  # one group of everything, also of nothing
        first = first_of_groups(
            self._opened.spans,
            self._program,
            select=self._select,
            group=self._group,
            groups=self._groups,
        )
        there = np.flatnonzero(first >= 0)
        ordered: Integers = there[np.argsort(first[there], kind="stable")]
        return ordered

    def runs(self, name: str, once: bool, order: Integers) -> ValueRuns:
        """Return the integers of a column in order, of some groups in theirs."""
        if name in self._few:
            return self._counted(name, once, order)
        return self._sorted(name, once).of_groups(order)

    def _counted(self, name: str, once: bool, order: Integers) -> ValueRuns:
        from tessel.kernels.count_values import count_values, runs_of_counts

        number, (select, value) = self._columns[name].number, self._counted_of[name]
        counts = count_values(
            self._opened.spans,
            self._program,
            select=select,
            group=self._group,
            groups=self._groups,
            value=value,
            low=number.low,
            span=_span(number),
        )
        numbers, times, starts = runs_of_counts(counts, order, number.low)
        return ValueRuns(numbers, None if once else times, starts)

    def _sorted(self, name: str, once: bool) -> ValueRuns:
        column = self._columns[name]
        line, known = self._found[self._lines[name]], None
        if name in self._known_lines:
            known = self._found[self._known_lines[name]] > 0
            line = line[known]
        groups = self._groups
        if name in self._packed:
            low, span = column.number.low, _span(column.number)
            return packed_runs(line.copy(), span, groups, low=low, once=once)
        owners = np.zeros(len(line), np.int64)
        if self._group is not None:
            owners = self._found[0] if known is None else self._found[0][known]
        if column.number.is_float:
            values = plain(arrow_array(line.view(np.float64)))
            missing = missing_rows(values)
            if missing is not None:
                values, owners = values.filter(arrow_array(~missing)), owners[~missing]
            line = ordered_integers(values)
        return value_runs(line, owners, groups, once=once)


def _span(number: Number) -> int:
    return int(number.high) - int(number.low) + 1


def _state(runs: ValueRuns, column: _Column) -> list[pa.Array]:
    """Return the state of the groups of some runs."""
    from tessel.clauses.aggregates.held_values import held_values_state

    if column.entries is not None:
        values = column.entries.take(arrow_array(runs.numbers))
    elif pa.types.is_uint64(column.kind):
        values = arrow_array(ordered_integers(arrow_array(runs.numbers.view(np.uint64))))
    else:
        values = arrow_array(runs.numbers)
    return held_values_state(runs, values, column.places)


def _column(opened: OpenedBatch, name: str, schema: TableSchema) -> _Column | None:
    """Return a column as integers; None where its values are needed."""
    from tessel.clauses.stored_numbers import decimal_integers

    kind = plain_type(schema.type_of(name))
    program = opened.program
    coded = program.codes(name)
    if coded is not None:
        return _of_codes(*coded, kind)
    if not is_numeric(kind):
        return None
    decimal = decimal_integers(opened, name, kind)
    if decimal is not None:
        return _Column(decimal[0], kind, decimal[1])
    number = program.number(name)
    if number is None or number.is_float != pa.types.is_floating(kind):
        return None
    return _Column(number, kind)


def _of_codes(codes: Number, entries: pa.Array, kind: pa.DataType) -> _Column | None:
    entries = plain(entries)
    if entries.type != kind or missing_rows(entries) is not None:
        return None
    if not has_integers(kind):
        whole = len(pc.unique(entries)) == len(entries)
        return _Column(codes, kind, entries=entries) if whole else None
    numbers = ordered_integers(entries)
    # Codes stand for integers where those are in order, and none occurs twice.
    if len(different(numbers)) < len(numbers) or (np.diff(numbers) <= 0).any():
        return None
    return _Column(codes, kind, entries=arrow_array(numbers))
