"""The recurrences of exponentially weighted moments, from one row to the next.

They are those of pandas (``ewma`` and ``ewmcov`` of its window aggregations), with the same
operations in the same order, so that results are the same bits: weights are kept beside the moments
and both fade by ``1 - alpha``, or by one half to the power of the time that passed, and a mean of
equal values stays that value. The state of a group is in registers while its rows are passed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.declare import kernel
from tessel.lazy import dataclass
from tessel.memory import recycled

Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]

_LINES, _LINES_OF_MEANS = 5, 2


@dataclass(frozen=True)
class Fading:
    """How values fade.

    Attributes
    ----------
    alpha
        How much a new value counts, above 0 and at most 1.
    adjust
        Whether weights are those of the rows there are; else the first value counts as if it had
        always been there.
    ignore_missing
        Whether rows without a value take no part; else the values before them fade all the same.
    spreads
        Whether second moments are wanted.
    half
        Time in which a weight becomes half of itself, above 0, in units of the index; None where
        weights fade from row to row, by ``alpha``.
    """

    alpha: float
    adjust: bool
    ignore_missing: bool
    spreads: bool
    half: float | None = None


def new_states(groups: int) -> Doubles:
    """Return the states of groups without rows, a row each.

    Returns
    -------
    numpy.ndarray
        float64, shape ``(groups, 6)``: mean, second moment, sum of weights, sum of their squares,
        weight of the mean, and count. The sums of weights and the second moment are kept where
        second moments are wanted. All are zero but the weights.
    """
    return np.tile(np.array([0.0, 0.0, 1.0, 1.0, 1.0, 0.0]), (groups, 1))


def fade_rows(
    fading: Fading,
    values: Doubles,
    starts: Integers,
    owners: Integers,
    states: Doubles,
    times: Integers | None = None,
    seen: Integers | None = None,
    *,
    results: bool = True,
) -> Doubles:
    """Go on from the states of groups with more rows, which stand side by side by group.

    Parameters
    ----------
    fading
        How values fade.
    values
        float64; NaN is a row without a value.
    starts
        int64, shape ``(runs + 1,)``, ascending: where the rows of each group start, and the end of
        the last.
    owners
        int64, shape ``(runs,)``: the group of each run, none of them twice.
    states
        float64, shape ``(groups, 6)``, see :func:`new_states`; changed.
    times, seen
        int64, where weights fade by time: that of each row, ascending in each run, and that of the
        last row of each group, shape ``(groups,)``; changed, and not looked at where a group has no
        value so far.
    results
        Whether moments are wanted, too.

    Returns
    -------
    numpy.ndarray
        float64, the moments after each row: mean, count, second moment, sum of weights, sum of
        their squares; NaN without a value. Shape ``(5, rows)``, ``(2, rows)`` where no second
        moments are wanted, and ``(0, rows)`` without results.
    """
    lines = 0
    if results:
        lines = _LINES if fading.spreads else _LINES_OF_MEANS
    found = recycled((lines, len(values)), np.float64)
    starts, owners = np.ascontiguousarray(starts), np.ascontiguousarray(owners)
    factors = np.zeros(0)
    if fading.half is not None:
        assert times is not None
        assert seen is not None
        factors = _factors(times, starts, owners, seen, fading.half)
    fade_runs(
        np.ascontiguousarray(values),
        factors,
        starts,
        owners,
        1.0 - fading.alpha,
        1.0 if fading.adjust else float(fading.alpha),
        bool(fading.adjust),
        bool(fading.ignore_missing),
        bool(fading.spreads),
        states,
        found,
    )
    if times is not None and seen is not None:
        seen[owners] = times[starts[1:] - 1]
    return found


def _factors(
    times: Integers, starts: Integers, owners: Integers, seen: Integers, half: float
) -> Doubles:
    """Return what is left of a weight when each row comes, after the row before it."""
    passed = recycled(len(times), np.int64)
    np.subtract(times[1:], times[:-1], out=passed[1:])
    some = starts[1:] > starts[:-1]
    firsts = starts[:-1][some]
    passed[firsts] = times[firsts] - seen[owners[some]]
    # Times ascend, and may be further apart than an int64 says.
    powers = passed.view(np.uint64) / half
    # As C's pow, and Python's: the last bits of numpy's other power depend on the processor.
    np.float_power(0.5, powers, out=powers)
    return powers


@kernel(
    "values: f64[rows], factors: f64[timed], starts: i64[starts], owners: i64[runs], factor: f64, "
    "weight: f64, adjust: bool, ignore_missing: bool, spreads: bool, states: mut f64[groups, 6], "
    "found: mut f64[lines, rows]"
)
def fade_runs(
    values: Any,
    factors: Any,
    starts: Any,
    owners: Any,
    factor: Any,
    weight: Any,
    adjust: Any,
    ignore_missing: Any,
    spreads: Any,
    states: Any,
    found: Any,
) -> None:
    """Change ``states``, and fill as many lines of moments as ``found`` has: none, two or five.

    Weights fade by the factor of each row, and by ``factor`` from row to row where rows have none.
    """
    lines, timed = len(found), len(factors) > 0
    for run in range(len(owners)):
        group = owners[run]
        mean, square = states[group, 0], states[group, 1]
        weights, weight_squares = states[group, 2], states[group, 3]
        old, count = states[group, 4], states[group, 5]
        for row in range(starts[run], starts[run + 1]):
            value = values[row]
            missing = value != value
            if count != 0.0 and not (missing and ignore_missing):
                if timed:
                    factor = factors[row]
                if spreads:
                    weights *= factor
                    weight_squares *= factor * factor
                old *= factor
            if missing:
                for line in range(lines):
                    found[line, row] = np.nan
                continue
            if count != 0.0:
                new = weight if not timed or adjust else 1.0 - old
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
