"""Registers of all rows, or of those that are chosen, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.block_loop import BLOCKS, PROGRAM, REGISTERS, SELECTED, place_of, run_selected
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.declare import kernel
from tessel.kernels.intrinsics import reinterpret, words_of
from tessel.kernels.program import BLOCK_ROWS, Program
from tessel.memory import recycled

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
    found = recycled((len(registers), rows), np.int64)
    count, scratch, selected = 0, program.registers(), program.selected(select)
    for span in spans:
        count = copy_registers(
            *span.arguments,
            *program.arguments,
            *scratch,
            *selected,
            np.array(registers, np.int64),
            count,
            found,
        )
    return found[:, :count]


@kernel(
    f"{BLOCKS}, {PROGRAM}, {REGISTERS}, {SELECTED}, asked: i64[lines], count: i64, "
    "out: mut i64[lines, rows] -> i64"
)
def copy_registers(
    data: Any, facts: Any, gaps: Any, shift: Any, start: Any, stop: Any,
    steps: Any, ranges: Any, constants: Any, tables: Any, integers: Any, floats: Any, truths: Any,
    select: Any, chosen: Any,
    asked: Any,
    count: Any,
    out: Any,
) -> Any:  # fmt: skip
    """Write registers to ``out`` from ``count`` on, a line each; return the new count."""
    stored, program = (data, words_of(data), facts, gaps, shift), (steps, ranges, constants, tables)
    registers = integers, floats, truths
    bits = reinterpret(floats, np.int64)
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        kept, _ = run_selected(
            stored, program, (page, first, rows), registers, select, chosen, rows
        )
        for line in range(len(asked)):
            register = asked[line]
            held = bits if register < 0 else integers
            source = place_of(~register if register < 0 else register)
            for place in range(np.uint64(kept)):
                out[line, np.uint64(count) + place] = held[source + place]
        count += kept
        row += rows
    return count
