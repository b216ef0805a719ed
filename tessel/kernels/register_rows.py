"""Registers of all rows, or of those that are chosen, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.block_loop import BLOCKS, PROGRAM, REGISTERS, place_of, run_steps
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.declare import kernel
from tessel.kernels.intrinsics import reinterpret, words_of
from tessel.kernels.program import BLOCK_ROWS, Program

__all__ = ["register_rows"]

Integers = NDArray[np.int64]


def register_rows(
    spans: Sequence[StoredBlocks], program: Program, *, select: int | None, registers: Sequence[int]
) -> Integers:
    """Return what registers hold in the rows that count.

    Parameters
    ----------
    spans, program
        The rows, stretches of one segment in order, and what is computed of them.
    select
        The truth register of the rows that count; None for all.
    registers
        The registers: of integers, or the complement (``~register``) of one of floats.

    Returns
    -------
    numpy.ndarray
        int64, shape ``(len(registers), rows)``; of floats their bits; rows in their order.
    """
    rows = sum(map(len, spans))
    found = np.empty((len(registers), rows), np.int64)
    count, scratch = 0, program.registers()
    for span in spans:
        count = copy_registers(
            *span.arguments,
            *program.arguments,
            *scratch,
            -1 if select is None else select,
            np.array(registers, np.int64),
            count,
            found,
        )
    return found[:, :count]


@kernel(
    f"{BLOCKS}, {PROGRAM}, {REGISTERS}, select: i64, asked: i64[lines], count: i64, "
    "out: mut i64[lines, rows] -> i64"
)
def copy_registers(
    data: Any, facts: Any, gaps: Any, shift: Any, start: Any, stop: Any,
    steps: Any, ranges: Any, constants: Any, tables: Any, integers: Any, floats: Any, truths: Any,
    select: Any,
    asked: Any,
    count: Any,
    out: Any,
) -> Any:  # fmt: skip
    """Write registers to ``out`` from ``count`` on, a line each; return the new count."""
    words = words_of(data)
    bits = reinterpret(floats, np.int64)
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
            at = np.uint64(count)
            for place in range(np.uint64(rows)):
                # Written in any case, without a branch: what does not count is written over.
                out[line, at] = held[source + place]
                at += np.uint64(truths[chosen + place])
            kept = np.int64(at) - count
        count += kept
        row += rows
    return count
