"""Compiled twin of :mod:`tessel.kernels.search_rows`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.jit import inner, kernel

__all__ = ["search_rows"]

_START, _WIDTH, _MASK, _BASE, _STEP = 0, 1, 2, 3, 4


@inner
def _at(words: Any, facts: Any, shift: int, column: int, row: int) -> Any:
    page, inside = row >> shift, row & ((1 << shift) - 1)
    bits = facts[_WIDTH, column, page] * inside
    word = words[facts[_START, column, page] + (bits >> 3)] >> np.uint64(bits & 7)
    held = np.int64(word & np.uint64(facts[_MASK, column, page]))
    return facts[_BASE, column, page] + facts[_STEP, column, page] * inside + held


@kernel
def search_rows(
    data: Any,
    words: Any,
    facts: Any,
    gaps: Any,
    shift: int,
    start: int,
    stop: int,
    column: int,
    bounds: Any,
    after: bool,
    out: Any,
) -> None:
    """Write the place of each bound; the bounds ascend, so that none lies before the last."""
    low = start
    for place in range(len(bounds)):
        high = stop
        while low < high:
            middle = (low + high) >> 1
            held = _at(words, facts, shift, column, middle)
            if held < bounds[place] or (after and held == bounds[place]):
                low = middle + 1
            else:
                high = middle
        out[place] = low
