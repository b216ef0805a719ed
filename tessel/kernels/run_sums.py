"""Sums and extremes of runs of rows, in one pass over stored integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.block_loop import BLOCKS, PROGRAM, REGISTERS, place_of, run_steps
from tessel.kernels.blocks import StoredBlocks
from tessel.kernels.declare import inner, kernel
from tessel.kernels.fields import (
    FIELDS,
    FieldRegisters,
    FieldResult,
    SumField,
    field_results,
    field_sums,
    put_halves,
    started,
)
from tessel.kernels.fixed_point import split_fixed_point
from tessel.kernels.intrinsics import words_of
from tessel.kernels.program import BLOCK_ROWS, Program

Integers = NDArray[np.int64]

_CHUNK_BITS = 17


def run_sums(
    blocks: StoredBlocks, program: Program, starts: Integers, fields: Sequence[SumField]
) -> list[FieldResult] | None:
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
    runs = len(starts)
    ends = np.append(starts[1:], blocks.stop)
    held = FieldRegisters.of(fields, program.integers, 62 - _CHUNK_BITS)
    slots = np.array(held.parts, np.int64)
    integers, floats = started(fields, runs)
    low, high = np.zeros((2, runs, len(slots)), np.int64)
    registers = program.registers(2 * len(fields) + 1)
    for start in range(blocks.start, blocks.stop, 1 << _CHUNK_BITS):
        part = blocks.cut(start, min(start + (1 << _CHUNK_BITS), blocks.stop))
        sums = np.zeros((runs, len(slots)), np.int64)
        first = int(np.searchsorted(ends, start, side="right"))
        lost = add_runs(
            *part.arguments, *program.arguments, *registers, ends, first, *held.arguments, slots,
            sums, integers, floats,
        )  # fmt: skip
        if lost:
            return None
        put_halves(low, high, sums)
    summed = field_sums(fields, low, high, 62 - _CHUNK_BITS)
    return field_results(fields, iter(summed), integers, floats)


_INTEGER, _FLOAT = 0, 2
_LEAST, _GREATEST, _LEAST_FLOAT = 3, 4, 5


@inner
def _sum(integers: Any, start: Any, stop: Any) -> Any:
    total = np.int64(0)
    for place in range(start, stop):
        total += integers[place]
    return total


@inner
def _extreme(integers: Any, start: Any, stop: Any, best: int, greatest: bool) -> Any:
    if greatest:
        for place in range(start, stop):
            best = max(best, integers[place])
    else:
        for place in range(start, stop):
            best = min(best, integers[place])
    return best


@inner
def _extreme_float(floats: Any, start: Any, stop: Any, best: float, greatest: bool) -> Any:
    for place in range(start, stop):
        value = floats[place]
        if (value > best) if greatest else (value < best):
            best = value
    return best


@kernel(
    f"{BLOCKS}, {PROGRAM}, {REGISTERS}, ends: i64[runs], run: i64, {FIELDS}, slots: i64[slots], "
    "sums: mut i64[runs, slots], least: mut i64[fields, runs], least_floats: mut f64[fields, runs] "
    "-> bool"
)
def add_runs(
    data: Any, facts: Any, gaps: Any, shift: Any, start: Any, stop: Any,
    steps: Any, ranges: Any, constants: Any, tables: Any, integers: Any, floats: Any, truths: Any,
    ends: Any,
    run: Any,
    kinds: Any, sources: Any, scales: Any, limbs: Any,
    slots: Any,
    sums: Any,
    least: Any,
    least_floats: Any,
) -> Any:  # fmt: skip
    """Reduce rows ``[start, stop)``, the first one of ``run``; return whether bits are lost.

    ``sums`` has a row a run, and in it a word for each of the registers ``slots``. The extremes
    have a row a field.
    """
    stored, program = (data, words_of(data), facts, gaps, shift), (steps, ranges, constants, tables)
    registers = integers, floats, truths
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        run_steps(stored, program, (page, first, rows), registers)
        if split_fixed_point(kinds, sources, scales, limbs, integers, floats, rows):
            return True
        at = 0
        while at < rows:
            until = min(rows, ends[run] - row)
            low, high = np.uint64(at), np.uint64(until)
            for slot in range(len(slots)):
                source = place_of(slots[slot])
                sums[run, slot] += _sum(integers, source + low, source + high)
            for field in range(len(kinds)):
                kind, source = kinds[field], place_of(sources[field])
                begin, end = source + low, source + high
                if kind >= _LEAST_FLOAT:
                    least_floats[field, run] = _extreme_float(
                        floats, begin, end, least_floats[field, run], kind > _LEAST_FLOAT
                    )
                elif kind >= _LEAST:
                    least[field, run] = _extreme(
                        integers, begin, end, least[field, run], kind == _GREATEST
                    )
            if row + until == ends[run]:
                run += 1
            at = until
        row += rows
    return False
