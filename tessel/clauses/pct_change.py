"""pct_change: by which part a value differs from the one some rows before."""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.along_rows.shifted import ComparedColumns
from tessel.clauses.registry import register
from tessel.expression.node import Expression
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class PctChange(ComparedColumns):
    """A value over the one ``n`` rows before, of the same key, less 1; missing where either is.

    float64, a fraction and not a percentage: 0.5 is half as much again. From zero it is ±inf, and
    missing to zero again.
    """

    name: ClassVar[str] = "pct_change"

    def compared(self, now: Expression, then: Expression) -> Expression:
        """Return the quotient less 1."""
        return now / then - 1
