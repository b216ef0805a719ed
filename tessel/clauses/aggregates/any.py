"""The aggregate ``any``: whether one of the values is true."""

from __future__ import annotations

from typing import ClassVar

from tessel.clauses.aggregates.all import AllTrue
from tessel.clauses.aggregates.registry import register

__all__ = ["AnyTrue"]


@register
class AnyTrue(AllTrue):
    """Whether one of the values that are not missing is true; missing of none.

    Takes bool columns.
    """

    name: ClassVar[str] = "any"
    reductions: ClassVar[tuple[str, ...]] = ("greatest",)
