"""Compiled twin of :mod:`tessel.kernels.select_rows`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.compiled.blocks import BLOCK_ROWS, run_steps
from tessel.kernels.jit import kernel

__all__ = ["select_rows"]


@kernel
def select_rows(
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
    truth: int,
    out: Any,
) -> None:
    """Write a truth register of all rows to ``out``, uint8."""
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
        # A slice assigned to a slice would have numba compile the making of its error's text.
        for place in range(rows):
            out[row - start + place] = truths[truth, place]
        row += rows
