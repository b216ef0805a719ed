"""Compiled twin of :mod:`tessel.kernels.count_values`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.compiled.blocks import BLOCK_ROWS, are_places, place_of, run_steps
from tessel.kernels.jit import kernel

__all__ = ["add_counts", "count_values", "runs_of_counts"]


@kernel
def count_values(
    data: Any,
    words: Any,
    facts: Any,
    gaps: Any,
    shift: int,
    start: int,
    stop: int,
    steps: Any,
    ranges: Any,
    constants: Any,
    tables: Any,
    registers: Any,
    select: int,
    group: int,
    value: int,
    low: int,
    span: int,
    counts: Any,
) -> bool:
    """Add one to the cell of each row: ``group * span + value - low``.

    Returns whether all are in ``counts``; what comes after the first that is not is left out.
    """
    integers = np.empty((registers[0] + 1) * BLOCK_ROWS, np.int64)
    floats = np.empty(registers[1] * BLOCK_ROWS, np.float64)
    truths = np.empty(registers[2] * BLOCK_ROWS, np.uint8)
    cells = np.empty(BLOCK_ROWS, np.int64)
    values, owners, selected = place_of(value), place_of(max(group, 0)), place_of(max(select, 0))
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        run_steps(
            data, words, facts, gaps, shift, steps, ranges, constants, tables,
            page, first, rows, integers, floats, truths,
        )  # fmt: skip
        count = np.uint64(rows)
        if group < 0:
            for place in range(count):
                cells[place] = integers[values + place] - low
        else:
            for place in range(count):
                cells[place] = integers[owners + place] * span + integers[values + place] - low
        if not are_places(cells, np.uint64(0), count, len(counts)):
            return False
        if select < 0:
            for place in range(count):
                counts[np.uint64(cells[place])] += np.uint32(1)
        else:
            for place in range(count):
                counts[np.uint64(cells[place])] += np.uint32(truths[selected + place])
        row += rows
    return True


@kernel
def runs_of_counts(
    counts: Any, span: int, groups: Any, low: int, values: Any, times: Any, starts: Any
) -> int:
    """Write the values that occur, how often, and where groups start; return how many."""
    found = 0
    for place in range(len(groups)):
        own = counts[groups[place] * span : (groups[place] + 1) * span]
        for number in range(span):
            # Written in any case, without a branch: what does not occur is written over.
            values[found] = number + low
            times[found] = own[number]
            found += own[number] > 0
        starts[place + 1] = found
    return found


@kernel
def add_counts(
    values: Any, times: Any, lengths: Any, owners: Any, low: int, span: int, counts: Any
) -> None:
    """Add how often values occur to their cells; each once where ``times`` is empty."""
    at = 0
    for run in range(len(lengths)):
        own = counts[owners[run] * span : (owners[run] + 1) * span]
        if len(times):
            for place in range(at, at + lengths[run]):
                own[np.uint64(values[place] - low)] += np.uint32(times[place])
        else:
            for place in range(at, at + lengths[run]):
                own[np.uint64(values[place] - low)] += np.uint32(1)
        at += lengths[run]
