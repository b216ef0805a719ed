"""Which rows a program finds true."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.block_loop import BLOCKS, PROGRAM, REGISTERS, place_of, run_steps
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.declare import inner, kernel
from tessel.kernels.intrinsics import reinterpret, words_of
from tessel.kernels.program import BLOCK_ROWS, STEP_KINDS, TRUTH, Op, Program

_FEW = 4
"""Where more than one row in so many is left, a truth a row is less to write than places."""


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
    found = np.empty(len(blocks), np.uint8)
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
        int64, ascending, counted from the first of the rows. None where the register is other than
        columns that lie in ranges, all of them, and where many rows are left: then it is
        :func:`select_rows` that is asked.
    """
    steps = _ranges_of(program, truth)
    if steps is None:
        return None
    found = np.empty(len(blocks) // _FEW + BLOCK_ROWS, np.int64)
    count = write_places(
        *blocks.arguments,
        np.array(steps, np.int64),
        *program.arguments[1:],
        np.empty(BLOCK_ROWS, np.int64),
        np.empty(0, np.float64),
        np.empty(BLOCK_ROWS, np.uint8),
        found,
    )
    return None if count < 0 else found[:count].copy()


def _ranges_of(program: Program, truth: int) -> list[list[int]] | None:
    """Return the steps that ask a register's ranges, each into register 0; None for other steps."""
    makers = {step[1]: step for step in program.steps.tolist() if STEP_KINDS[step[0]] == TRUTH}
    found: list[list[int]] = []
    waiting = [truth]
    while waiting:
        op, _, a, b, c = makers[waiting.pop()]
        if op == Op.AND:
            waiting += [b, a]
        elif op == Op.COLUMN_RANGE:
            found.append([op, 0, a, b, c])
        else:
            return None
    return found


_START, _WIDTH, _MASK, _BASE, _STEP = 0, 1, 2, 3, 4
_WORD_ROWS = 8
_MOST_OF_BLOCK = BLOCK_ROWS // 4


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


@kernel(f"{BLOCKS}, {PROGRAM}, {REGISTERS}, out: mut i64[places] -> i64")
def write_places(
    data: Any, facts: Any, gaps: Any, shift: Any, start: Any, stop: Any,
    steps: Any, ranges: Any, constants: Any, tables: Any, integers: Any, floats: Any, truths: Any,
    out: Any,
) -> int:  # fmt: skip
    """Write the places of rows for which all steps, ranges of columns, are true; int64, ascending.

    One range is asked of all rows, that which the fewest rows of the first block are in; the others
    of the rows that it leaves. Returns how many there are; -1 where that is many of the first
    block, or ``out`` is too short.
    """
    words = words_of(data)
    stored, registers = (data, words, facts, gaps, shift), (integers, floats, truths)
    page_rows = 1 << shift
    lead, least = 0, np.int64(BLOCK_ROWS + 1)
    for number in range(len(steps)):
        page, first = start >> shift, start & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - start)
        run_steps(
            stored,
            (steps[number : number + 1], ranges, constants, tables),
            (page, first, rows),
            registers,
        )
        held: Any = np.int64(0)
        for place in range(rows):
            held += np.int64(truths[place])
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
            stored,
            (steps[lead : lead + 1], ranges, constants, tables),
            (page, first, rows),
            registers,
        )
        begin = count
        count = _append_true(truths, rows, row - start, out, count)
        for number in range(len(steps)):
            if number != lead and count > begin:
                column, pair = steps[number, 2], steps[number, 4]
                low, high = ranges[pair, page, 0], ranges[pair, page, 1]
                moved = start - (page << shift)
                count = _keep_range(words, facts, column, page, low, high, moved, out, begin, count)
        row += rows
    return count


@inner
def _append_true(truths: Any, rows: Any, place: Any, out: Any, count: Any) -> Any:
    """Write where truths are set, from a place on; eight at a time are mostly none."""
    octets = reinterpret(truths, np.uint64)
    whole = rows // _WORD_ROWS
    for number in range(whole):
        if octets[number] != 0:
            for row in range(number * _WORD_ROWS, (number + 1) * _WORD_ROWS):
                out[count] = place + row
                count += np.int64(truths[row])
    for row in range(whole * _WORD_ROWS, rows):
        out[count] = place + row
        count += np.int64(truths[row])
    return count


@inner
def _keep_range(
    words: Any,
    facts: Any,
    column: Any,
    page: Any,
    low: Any,
    high: Any,
    moved: Any,
    out: Any,
    begin: Any,
    count: Any,
) -> Any:
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
