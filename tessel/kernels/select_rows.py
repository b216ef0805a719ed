"""Which rows a program finds true."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.blocks import StoredBlocks, run_blocks
from tessel.kernels.jit import compiled_kernels
from tessel.kernels.program import Op, Program

__all__ = ["select_places", "select_rows", "select_rows_numpy"]

_FEW = 4
"""Where more than one row in so many is left, a truth a row is less to write than places."""

_BLOCK_ROWS = 1 << 11

_TRUTHS = frozenset(
    {
        *(Op.RANGE, Op.COLUMN_RANGE, Op.LESS, Op.LESS_EQUAL, Op.EQUAL, Op.TABLE),
        *(Op.AND, Op.OR, Op.XOR, Op.NOT, Op.PRESENT),
    }
)
"""Steps that write a truth register."""


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
    kernels = compiled_kernels(len(blocks), "select_rows")
    if kernels is None:
        return select_rows_numpy(blocks, program, truth)
    found = np.empty(len(blocks), np.uint8)
    kernels.select_rows(*blocks.arguments, *program.arguments, truth, found)
    return found.view(np.bool_)


def select_rows_numpy(blocks: StoredBlocks, program: Program, truth: int) -> NDArray[np.bool_]:
    """Return what :func:`select_rows` does; the numpy twin."""
    found = np.empty(len(blocks), np.bool_)
    for first, last, registers in run_blocks(blocks, program):
        found[first - blocks.start : last - blocks.start] = registers.truths[truth]
    return found


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
        columns that lie in ranges, all of them; where many rows are left; and where there are no
        compiled kernels: then it is :func:`select_rows` that is asked.
    """
    steps = _ranges_of(program, truth)
    if steps is None:
        return None
    kernels = compiled_kernels(len(blocks), "select_rows")
    if kernels is None:
        return None
    found = np.empty(len(blocks) // _FEW + _BLOCK_ROWS, np.int64)
    count = kernels.select_ranges(
        *blocks.arguments, np.array(steps, np.int64), *program.arguments[1:-1], found
    )
    return None if count < 0 else found[:count].copy()


def _ranges_of(program: Program, truth: int) -> list[list[int]] | None:
    """Return the steps that ask a register's ranges, each into register 0; None for other steps."""
    makers = {step[1]: step for step in program.steps.tolist() if step[0] in _TRUTHS}
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
