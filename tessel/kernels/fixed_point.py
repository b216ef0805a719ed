"""Floats split into fixed-point limbs, which are added as integers.

:mod:`tessel.kernels.fields` says how wide the limbs are; :mod:`tessel.kernels.group_sums` adds
them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.block_loop import place_of
from tessel.kernels.declare import inner

_INTEGER, _WIDE, _FLOAT = 0, 1, 2
_HALF = 32
_HALF_MASK = (1 << 32) - 1
_ROUNDER = 1.5 * 2.0**52
_ROUNDER_BITS = int(np.float64(_ROUNDER).view(np.int64))
_TWICE_ROUNDER_BITS = (2 * _ROUNDER_BITS + (1 << 63)) % (1 << 64) - (1 << 63)


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
    """Write the two limbs of floats; return whether the limbs lack bits of some float."""
    lost = np.int64(0)
    for row in range(rows):
        scaled = floats[source + row] * scale
        whole = scaled + _ROUNDER
        below = (scaled - (whole - _ROUNDER)) * scale_below
        whole_below = below + _ROUNDER
        # No difference is −0.0, so that all bits are 0 where nothing is lost; NaN has some.
        lost |= np.float64((whole_below - _ROUNDER) - below).view(np.int64)
        integers[high + row] = np.float64(whole).view(np.int64) - _ROUNDER_BITS
        integers[low + row] = np.float64(whole_below).view(np.int64) - _ROUNDER_BITS
    return lost != 0


@inner
def _limb(one: float, other: float) -> Any:
    """Return the sum of two floats, each rounded to an integer, and what is left of both."""
    whole, also = one + _ROUNDER, other + _ROUNDER
    sums = np.float64(whole).view(np.int64) + np.float64(also).view(np.int64)
    return sums - _TWICE_ROUNDER_BITS, one - (whole - _ROUNDER), other - (also - _ROUNDER)


@inner
def _split_wide(
    floats: Any,
    sources: Any,
    field: Any,
    scales: Any,
    integers: Any,
    limbs: Any,
    rows: Any,
) -> Any:
    """Write the four limbs of floats, and of what rounding took from them, as :func:`_split`."""
    source, rest = place_of(sources[field, 0]), place_of(sources[field, 1])
    a, b = place_of(limbs[field, 3]), place_of(limbs[field, 2])
    c, d = place_of(limbs[field, 1]), place_of(limbs[field, 0])
    scale, step, rest_scale = scales[field, 0], scales[field, 1], scales[field, 2]
    unscaled = 1.0 / scale
    lost = np.int64(0)
    for row in range(rows):
        value = floats[source + row]
        left, more = value * scale, floats[rest + row] * rest_scale
        # Scaled down, a tiny float is rounded. What rounding took is scaled up by 2 ** 45 beside.
        lost |= np.float64(left * unscaled - value).view(np.int64)
        limb, left, _ = _limb(left, 0.0)
        integers[a + row] = limb
        limb, left, more = _limb(left * step, more)
        integers[b + row] = limb
        limb, left, more = _limb(left * step, more * step)
        integers[c + row] = limb
        limb, left, more = _limb(left * step, more * step)
        integers[d + row] = limb
        # Of -0.0 the sum is 0.0, whose bits are all 0.
        lost |= np.float64(left + 0.0).view(np.int64) | np.float64(more + 0.0).view(np.int64)
    return lost != 0


@inner
def split_fixed_point(
    kinds: Any, sources: Any, scales: Any, limbs: Any, integers: Any, floats: Any, count: int
) -> Any:
    """Split the fields that are floats or wide integers into limbs; return whether bits were lost.

    ``limbs`` has a row a field: the registers of its limbs, from the lowest on.
    """
    lost = False
    rows = np.uint64(count)
    for field in range(len(kinds)):
        if kinds[field] == _INTEGER or kinds[field] > _FLOAT:
            continue
        low, high = place_of(limbs[field, 0]), place_of(limbs[field, 1])
        source = place_of(sources[field, 0])
        if kinds[field] == _WIDE:
            for row in range(rows):
                integers[low + row] = integers[source + row] & _HALF_MASK
                integers[high + row] = integers[source + row] >> _HALF
        elif limbs[field, 2] >= 0:
            lost |= _split_wide(floats, sources, field, scales, integers, limbs, rows)
        else:
            scale, below = scales[field, 0], scales[field, 1]
            lost |= _split(floats, source, scale, below, integers, high, low, rows)
    return lost
