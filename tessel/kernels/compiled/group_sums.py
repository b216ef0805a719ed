"""Compiled twin of :mod:`tessel.kernels.group_sums`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.compiled.blocks import BLOCK_ROWS, run_steps
from tessel.kernels.jit import kernel

__all__ = ["add_groups"]

_INTEGER, _WIDE = 0, 1
_HALF = 32
_HALF_MASK = (1 << 32) - 1
_ROUNDER = 1.5 * 2.0**52
_ROUNDER_BITS = int(np.float64(_ROUNDER).view(np.int64))


@kernel
def _split(
    source: Any, scale: float, scale_below: float, addends: Any, slot: int, rows: int
) -> Any:
    """Write the two limbs of floats; return whether something was left over."""
    lost = False
    for row in range(rows):
        scaled = source[row] * scale
        high = scaled + _ROUNDER
        below = (scaled - (high - _ROUNDER)) * scale_below
        low = below + _ROUNDER
        lost |= (low - _ROUNDER) != below
        addends[row, slot] = np.float64(high).view(np.int64) - _ROUNDER_BITS
        addends[row, slot + 1] = np.float64(low).view(np.int64) - _ROUNDER_BITS
    return lost


@kernel
def _fill(
    kinds: Any, sources: Any, scales: Any, integers: Any, floats: Any, addends: Any, rows: int
) -> Any:
    """Write what each row adds to its group, after the 1 that counts it."""
    lost = False
    slot = 1
    for field in range(len(kinds)):
        if kinds[field] == _INTEGER:
            source = integers[sources[field]]
            for row in range(rows):
                addends[row, slot] = source[row]
            slot += 1
        elif kinds[field] == _WIDE:
            source = integers[sources[field]]
            for row in range(rows):
                addends[row, slot] = source[row] & _HALF_MASK
                addends[row, slot + 1] = source[row] >> _HALF
            slot += 2
        else:
            held = floats[sources[field]]
            scale, below = scales[field, 0], scales[field, 1]
            lost |= _split(held, scale, below, addends, slot, rows)
            slot += 2
    return lost


@kernel
def _add(numbers: Any, addends: Any, sums: Any, chosen: Any, count: int) -> None:
    """Add rows to their groups, four numbers at a time: one load and one store of the machine."""
    for at in range(0, sums.shape[1], 4):
        for place in range(count):
            row = chosen[place]
            group = numbers[row]
            a, b = addends[row, at], addends[row, at + 1]
            c, d = addends[row, at + 2], addends[row, at + 3]
            e, f = sums[group, at], sums[group, at + 1]
            g, h = sums[group, at + 2], sums[group, at + 3]
            sums[group, at] = a + e
            sums[group, at + 1] = b + f
            sums[group, at + 2] = c + g
            sums[group, at + 3] = d + h


@kernel
def add_groups(
    data: Any,
    words: Any,
    facts: Any,
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
    kinds: Any,
    sources: Any,
    scales: Any,
    first_row: Any,
    sums: Any,
) -> Any:
    """Add rows ``[start, stop)`` to ``sums``; return whether bits of a float were lost.

    ``sums`` has a line a group: how many rows, then the limbs of each field.
    """
    integers = np.empty((registers[0], BLOCK_ROWS), np.int64)
    floats = np.empty((registers[1], BLOCK_ROWS), np.float64)
    truths = np.empty((registers[2], BLOCK_ROWS), np.uint8)
    addends = np.zeros((BLOCK_ROWS, sums.shape[1]), np.int64)
    addends[:, 0] = 1
    everything = np.arange(BLOCK_ROWS)
    chosen = np.arange(BLOCK_ROWS)
    numbers = np.zeros(BLOCK_ROWS, np.int64)
    unseen = 0
    for place in range(len(first_row)):
        unseen += first_row[place] < 0
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        run_steps(
            data, words, facts, steps, ranges, constants, tables, page, first, rows,
            integers, floats, truths,
        )  # fmt: skip
        if group >= 0:
            numbers = integers[group]
        count = rows
        if select >= 0:
            count = 0
            for place in range(rows):
                chosen[count] = place
                count += truths[select, place]
        rows_chosen = chosen if select >= 0 else everything
        lost = _fill(kinds, sources, scales, integers, floats, addends, rows)
        # Rows that do not count may hold anything: only those that do can lose.
        if lost and (select < 0 or _lost(kinds, sources, scales, floats, chosen, count)):
            return True
        if unseen:
            for place in range(count):
                number = numbers[rows_chosen[place]]
                if first_row[number] < 0:
                    first_row[number] = row + rows_chosen[place]
                    unseen -= 1
        _add(numbers, addends, sums, rows_chosen, count)
        row += rows
    return False


@kernel
def _lost(kinds: Any, sources: Any, scales: Any, floats: Any, chosen: Any, count: int) -> Any:
    """Return whether bits of a row that counts are lost."""
    for field in range(len(kinds)):
        if kinds[field] > _WIDE:
            held = floats[sources[field]]
            for place in range(count):
                scaled = held[chosen[place]] * scales[field, 0]
                below = (scaled - ((scaled + _ROUNDER) - _ROUNDER)) * scales[field, 1]
                if ((below + _ROUNDER) - _ROUNDER) != below:
                    return True
    return False
