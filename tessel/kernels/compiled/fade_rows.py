"""Compiled twin of :mod:`tessel.kernels.fade_rows`: the state of a group is in registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessel.kernels.jit import inner, kernel

__all__ = ["fade_rows"]


@inner
def _left_after(before: Any, time: Any, half: float, base: float) -> Any:
    # Times ascend, and may be further apart than an int64 says.
    return base ** (np.float64(np.uint64(time - before)) / half)


@kernel
def fade_rows(
    values: Any,
    times: Any,
    starts: Any,
    owners: Any,
    seen: Any,
    factor: float,
    weight: float,
    adjust: bool,
    ignore_missing: bool,
    spreads: bool,
    half: float,
    base: float,
    states: Any,
    found: Any,
) -> None:
    """Change ``states``, and fill as many lines of moments as ``found`` has: none, two or five.

    ``half`` is 0 where weights fade from row to row. ``base`` is one half: as a constant it would
    be known to the compiler, which takes ``exp2`` then, whose last bits are not those of ``pow``.
    """
    lines = len(found)
    for run in range(len(owners)):
        group = owners[run]
        mean, square = states[group, 0], states[group, 1]
        weights, weight_squares = states[group, 2], states[group, 3]
        old, count = states[group, 4], states[group, 5]
        for row in range(starts[run], starts[run + 1]):
            value = values[row]
            missing = value != value
            if count != 0.0 and not (missing and ignore_missing):
                if half > 0.0:
                    before = times[row - 1] if row > starts[run] else seen[group]
                    factor = _left_after(before, times[row], half, base)
                if spreads:
                    weights *= factor
                    weight_squares *= factor * factor
                old *= factor
            if missing:
                for line in range(lines):
                    found[line, row] = np.nan
                continue
            if count != 0.0:
                new = weight if half == 0.0 or adjust else 1.0 - old
                last = mean
                if last != value:
                    mean = (old * last + new * value) / (old + new)
                if spreads:
                    moved, apart = last - mean, value - mean
                    square = (old * (square + moved * moved) + new * (apart * apart)) / (old + new)
                    weights += new
                    weight_squares += new * new
                old += new
                if not adjust:
                    if spreads:
                        weights /= old
                        weight_squares /= old * old
                    old = 1.0
            else:
                mean = value
            count += 1.0
            if lines > 0:
                found[0, row], found[1, row] = mean, count
            if lines > 2:
                found[2, row], found[3, row], found[4, row] = square, weights, weight_squares
        states[group, 0], states[group, 1] = mean, square
        states[group, 2], states[group, 3] = weights, weight_squares
        states[group, 4], states[group, 5] = old, count
