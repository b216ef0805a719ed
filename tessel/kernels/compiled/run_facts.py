"""Compiled twin of :mod:`tessel.kernels.run_facts`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.compiled.blocks import BLOCK_ROWS, place_of, run_steps
from tessel.kernels.compiled.limbs import fill_limbs
from tessel.kernels.jit import inner, kernel

__all__ = ["add_runs"]

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


@kernel
def add_runs(
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
    registers: Any,
    ends: Any,
    run: int,
    kinds: Any,
    sources: Any,
    scales: Any,
    limbs: Any,
    slots: Any,
    sums: Any,
    least: Any,
    least_floats: Any,
) -> Any:
    """Reduce rows ``[start, stop)``, the first one of ``run``; return whether bits are lost.

    ``sums`` has a line a run, and in it a word for each of the registers ``slots``. The extremes
    have a line a field.
    """
    integers = np.empty((registers[0] + 2 * len(kinds) + 1) * BLOCK_ROWS, np.int64)
    floats = np.empty(registers[1] * BLOCK_ROWS, np.float64)
    truths = np.empty(registers[2] * BLOCK_ROWS, np.uint8)
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        run_steps(
            data, words, facts, gaps, shift, steps, ranges, constants, tables,
            page, first, rows, integers, floats, truths,
        )  # fmt: skip
        if fill_limbs(kinds, sources, scales, limbs, integers, floats, rows):
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
