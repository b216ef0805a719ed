"""Floats as whole numbers of two powers of two; see :mod:`tessel.kernels.group_sums`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.jit import inner

__all__ = ["fill_limbs"]

_INTEGER, _WIDE, _FLOAT = 0, 1, 2
_HALF = 32
_HALF_MASK = (1 << 32) - 1
_ROUNDER = 1.5 * 2.0**52
_ROUNDER_BITS = int(np.float64(_ROUNDER).view(np.int64))


@inner
def _split(source: Any, scale: float, scale_below: float, high: Any, low: Any, rows: int) -> Any:
    """Write the two limbs of floats; return whether something was left over."""
    lost = False
    for row in range(rows):
        scaled = source[row] * scale
        whole = scaled + _ROUNDER
        below = (scaled - (whole - _ROUNDER)) * scale_below
        whole_below = below + _ROUNDER
        lost |= (whole_below - _ROUNDER) != below
        high[row] = np.float64(whole).view(np.int64) - _ROUNDER_BITS
        low[row] = np.float64(whole_below).view(np.int64) - _ROUNDER_BITS
    return lost


@inner
def fill_limbs(
    kinds: Any, sources: Any, scales: Any, limbs: Any, integers: Any, floats: Any, rows: int
) -> Any:
    """Write the limbs of what is not added as it is; return whether bits were lost.

    ``limbs`` has a line a field: the registers of its low and of its high limb.
    """
    lost = False
    for field in range(len(kinds)):
        if kinds[field] == _INTEGER or kinds[field] > _FLOAT:
            continue
        low, high = integers[limbs[field, 0]], integers[limbs[field, 1]]
        if kinds[field] == _WIDE:
            source = integers[sources[field]]
            for row in range(rows):
                low[row] = source[row] & _HALF_MASK
                high[row] = source[row] >> _HALF
        else:
            held = floats[sources[field]]
            scale, below = scales[field, 0], scales[field, 1]
            lost |= _split(held, scale, below, high, low, rows)
    return lost
