"""Partial states of rows as they are stored: groups by code, sums by kernel, no value decoded.

Aggregations enter here before their unit is read. Keys are dictionary codes or integers of a narrow
range, so that a group's number is arithmetic; their values are looked up for the result only. Where
keys may have more combinations of values than sums can have lines for, and most may be empty, rows
are numbered first, in order of first appearance. What sums make is the same exact state as that of
values, so nobody can tell afterwards which way it was made. Anything else, None: the unit is read,
and its values are grouped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

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
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.fields import FieldResult
from tessel.kernels.group_sums import GroupSums, group_sums
from tessel.kernels.program import Program
from tessel.kernels.register_rows import register_rows
from tessel.lazy import dataclass
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.opened_batch import OpenedBatch

Integers = NDArray[np.int64]

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
        by_key = program.program()
        reductions = plan_reductions(program, states, schema)
        if groups is None or reductions is None:
            return None
        return _Plan(groups, by_key, reductions, program.program())

    question = "groups", len(keys), drop_missing, *states
    opened = rows.open([*keys, *inputs], question, plan, exact=not rows.bindings.are_stored(keys))
    grouped = None if opened is None else opened.plan.groups.bound(opened)
    if opened is None or grouped is None:
        return None
    reductions, program = opened.plan.reductions, opened.bound(opened.plan.program)
    first = reductions.needs_ends
    if grouped.are_few:
        first |= by_appearance
        found = reduced_spans(opened.spans, program, grouped, reductions, first=first)
    else:
        numbered = _numbered(opened, grouped)
        if numbered is None:
            return None
        cells, codes = numbered
        whole = replace(grouped, register=None, groups=len(cells))
        found = reduced_spans(opened.spans, program, whole, reductions, first=first, codes=codes)
    if found is None:
        return None
    numbers, sums = found
    if not grouped.are_few:
        numbers = cells[numbers]
    return PartialGroups(shape, grouped.keys, numbers, reductions.found(opened, sums))


@dataclass(frozen=True, eq=False)
class _Plan:
    """What is computed of rows that are grouped: numbers of groups, then fields of reductions."""

    groups: PlannedGroups
    by_key: UnboundProgram
    reductions: KernelReductions
    program: UnboundProgram


def _numbered(
    opened: OpenedBatch[_Plan], grouped: NumberedGroups
) -> tuple[Integers, Integers] | None:
    """Give numbers to the rows that count, by their keys, in order of first appearance.

    Returns
    -------
    tuple or None
        The number that each group has by its keys, and the group of each row. None where a number
        is not among those that there can be: page tables that say otherwise are forged.
    """
    assert grouped.register is not None  # one group is few
    program, asked = opened.bound(opened.plan.by_key), [grouped.register]
    (cells,) = register_rows(opened.spans, program, select=grouped.select, registers=asked)
    if len(cells) and not 0 <= cells.min() <= cells.max() < grouped.groups:
        return None
    codes, first = numbered_by_appearance(cells, grouped.groups)
    return cells[first], codes


def reduced_spans(
    spans: Sequence[StoredBlocks],
    program: Program,
    grouped: NumberedGroups,
    reductions: KernelReductions,
    *,
    first: bool,
    codes: Integers | None = None,
    ends: Integers | None = None,
) -> tuple[Integers, GroupSums] | None:
    """Reduce rows; return the groups that have any, and what was found of each.

    Parameters are those of :func:`~tessel.kernels.group_sums.group_sums`. With ``first``, groups
    come in order of first appearance.
    """
    found = group_sums(
        spans,
        program,
        select=grouped.select,
        group=grouped.register,
        groups=grouped.groups,
        fields=reductions.fields,
        codes=codes,
        ends=ends,
        first=first,
        last=reductions.needs_last,
    )
    if found is None:
        return None
    order = np.flatnonzero(found.counts)
    if first:
        order = order[np.argsort(found.first_row[order], kind="stable")]
    last_row = None if found.last_row is None else found.last_row[order]
    results = [_of_groups(each, order) for each in found.results]
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


def _of_groups(result: FieldResult, groups: Integers) -> FieldResult:
    """Return a kernel's result for some of the groups."""
    if isinstance(result, dict):
        return {place: sums[groups] for place, sums in result.items()}
    return result[groups]
