"""The recurrences of exponentially weighted moments, from one row to the next.

They are those of pandas (``ewma`` and ``ewmcov`` of its window aggregations), with the same
operations in the same order, so that results are the same bits: weights are kept beside the moments
and both fade by ``1 - alpha``, or by one half to the power of the time that passed, and a mean of
equal values stays that value. The twin of the compiled kernel is a loop in Python: a recurrence
whose every step rounds cannot be had from numpy with the same bits.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessel.kernels.jit import compiled_kernels, frozen

__all__ = ["Fading", "FadingState", "Moments", "fade_rows", "fade_rows_python", "new_states"]

Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]

Moments = tuple[float, float, float, float, float]
"""Mean, count, second moment, sum of weights, sum of their squares; NaN without a value."""

_NOTHING: Moments = (float("nan"),) * 5
_LINES, _LINES_OF_MEANS = 5, 2


@dataclass
class FadingState:
    """What is known of the rows of a key so far; all zeros but the weights before the first.

    The sums of weights and the second moment are kept where that is wanted. ``time`` is that of the
    last row, where weights fade by time.
    """

    mean: float = 0.0
    square: float = 0.0
    weights: float = 1.0
    weight_squares: float = 1.0
    old_weight: float = 1.0
    count: float = 0.0
    time: int | None = None


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

    def run(
        self, values: Iterable[float], state: FadingState, times: Sequence[int] = ()
    ) -> Iterator[Moments]:
        """Give the moments after each value, and leave the state after the last one.

        Parameters
        ----------
        values
            NaN is a row without a value.
        state
            Where to begin; changed.
        times
            Of the values, where weights fade by time.
        """
        factors = itertools.repeat(1.0 - self.alpha)
        new = 1.0 if self.adjust else self.alpha
        for value, factor in zip(values, self._by_time(times, state) or factors, strict=False):
            missing = value != value
            if state.count and not (missing and self.ignore_missing):
                if self.spreads:  # nothing is added to them otherwise, and tiny numbers are slow
                    state.weights *= factor
                    state.weight_squares *= factor * factor
                state.old_weight *= factor
            if missing:
                yield _NOTHING
                continue
            if state.count:
                own = new if self.half is None or self.adjust else 1.0 - state.old_weight
                self._add(state, value, own)
            else:
                state.mean = value
            state.count += 1.0
            yield (
                state.mean,
                state.count,
                state.square,
                state.weights,
                state.weight_squares,
            )

    def _by_time(self, times: Sequence[int], state: FadingState) -> Iterator[float] | None:
        """Give what is left of a weight when each row comes; the last time stays in the state."""
        if self.half is None:
            return None
        return self._halved(times, state, self.half)

    def _halved(self, times: Sequence[int], state: FadingState, half: float) -> Iterator[float]:
        for time in times:
            before, state.time = state.time, time
            yield 1.0 if before is None else 0.5 ** ((time - before) / half)

    def _add(self, state: FadingState, value: float, new: float) -> None:
        old, before = state.old_weight, state.mean
        if before != value:  # of equal values the mean is that value, to the bit
            state.mean = (old * before + new * value) / (old + new)
        if self.spreads:
            moved, apart = before - state.mean, value - state.mean
            state.square = (old * (state.square + moved * moved) + new * (apart * apart)) / (
                old + new
            )
            state.weights += new
            state.weight_squares += new * new
        state.old_weight += new
        if not self.adjust:
            if self.spreads:
                state.weights /= state.old_weight
                state.weight_squares /= state.old_weight * state.old_weight
            state.old_weight = 1.0


def new_states(groups: int) -> Doubles:
    """Return the states of groups without rows: float64, a row each, as :func:`fade_rows` has."""
    return np.tile(np.array(dataclasses.astuple(FadingState())[:-1], np.float64), (groups, 1))


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
        float64, shape ``(groups, 6)``: the fields of :class:`FadingState` but the time; changed.
        See :func:`new_states`.
    times, seen
        int64, where weights fade by time: that of each row, ascending in each run, and that of the
        last row of each group, shape ``(groups,)``; changed, and not looked at where a group has no
        value so far.
    results
        Whether moments are wanted, too.

    Returns
    -------
    numpy.ndarray
        float64, the moments after each row as in :data:`Moments`: shape ``(5, rows)``, ``(2,
        rows)`` where no second moments are wanted, and ``(0, rows)`` without results.
    """
    kernels = compiled_kernels(len(values), "fade_rows")
    if kernels is None:
        return fade_rows_python(
            fading, values, starts, owners, states, times, seen, results=results
        )
    found = np.empty((_lines(fading, results), len(values)), np.float64)
    nothing = np.zeros(0, np.int64)
    kernels.fade_rows(
        frozen(values),
        frozen(nothing if times is None else times),
        frozen(starts),
        frozen(owners),
        frozen(nothing if seen is None else seen),
        1.0 - fading.alpha,
        1.0 if fading.adjust else float(fading.alpha),
        bool(fading.adjust),
        bool(fading.ignore_missing),
        bool(fading.spreads),
        0.0 if fading.half is None else float(fading.half),
        0.5,
        states,
        found,
    )
    _note_times(starts, owners, times, seen)
    return found


def fade_rows_python(
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
    """Return what :func:`fade_rows` does; the twin in Python."""
    lines = _lines(fading, results)
    found = np.empty((lines, len(values)), np.float64)
    for run, group in enumerate(owners.tolist()):
        rows = slice(int(starts[run]), int(starts[run + 1]))
        state = FadingState(*states[group].tolist())
        if seen is not None and state.count:
            state.time = int(seen[group])
        moments = fading.run(
            values[rows].tolist(), state, () if times is None else times[rows].tolist()
        )
        if lines:
            found[:, rows] = np.array(list(moments), np.float64).T[:lines]
        else:
            for _ in moments:
                pass
        states[group] = dataclasses.astuple(state)[:-1]
    _note_times(starts, owners, times, seen)
    return found


def _lines(fading: Fading, results: bool) -> int:
    if not results:
        return 0
    return _LINES if fading.spreads else _LINES_OF_MEANS


def _note_times(
    starts: Integers, owners: Integers, times: Integers | None, seen: Integers | None
) -> None:
    if times is not None and seen is not None:
        seen[owners] = times[starts[1:] - 1]
