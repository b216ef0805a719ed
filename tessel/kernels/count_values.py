"""How often each value of a narrow range occurs in each group, of rows as they are stored.

A table with a cell for each group and each value is counted in one pass, whatever the order of the
rows. It says what sorting all rows would, as long as it has not many more cells than rows. How many
different numbers lie close together in a run is counted by a bit for each of its span, and a cell
for each of a span ranks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.block_loop import (
    BLOCKS,
    PROGRAM,
    REGISTERS,
    SELECTED,
    are_places,
    place_of,
    run_selected,
)
from tessel.kernels.blocks import StoredBlocks, outside_of_bounds
from tessel.kernels.declare import kernel
from tessel.kernels.intrinsics import words_of
from tessel.kernels.program import BLOCK_ROWS, Program
from tessel.memory import recycled

Integers = NDArray[np.int64]
Counts = NDArray[np.uint32]


def count_values(
    spans: Sequence[StoredBlocks],
    program: Program,
    *,
    select: int | None,
    group: int | None,
    groups: int,
    value: int,
    low: int,
    span: int,
) -> Counts:
    """Count values by group.

    Parameters
    ----------
    spans, program
        The rows, stretches of one segment in order, and what is computed of them; fewer than
        ``2**32``.
    select
        The truth register of the rows that count; None for all.
    group, groups
        The integer register of the group numbers, in ``[0, groups)``; None for one group.
    value
        The integer register of the values.
    low, span
        Values are in ``[low, low + span)``.

    Returns
    -------
    numpy.ndarray
        uint32, shape ``(groups, span)``.
    """
    counts = recycled((groups, span), np.uint32, fill=0)
    registers, selected = program.registers(), program.selected(select)
    for each in spans:
        inside = count_cells(
            *each.arguments,
            *program.arguments,
            *registers,
            *selected,
            -1 if group is None else group,
            value,
            low,
            span,
            counts.reshape(-1),
        )
        if not inside:
            raise outside_of_bounds()
    return counts


def add_counts(
    values: Integers,
    times: Integers | None,
    lengths: Integers,
    owners: Integers,
    *,
    groups: int,
    low: int,
    span: int,
) -> Counts:
    """Count values that were counted before, by group.

    Parameters
    ----------
    values, times
        int64: values, and how often each occurs; None for once. Fewer than ``2**32`` together.
    lengths, owners
        int64, how many values lie in each run of them, and the group of the run.
    groups, low, span
        As of :func:`count_values`, which says what is returned.
    """
    counts = recycled((groups, span), np.uint32, fill=0)
    add_cells(
        np.ascontiguousarray(values),
        np.empty(0, np.int64) if times is None else np.ascontiguousarray(times),
        np.ascontiguousarray(lengths),
        np.ascontiguousarray(owners),
        low,
        counts,
    )
    return counts


def runs_of_counts(
    counts: Counts, groups: Integers, low: int
) -> tuple[Integers, Integers, Integers]:
    """Return the values of some groups that occur, in order.

    Parameters
    ----------
    counts
        As :func:`count_values` gives them.
    groups
        int64: which groups, in which order.
    low
        The value of the first cell of a group.

    Returns
    -------
    values, times, starts : numpy.ndarray
        int64: the values, how often each occurs, and where those of each group start, and the end.
    """
    values, times = recycled((2, int(np.count_nonzero(counts)) + 1), np.int64)
    starts = recycled(len(groups) + 1, np.int64, fill=0)
    found = list_cells(
        np.ascontiguousarray(counts), np.ascontiguousarray(groups), low, values, times, starts
    )
    return values[:found], times[:found], starts


@kernel(
    f"{BLOCKS}, {PROGRAM}, {REGISTERS}, {SELECTED}, group: i64, value: i64, low: i64, span: i64, "
    "counts: mut u32[cells] -> bool"
)
def count_cells(
    data: Any, facts: Any, gaps: Any, shift: Any, start: Any, stop: Any,
    steps: Any, ranges: Any, constants: Any, tables: Any, integers: Any, floats: Any, truths: Any,
    select: Any, chosen: Any,
    group: Any,
    value: Any,
    low: Any,
    span: Any,
    counts: Any,
) -> Any:  # fmt: skip
    """Add one to the cell of each row: ``group * span + value - low``.

    Returns whether all are in ``counts``; what comes after the first that is not is left out.
    """
    stored, program = (data, words_of(data), facts, gaps, shift), (steps, ranges, constants, tables)
    registers = integers, floats, truths
    values, owners = place_of(value), place_of(max(group, 0))
    # The last register is for what is between steps; behind them it is free.
    cells = np.uint64(len(integers) - BLOCK_ROWS)
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        kept, _ = run_selected(
            stored, program, (page, first, rows), registers, select, chosen, rows
        )
        count = np.uint64(kept)
        if group < 0:
            for place in range(count):
                integers[cells + place] = integers[values + place] - low
        else:
            for place in range(count):
                cell = integers[owners + place] * span + integers[values + place] - low
                integers[cells + place] = cell
        if not are_places(integers, cells, count, len(counts)):
            return False
        for place in range(count):
            counts[np.uint64(integers[cells + place])] += np.uint32(1)
        row += rows
    return True


@kernel(
    "values: i64[values], times: i64[times], lengths: i64[runs], owners: i64[runs], low: i64, "
    "counts: mut u32[groups, span]"
)
def add_cells(values: Any, times: Any, lengths: Any, owners: Any, low: Any, counts: Any) -> None:
    """Add how often values occur to their cells; each once where ``times`` is empty."""
    at = np.uint64(0)
    for run in range(len(lengths)):
        owner, end = np.uint64(owners[run]), at + np.uint64(lengths[run])
        if len(times):
            for place in range(at, end):
                counts[owner, np.uint64(values[place] - low)] += np.uint32(times[place])
        else:
            for place in range(at, end):
                counts[owner, np.uint64(values[place] - low)] += np.uint32(1)
        at = end


@kernel(
    "counts: u32[groups, span], chosen: i64[chosen], low: i64, values: mut i64[cells], "
    "times: mut i64[cells], starts: mut i64[starts] -> i64"
)
def list_cells(counts: Any, chosen: Any, low: Any, values: Any, times: Any, starts: Any) -> Any:
    """Write the values that occur, how often, and where groups start; return how many."""
    found = np.uint64(0)
    for place in range(len(chosen)):
        group = np.uint64(chosen[place])
        for number in range(counts.shape[1]):
            # Written in any case, without a branch: what does not occur is written over.
            count = counts[group, number]
            values[found] = number + low
            times[found] = count
            found += np.uint64(count > 0)
        starts[place + 1] = found
    return np.int64(found)


def count_close(numbers: Integers, starts: Integers) -> Integers:
    """Return how many different numbers runs have, in any order; −1 for those that lie far apart.

    Parameters
    ----------
    numbers
        int64.
    starts
        int64, shape ``(runs + 1,)``, ascending: where runs start, and the end of the last.
    """
    counts = recycled(len(starts) - 1, np.int64)
    seen = recycled(int(np.diff(starts).max(initial=0)), np.uint64, fill=0)
    count_seen(np.ascontiguousarray(numbers), np.ascontiguousarray(starts), seen, counts)
    return counts


@kernel("numbers: i64[rows], starts: i64[ends], seen: mut u64[words], counts: mut i64[runs]")
def count_seen(numbers: Any, starts: Any, seen: Any, counts: Any) -> None:
    """Count the numbers of each run by a bit for each of its span, of at most 64 bits a row.

    ``seen`` is 0, and as long as the longest run; it is left so.
    """
    one = np.uint64(1)
    for run in range(len(counts)):
        start, stop = np.uint64(starts[run]), np.uint64(starts[run + 1])
        counts[run] = 0
        if start == stop:
            continue
        low = high = numbers[start]
        for row in range(start, stop):
            low, high = min(low, numbers[row]), max(high, numbers[row])
        words = ((np.uint64(high) - np.uint64(low)) >> np.uint64(6)) + one
        if words > min(stop - start, np.uint64(len(seen))):
            counts[run] = -1
            continue
        count = np.uint64(0)
        for row in range(start, stop):
            bit = np.uint64(numbers[row]) - np.uint64(low)
            word, shift = bit >> np.uint64(6), bit & np.uint64(63)
            held = seen[word]
            count += one - ((held >> shift) & one)
            seen[word] = held | (one << shift)
        counts[run] = np.int64(count)
        for used in range(words):
            seen[used] = 0


def rank_close(numbers: Integers, low: int, size: int) -> tuple[Integers, Integers]:
    """Return the rank of each number among the different ones, and a row of each rank.

    Parameters
    ----------
    numbers
        int64, shape ``(rows,)``, in ``[low, low + size)``.
    low, size
        A table has a cell for each number of that range.

    Returns
    -------
    ranks, rows : numpy.ndarray
        int64, shape ``(rows,)``; int64, shape ``(ranks,)``.
    """
    ranks, rows = np.empty((2, len(numbers)), np.int64)
    cells = recycled(size, np.int32 if len(numbers) < 1 << 31 else np.int64, fill=-1)
    count = write_ranks(np.ascontiguousarray(numbers), low, cells, ranks, rows)
    return ranks, rows[:count]


@kernel(
    "numbers: i64[rows], low: i64, cells: mut T[cells], ranks: mut i64[rows], "
    "found: mut i64[rows] -> i64",
    T="i32 i64",
)
def write_ranks(numbers: Any, low: Any, cells: Any, ranks: Any, found: Any) -> Any:
    """Write the rank of each number and a row of each rank; return how many ranks there are.

    The cells hold −1 before.
    """
    for row in range(len(numbers)):
        cells[np.uint64(numbers[row] - low)] = row
    rank = np.uint64(0)
    for cell in range(len(cells)):
        row = cells[cell]
        if row >= 0:
            found[rank] = row
            cells[cell] = rank
            rank += np.uint64(1)
    for row in range(len(numbers)):
        ranks[row] = cells[np.uint64(numbers[row] - low)]
    return np.int64(rank)
