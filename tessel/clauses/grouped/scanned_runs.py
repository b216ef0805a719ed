"""Partial states of time buckets from rows as they are stored: binary search, then runs.

resample enters here before its unit is read. The index never goes back, so a bucket is a run of
rows, whose edges are searched for in what is stored. With keys a group's number inside of a run is
arithmetic on codes, which pays for buckets in which most keys occur several times. What comes out
is the state that values would give; anything else, None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import numpy_array
from tessel.clauses.buckets.base import Bucketer
from tessel.clauses.grouped.group_tables import GroupShape
from tessel.clauses.grouped.kernel_reductions import KernelReductions, plan_reductions
from tessel.clauses.grouped.numbered_keys import key_values, numbered_keys
from tessel.clauses.grouped.partial_groups import PartialGroups
from tessel.clauses.grouped.scanned_groups import reduced_spans
from tessel.clauses.grouped.stored_keys import PlannedGroups, planned_groups
from tessel.expression.block_steps import UnboundProgram
from tessel.expression.encoded import BlockProgram
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.search_rows import search_rows
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.opened_batch import OpenedBatch

Integers = NDArray[np.int64]

_Plan = tuple[int, PlannedGroups, KernelReductions, UnboundProgram]
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

    def plan(program: BlockProgram, select: int | None) -> _Plan | None:
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
        run_of, codes = np.divmod(found[0], grouped.groups)
        values = [labels(numbers[run_of]), *key_values(grouped.keys, codes)]
        made.append(
            PartialGroups(shape, *numbered_keys(values), reductions.found(opened, found[1]))
        )
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
