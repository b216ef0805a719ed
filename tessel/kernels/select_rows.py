"""Which rows a program finds true."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.block_loop import (
    BLOCKS,
    PROGRAM,
    REGISTERS,
    SELECTED,
    place_of,
    run_selected,
    run_steps,
)
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.declare import kernel
from tessel.kernels.intrinsics import words_of
from tessel.kernels.program import BLOCK_ROWS, Program
from tessel.memory import recycled

_FEW = 4
"""Where more than one row in so many is left, a truth a row is less to write than places."""
_MOST_OF_BLOCK = BLOCK_ROWS // _FEW


def select_rows(blocks: StoredBlocks, program: Program, truth: int) -> NDArray[np.bool_]:
    """Return in which rows a truth register is true.

    Parameters
    ----------
    blocks, program
        The rows, and what is computed of them.
    truth
        The register.

    Returns
    -------
    numpy.ndarray
        Bool, shape ``(len(blocks),)``.
    """
    found = recycled(len(blocks), np.uint8)
    write_truths(*blocks.arguments, *program.arguments, *program.registers(), truth, found)
    return found.view(np.bool_)


def select_places(blocks: StoredBlocks, program: Program, truth: int) -> NDArray[np.int64] | None:
    """Return where rows are for which a truth register is true, if they are few.

    Parameters
    ----------
    blocks, program, truth
        As for :func:`select_rows`.

    Returns
    -------
    numpy.ndarray
        int64, ascending, counted from the first of the rows. None where many rows are left: then it
        is :func:`select_rows` that is asked.
    """
    found = recycled(len(blocks) // _FEW + BLOCK_ROWS, np.int64)
    count = write_places(
        *blocks.arguments,
        *program.arguments,
        *program.registers(),
        *program.selected(truth),
        found,
    )
    return None if count < 0 else found[:count].copy()


@kernel(f"{BLOCKS}, {PROGRAM}, {REGISTERS}, truth: i64, out: mut u8[rows]")
def write_truths(
    data: Any, facts: Any, gaps: Any, shift: Any, start: Any, stop: Any,
    steps: Any, ranges: Any, constants: Any, tables: Any, integers: Any, floats: Any, truths: Any,
    truth: Any,
    out: Any,
) -> None:  # fmt: skip
    """Write a truth register of all rows to ``out``, uint8."""
    stored, program = (data, words_of(data), facts, gaps, shift), (steps, ranges, constants, tables)
    registers = integers, floats, truths
    asked = place_of(truth)
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        run_steps(stored, program, (page, first, rows), registers)
        at = np.uint64(row - start)
        for place in range(np.uint64(rows)):
            out[at + place] = truths[asked + place]
        row += rows


@kernel(f"{BLOCKS}, {PROGRAM}, {REGISTERS}, {SELECTED}, out: mut i64[places] -> i64")
def write_places(
    data: Any, facts: Any, gaps: Any, shift: Any, start: Any, stop: Any,
    steps: Any, ranges: Any, constants: Any, tables: Any, integers: Any, floats: Any, truths: Any,
    select: Any, chosen: Any,
    out: Any,
) -> int:  # fmt: skip
    """Write the places of rows for which a truth register is true; int64, ascending.

    Returns how many there are; -1 where that is many of the first block, or ``out`` is too short.
    """
    stored, program = (data, words_of(data), facts, gaps, shift), (steps, ranges, constants, tables)
    registers = integers, floats, truths
    page_rows = 1 << shift
    count = 0
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        held, left = run_selected(
            stored, program, (page, first, rows), registers, select, chosen, rows
        )
        if count + left > len(out) or (row == start and left > _MOST_OF_BLOCK):
            return -1
        at = np.uint64(count)
        if held < rows:
            for place in range(np.uint64(left)):
                out[at + place] = row - start + chosen[place]
        else:
            for place in range(np.uint64(left)):
                out[at + place] = row - start + np.int64(place)
        count += left
        row += rows
    return count
