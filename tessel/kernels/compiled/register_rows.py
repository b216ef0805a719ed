"""Compiled twin of :mod:`tessel.kernels.register_rows`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.compiled.blocks import BLOCK_ROWS, place_of, run_steps
from tessel.kernels.jit import kernel

__all__ = ["register_rows"]


@kernel
def register_rows(
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
    asked: Any,
    count: int,
    out: Any,
) -> int:
    """Write registers to ``out`` from ``count`` on, a line each; return the new count."""
    integers = np.empty((registers[0] + 1) * BLOCK_ROWS, np.int64)
    floats = np.empty(registers[1] * BLOCK_ROWS, np.float64)
    truths = np.empty(registers[2] * BLOCK_ROWS, np.uint8)
    bits = floats.view(np.int64)
    chosen = place_of(max(select, 0))
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        run_steps(
            data, words, facts, gaps, shift, steps, ranges, constants, tables,
            page, first, rows, integers, floats, truths,
        )  # fmt: skip
        kept = rows
        for line in range(len(asked)):
            register = asked[line]
            held = bits if register < 0 else integers
            source = place_of(~register if register < 0 else register)
            if select < 0:
                for place in range(np.uint64(rows)):
                    out[line, np.uint64(count) + place] = held[source + place]
                continue
            kept = 0
            for place in range(np.uint64(rows)):
                if truths[chosen + place]:
                    out[line, count + kept] = held[source + place]
                    kept += 1
        count += kept
        row += rows
    return count
