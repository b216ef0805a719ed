"""Sums and extremes of runs of rows, in one pass over what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.blocks import StoredBlocks, run_blocks
from tessel.kernels.fields import (
    EXTREMES,
    Fact,
    FieldRegisters,
    SumField,
    facts_of,
    field_sums,
    field_weights,
    put_halves,
    started,
)
from tessel.kernels.jit import compiled_kernels
from tessel.kernels.program import Program

__all__ = ["run_facts"]

Integers = NDArray[np.int64]

_CHUNK_BITS = 17


def run_facts(
    blocks: StoredBlocks, program: Program, starts: Integers, fields: Sequence[SumField]
) -> list[Fact] | None:
    """Reduce fields run by run.

    Parameters
    ----------
    blocks, program
        The rows, and what is computed of them.
    starts
        The first row of each run, counted in the segment, ascending; the first is that of the
        blocks, and no run is empty.
    fields
        What is reduced. Floats are finite.

    Returns
    -------
    list or None
        For each field its sums by bit position, as :class:`~tessel.kernels.GroupSums` has them, or
        its extremes, int64 or float64. None where floats reach over more bits than two limbs hold.
    """
    if any(each.is_too_large for each in fields):
        return None
    kernels = compiled_kernels(len(blocks), "run_facts")
    if kernels is None:
        return _run_facts_numpy(blocks, program, starts, fields)
    return _run_facts_compiled(kernels, blocks, program, starts, fields)


def _run_facts_compiled(
    kernels: Any,
    blocks: StoredBlocks,
    program: Program,
    starts: Integers,
    fields: Sequence[SumField],
) -> list[Fact] | None:
    runs = len(starts)
    ends = np.append(starts[1:], blocks.stop)
    held = FieldRegisters.of(fields, program.integers, 62 - _CHUNK_BITS)
    slots = np.array(held.parts, np.int64)
    integers, floats = started(fields, runs)
    low, high = np.zeros((2, runs, len(slots)), np.int64)
    for start in range(blocks.start, blocks.stop, 1 << _CHUNK_BITS):
        part = blocks.cut(start, min(start + (1 << _CHUNK_BITS), blocks.stop))
        sums = np.zeros((runs, len(slots)), np.int64)
        first = int(np.searchsorted(ends, start, side="right"))
        lost = kernels.add_runs(
            *part.arguments, *program.arguments, ends, first, *held.arguments, slots, sums,
            integers, floats,
        )  # fmt: skip
        if lost:
            return None
        put_halves(low, high, sums)
    summed = field_sums(fields, low, high, 62 - _CHUNK_BITS)
    return facts_of(fields, iter(summed), integers, floats)


def _run_facts_numpy(
    blocks: StoredBlocks, program: Program, starts: Integers, fields: Sequence[SumField]
) -> list[Fact] | None:
    runs = len(starts)
    integers, floats = started(fields, runs)
    sums: list[dict[int, Integers]] = [{} for _ in fields]
    for first, last, registers in run_blocks(blocks, program):
        low, high = np.searchsorted(starts, [first, last - 1], side="right").tolist()
        own = slice(low - 1, high)
        cuts = np.maximum(starts[own] - first, 0)
        for place, field in enumerate(fields):
            better = EXTREMES.get(field.kind)
            if better is not None:
                held: Any = registers.floats if field.is_float else registers.integers
                line = (floats if field.is_float else integers)[place]
                line[own] = better(line[own], better.reduceat(held[field.register], cuts))
                continue
            for position, weights in field_weights(field, registers, None):
                if weights is None:
                    return None
                added = np.add.reduceat(weights, cuts).astype(np.int64)
                for at, half in ((position, added & 0xFFFFFFFF), (position + 32, added >> 32)):
                    sums[place].setdefault(at, np.zeros(runs, np.int64))[own] += half
    summed = (sums[n] for n, field in enumerate(fields) if field.kind not in EXTREMES)
    return facts_of(fields, summed, integers, floats)
