"""The recurrences of exponentially weighted moments, from one row to the next.

They are those of pandas (``ewma`` and ``ewmcov`` of its window aggregations), with the same
operations in the same order, so that results are the same bits: weights are kept beside the moments
and both fade by ``1 - alpha``, and a mean of equal values stays that value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

__all__ = ["Fading", "FadingState"]

Moments = tuple[float, float, float, float, float]
"""Mean, count, second moment, sum of weights, sum of their squares; NaN without a value."""

_NOTHING: Moments = (float("nan"),) * 5


@dataclass
class FadingState:
    """What is known of the rows of a key so far; all zeros but the weights before the first."""

    mean: float = 0.0
    square: float = 0.0
    weights: float = 1.0
    weight_squares: float = 1.0
    old_weight: float = 1.0
    count: float = 0.0

    def to_list(self) -> list[float]:
        """Return the state as numbers, in the order of its fields."""
        return [getattr(self, field.name) for field in fields(self)]


@dataclass(frozen=True)
class Fading:
    """How values fade.

    Attributes
    ----------
    alpha, adjust, ignore_missing
        As for :class:`~tessel.clauses.ewm.Ewm`.
    spreads
        Whether second moments are wanted.
    """

    alpha: float
    adjust: bool
    ignore_missing: bool
    spreads: bool

    def run(self, values: Iterable[float], state: FadingState) -> Iterator[Moments]:
        """Give the moments after each value, and leave the state after the last one.

        Parameters
        ----------
        values
            NaN is a row without a value.
        state
            Where to begin; changed.
        """
        factor = 1.0 - self.alpha
        square_factor = factor * factor
        new = 1.0 if self.adjust else self.alpha
        for value in values:
            missing = value != value
            if state.count and not (missing and self.ignore_missing):
                state.weights *= factor
                state.weight_squares *= square_factor
                state.old_weight *= factor
            if missing:
                yield _NOTHING
                continue
            if state.count:
                self._add(state, value, new)
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
