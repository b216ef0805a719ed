"""Partial tables of time buckets from rows as they are stored: binary search, then runs.

resample enters here before its unit is read. The index never goes back, so a bucket is a run of
rows: its edges are searched for in what is stored, and each run is reduced by one kernel. What
comes out is the state that values would give; anything else, None.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tessel.arrays import numpy_array
from tessel.clauses.buckets.base import Bucketer
from tessel.clauses.grouped.group_facts import MOST_JOINED, GroupFacts, reduced_slices
from tessel.clauses.grouped.stored_facts import StoredFacts, all_from_facts, ask_facts
from tessel.clauses.named_aggregate import NamedAggregate
from tessel.kernels.run_facts import run_facts
from tessel.kernels.search_rows import search_rows
from tessel.store.manifest.block_scan import BlockScan, OpenedScan

__all__ = ["scanned_runs", "stored_runs"]

_LEAST_ROWS_A_BUCKET = 16
"""Shorter buckets are found by looking at every row."""

Integers = NDArray[np.int64]


def scanned_runs(
    rows: Sequence[BlockScan], bucketer: Bucketer, aggregates: Sequence[NamedAggregate]
) -> tuple[Integers, list[pa.Array]] | None:
    """Return the buckets that have rows, ascending, and the states of all aggregates; maybe None.

    Parameters
    ----------
    rows
        Those of one or more segments, in order and not read yet; their index never goes back.
    bucketer
        The buckets.
    aggregates
        Of the resample.
    """
    if not all_from_facts(aggregates):
        return None
    found = reduced_slices(rows, lambda each: _reduced(each, bucketer, aggregates))
    if found is None or not 0 < len(found) <= MOST_JOINED:
        return None
    facts, numbers, groups = found[0]
    if len(found) > 1:
        numbers, codes = np.unique(
            np.concatenate([own for _, own, _ in found]), return_inverse=True
        )
        groups = facts.joined([own for _, _, own in found], codes)
    return numbers, facts.states(groups)


def _reduced(
    rows: BlockScan, bucketer: Bucketer, aggregates: Sequence[NamedAggregate]
) -> tuple[StoredFacts, Integers, GroupFacts] | None:
    """Return what was asked of one segment, its buckets that have rows, and what was found."""
    schema = rows.schema
    if schema.index is None:
        return None
    inputs = [name for each in aggregates for name in each.inputs]
    opened = rows.open([schema.index, *inputs])
    if opened is None or opened.select is not None or len(opened.spans) != 1:
        return None
    runs = stored_runs(opened, schema.index, bucketer)
    facts = ask_facts(opened, aggregates, schema)
    if runs is None or facts is None:
        return None
    numbers, starts = runs
    found = run_facts(opened.spans[0], opened.program.program(), starts, facts.fields)
    if found is None:
        return None
    stops = np.append(starts[1:], opened.spans[0].stop)
    made = facts.found(found, stops - starts, starts, stops - 1)
    return None if made is None else (facts, numbers, made)


def stored_runs(
    opened: OpenedScan, index: str, bucketer: Bucketer
) -> tuple[Integers, Integers] | None:
    """Return the buckets that have rows, and their first rows, counted in the segment."""
    span = opened.spans[0]
    place = opened.program.place(index)
    ends = opened.values_at(index, np.array([span.start, span.stop - 1]))
    if place is None or ends is None or not pa.types.is_int64(ends.type):
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
