"""diff: by how much a value differs from the one some rows before."""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.along_rows.shifted import ComparedColumns
from tessel.clauses.registry import register
from tessel.expression.node import Expression
from tessel.lazy import dataclass


@register
@dataclass(frozen=True)
class Diff(ComparedColumns):
    """A value minus the one ``n`` rows before, of the same key; missing where either is.

    It is the ``-`` of expressions: integers widen, past 64 bits it raises, instants give durations,
    decimals stay exact.
    """

    name: ClassVar[str] = "diff"

    def compared(self, now: Expression, then: Expression) -> Expression:
        """Return the difference."""
        return now - then
