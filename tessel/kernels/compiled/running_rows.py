"""Compiled twins of :mod:`tessel.kernels.running_rows`: rows in their order, a state a group.

What is known of the group of the row before stays in registers: without codes that is all there is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.jit import inner, kernel

__all__ = ["exponent_range", "run_best", "run_counts", "run_doubles", "run_integers"]

_SIGNLESS = (1 << 63) - 1
_MANTISSA_BITS = 52
_HIGHEST = 0x7FF
_REST = (1 << 52) - 1


@kernel
def exponent_range(bits: Any, present: Any) -> Any:
    """Return the least and the greatest exponent, as stored, of doubles that are not zero.

    ``(2047, -1)`` without any. ``bits`` are theirs as int64.
    """
    some = len(present) > 0
    least, greatest = np.int64(_HIGHEST), np.int64(-1)
    for row in range(len(bits)):
        held = bits[row] & _SIGNLESS
        if held != 0 and (not some or present[row]):
            exponent = held >> _MANTISSA_BITS
            least = min(least, exponent)
            greatest = max(greatest, exponent)
    return least, greatest


@kernel
def run_integers(values: Any, present: Any, codes: Any, totals: Any, found: Any) -> bool:
    """Write the sum as far as each row; False where one leaves 64 bits."""
    keyed, some = len(codes) > 0, len(present) > 0
    held, total, left = np.int64(0), totals[0], np.int64(0)
    for row in range(len(values)):
        if keyed and codes[row] != held:
            totals[held] = total
            held = codes[row]
            total = totals[held]
        if not some or present[row]:
            after = total + values[row]
            # The sign is wrong exactly where both have the other one.
            left |= (after ^ total) & (after ^ values[row])
            total = after
        found[row] = total
    totals[held] = total
    return bool(left >= 0)


@inner
def _add_double(value: float, scale: float, width: float, high: Any, rest: Any) -> Any:
    scaled = value * scale
    whole = np.floor(scaled)
    rest += np.int64((scaled - whole) * width)
    return high + np.int64(whole) + (rest >> _MANTISSA_BITS), rest & _REST


@kernel
def run_doubles(
    values: Any,
    present: Any,
    codes: Any,
    scale: float,
    above: float,
    below: float,
    high: Any,
    rest: Any,
    found: Any,
) -> None:
    """Write the sum as far as each row, rounded once; see :func:`~.running_rows.run_doubles`."""
    keyed, some = len(codes) > 0, len(present) > 0
    width = np.float64(1 << _MANTISSA_BITS)
    held, upper, lower = np.int64(0), high[0], rest[0]
    for row in range(len(values)):
        if keyed and codes[row] != held:
            high[held], rest[held] = upper, lower
            held = codes[row]
            upper, lower = high[held], rest[held]
        if not some or present[row]:
            upper, lower = _add_double(values[row], scale, width, upper, lower)
        found[row] = np.float64(upper) * above + np.float64(lower) * below
    high[held], rest[held] = upper, lower


@kernel
def run_best(
    numbers: Any, present: Any, codes: Any, greatest: bool, best: Any, known: Any, found: Any
) -> None:
    """Write the least or the greatest number as far as each row."""
    keyed, some = len(codes) > 0, len(present) > 0
    held, so_far, seen = np.int64(0), best[0], known[0]
    for row in range(len(numbers)):
        if keyed and codes[row] != held:
            best[held], known[held] = so_far, seen
            held = codes[row]
            so_far, seen = best[held], known[held]
        if not some or present[row]:
            number = numbers[row]
            is_better = number > so_far if greatest else number < so_far
            if is_better or not seen:
                so_far, seen = number, True
        found[row] = so_far
    best[held], known[held] = so_far, seen


@kernel
def run_counts(present: Any, codes: Any, counts: Any, found: Any) -> None:
    """Write how many rows are present as far as each."""
    keyed, some = len(codes) > 0, len(present) > 0
    held, count = np.int64(0), counts[0]
    for row in range(len(found)):
        if keyed and codes[row] != held:
            counts[held] = count
            held = codes[row]
            count = counts[held]
        if not some or present[row]:
            count += 1
        found[row] = count
    counts[held] = count
