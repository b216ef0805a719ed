"""The recurrences of exponentially weighted moments, from one row to the next.

They are those of pandas (``ewma`` and ``ewmcov`` of its window aggregations), with the same
operations in the same order, so that results are the same bits: weights are kept beside the moments
and both fade by ``1 - alpha``, or by one half to the power of the time that passed, and a mean of
equal values stays that value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from tessel.errors import PlanError

__all__ = ["Fading", "FadingState", "Moments", "fading_of"]

Moments = tuple[float, float, float, float, float]
"""Mean, count, second moment, sum of weights, sum of their squares; NaN without a value."""

_NOTHING: Moments = (float("nan"),) * 5


@dataclass
class FadingState:
    """What is known of the rows of a key so far; all zeros but the weights before the first.

    ``time`` is that of the last row, where weights fade by time.
    """

    mean: float = 0.0
    square: float = 0.0
    weights: float = 1.0
    weight_squares: float = 1.0
    old_weight: float = 1.0
    count: float = 0.0
    time: int | None = None

    def to_list(self) -> list[float]:
        """Return the state but for the time, in the order of its fields."""
        return [getattr(self, field.name) for field in fields(self) if field.name != "time"]


@dataclass(frozen=True)
class Fading:
    """How values fade.

    Attributes
    ----------
    alpha, adjust, ignore_missing
        As for :class:`~tessel.clauses.ewm.Ewm`.
    spreads
        Whether second moments are wanted.
    half
        Time in which a weight becomes half of itself, in units of the index; None where weights
        fade from row to row, by ``alpha``.
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


def fading_of(
    alpha: float | None, span: float | None, halflife: float | str | None, com: float | None
) -> tuple[float | None, str | None]:
    """Return how much a new value counts, or a half-life in time, from whichever is given.

    Raises
    ------
    PlanError
        Unless exactly one is given, a number in its range.
    """
    given = {"alpha": alpha, "span": span, "halflife": halflife, "com": com}
    named = {name: value for name, value in given.items() if value is not None}
    if len(named) != 1:
        raise PlanError(
            f"ewm takes one of alpha, span, halflife and com, not {sorted(named) or 'none'}",
            hint="ewm(span=20)",
        )
    ((name, value),) = named.items()
    if name == "halflife" and isinstance(value, str):
        return None, value
    least, inclusive = {"alpha": (0, 0), "span": (1, 1), "halflife": (0, 0), "com": (0, 1)}[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise PlanError(f"ewm: {name} is a number, not {value!r}")
    if value < least or (value == least and not inclusive) or (name == "alpha" and value > 1):
        raise PlanError(
            f"ewm: {name} is {value!r}",
            hint="alpha lies above 0, up to 1; span from 1 on; halflife above 0; com from 0 on",
        )
    if name == "alpha":
        return float(value), None
    if name == "halflife":
        value = 1 / (1 - math.exp(-math.log(2) / value)) - 1
    return 1 / (1 + ((value - 1) / 2 if name == "span" else value)), None
