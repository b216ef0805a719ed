"""The aggregate ``first``: the first value in row order."""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.aggregates.from_reductions import SelectiveAggregate
from tessel.clauses.aggregates.registry import register

__all__ = ["First"]


@register
class First(SelectiveAggregate):
    """The first value in row order that is not missing, of its own type; missing of none.

    Takes every type. The value is the stored one: a −0.0 stays −0.0.
    """

    name: ClassVar[str] = "first"
    reductions: ClassVar[tuple[str, ...]] = ("first",)
