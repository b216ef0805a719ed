"""Compiled twin of :mod:`tessel.kernels.decode_rows`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.compiled.blocks import BLOCK_ROWS, run_steps
from tessel.kernels.jit import inner, kernel

__all__ = ["decode_numbers", "decode_texts"]


@kernel
def decode_numbers(
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
    is_float: bool,
    width: int,
    out: Any,
) -> None:
    """Write what a program leaves in the first register of a kind to ``out``, uint8.

    Registers are cut out of ``out`` itself where its numbers are as wide as they are.
    """
    spare = np.empty(BLOCK_ROWS, np.int64)
    no_floats = np.empty(0, np.float64)
    truths = np.empty(0, np.uint8)
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        at = row - start
        here = out[at * width : (at + rows) * width]
        if is_float:
            run_steps(
                data, words, facts, gaps, shift, steps, ranges, constants, tables,
                page, first, rows, spare, here.view(np.float64), truths,
            )  # fmt: skip
        elif width == 8:
            run_steps(
                data, words, facts, gaps, shift, steps, ranges, constants, tables,
                page, first, rows, here.view(np.int64), no_floats, truths,
            )  # fmt: skip
        else:
            run_steps(
                data, words, facts, gaps, shift, steps, ranges, constants, tables,
                page, first, rows, spare, no_floats, truths,
            )  # fmt: skip
            _narrow(spare, width, rows, here)
        row += rows


@inner
def _narrow(source: Any, width: int, rows: int, out: Any) -> None:
    if width == 4:
        wholes = out.view(np.uint32)
        for row in range(rows):
            wholes[row] = np.uint32(source[row])
    elif width == 2:
        halves = out.view(np.uint16)
        for row in range(rows):
            halves[row] = np.uint16(source[row])
    else:
        for row in range(rows):
            out[row] = np.uint8(source[row])


@kernel
def decode_texts(
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
    entries: Any,
    lengths: Any,
    length: int,
    measured: bool,
    offsets: Any,
    out: Any,
) -> Any:
    """Write offsets, and texts by words of eight bytes, of which the next overwrites what is over.

    ``length`` is that of all texts, or no number above 0. Returns how many bytes the texts have;
    where that is to be measured, nothing is written.
    """
    codes = np.empty(BLOCK_ROWS, np.int64)
    no_floats = np.empty(0, np.float64)
    truths = np.empty(0, np.uint8)
    page_rows = 1 << shift
    total: Any = np.int64(0)
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        run_steps(
            data, words, facts, gaps, shift, steps, ranges, constants, tables,
            page, first, rows, codes, no_floats, truths,
        )  # fmt: skip
        at = row - start
        # Unsigned, because what may be negative is counted from the end as Python does it.
        if measured:
            for place in range(rows):
                total += lengths[np.uint64(codes[place])]
        elif length > 0 and len(entries) == len(lengths):
            for place in range(rows):
                out[np.uint64(total)] = entries[np.uint64(codes[place])]
                total += length
            for place in range(rows):
                offsets[at + place + 1] = np.int32((at + place + 1) * length)
        else:
            total = _copy_texts(codes, rows, entries, lengths, offsets[at + 1 :], out, total)
        row += rows
    return total


@inner
def _copy_texts(
    codes: Any, rows: int, entries: Any, lengths: Any, offsets: Any, out: Any, total: int
) -> int:
    words = len(entries) // len(lengths)
    for place in range(rows):
        code = codes[place]
        size = lengths[np.uint64(code)]
        out[np.uint64(total)] = entries[np.uint64(code * words)]
        for word in range(1, (size + 7) >> 3):
            out[np.uint64(total + 8 * word)] = entries[np.uint64(code * words + word)]
        total += size
        offsets[place] = np.int32(total)
    return total
