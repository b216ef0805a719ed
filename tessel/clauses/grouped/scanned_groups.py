"""Partial states of rows as they are stored: groups by code, sums by kernel, no value decoded.

Aggregations enter here before their unit is read. Keys are dictionary codes or integers of a narrow
range, so that a group's number is arithmetic; their values are looked up for the result only. Where
keys may have more combinations of values than sums can have lines for, and most may be empty, rows
are numbered first, in order of first appearance. What sums make is the same exact state as that of
values, so nobody can tell afterwards which way it was made. Anything else, None: the unit is read,
and its values are grouped.

Resampling calls :func:`scanned_runs` before its unit is read. The index is sorted, so the rows of a
bucket lie together, and a binary search over stored values finds their ends. With keys a group's
number inside of a run is arithmetic on codes, which pays for buckets in which most keys occur
several times. What comes out is the state that values would give; anything else, None.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import numpy_array
from tessel.clauses.aggregates.base import has_compact_state
from tessel.clauses.grouped.group_states import GroupShape, StateKey
from tessel.clauses.grouped.kernel_reductions import (
    KernelReductions,
    all_reducible,
    plan_reductions,
)
from tessel.clauses.grouped.numbered_keys import key_values, numbered_keys
from tessel.clauses.grouped.partial_groups import PartialGroups
from tessel.clauses.grouped.stored_keys import NumberedGroups, PlannedGroups, planned_groups
from tessel.expression.block_steps import UnboundProgram
from tessel.expression.encoded import BlockProgram
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.fields import FieldResult
from tessel.kernels.group_sums import GroupSums, group_sums
from tessel.kernels.program import Program
from tessel.kernels.search_rows import search_rows
from tessel.lazy import dataclass
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.lazy_columns import OpenedBatch

if TYPE_CHECKING:
    from tessel.clauses.buckets.base import Bucketer

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
    first, codes = reductions.needs_ends, None
    if grouped.are_few:
        first |= by_appearance
    else:
        numbered = grouped.by_appearance(opened.spans, opened.bound(opened.plan.by_key))
        if numbered is None:
            return None
        numbers, codes, _ = numbered
        grouped = replace(grouped, register=None, groups=len(numbers))
    sums = reduced_spans(opened.spans, program, grouped, reductions, first=first, codes=codes)
    if sums is None:
        return None
    if codes is None:  # else each group has rows, and they are in order
        numbers, sums = _some_groups(sums, first=first)
    return PartialGroups(shape, grouped.keys, numbers, reductions.found(opened, sums))


@dataclass(frozen=True, eq=False)
class _Plan:
    """What is computed of rows that are grouped: numbers of groups, then fields of reductions."""

    groups: PlannedGroups
    by_key: UnboundProgram
    reductions: KernelReductions
    program: UnboundProgram


def reduced_spans(
    spans: Sequence[StoredBlocks],
    program: Program,
    grouped: NumberedGroups,
    reductions: KernelReductions,
    *,
    first: bool,
    codes: Integers | None = None,
    ends: Integers | None = None,
) -> GroupSums | None:
    """Reduce rows; parameters are those of :func:`~tessel.kernels.group_sums.group_sums`."""
    return group_sums(
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


def _some_groups(found: GroupSums, *, first: bool) -> tuple[Integers, GroupSums]:
    """Return the numbers of the groups that have rows, and the counts and sums of these groups.

    With ``first``, groups come in order of first appearance.
    """
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


_RunPlan = tuple[int, PlannedGroups, KernelReductions, UnboundProgram]
"""The number of the column of the index, how rows are numbered by the keys after it, the
reductions, and the program that computes all that."""

_LEAST_ROWS_A_BUCKET = 16
"""Shorter buckets are found by looking at every row."""

_ROWS_A_GROUP = 2
"""Shorter runs, for each of their groups, cost more to clear and to look through than to add up."""


def scanned_runs(
    rows: Batch,
    bucketer: Bucketer,
    labels: Callable[[Integers], pa.Array],
    shape: GroupShape,
    *,
    drop_missing: bool,
) -> list[PartialGroups] | None:
    """Return the groups of a segment by bucket; None where values must be read first.

    Parameters
    ----------
    rows
        Those of a segment, not read yet; their index never goes back.
    bucketer
        The buckets.
    labels
        Gives the labels of some buckets.
    shape
        What is grouped, by the index, whose buckets are looked for, and then by keys; all
        aggregates are reducible.
    drop_missing
        Whether rows with a missing key fall away.
    """
    schema, (index, *keys) = rows.schema, shape.keys
    wanted = list(shape.plan.reductions)
    inputs = [name for names, _ in wanted for name in names]

    def plan(program: BlockProgram, select: int | None) -> _RunPlan | None:
        place = program.place(index)
        planned = planned_groups(program, select, keys, schema, drop_missing=drop_missing)
        reductions = plan_reductions(program, wanted, schema)
        if place is None or planned is None or reductions is None:
            return None
        return place, planned, reductions, program.program()

    question = "runs", len(keys), drop_missing, *wanted
    exact = bool(keys) and not rows.bindings.are_stored(keys)
    opened = rows.open([index, *keys, *inputs], question, plan, exact=exact)
    if opened is None:
        return None
    place, planned, reductions, unbound = opened.plan
    grouped = planned.few(opened)
    if grouped is None:
        return None
    program = opened.bound(unbound)
    first = bool(keys) or reductions.needs_ends
    made: list[PartialGroups] = []
    for span in opened.spans:
        runs = _stored_runs(opened, span, place, bucketer)
        if runs is None:
            return None
        numbers, starts = runs
        if keys and len(starts) * grouped.groups * _ROWS_A_GROUP > len(span):
            return None
        ends = np.append(starts[1:], span.stop)
        found = reduced_spans([span], program, grouped, reductions, first=first, ends=ends)
        if found is None:
            return None
        order, sums = _some_groups(found, first=first)
        run_of, codes = np.divmod(order, grouped.groups)
        values = [labels(numbers[run_of]), *key_values(grouped.keys, codes)]
        made.append(PartialGroups(shape, *numbered_keys(values), reductions.found(opened, sums)))
    return made


def _stored_runs(
    opened: OpenedBatch[Any], span: StoredBlocks, place: int, bucketer: Bucketer
) -> tuple[Integers, Integers] | None:
    """Return the time buckets of a span of rows, and the row of the segment where each begins.

    ``place`` is the number of the column of the index. None where buckets are too short.
    """
    ends = opened.values_at(place, np.array([span.start, span.stop - 1]))
    if not pa.types.is_int64(ends.type):
        return None
    first, last = bucketer.numbers(numpy_array(ends)).tolist()
    if (last - first) * _LEAST_ROWS_A_BUCKET > len(span):
        return None
    numbers = np.arange(first, last + 1)
    edges = np.ascontiguousarray(bucketer.edges(numbers[1:]), np.int64)
    inner = search_rows(span, place, edges, after=bucketer.closed == "right")
    starts = np.concatenate([[span.start], inner]).astype(np.int64)
    held = np.diff(starts, append=span.stop) > 0
    return numbers[held], starts[held]
