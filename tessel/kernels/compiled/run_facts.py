"""Compiled twin of :mod:`tessel.kernels.run_facts`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.compiled.blocks import BLOCK_ROWS, run_steps
from tessel.kernels.compiled.limbs import fill_limbs
from tessel.kernels.jit import inner, kernel

__all__ = ["add_runs"]

_INTEGER, _FLOAT = 0, 2
_LEAST, _GREATEST, _LEAST_FLOAT = 3, 4, 5


@inner
def _sum(values: Any, start: int, stop: int) -> Any:
    total = np.int64(0)
    for row in range(start, stop):
        total += values[row]
    return total


@inner
def _extreme(values: Any, start: int, stop: int, best: int, greatest: bool) -> Any:
    if greatest:
        for row in range(start, stop):
            best = max(best, values[row])
    else:
        for row in range(start, stop):
            best = min(best, values[row])
    return best


@inner
def _extreme_float(values: Any, start: int, stop: int, best: float, greatest: bool) -> Any:
    for row in range(start, stop):
        value = values[row]
        if (value > best) if greatest else (value < best):
            best = value
    return best


@kernel
def add_runs(
    data: Any,
    words: Any,
    facts: Any,
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
    integers = np.empty((registers[0] + 2 * len(kinds) + 1, BLOCK_ROWS), np.int64)
    floats = np.empty((registers[1], BLOCK_ROWS), np.float64)
    truths = np.empty((registers[2], BLOCK_ROWS), np.uint8)
    page_rows = 1 << shift
    row = start
    while row < stop:
        page, first = row >> shift, row & (page_rows - 1)
        rows = min(BLOCK_ROWS, page_rows - first, stop - row)
        run_steps(
            data, words, facts, steps, ranges, constants, tables, page, first, rows,
            integers, floats, truths,
        )  # fmt: skip
        if fill_limbs(kinds, sources, scales, limbs, integers, floats, rows):
            return True
        at = 0
        while at < rows:
            until = min(rows, ends[run] - row)
            for slot in range(len(slots)):
                sums[run, slot] += _sum(integers[slots[slot]], at, until)
            for field in range(len(kinds)):
                kind, source = kinds[field], sources[field]
                if kind >= _LEAST_FLOAT:
                    least_floats[field, run] = _extreme_float(
                        floats[source], at, until, least_floats[field, run], kind > _LEAST_FLOAT
                    )
                elif kind >= _LEAST:
                    least[field, run] = _extreme(
                        integers[source], at, until, least[field, run], kind == _GREATEST
                    )
            if row + until == ends[run]:
                run += 1
            at = until
        row += rows
    return False
