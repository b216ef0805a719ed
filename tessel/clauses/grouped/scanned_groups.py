"""Sums by group where keys may have more combinations of values than sums can have lines for.

A *cell* is a combination of values that keys may have. Where cells are few, sums have a line for
each. Where they are many, and most may be empty, the cell of each row is written down beside the
values that are summed; cells are numbered in order of first appearance, and rows are added by these
numbers. Only what arithmetic needs is decoded.

Partial states of rows as they are stored: groups by code, sums by kernel, no value decoded.

Aggregations enter here before their unit is read. Keys are dictionary codes or integers of a narrow
range, so that a group's number is arithmetic; their values are looked up for the result only. What
sums make is the same exact state as that of values, so nobody can tell afterwards which way it was
made. Anything else, None: the unit is read, and its values are grouped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tessel.clauses.aggregates.base import has_compact_state
from tessel.clauses.grouped.group_states import StateKey
from tessel.clauses.grouped.group_tables import GroupShape
from tessel.clauses.grouped.grouping import numbered_by_appearance
from tessel.clauses.grouped.kernel_reductions import (
    KernelReductions,
    all_reducible,
    plan_reductions,
)
from tessel.clauses.grouped.partial_groups import PartialGroups
from tessel.clauses.grouped.stored_keys import (
    NumberedGroups,
    PlannedGroups,
    planned_groups,
)
from tessel.expression.block_steps import UnboundProgram
from tessel.expression.encoded import BlockProgram
from tessel.kernels.exact_sums import add_by_group
from tessel.kernels.fields import EXTREMES, FieldKind, FieldResult, SumField
from tessel.kernels.group_sums import GroupSums, group_sums
from tessel.kernels.program import Program
from tessel.kernels.register_rows import register_rows as rows_of_registers
from tessel.lazy import dataclass
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.opened_batch import OpenedBatch

_HALF_BITS = 32
_HALF_MASK = (1 << _HALF_BITS) - 1
_MOST_BITS = 62

Integers = NDArray[np.int64]


def sums_of_sparse_keys(
    opened: OpenedBatch[Any],
    program: Program,
    *,
    select: int | None,
    cell: int,
    cells: int,
    fields: Sequence[SumField],
    row: int | None,
) -> tuple[Integers, GroupSums] | None:
    """Add up fields by cell, or find their extremes.

    Parameters
    ----------
    opened, program
        The rows, and what is computed of them.
    select
        The truth register of the rows that count; None for all.
    cell, cells
        The integer register of the cells, in ``[0, cells)``.
    fields
        What is reduced.
    row
        The register of the rows, where the first and the last of each group are wanted.

    Returns
    -------
    tuple or None
        The cells that have rows, in order of first appearance, and what was found of each; rows are
        all 0 where they were not asked for. None where sums might leave 64 bits or are of floats,
        and where a number is no cell: page tables that say otherwise are forged.
    """
    room = _MOST_BITS - opened.rows.bit_length()
    for field in fields:
        if field.kind in (FieldKind.WIDE, FieldKind.FLOAT):
            return None
        if field.kind is FieldKind.INTEGER and field.bits > room:
            return None
    asked = dict.fromkeys([cell, *(_register(field) for field in fields)])
    if row is not None:
        asked[row] = None
    registers = list(asked)
    lines = rows_of_registers(opened.spans, program, select=select, registers=registers)
    line = {register: lines[place] for place, register in enumerate(registers)}
    if len(line[cell]) and not 0 <= line[cell].min() <= line[cell].max() < cells:
        return None
    codes, first = numbered_by_appearance(line[cell], cells)
    results = [_reduced(field, line[_register(field)], codes, len(first)) for field in fields]
    counts = np.bincount(codes, minlength=len(first))
    first_row = np.zeros(len(first), np.int64)
    last_row = None
    if row is not None:
        first_row, last_row = line[row][first], np.empty(len(first), np.int64)
        last_row[codes] = line[row]  # of an index that occurs twice numpy keeps the last value
    return line[cell][first], GroupSums(counts, first_row, last_row, results)


def _register(field: SumField) -> int:
    return ~field.register if field.is_float else field.register


def _reduced(field: SumField, line: Integers, codes: Integers, groups: int) -> FieldResult:
    better = EXTREMES.get(field.kind)
    if better is None:
        sums = np.zeros(groups, np.int64)
        add_by_group(sums, codes, line)
        high = sums >> _HALF_BITS
        return {0: sums & _HALF_MASK, _HALF_BITS: high} if high.any() else {0: sums}
    values: NDArray[np.int64] | NDArray[np.float64] = line
    if field.is_float:
        values = line.view(np.float64)
    best = np.empty(groups, values.dtype)
    best[codes] = values  # any of a group's own, to begin with
    better.at(best, codes, values)
    return best


_Found = TypeVar("_Found")


def scanned_groups(
    rows: Sequence[Batch], shape: GroupShape, *, drop_missing: bool, by_appearance: bool
) -> list[PartialGroups] | None:
    """Return the groups of some rows; None where values are needed.

    Parameters
    ----------
    rows
        Those of one or more segments, in order and not read yet.
    shape
        What is grouped, and how; without keys, one group of everything.
    drop_missing
        Whether rows with a missing key fall away.
    by_appearance
        Whether groups are wanted in the order in which they first appear; else they come in any.
    """
    if not all_reducible(shape.aggregates):
        return None
    if all(has_compact_state(each.aggregate) for each in shape.aggregates):
        reduced = functools.partial(
            reduced_groups,
            shape=shape,
            states=list(shape.plan.reductions),
            drop_missing=drop_missing,
            by_appearance=by_appearance,
        )
    else:
        from tessel.clauses.grouped.scanned_values import scanned_values

        reduced = functools.partial(scanned_values, shape=shape, drop_missing=drop_missing)
    return reduced_slices(rows, reduced) or None


def reduced_groups(
    rows: Batch,
    shape: GroupShape,
    states: Sequence[StateKey],
    *,
    drop_missing: bool,
    by_appearance: bool,
) -> PartialGroups | None:
    """Return the groups of some rows with some of their states, which are compact; maybe None."""
    schema, keys = rows.schema, shape.keys
    inputs = [name for names, _ in states for name in names]

    def plan(program: BlockProgram, select: int | None) -> _Plan | None:
        groups = planned_groups(program, select, keys, schema, drop_missing=drop_missing)
        reductions = plan_reductions(program, states, schema)
        if groups is None or reductions is None:
            return None
        return _Plan(groups, reductions, program.program(), program.rows(), program.program())

    question = "groups", len(keys), drop_missing, *states
    opened = rows.open([*keys, *inputs], question, plan, exact=not rows.bindings.are_stored(keys))
    grouped = None if opened is None else opened.plan.groups.bound(opened)
    if opened is None or grouped is None:
        return None
    reductions = opened.plan.reductions
    if grouped.are_few:
        first = by_appearance or reductions.needs_ends
        found = _few(opened, grouped, first=first, last=reductions.needs_last)
    else:
        from tessel.clauses.grouped.scanned_groups import sums_of_sparse_keys

        assert grouped.register is not None  # one group is few
        ends = reductions.needs_ends
        found = sums_of_sparse_keys(
            opened,
            opened.bound(opened.plan.with_rows if ends else opened.plan.program),
            select=grouped.select,
            cell=grouped.register,
            cells=grouped.groups,
            fields=reductions.fields,
            row=opened.plan.row if ends else None,
        )
    if found is None:
        return None
    numbers, sums = found
    made = reductions.found(opened, sums.results, sums.counts, sums.first_row, sums.last_row)
    return PartialGroups(shape, grouped.keys, numbers, made)


@dataclass(frozen=True, eq=False)
class _Plan:
    """What is computed of rows that are grouped.

    Attributes
    ----------
    program
        Computes the numbers of groups and the fields of reductions.
    row, with_rows
        The register of the rows, and a program that computes these, too.
    """

    groups: PlannedGroups
    reductions: KernelReductions
    program: UnboundProgram
    row: int
    with_rows: UnboundProgram


def _few(
    opened: OpenedBatch[_Plan],
    grouped: NumberedGroups,
    *,
    first: bool,
    last: bool,
) -> tuple[Integers, GroupSums] | None:
    """Add up fields in a line of sums for every number that there can be."""
    found = group_sums(
        opened.spans,
        opened.bound(opened.plan.program),
        select=grouped.select,
        group=grouped.register,
        groups=grouped.groups,
        fields=opened.plan.reductions.fields,
        first=first,
        last=last,
    )
    if found is None:
        return None
    order = np.flatnonzero(found.counts)
    if first:
        order = order[np.argsort(found.first_row[order], kind="stable")]
    last_row = None if found.last_row is None else found.last_row[order]
    results = [of_groups(each, order) for each in found.results]
    return order, GroupSums(found.counts[order], found.first_row[order], last_row, results)


def reduced_slices(
    rows: Sequence[Batch], reduced: Callable[[Batch], _Found | None]
) -> list[_Found] | None:
    """Reduce all batches that have selected rows; return None where one of them must be read."""
    found: list[_Found] = []
    for each in rows:
        if each.is_empty:
            continue
        one = reduced(each)
        if one is None:
            return None
        found.append(one)
    return found


def of_groups(result: FieldResult, groups: Integers) -> FieldResult:
    """Return a kernel's result for some of the groups."""
    if isinstance(result, dict):
        return {place: sums[groups] for place, sums in result.items()}
    return result[groups]
