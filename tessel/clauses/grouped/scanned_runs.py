"""Partial tables of time buckets from rows as they are stored: binary search, then runs.

resample enters here before its unit is read. The index never goes back, so a bucket is a run of
rows: its edges are searched for in what is stored, and each run is reduced by one kernel. What
comes out is the state that values would give; anything else, None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.aggregates import FromSums
from tessel.clauses.aggregates.one_value import OneValueAggregate
from tessel.clauses.buckets import Bucketer
from tessel.clauses.grouped.scanned_groups import all_from_sums
from tessel.clauses.grouped.stored_sums import (
    StoredSum,
    is_summable,
    may_hold_nan,
    stored_sum,
)
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.clauses.values import is_temporal
from tessel.expression.schema import TableSchema
from tessel.kernels import FieldKind, SumField, run_facts, search_rows
from tessel.store import BlockScan, OpenedScan

__all__ = ["all_from_runs", "scanned_runs"]

_LEAST_ROWS_A_BUCKET = 16
"""Shorter buckets are found by looking at every row."""

_POWERS = np.array([float(10**exponent) for exponent in range(23)])
_ENDS = ("first", "last")

Integers = NDArray[np.int64]


def all_from_runs(aggregates: Sequence[NamedAggregate]) -> bool:
    """Return whether every aggregate can be made of counts, sums, extremes and ends of runs."""
    return all(all_from_sums([each]) or _run_fact(each) is not None for each in aggregates)


def _run_fact(each: NamedAggregate) -> str | None:
    aggregate = each.aggregate
    return aggregate.run_fact if isinstance(aggregate, OneValueAggregate) else None


@dataclass(frozen=True)
class _Asked:
    """What is reduced of one column.

    Attributes
    ----------
    fields
        For the kernel.
    divisor
        What integers are divided by to be the values; None where they are values.
    summed
        What makes a sum of the fields; None for an extreme.
    """

    fields: tuple[SumField, ...]
    divisor: float | None = None
    summed: StoredSum | None = None


def scanned_runs(
    rows: BlockScan, bucketer: Bucketer, aggregates: Sequence[NamedAggregate]
) -> tuple[Integers, list[pa.Array]] | None:
    """Return the buckets that have rows, ascending, and the states of all aggregates; maybe None.

    Parameters
    ----------
    rows
        Not read yet; their index never goes back.
    bucketer
        The buckets.
    aggregates
        Of the resample.
    """
    schema = rows.schema
    if schema.index is None or not all_from_runs(aggregates):
        return None
    columns = [each.column for each in aggregates if each.column is not None]
    opened = rows.open([schema.index, *columns])
    if opened is None or opened.select is not None or len(opened.spans) != 1:
        return None
    runs = _runs(opened, schema.index, bucketer)
    asked = _asked(opened, aggregates, schema)
    if runs is None or asked is None:
        return None
    numbers, starts = runs
    fields = [field for each in asked.values() for field in each.fields]
    found = run_facts(opened.spans[0], opened.program.program(), starts, fields)
    if found is None:
        return None
    left = iter(found)
    facts = {name: [next(left) for _ in each.fields] for name, each in asked.items()}
    stops = np.append(starts[1:], opened.spans[0].stop)
    states: list[pa.Array] = []
    for each in aggregates:
        made = _states(each, opened, asked, facts, starts, stops, schema)
        if made is None:
            return None
        states += made
    return numbers, states


def _runs(opened: OpenedScan, index: str, bucketer: Bucketer) -> tuple[Integers, Integers] | None:
    """Return the buckets that have rows, and their first rows, counted in the segment."""
    span = opened.spans[0]
    place = opened.program.place(index)
    ends = opened.values_at(index, np.array([span.start, span.stop - 1]))
    if place is None or ends is None or not pa.types.is_int64(ends.type):
        return None
    first, last = bucketer.numbers(ends.to_numpy()).tolist()
    if (last - first) * _LEAST_ROWS_A_BUCKET > len(span):
        return None
    numbers = np.arange(first, last + 1)
    edges = np.ascontiguousarray(bucketer.edges(numbers[1:]), np.int64)
    inner = search_rows(span, place, edges, after=bucketer.closed == "right")
    starts = np.concatenate([[span.start], inner]).astype(np.int64)
    held = np.diff(starts, append=span.stop) > 0
    return numbers[held], starts[held]


def _asked(
    opened: OpenedScan, aggregates: Sequence[NamedAggregate], schema: TableSchema
) -> dict[tuple[str, str], _Asked] | None:
    """Return what kernels are asked, by column and fact; None where they cannot be."""
    found: dict[tuple[str, str], _Asked] = {}
    for each in aggregates:
        name, fact = each.column, _run_fact(each)
        if fact is None:
            fact = "sum" if cast(FromSums, each.aggregate).needs_sum else "count"
        if name is None or fact in _ENDS or (name, fact) in found:
            continue
        if fact == "count":
            if not opened.program.is_known(name):
                return None
            continue
        kind = schema.type_of(name)
        asked = None
        if is_summable(kind):
            asked = _summed(opened, name) if fact == "sum" else _extreme(opened, name, fact)
        if asked is None:
            return None
        found[name, fact] = asked
    summed = {name for name, fact in found if fact == "sum"}
    counted = {each.column for each in aggregates if each.column and _run_fact(each) is None}
    if any(may_hold_nan(opened, name, schema) for name in counted - summed):
        return None
    return found


def _summed(opened: OpenedScan, name: str) -> _Asked | None:
    summed = stored_sum(opened, name)
    return None if summed is None else _Asked(summed.fields, summed=summed)


def _extreme(opened: OpenedScan, name: str, fact: str) -> _Asked | None:
    """Ask for an extreme; of decimals of one scale, for that of their integers."""
    place = opened.program.place(name)
    if place is not None:
        exponents = opened.columns[place].exponents
        if exponents is not None and exponents.min() == exponents.max() >= 0:
            kind = FieldKind.LEAST if fact == "least" else FieldKind.GREATEST
            register = opened.program.integers(name)
            return _Asked((SumField(kind, register),), _POWERS[exponents[0]])
    number = opened.program.number(name)
    if number is None:
        return None
    if number.is_float:
        kind = FieldKind.LEAST_FLOAT if fact == "least" else FieldKind.GREATEST_FLOAT
        return _Asked((SumField(kind, number.register),))
    kind = FieldKind.LEAST if fact == "least" else FieldKind.GREATEST
    return _Asked((SumField(kind, number.register),))


def _states(
    each: NamedAggregate,
    opened: OpenedScan,
    asked: dict[tuple[str, str], _Asked],
    facts: dict[tuple[str, str], list[Any]],
    starts: Integers,
    stops: Integers,
    schema: TableSchema,
) -> list[pa.Array] | None:
    fact = _run_fact(each)
    name = each.column or ""
    if fact is None:
        summed = asked[name, "sum"].summed if (name, "sum") in asked else None
        sums: Any = None
        if summed is not None and cast(FromSums, each.aggregate).needs_sum:
            sums = summed.sums(facts[name, "sum"], len(starts))
        return cast(FromSums, each.aggregate).partial_of_sums(stops - starts, sums)
    kind = schema.type_of(name)
    if fact in _ENDS:
        rows = starts if fact == "first" else stops - 1
        found = opened.values_at(name, rows)
        return None if found is None else [_typed(found, kind)]
    (values,) = facts[name, fact]
    divisor = asked[name, fact].divisor
    if divisor is not None:
        values = values / divisor
    if values.dtype == np.float64:
        values = values + 0.0  # −0.0 and 0.0 are equal, and which came first must not show
    return [_typed(pa.array(values), kind)]


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return integers as what they stand for."""
    if values.type == kind:
        return values
    if is_temporal(kind):
        return values.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return values.cast(kind)
