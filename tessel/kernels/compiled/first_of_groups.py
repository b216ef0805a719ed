"""Compiled twin of :mod:`tessel.kernels.first_of_groups`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.compiled.blocks import BLOCK_ROWS, are_places, place_of, run_steps
from tessel.kernels.jit import kernel

__all__ = ["first_of_groups"]


@kernel
def first_of_groups(
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
    left: int,
    first: Any,
) -> int:
    """Write the first rows of groups that have none; return how many still have none.

    -1 where a number is no group.
    """
    integers = np.empty((registers[0] + 1) * BLOCK_ROWS, np.int64)
    floats = np.empty(registers[1] * BLOCK_ROWS, np.float64)
    truths = np.empty(registers[2] * BLOCK_ROWS, np.uint8)
    numbers, selected = place_of(group), place_of(max(select, 0))
    page_rows = 1 << shift
    row = start
    while row < stop and left > 0:
        page, inside = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - inside, stop - row)
        run_steps(
            data, words, facts, gaps, shift, steps, ranges, constants, tables,
            page, inside, rows, integers, floats, truths,
        )  # fmt: skip
        if not are_places(integers, numbers, np.uint64(rows), len(first)):
            return -1
        for place in range(np.uint64(rows)):
            number = integers[numbers + place]
            if first[number] < 0 and (select < 0 or truths[selected + place]):
                first[number] = row + np.int64(place)
                left -= 1
        row += rows
    return left
