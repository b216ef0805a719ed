"""The aggregate ``std``: the standard deviation."""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.aggregates.registry import register
from tessel.clauses.aggregates.spread import RootOfSpread

__all__ = ["Std"]


@register
class Std(RootOfSpread):
    """The standard deviation of the values that are not missing, with ``ddof`` (1: of a sample).

    Numbers, bools and decimals: the root of the exact variance, rounded once to float64. Of
    timestamps, times and durations it is a duration of their unit, of dates one of seconds, exact
    to the unit, half to even. Missing where no more than ``ddof`` values are there, or one is
    infinite.
    """

    name: ClassVar[str] = "std"
