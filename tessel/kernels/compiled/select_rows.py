"""Compiled twin of :mod:`tessel.kernels.select_rows`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.compiled.blocks import BLOCK_ROWS, place_of, run_steps
from tessel.kernels.jit import kernel

__all__ = ["select_ranges", "select_rows"]

_START, _WIDTH, _MASK, _BASE, _STEP = 0, 1, 2, 3, 4
_WORD_ROWS = 8
_MOST_OF_BLOCK = BLOCK_ROWS // 4


@kernel
def select_rows(
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
    truth: int,
    out: Any,
) -> None:
    """Write a truth register of all rows to ``out``, uint8."""
    integers = np.empty((registers[0] + 1) * BLOCK_ROWS, np.int64)
    floats = np.empty(registers[1] * BLOCK_ROWS, np.float64)
    truths = np.empty(registers[2] * BLOCK_ROWS, np.uint8)
    asked = place_of(truth)
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        run_steps(
            data, words, facts, gaps, shift, steps, ranges, constants, tables,
            page, first, rows, integers, floats, truths,
        )  # fmt: skip
        at = np.uint64(row - start)
        for place in range(np.uint64(rows)):
            out[at + place] = truths[asked + place]
        row += rows


@kernel
def select_ranges(
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
    out: Any,
) -> int:
    """Write the places of rows for which all steps, ranges of columns, are true; int64, ascending.

    One range is asked of all rows, that which the fewest rows of the first block are in; the others
    of the rows that it leaves. Returns how many there are; -1 where that is many of the first
    block, or ``out`` is too short.
    """
    spare = np.empty(BLOCK_ROWS, np.int64)
    no_floats = np.empty(0, np.float64)
    found = np.empty(BLOCK_ROWS, np.uint8)
    page_rows = 1 << shift
    lead, least = 0, BLOCK_ROWS + 1
    for number in range(len(steps)):
        page, first = start >> shift, start & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - start)
        run_steps(
            data, words, facts, gaps, shift, steps[number : number + 1], ranges, constants, tables,
            page, first, rows, spare, no_floats, found,
        )  # fmt: skip
        held = 0
        for place in range(rows):
            held += found[place]
        if held < least:
            lead, least = number, held
    if least > _MOST_OF_BLOCK:
        return -1
    count = 0
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        if count + rows > len(out):
            return -1
        run_steps(
            data, words, facts, gaps, shift, steps[lead : lead + 1], ranges, constants, tables,
            page, first, rows, spare, no_floats, found,
        )  # fmt: skip
        begin = count
        count = _append_true(found, rows, row - start, out, count)
        for number in range(len(steps)):
            if number != lead and count > begin:
                column, pair = steps[number, 2], steps[number, 4]
                low, high = ranges[pair, page, 0], ranges[pair, page, 1]
                moved = start - (page << shift)
                count = _keep_range(words, facts, column, page, low, high, moved, out, begin, count)
        row += rows
    return count


@kernel
def _append_true(truths: Any, rows: int, place: int, out: Any, count: int) -> int:
    """Write where truths are set, from a place on; eight at a time are mostly none."""
    octets = truths.view(np.uint64)
    whole = rows // _WORD_ROWS
    for number in range(whole):
        if octets[number] != 0:
            for row in range(number * _WORD_ROWS, (number + 1) * _WORD_ROWS):
                out[count] = place + row
                count += truths[row]
    for row in range(whole * _WORD_ROWS, rows):
        out[count] = place + row
        count += truths[row]
    return count


@kernel
def _keep_range(
    words: Any,
    facts: Any,
    column: int,
    page: int,
    low: int,
    high: int,
    moved: int,
    out: Any,
    begin: int,
    count: int,
) -> int:
    """Keep the places, from ``begin`` on, whose integers lie in a range; all are of one page."""
    start, width = facts[_START, column, page], facts[_WIDTH, column, page]
    mask = np.uint64(facts[_MASK, column, page])
    base, step = facts[_BASE, column, page], facts[_STEP, column, page]
    kept = begin
    for number in range(begin, count):
        place = out[number]
        inside = place + moved
        bits = width * inside
        # Unsigned, because what may be negative is counted from the end as Python does it.
        word = words[np.uint64(start + (bits >> 3))] >> np.uint64(bits & 7)
        value = base + step * inside + np.int64(word & mask)
        out[kept] = place
        kept += (value >= low) & (value <= high)
    return kept
