"""Partial states of time buckets by key, from stored integers: runs of rows, then groups in each.

A bucket is a run of rows, whose edges are searched for; inside of it a group's number is arithmetic
on codes, and one kernel reduces all groups of the run. That pays for buckets in which most keys
occur several times; for shorter ones, and for aggregates that are not reducible, the answer is None
and the unit is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.clauses.buckets.base import Bucketer
from tessel.clauses.grouped.group_states import States
from tessel.clauses.grouped.group_tables import GroupShape
from tessel.clauses.grouped.kernel_reductions import KernelReductions, plan_reductions
from tessel.clauses.grouped.scanned_runs import stored_runs
from tessel.clauses.grouped.stored_keys import (
    PlannedGroups,
    key_values,
    planned_groups,
)
from tessel.expression.block_steps import UnboundProgram
from tessel.expression.encoded import BlockProgram
from tessel.kernels.fields import FieldResult
from tessel.kernels.group_sums import GroupSums, group_sums
from tessel.store.manifest.batch import Batch

__all__ = ["scanned_keyed_runs"]

Integers = NDArray[np.int64]

_Plan = tuple[int, PlannedGroups, KernelReductions, UnboundProgram]
"""The number of the column of the index, how rows are numbered, reductions, and the program."""

_ROWS_A_GROUP = 2
"""Shorter runs, for each of their groups, cost more to clear and to look through than to add up."""


def scanned_keyed_runs(
    rows: Batch, bucketer: Bucketer, shape: GroupShape, *, drop_missing: bool
) -> tuple[Integers, list[pa.Array], States] | None:
    """Return bucket, keys and states of all groups that have rows; maybe None.

    Parameters
    ----------
    rows
        Not read yet; their index never goes back.
    bucketer
        The buckets.
    shape
        What is grouped: the index, whose buckets are looked for, and the keys.
    drop_missing
        Whether rows with a missing key fall away.

    Returns
    -------
    tuple or None
        The bucket of each group, int64, in order of first appearance; the values of each key, and
        the states of all aggregates.
    """
    schema, (index, *keys) = rows.schema, shape.keys
    wanted = list(shape.plan.reductions)
    inputs = [name for names, _ in wanted for name in names]

    def plan(program: BlockProgram, select: int | None) -> _Plan | None:
        place = program.place(index)
        planned = planned_groups(program, select, keys, schema, drop_missing=drop_missing)
        reductions = plan_reductions(program, wanted, schema)
        if place is None or planned is None or reductions is None:
            return None
        return place, planned, reductions, program.program()

    question = "keyed runs", len(keys), drop_missing, *wanted
    opened = rows.open(
        [index, *keys, *inputs], question, plan, exact=not rows.bindings.are_stored(keys)
    )
    if opened is None or len(opened.spans) != 1:
        return None
    place, planned, reductions, unbound = opened.plan
    runs = stored_runs(opened, opened.spans[0], place, bucketer)
    grouped = planned.few(opened)
    if runs is None or grouped is None:
        return None
    numbers, starts = runs
    groups = grouped.groups
    if len(numbers) * groups * _ROWS_A_GROUP > opened.rows:
        return None
    span, program = opened.spans[0], opened.bound(unbound)
    found: list[GroupSums] = []
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
        found.append(run)
    counts = np.concatenate([run.counts for run in found])
    first = np.concatenate([run.first_row for run in found])
    there = np.flatnonzero(counts)
    order = there[np.argsort(first[there], kind="stable")]
    joined = [_joined(found, field, order) for field in range(len(reductions.fields))]
    last = None
    if reductions.needs_last:
        last = np.concatenate([cast(Integers, run.last_row) for run in found])[order]
    made = reductions.found(opened, joined, counts[order], first[order], last)
    run_of, codes = np.divmod(order, groups)
    return numbers[run_of], key_values(grouped.keys, codes), made


def _joined(found: Sequence[GroupSums], field: int, order: Integers) -> FieldResult:
    """Concatenate the results of a field of all runs, and take those of some groups."""
    results = [run.results[field] for run in found]
    if not isinstance(results[0], dict):
        return np.concatenate(cast(list[NDArray[np.float64]], results))[order]
    sums = cast(list[dict[int, Integers]], results)
    nothing = np.zeros_like(found[0].counts)
    places = sorted(set().union(*sums))
    return {
        place: np.concatenate([own.get(place, nothing) for own in sums])[order] for place in places
    }
