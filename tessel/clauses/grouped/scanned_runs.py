"""Partial tables of time buckets from rows as they are stored: binary search, then runs.

resample enters here before its unit is read. The index never goes back, so a bucket is a run of
rows: its edges are searched for in what is stored, and each run is reduced by one kernel. What
comes out is the state that values would give; anything else, None.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import numpy_array
from tessel.clauses.buckets.base import Bucketer
from tessel.clauses.grouped.group_states import StatePlan, States
from tessel.clauses.grouped.kernel_reductions import KernelReductions, numbers_of, plan_reductions
from tessel.clauses.grouped.scanned_groups import of_groups, reduced_slices
from tessel.expression.block_steps import UnboundProgram
from tessel.expression.encoded import BlockProgram
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.run_sums import run_sums
from tessel.kernels.search_rows import search_rows
from tessel.store.manifest.batch import Batch
from tessel.store.manifest.opened_batch import OpenedBatch

__all__ = ["scanned_runs", "stored_runs"]

_LEAST_ROWS_A_BUCKET = 16
"""Shorter buckets are found by looking at every row."""

Integers = NDArray[np.int64]

_Plan = tuple[int, KernelReductions, UnboundProgram]
"""The number of the column of the index, the reductions, and the program for their fields."""


def scanned_runs(
    rows: Sequence[Batch], bucketer: Bucketer, plan: StatePlan
) -> tuple[Integers, States] | None:
    """Return the buckets that have rows, ascending, and their states; maybe None.

    Parameters
    ----------
    rows
        Those of one or more segments, in order and not read yet; their index never goes back.
    bucketer
        The buckets.
    plan
        The states of the aggregates, all of them compact and reducible.
    """
    slices = reduced_slices(rows, lambda each: _reduced(each, bucketer, plan))
    found = [] if slices is None else list(itertools.chain.from_iterable(slices))
    if len(found) < 2:
        return found[0] if found else None
    numbers, codes = np.unique(np.concatenate([own for own, _ in found]), return_inverse=True)
    return numbers, plan.merge([states for _, states in found], codes, len(numbers))


def _reduced(
    rows: Batch, bucketer: Bucketer, states: StatePlan
) -> list[tuple[Integers, States]] | None:
    """Return, for each span of rows, the time buckets and their states.

    None where the columns must be read as values.
    """
    schema = rows.schema
    if schema.index is None:
        return None
    inputs = [name for names, _ in states.reductions for name in names]
    index, wanted = schema.index, list(states.reductions)

    def plan(program: BlockProgram, select: int | None) -> _Plan | None:
        place = program.place(index)
        reductions = plan_reductions(program, wanted, schema, select)
        if place is None or reductions is None:
            return None
        return place, reductions, program.program()

    opened = rows.open([index, *inputs], ("runs", *wanted), plan)
    if opened is None:
        return None
    place, reductions, unbound = opened.plan
    program = opened.bound(unbound)
    made: list[tuple[Integers, States]] = []
    for span in opened.spans:
        runs = stored_runs(opened, span, place, bucketer)
        if runs is None:
            return None
        numbers, starts = runs
        found = run_sums(span, program, starts, reductions.fields)
        if found is None:
            return None
        stops = np.append(starts[1:], span.stop)
        counts = stops - starts
        if reductions.rows is not None:
            counts = numbers_of(found[reductions.fields.index(reductions.rows)])
            held = np.flatnonzero(counts)
            found = [of_groups(each, held) for each in found]
            numbers, starts, stops, counts = (
                each[held] for each in (numbers, starts, stops, counts)
            )
        made.append((numbers, reductions.found(opened, found, counts, starts, stops - 1)))
    return made


def stored_runs(
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
