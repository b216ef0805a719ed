"""Compiled twin of :mod:`tessel.kernels.load_rows`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.jit import kernel

__all__ = ["load_rows"]

_START, _WIDTH, _MASK, _BASE, _STEP, _EXPONENT = 0, 1, 2, 3, 4, 5


@kernel
def load_rows(words: Any, facts: Any, shift: int, rows: Any, out: Any, exponents: Any) -> None:
    """Write the integers of rows, int64, and their exponents: a line a column.

    Rows next to each other mostly lie in one page, whose numbers are looked up once.
    """
    within = (1 << shift) - 1
    for column in range(facts.shape[1]):
        found, powers = out[column], exponents[column]
        first = 0
        while first < len(rows):
            page = rows[first] >> shift
            start, width = facts[_START, column, page], facts[_WIDTH, column, page]
            mask = np.uint64(facts[_MASK, column, page])
            base, step = facts[_BASE, column, page], facts[_STEP, column, page]
            exponent = facts[_EXPONENT, column, page]
            last = first
            while last < len(rows) and rows[last] >> shift == page:
                inside = rows[last] & within
                bits = width * inside
                # Unsigned, because what may be negative is counted from the end as Python does it.
                word = words[np.uint64(start + (bits >> 3))] >> np.uint64(bits & 7)
                found[last] = base + step * inside + np.int64(word & mask)
                powers[last] = exponent
                last += 1
            first = last
