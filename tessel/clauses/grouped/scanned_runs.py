"""Partial states of time buckets from rows as they are stored: binary search, then runs.

resample enters here before its unit is read. The index never goes back, so a bucket is a run of
rows, whose edges are searched for in what is stored. Without keys one kernel reduces all runs of a
stretch of rows; with keys a group's number inside of a run is arithmetic on codes, and one kernel
reduces all groups of the run, which pays for buckets in which most keys occur several times. What
comes out is the state that values would give; anything else, None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import numpy_array
from tessel.clauses.buckets.base import Bucketer
from tessel.clauses.grouped.group_states import States
from tessel.clauses.grouped.group_tables import GroupShape
from tessel.clauses.grouped.kernel_reductions import KernelReductions, numbers_of, plan_reductions
from tessel.clauses.grouped.numbered_keys import key_values, numbered_keys
from tessel.clauses.grouped.partial_groups import PartialGroups
from tessel.clauses.grouped.scanned_groups import of_groups
from tessel.clauses.grouped.stored_keys import NumberedGroups, PlannedGroups, planned_groups
from tessel.expression.block_steps import UnboundProgram
from tessel.expression.encoded import BlockProgram
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.fields import FieldResult
from tessel.kernels.group_sums import GroupSums, group_sums
from tessel.kernels.program import Program
from tessel.kernels.run_sums import run_sums
from tessel.kernels.search_rows import search_rows
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.opened_batch import OpenedBatch

Integers = NDArray[np.int64]

_Plan = tuple[int, PlannedGroups | None, KernelReductions, UnboundProgram]
"""The number of the column of the index, how rows are numbered by the keys after it, the
reductions, and the program that computes all that."""

_Found = tuple[Integers, Integers, States]
"""The run and the group inside of it that each state is of, and the states."""

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

    def plan(program: BlockProgram, select: int | None) -> _Plan | None:
        place, planned = program.place(index), None
        if keys:
            planned = planned_groups(program, select, keys, schema, drop_missing=drop_missing)
        # Rows that are not selected are told apart by the numbers of groups, where there are such.
        among = None if keys else select
        reductions = plan_reductions(program, wanted, schema, among)
        if place is None or (planned is None and keys) or reductions is None:
            return None
        return place, planned, reductions, program.program()

    question = "runs", len(keys), drop_missing, *wanted
    exact = bool(keys) and not rows.bindings.are_stored(keys)
    opened = rows.open([index, *keys, *inputs], question, plan, exact=exact)
    if opened is None:
        return None
    place, planned, _, unbound = opened.plan
    grouped = None if planned is None else planned.few(opened)
    if planned is not None and grouped is None:
        return None
    program = opened.bound(unbound)
    made: list[PartialGroups] = []
    for span in opened.spans:
        runs = _stored_runs(opened, span, place, bucketer)
        if runs is None:
            return None
        numbers, starts = runs
        found = (
            _by_run(opened, span, program, starts)
            if grouped is None
            else _by_run_and_key(opened, span, program, starts, grouped)
        )
        if found is None:
            return None
        run_of, codes, states = found
        own = [] if grouped is None else key_values(grouped.keys, codes)
        values = [labels(numbers[run_of]), *own]
        made.append(PartialGroups(shape, *numbered_keys(values), states))
    return made


def _by_run(
    opened: OpenedBatch[_Plan], span: StoredBlocks, program: Program, starts: Integers
) -> _Found | None:
    """Reduce each run to one group."""
    reductions = opened.plan[2]
    found = run_sums(span, program, starts, reductions.fields)
    if found is None:
        return None
    stops = np.append(starts[1:], span.stop)
    counts, there = stops - starts, np.arange(len(starts))
    if reductions.rows is not None:
        counts = numbers_of(found[reductions.fields.index(reductions.rows)])
        there = np.flatnonzero(counts)
        found = [of_groups(each, there) for each in found]
        starts, stops, counts = (each[there] for each in (starts, stops, counts))
    states = reductions.found(opened, found, counts, starts, stops - 1)
    return there, np.zeros(len(there), np.int64), states


def _by_run_and_key(
    opened: OpenedBatch[_Plan],
    span: StoredBlocks,
    program: Program,
    starts: Integers,
    grouped: NumberedGroups,
) -> _Found | None:
    """Reduce each run to its groups, in order of first appearance."""
    reductions, groups = opened.plan[2], grouped.groups
    if len(starts) * groups * _ROWS_A_GROUP > len(span):
        return None
    runs: list[GroupSums] = []
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), span.stop], strict=True):
        run = group_sums(
            [span.cut(start, stop)],
            program,
            select=grouped.select,
            group=grouped.register,
            groups=groups,
            fields=reductions.fields,
            last=reductions.needs_last,
        )
        if run is None:
            return None
        runs.append(run)
    counts = np.concatenate([run.counts for run in runs])
    first = np.concatenate([run.first_row for run in runs])
    there = np.flatnonzero(counts)
    order = there[np.argsort(first[there], kind="stable")]
    joined = [_joined(runs, field, order) for field in range(len(reductions.fields))]
    last = None
    if reductions.needs_last:
        last = np.concatenate([cast(Integers, run.last_row) for run in runs])[order]
    states = reductions.found(opened, joined, counts[order], first[order], last)
    run_of, codes = np.divmod(order, groups)
    return run_of, codes, states


def _joined(runs: Sequence[GroupSums], field: int, order: Integers) -> FieldResult:
    """Concatenate the results of a field of all runs, and take those of some groups."""
    results = [run.results[field] for run in runs]
    if not isinstance(results[0], dict):
        return np.concatenate(cast(list[NDArray[np.float64]], results))[order]
    sums = cast(list[dict[int, Integers]], results)
    nothing = np.zeros_like(runs[0].counts)
    places = sorted(set().union(*sums))
    return {
        place: np.concatenate([own.get(place, nothing) for own in sums])[order] for place in places
    }


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
