"""Floats as whole numbers of two powers of two; see :mod:`tessel.kernels.group_sums`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.block_loop import place_of
from tessel.kernels.declare import inner

__all__ = ["fill_limbs"]

_INTEGER, _WIDE, _FLOAT = 0, 1, 2
_HALF = 32
_HALF_MASK = (1 << 32) - 1
_ROUNDER = 1.5 * 2.0**52
_ROUNDER_BITS = int(np.float64(_ROUNDER).view(np.int64))


@inner
def _split(
    floats: Any,
    source: Any,
    scale: float,
    scale_below: float,
    integers: Any,
    high: Any,
    low: Any,
    rows: Any,
) -> Any:
    """Write the two limbs of floats; return whether something was left over."""
    lost = False
    for row in range(rows):
        scaled = floats[source + row] * scale
        whole = scaled + _ROUNDER
        below = (scaled - (whole - _ROUNDER)) * scale_below
        whole_below = below + _ROUNDER
        lost |= (whole_below - _ROUNDER) != below
        integers[high + row] = np.float64(whole).view(np.int64) - _ROUNDER_BITS
        integers[low + row] = np.float64(whole_below).view(np.int64) - _ROUNDER_BITS
    return lost


@inner
def fill_limbs(
    kinds: Any, sources: Any, scales: Any, limbs: Any, integers: Any, floats: Any, count: int
) -> Any:
    """Write the limbs of what is not added as it is; return whether bits were lost.

    ``limbs`` has a line a field: the registers of its low and of its high limb.
    """
    lost = False
    rows = np.uint64(count)
    for field in range(len(kinds)):
        if kinds[field] == _INTEGER or kinds[field] > _FLOAT:
            continue
        low, high = place_of(limbs[field, 0]), place_of(limbs[field, 1])
        source = place_of(sources[field])
        if kinds[field] == _WIDE:
            for row in range(rows):
                integers[low + row] = integers[source + row] & _HALF_MASK
                integers[high + row] = integers[source + row] >> _HALF
        else:
            scale, below = scales[field, 0], scales[field, 1]
            lost |= _split(floats, source, scale, below, integers, high, low, rows)
    return lost
