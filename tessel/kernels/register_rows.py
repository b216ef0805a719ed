"""Registers of all rows, or of those that are chosen, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.blocks import StoredBlocks, run_blocks
from tessel.kernels.jit import compiled_kernels
from tessel.kernels.program import Program

__all__ = ["register_rows", "register_rows_numpy"]

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
    kernels = compiled_kernels(rows, "register_rows")
    if kernels is None:
        return register_rows_numpy(spans, program, select=select, registers=registers)
    found = np.empty((len(registers), rows), np.int64)
    count = 0
    for span in spans:
        count = kernels.register_rows(
            *span.arguments,
            *program.arguments,
            -1 if select is None else select,
            np.array(registers, np.int64),
            count,
            found,
        )
    return found[:, :count]


def register_rows_numpy(
    spans: Sequence[StoredBlocks], program: Program, *, select: int | None, registers: Sequence[int]
) -> Integers:
    """Return what :func:`register_rows` does; the numpy twin."""
    parts = [np.empty((len(registers), 0), np.int64)]
    for _, _, held in chain.from_iterable(run_blocks(span, program) for span in spans):
        part = np.stack(
            [
                held.floats[~each].view(np.int64) if each < 0 else held.integers[each]
                for each in registers
            ]
        )
        parts.append(part if select is None else part[:, held.truths[select]])
    return np.concatenate(parts, axis=1)
