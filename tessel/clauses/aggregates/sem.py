"""The aggregate ``sem``: the standard error of the mean."""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.aggregates.registry import register
from tessel.clauses.aggregates.spread import RootOfSpread

__all__ = ["Sem"]


@register
class Sem(RootOfSpread):
    """The standard error of the mean: the root of the exact variance over the count of values.

    Types, ``ddof`` and what is missing are those of ``std``; rounded once as well.
    """

    name: ClassVar[str] = "sem"

    @property
    def of_mean(self) -> bool:  # noqa: D102
        return True
