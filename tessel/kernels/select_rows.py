"""Which rows a program finds true."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.blocks import StoredBlocks, run_blocks
from tessel.kernels.jit import compiled_kernels
from tessel.kernels.program import Program

__all__ = ["select_rows", "select_rows_numpy"]


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
