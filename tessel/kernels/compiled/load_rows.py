"""Compiled twin of :mod:`tessel.kernels.load_rows`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.jit import kernel

__all__ = ["load_rows"]

_START, _WIDTH, _MASK, _BASE, _STEP, _EXPONENT = 0, 1, 2, 3, 4, 5


@kernel
def load_rows(words: Any, facts: Any, shift: int, rows: Any, out: Any, exponents: Any) -> None:
    """Write the integers of rows, int64, and their exponents: a line a column."""
    within = (1 << shift) - 1
    for column in range(facts.shape[1]):
        for place in range(len(rows)):
            row = rows[place]
            page, inside = row >> shift, row & within
            bits = facts[_WIDTH, column, page] * inside
            start = np.uint64(facts[_START, column, page] + (bits >> 3))
            word = words[start] >> np.uint64(bits & 7)
            held = np.int64(word & np.uint64(facts[_MASK, column, page]))
            base, step = facts[_BASE, column, page], facts[_STEP, column, page]
            out[column, place] = base + step * inside + held
            exponents[column, place] = facts[_EXPONENT, column, page]
