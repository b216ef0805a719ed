"""Compiled twin of :mod:`tessel.kernels.register_rows`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.compiled.blocks import BLOCK_ROWS, run_steps
from tessel.kernels.jit import kernel

__all__ = ["register_rows"]


@kernel
def register_rows(
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
    asked: Any,
    count: int,
    out: Any,
) -> int:
    """Write registers to ``out`` from ``count`` on, a line each; return the new count."""
    integers = np.empty((registers[0] + 1, BLOCK_ROWS), np.int64)
    floats = np.empty((registers[1], BLOCK_ROWS), np.float64)
    truths = np.empty((registers[2], BLOCK_ROWS), np.uint8)
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        run_steps(
            data, words, facts, steps, ranges, constants, tables, page, first, rows,
            integers, floats, truths,
        )  # fmt: skip
        kept = rows
        for line in range(len(asked)):
            register = asked[line]
            source = floats[~register].view(np.int64) if register < 0 else integers[register]
            if select < 0:
                for place in range(rows):
                    out[line, count + place] = source[place]
                continue
            kept = 0
            for place in range(rows):
                if truths[select, place]:
                    out[line, count + kept] = source[place]
                    kept += 1
        count += kept
        row += rows
    return count
